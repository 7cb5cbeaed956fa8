#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""
Shows whether weights allow their conditioning to be renewed at each denoise step (E11).

The reach model in closed loop in simulated time, no ROS: every chunk keeps what it entered with
(``entry``), or each denoise step takes the newest camera frame there is when it begins, and is
told so much less of a delay (``step``). Same arm, same seeds, same noise; the first action is
meant for the same instant. Step d of D is taken to begin at d / D of the response. Beside them
stands ``entry`` with the told delay of the last step: an observation as new as the last one used.
Every figure comes with a 95 % interval over episodes (bootstrap), differences with a paired one.
With ``--json`` it ends with one JSON object; it holds when tracking with ``step`` is worse than
with ``entry`` nowhere, the whole interval of the difference considered.
"""

from __future__ import annotations

import argparse
import json
import sys
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import torch
from kv_quality import DRAWS, Episodes, interval
from numpy.typing import NDArray

from physis_ros.backbones.base import KvRule
from physis_ros.backbones.reach.checkpoint import load_network, shipped_path
from physis_ros.backbones.reach.network import ReachNetwork
from physis_ros.backbones.reach.spec import DT_NS
from physis_ros.training.closed_loop import LoopConfig, run_closed_loop
from physis_ros.training.validate import psnr_db

STEP_MS = DT_NS * 1e-6


class Case(NamedTuple):
    """
    One way to run.

    :param delay_steps: told delay at entry, in control steps.
    :param response_ms: entry to chunk.
    """

    delay_steps: int
    response_ms: float

    def newer(self, steps: int) -> tuple[int, ...]:
        """Return by how many control steps each denoise step's observation is newer."""
        spent_ms = [step * self.response_ms / steps for step in range(steps)]
        return tuple(int(spent // STEP_MS) for spent in spent_ms)


# Two workers at the demo's beat; one worker; one worker on a loaded machine; slower models.
CASES = (Case(4, 55), Case(4, 75), Case(6, 110), Case(8, 160), Case(12, 250), Case(16, 350))


def main() -> int:
    """Run all cases, print a table, judge it."""
    args = _arguments()
    torch.set_num_threads(1)
    network = load_network(args.weights)
    cases = CASES[:3] if args.quick else CASES
    print('| told delay [ms] | response [ms] | newer by, each step [ms] | track entry [mm] | step '
          '| difference | entry at the last delay | frames, step - entry [dB] |')  # fmt: skip
    print('|---|---|---|---|---|---|---|---|')
    runs = Runs(network, args)
    found = [_compare(runs, case) for case in cases]
    holds = all(one['difference_mm'][2] <= 0 for one in found)
    if args.json:
        print(json.dumps({'benchmark': 'renewal', 'cases': found, 'holds': holds}))
    return 0 if holds else 1


def _arguments() -> argparse.Namespace:
    """Read the command line."""
    parser = argparse.ArgumentParser(description=__doc__.strip().splitlines()[0])
    add = parser.add_argument
    add('--weights', type=Path, default=shipped_path(KvRule.SAME_STEP), help='of a reach model')
    add('--episodes', type=int, default=16, help='16 take about 5 minutes')
    add('--seconds', type=float, default=6.0)
    add('--seed', type=int, default=777_000)
    add('--quick', action='store_true', help='three cases, four episodes: half a minute')
    add('--json', action='store_true', help='end with one JSON object')
    args = parser.parse_args()
    if args.quick:
        args.episodes = min(args.episodes, 4)
    return args


class Runs:
    """
    Closed loops with one network; none is run twice.

    :param network: drives the arm.
    :param args: the command line.
    """

    def __init__(self, network: ReachNetwork, args: argparse.Namespace) -> None:
        self.network, self.args = network, args
        self._known: dict[tuple[int, ...], Episodes] = {}

    def __call__(self, delay_steps: int, newer_steps: tuple[int, ...] = ()) -> Episodes:
        """Return the outcome with a told delay and newer observations at later steps."""
        key, args = (delay_steps, *newer_steps), self.args
        if key not in self._known:
            config = LoopConfig(
                delay_steps, newer_steps, episodes=args.episodes, seconds=args.seconds,
                seed=args.seed,
            )  # fmt: skip
            self._known[key] = Episodes.of(run_closed_loop(self.network, config))
        return self._known[key]


def _compare(run: Runs, case: Case) -> dict[str, Any]:
    """Run one case both ways; print and return what came out."""
    args, newer = run.args, case.newer(run.network.spec.steps)
    entry, step = run(case.delay_steps), run(case.delay_steps, newer)
    fresh = run(case.delay_steps - newer[-1])
    rows = np.random.default_rng(args.seed).integers(0, args.episodes, (DRAWS, args.episodes))
    found = {
        'told_delay_ms': case.delay_steps * STEP_MS,
        'response_ms': case.response_ms,
        'newer_ms': [count * STEP_MS for count in newer],
        'entry_mm': _spread(entry.track_m * 1e3, rows),
        'step_mm': _spread(step.track_m * 1e3, rows),
        'difference_mm': _spread((step.track_m - entry.track_m) * 1e3, rows),
        'entry_at_last_delay_mm': _spread(fresh.track_m * 1e3, rows),
        'frames_db': _frames_db(step) - _frames_db(entry),
    }
    print(_line(found), flush=True)
    return found


def _spread(values: NDArray[np.float64], rows: NDArray[np.int64]) -> list[float]:
    """Return the mean of a number for each episode, with its interval."""
    return [float(values.mean()), *interval([float(values[row].mean()) for row in rows])]


def _frames_db(episodes: Episodes) -> float:
    """Return how good predicted frames are (PSNR) [dB]."""
    return psnr_db(float(episodes.frame_square.mean()))


def _line(found: dict[str, Any]) -> str:
    """Return one row of the table."""

    def cell(name: str) -> str:
        return '{:.1f} ({:.1f} .. {:.1f})'.format(*found[name])

    newer = ', '.join(f'{value:.0f}' for value in found['newer_ms'])
    figures = ('entry_mm', 'step_mm', 'difference_mm', 'entry_at_last_delay_mm')
    cells = [f'{found["told_delay_ms"]:.0f}', f'{found["response_ms"]:.0f}', newer,
             *map(cell, figures), f'{found["frames_db"]:+.2f}']  # fmt: skip
    return '| ' + ' | '.join(cells) + ' |'


if __name__ == '__main__':
    sys.exit(main())
