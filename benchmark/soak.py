#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""
Does anything grow or drift? A simulated day and a real run, both with the real classes.

Simulated: producer, player and accounts driven through 24 h by time as an argument, with an epoch,
a pause, an outage and broken messages every hour. Real: the nodes of the demo, watched from
outside. After warm-up, the first half, the growth of private memory must not be told from zero
(95 % confidence over 20 blocks), threads and open files must not grow, every simulated hour must
count the same, and the servo must tick on one grid to the end. Takes about 15 minutes for the day
on an idle machine, and --minutes.
"""

from __future__ import annotations

import argparse
import json
import sys
import tempfile
from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

from endurance import real
from endurance.process import Usage
from endurance.simulated import Day
from endurance.slope import slope

# Caches, arenas and the bins of sketches fill in the first part of a run.
WARM_UP = 0.5
# Two quantiles of sketches that are good to 0.5 %.
DRIFT = 0.01


def main() -> int:
    """Run both parts; return 0 when nothing grows."""
    args = _arguments()
    result: dict[str, Any] = {'benchmark': 'soak'}
    if args.hours:
        result['simulated'] = _simulated(args.hours)
    if args.minutes:
        result['real'] = _real(args.minutes, args.workers)
    holds = all(part['holds'] for part in result.values() if isinstance(part, dict))
    _say(f'nothing grows, nothing drifts: {"yes" if holds else "NO"}')
    if args.json:
        print(json.dumps({**result, 'holds': holds}))
    return 0 if holds else 1


def _simulated(hours: int) -> dict[str, Any]:
    """Run the day."""
    day = Day(hours)
    day.run(_say)
    memory = growth(day.samples)
    drift, same = day.drift(), day.same()
    _say(f'simulated {hours} h: {_line("all", memory)}; quantiles within {drift:.2%}; every hour '
         f'counted the same: {"yes" if same else "NO"}')  # fmt: skip
    holds = memory['holds'] and drift <= DRIFT and same
    ticks = day.hours[-1].figures.ticks
    return {'hours': hours, 'ticks': ticks, 'memory': memory, 'drift': drift, 'same': same,
            'holds': holds}  # fmt: skip


def _real(minutes: float, workers: int) -> dict[str, Any]:
    """Run the nodes."""
    with tempfile.TemporaryDirectory(prefix='physis-soak-') as folder:
        run = real.run(minutes, workers, Path(folder), _say)
    memory = {name: growth(samples) for name, samples in run.samples.items()}
    for name, item in memory.items():
        _say(_line(name, item))
    heard = run.heard
    lost = real.periods_lost(heard)
    age = slope(*zip(*_settled(heard.ages_ms), strict=True))
    _say(f'{heard.ticks} ticks heard, {lost} periods without one, {heard.off_grid} off the grid; '
         f'{heard.frames} predicted frames; age p50 {age.first:.1f} to {age.last:.1f} ms; exit '
         f'codes other than 0: {dict(run.codes)}')  # fmt: skip
    holds = all(item['holds'] for item in memory.values()) and not heard.off_grid and not run.codes
    return {'minutes': minutes, 'ticks': heard.ticks, 'periods_lost': lost,
            'off_grid': heard.off_grid, 'frames': heard.frames, 'age_p50_ms': asdict(age),
            'codes': dict(run.codes), 'memory': memory, 'holds': holds}  # fmt: skip


def growth(samples: Sequence[tuple[float, Usage]]) -> dict[str, Any]:
    """Return how memory, threads and open files of a process went after warm-up."""
    settled = _settled(samples)
    memory = slope([hour for hour, _ in settled], [item.private_kib for _, item in settled])
    threads = [item.threads for _, item in settled]
    handles = [item.handles for _, item in settled]
    quarter = max(len(settled) // 4, 1)
    grown = {
        name: max(values[-quarter:]) - max(values[:quarter])
        for name, values in (('threads', threads), ('handles', handles))
    }
    holds = memory.level and all(value <= 0 for value in grown.values())
    return {'private_kib': asdict(memory), 'threads': threads[-1], 'handles': handles[-1],
            'grown': grown, 'holds': holds}  # fmt: skip


def _settled(samples: Sequence[Any]) -> Sequence[Any]:
    """Leave out warm-up."""
    return samples[int(len(samples) * WARM_UP) :]


def _line(name: str, item: dict[str, Any]) -> str:
    """Return a process's growth for a person."""
    memory = item['private_kib']
    return (
        f'{name}: {memory["first"] / 1024:.1f} to {memory["last"] / 1024:.1f} MiB, '
        f'{memory["per_hour"]:+.0f} KiB/h ({memory["low_per_hour"]:+.0f} to '
        f'{memory["high_per_hour"]:+.0f}); {item["threads"]} threads, {item["handles"]} files, '
        f'grown by {item["grown"]["threads"]} and {item["grown"]["handles"]}'
        f'{"" if item["holds"] else "  GROWS"}'
    )


def _arguments() -> argparse.Namespace:
    """Read the command line."""
    parser = argparse.ArgumentParser(description=__doc__.strip().splitlines()[0])
    add = parser.add_argument
    add('--hours', type=int, default=24, help='of the simulated part, 0 or from 3')
    add('--minutes', type=float, default=20.0, help='of the real part, 0 or from 3')
    add('--workers', type=int, default=2)
    add('--json', action='store_true', help='end with one JSON object')
    args = parser.parse_args()
    if args.hours and args.hours < 3:
        parser.error(f'--hours must be 0 or from 3, got {args.hours}')
    if args.minutes and args.minutes < 3:
        parser.error(f'--minutes must be 0 or from 3, got {args.minutes:g}')
    return args


def _say(text: str) -> None:
    """Print for a person, out of the way of JSON."""
    print(text, file=sys.stderr, flush=True)


if __name__ == '__main__':
    sys.exit(main())
