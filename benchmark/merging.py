#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""
How chunks take over from each other: replace, blend, ensemble, real-time chunking, and lock-step.

The arm, the real producer, the serial engine with the shipped weights and the real player, in
virtual time: every row of a table sees the same targets and has chunks that take the same time, so
the figures depend neither on this machine nor on its load. Intervals are 95 % over episodes
(bootstrap), differences paired. The same is run live with ``./run demo --merge ...``.

``rtc`` freezes one control step and matches two more. It holds when, at every delay, it leaves
less jerk and a smaller gap at the seams than replace, at a tracking error at most a tenth higher.
An episode takes about as long as it lasts, half of that on an idle machine.
"""

from __future__ import annotations

import argparse
import json
import os
import sys
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass
from multiprocessing import get_context
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from physis_ros.clock import ManualClock
from physis_ros.evaluation.smoothness import Smoothness, smoothness
from physis_ros.evaluation.virtual_loop import BEGIN_NS, MS, Sink, Trip, VirtualLoop
from physis_ros.output.limits import JointLimit
from physis_ros.output.merge import Merge
from physis_ros.session.player import Player
from physis_ros.session.player_config import PlayerConfig
from physis_ros.session.producer_config import ProducerConfig
from physis_ros.simulation.arm import JOINT_NAMES
from physis_ros.types import ActionChunk, Command, FloatArray, Play, Reason

PERIOD_NS = 100 * MS
# What was published took 54 ms at the median, 65 at the ninth decile, with two workers.
DELAYS_MS = (60, 100, 200, 300)
SPREAD = 0.1
TRACK_BAR = 1.10
DRAWS = 4000
Floats = NDArray[np.float64]


@dataclass(frozen=True)
class Case:
    """
    One row of the table.

    :param merge: of the player; None: no player, actions are sent by the callback that makes them.
    :param frozen_ns: of the producer, as :class:`ProducerConfig` has it.
    """

    merge: Merge | None
    frozen_ns: int = 0
    soft_ns: int = 0


CASES = {
    'lock-step': Case(None),
    'replace': Case(Merge.REPLACE),
    'blend': Case(Merge.BLEND),
    'ensemble': Case(Merge.ENSEMBLE),
    'rtc': Case(Merge.REPLACE, 25 * MS, 50 * MS),
    'rtc, soft 100 ms': Case(Merge.REPLACE, 25 * MS, 100 * MS),
    'rtc + blend': Case(Merge.BLEND, 25 * MS, 50 * MS),
}
HEADINGS = {
    'track_mm': 'tracking error [mm]',
    'gap_mrad': 'chunks apart at the seam [mrad]',
    'gap_rad_s': 'in velocity [rad/s]',
    'jump_mrad': 'jump of the command [mrad]',
    'jerk': 'jerk of the command, RMS [krad/s³]',
    'jerk_seams': 'near seams',
    'jerk_arm': 'jerk of the arm',
    'underrun_percent': 'ticks without a new action [%]',
    'age_ms': 'age [ms]',
}


class PlayerSink(Player):
    """The player; chunks are made whenever the producer likes."""

    def wants(self, now_ns: int) -> bool:
        """Say that the next chunk may always be begun."""
        return True


class LockStep:
    """
    What most scripts do: infer in the callback, send the first actions one by one, infer again.

    While it infers nothing is sent, and the robot stays at the last action. Nothing is
    interpolated. The model is told the delay all the same, so only the structure differs.

    :param steps: actions of a chunk that are sent.
    """

    def __init__(self, steps: int = 8) -> None:
        self._steps = steps
        self._chunk: ActionChunk | None = None
        self._from_ns = 0

    def measured(self, position: FloatArray, stamp_ns: int) -> None:
        """Ignore where the robot is."""

    def offer(self, chunk: ActionChunk, now_ns: int) -> None:
        """Send its actions from now on."""
        self._chunk, self._from_ns = chunk, now_ns

    def wants(self, now_ns: int) -> bool:
        """Say whether all actions are sent."""
        return self._chunk is None or now_ns >= self._from_ns + self._steps * self._chunk.dt_ns

    def tick(self, now_ns: int, scheduled_ns: int) -> Command:
        """Return the action that the robot is at."""
        rest, nothing = np.zeros(len(JOINT_NAMES)), np.zeros(0)
        if self._chunk is None:
            return Command(now_ns, Play.SILENT, Reason.NO_CHUNK, JOINT_NAMES, nothing, nothing)
        play = Play.HOLD if self.wants(now_ns) else Play.PLAYING
        step = min((now_ns - self._from_ns) // self._chunk.dt_ns, self._steps - 1)
        return Command(
            now_ns, play, Reason.NONE, JOINT_NAMES, self._chunk.actions[step], rest,
            self._chunk.epoch, self._chunk.chunk, now_ns - self._chunk.observed_ns,
        )  # fmt: skip


def drive(case: Case, delay_ms: int, seed: int, seconds: float) -> Trip:
    """Run one episode."""
    import torch

    from physis_ros.backbones.registry import open_backbone
    from physis_ros.evaluation.serial_pool import SerialPool

    torch.set_num_threads(1)
    clock, chance = ManualClock(), np.random.default_rng(seed)
    takes = lambda: int(delay_ms * MS * np.exp(chance.normal(0, SPREAD)))  # noqa: E731
    pool = SerialPool(open_backbone('reach'), clock, takes, seed=seed)
    config = ProducerConfig(
        # A callback that has sent its actions looks at once.
        period_ns=PERIOD_NS if case.merge else MS,
        expected_response_ns=delay_ms * MS,
        margin_ns=20 * MS if case.merge else 0,
        rtc_frozen_ns=case.frozen_ns,
        rtc_soft_ns=case.soft_ns,
    )
    return VirtualLoop(pool, clock, config, _sink(case), seed).run(seconds)


def _sink(case: Case) -> Sink:
    if case.merge is None:
        return LockStep()
    limits = (JointLimit(-3.1, 2.6), JointLimit(0.1, 2.8))
    player = PlayerSink(
        PlayerConfig(JOINT_NAMES, merge=case.merge, limits=limits, start_speed=8.0)
    )
    player.activate(BEGIN_NS)
    return player


def scored(task: tuple[str, int, int, float]) -> Smoothness:
    """Run and score one episode; for other processes."""
    name, delay_ms, seed, seconds = task
    return smoothness(drive(CASES[name], delay_ms, seed, seconds))


def spread(values: Floats, draws: NDArray[np.int64]) -> list[float]:
    """Return the mean and its bootstrapped 95 % interval."""
    low, high = np.percentile(values[draws].mean(1), (2.5, 97.5))
    return [float(values.mean()), float(low), float(high)]


def compare(rows: dict[str, list[Smoothness]], seed: int) -> dict[str, Any]:
    """Return all figures of one delay with their intervals, and what rtc changes on replace."""
    count = len(rows['replace'])
    draws = np.random.default_rng(seed).integers(0, count, (DRAWS, count))
    found: dict[str, Any] = {name: {} for name in rows}
    columns = {
        name: {figure: np.array([getattr(one, figure) for one in scores])
               for figure in Smoothness.names()}
        for name, scores in rows.items()
    }  # fmt: skip
    for name, figures in columns.items():
        found[name] = {figure: spread(values, draws) for figure, values in figures.items()}
    found['rtc - replace'] = {
        figure: spread(columns['rtc'][figure] - columns['replace'][figure], draws)
        for figure in Smoothness.names()
    }
    return found


def holds(found: dict[str, Any]) -> bool:
    """Judge one delay: surely smoother, and as good at tracking."""
    change = found['rtc - replace']
    smoother = all(change[figure][2] < 0 for figure in ('gap_mrad', 'jerk', 'jerk_arm'))
    tracks = found['rtc']['track_mm'][0] <= TRACK_BAR * found['replace']['track_mm'][0]
    return bool(smoother and tracks)


def table(delay_ms: int, found: dict[str, Any]) -> str:
    """Return one delay for a person."""
    lines = [
        f'{delay_ms} ms from observation to chunk',
        '| | ' + ' | '.join(HEADINGS.values()) + ' |',
        '|---' * (len(HEADINGS) + 1) + '|',
    ]
    for name, figures in found.items():
        cells = [_cell(figure, *figures[figure]) for figure in HEADINGS]
        lines.append(f'| {name} | ' + ' | '.join(cells) + ' |')
    return '\n'.join(lines) + '\n'


def _cell(figure: str, *values: float) -> str:
    middle, low, high = (value * (1e-3 if figure.startswith('jerk') else 1.0) for value in values)
    form = '.0f' if abs(middle) >= 100 else '.1f' if abs(middle) >= 10 else '.2f'
    return f'{middle:{form}} ({low:{form}} .. {high:{form}})'


def main() -> int:
    """Run everything, print tables, judge."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument('--episodes', type=int, default=8)
    parser.add_argument('--seconds', type=float, default=8.0)
    parser.add_argument('--delays', type=int, nargs='+', default=DELAYS_MS, metavar='MS')
    parser.add_argument('--cases', nargs='+', default=list(CASES), choices=list(CASES))
    parser.add_argument('--seed', type=int, default=900)
    parser.add_argument('--jobs', type=int, default=min(os.cpu_count() or 1, 8))
    parser.add_argument('--picture', type=Path, help='draw docs/images/merging.png')
    parser.add_argument('--json', action='store_true', help='end with one JSON object')
    given = parser.parse_args()
    names = [name for name in CASES if name in {*given.cases, 'replace', 'rtc'}]
    seeds = range(given.seed, given.seed + given.episodes)
    result: dict[str, Any] = {'benchmark': 'merging', 'episodes': given.episodes,
                              'seconds': given.seconds, 'delays': {}}  # fmt: skip
    with ProcessPoolExecutor(given.jobs, get_context('spawn')) as workers:
        for delay_ms in given.delays:
            tasks = [(name, delay_ms, seed, given.seconds) for name in names for seed in seeds]
            scores = list(workers.map(scored, tasks))
            rows = {name: scores[i * len(seeds) : (i + 1) * len(seeds)]
                    for i, name in enumerate(names)}  # fmt: skip
            found = compare(rows, given.seed)
            result['delays'][str(delay_ms)] = {**found, 'holds': holds(found)}
            print(table(delay_ms, found), file=sys.stderr, flush=True)
    result['holds'] = all(found['holds'] for found in result['delays'].values())
    if given.picture is not None:
        from physis_ros.evaluation.merging_picture import draw

        shown = {name: drive(CASES[name], 100, given.seed, 4.0) for name in names}
        draw(given.picture, result['delays'], shown)
    if given.json:
        print(json.dumps(result))
    return 0 if result['holds'] else 1


if __name__ == '__main__':
    sys.exit(main())
