#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""
Same-step against clean KV: the two reach models in the same closed loop, side by side.

Same arm, same seeds, same told delay, simulated time, no ROS: what differs is only the rule by
which a chunk reads its predecessors. Every figure comes with a 95 % interval over episodes
(bootstrap), every difference with a paired one. What speed each rule can be run at is another
matter: see ``./run demo --kv-rule clean``.
"""

from __future__ import annotations

import argparse
import json
import sys
from dataclasses import dataclass

import numpy as np
import torch
from numpy.typing import NDArray

from physis_ros.backbones.base import KvRule
from physis_ros.backbones.reach.checkpoint import load_network, shipped_path
from physis_ros.training.closed_loop import LoopConfig, LoopResult, run_closed_loop
from physis_ros.training.validate import psnr_db

RULES = ('same_step', 'clean')
DRAWS = 4000
BAR_TRACK_M, BAR_HOLD_SHARE, BAR_GAIN_DB = 0.05, 0.2, 2.0
Floats = NDArray[np.float64]


@dataclass(frozen=True)
class Episodes:
    """
    One model's outcome, a number for each episode.

    :param track_m: mean distance of tip and target.
    :param hold_m: the same for an arm that stays.
    :param frame_square: mean squared error of predicted frames.
    :param copy_square: of the last observed frame.
    """

    track_m: Floats
    hold_m: Floats
    frame_square: Floats
    copy_square: Floats

    @classmethod
    def of(cls, result: LoopResult) -> Episodes:
        """Average a result over time."""
        return cls(
            result.error_m.mean(1),
            result.hold_m.mean(1),
            np.mean(result.frame_square, 0),
            np.mean(result.copy_square, 0),
        )

    def track(self, rows: NDArray[np.int64]) -> float:
        """Return the mean tracking error of some episodes [m]."""
        return float(self.track_m[rows].mean())

    def gain(self, rows: NDArray[np.int64]) -> float:
        """Return how much better predicted frames are than copied ones [dB]."""
        pair = (self.frame_square, self.copy_square)
        predicted, copied = (psnr_db(float(square[rows].mean())) for square in pair)
        return predicted - copied


def interval(values: list[float]) -> list[float]:
    """Return the middle 95 % of bootstrapped values."""
    return [float(value) for value in np.percentile(values, (2.5, 97.5))]


def compare(outcomes: dict[str, Episodes], seed: int) -> dict[str, object]:
    """Return both models' figures and their difference, each with its interval."""
    count = len(outcomes['clean'].track_m)
    draws = np.random.default_rng(seed).integers(0, count, (DRAWS, count))
    everyone = np.arange(count)
    found: dict[str, object] = {}
    for name in ('track', 'gain'):
        figures = {rule: getattr(episodes, name) for rule, episodes in outcomes.items()}
        for rule, figure in figures.items():
            spread = interval([figure(rows) for rows in draws])
            found[f'{rule}_{name}'] = [figure(everyone), *spread]
        both = [figures['same_step'](rows) - figures['clean'](rows) for rows in draws]
        apart = figures['same_step'](everyone) - figures['clean'](everyone)
        found[f'difference_{name}'] = [apart, *interval(both)]
    found['hold_m'] = float(outcomes['same_step'].hold_m.mean())
    return found


def line(delay_steps: int, found: dict[str, object]) -> str:
    """Return one row of the table."""

    def cell(name: str, scale: float, form: str) -> str:
        middle, low, high = (scale * value for value in found[name])  # type: ignore[attr-defined]
        return f'{middle:{form}} ({low:{form}} .. {high:{form}})'

    tracks = [cell(f'{who}_track', 1e3, '.1f') for who in (*RULES, 'difference')]
    gains = [cell(f'{who}_gain', 1.0, '.2f') for who in (*RULES, 'difference')]
    return f'| {25 * delay_steps} | ' + ' | '.join([*tracks, *gains]) + ' |'


def main() -> int:
    """Run both models at each delay, print a table, judge the one that ships as default."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument('--episodes', type=int, default=24)
    parser.add_argument('--seconds', type=float, default=8.0)
    parser.add_argument('--delays', default='2,4,6,8,12,16', help='told delays in steps of 25 ms')
    parser.add_argument('--seed', type=int, default=777_000)
    parser.add_argument('--json', action='store_true')
    given = parser.parse_args()
    torch.set_num_threads(1)
    networks = {rule: load_network(shipped_path(KvRule(rule))) for rule in RULES}
    print('| delay [ms] | track [mm] same-step | clean | difference '
          '| frames over copying [dB] same-step | clean | difference |')  # fmt: skip
    print('|---|---|---|---|---|---|---|')
    figures: dict[str, object] = {'episodes': given.episodes, 'seconds': given.seconds}
    holds = True
    for delay in map(int, given.delays.split(',')):
        config = LoopConfig(
            delay, episodes=given.episodes, seconds=given.seconds, seed=given.seed
        )
        outcomes = {
            rule: Episodes.of(run_closed_loop(network, config))
            for rule, network in networks.items()
        }
        found = compare(outcomes, given.seed)
        figures[str(delay)] = found
        print(line(delay, found), flush=True)
        everyone = np.arange(given.episodes)
        track, gain = outcomes['same_step'].track(everyone), outcomes['same_step'].gain(everyone)
        hold = float(outcomes['same_step'].hold_m.mean())
        if delay == LoopConfig().delay_steps - 1:
            holds = track <= min(BAR_TRACK_M, BAR_HOLD_SHARE * hold) and gain >= BAR_GAIN_DB
    figures['holds'] = holds
    if given.json:
        print(json.dumps(figures))
    return 0 if holds else 1


if __name__ == '__main__':
    sys.exit(main())
