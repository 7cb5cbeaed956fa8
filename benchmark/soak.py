#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""
Does anything grow or drift? A simulated day and a real run, both with the real classes.

Simulated: producer, player and accounts driven through 24 h by time as an argument, with an epoch,
a pause, an outage and broken messages every hour. Real: the nodes of the demo, watched from
outside. After warm-up the growth of private memory must not be told from zero (95 % confidence
over 20 blocks) and 1 % an hour must be ruled out; threads and open files must not grow; every
simulated hour must count the same; the servo must tick on one grid to the end, with hardly a
period lost, and a drift of the age by 10 % an hour must be ruled out. Takes about 15 minutes for
the day on an idle machine, and --warm-up and --minutes.
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
from endurance.slope import drift, growth

# Caches, arenas and the bins of sketches fill in the first part of a simulated day.
WARM_UP = 0.5
# Growth that matters [share of the memory an hour]: a quarter more in a day.
GROWTH = 0.01
# Drift of the age that matters [share an hour], and periods without a tick [share of them].
AGE_DRIFT, LOST = 0.1, 1e-3
# Two quantiles of sketches that are good to 0.5 %.
DRIFT = 0.01


def main() -> int:
    """Run both parts; return 0 when nothing grows."""
    args = _arguments()
    result: dict[str, Any] = {'benchmark': 'soak'}
    if args.hours:
        result['simulated'] = _simulated(args.hours)
    if args.minutes:
        result['real'] = _real(args.warm_up, args.minutes, args.workers)
    holds = all(part['holds'] for part in result.values() if isinstance(part, dict))
    _say(f'nothing grows, nothing drifts: {"yes" if holds else "NO"}')
    if args.json:
        print(json.dumps({**result, 'holds': holds}))
    return 0 if holds else 1


def _simulated(hours: int) -> dict[str, Any]:
    """Run the day."""
    day = Day(hours)
    day.run(_say)
    memory = used(_after(hours * WARM_UP, day.samples))
    apart, same = day.drift(), day.same()
    _say(f'simulated {hours} h: {_line("all", memory)}; quantiles within {apart:.2%}; every hour '
         f'counted the same: {"yes" if same else "NO"}')  # fmt: skip
    holds = memory['holds'] and apart <= DRIFT and same
    ticks = day.hours[-1].figures.ticks
    return {'hours': hours, 'ticks': ticks, 'memory': memory, 'drift': apart, 'same': same,
            'holds': holds}  # fmt: skip


def _real(warm_up: float, minutes: float, workers: int) -> dict[str, Any]:
    """Run the nodes."""
    with tempfile.TemporaryDirectory(prefix='physis-soak-') as folder:
        run = real.run(warm_up + minutes, workers, Path(folder), _say)
    begun = warm_up / 60
    memory = {name: used(_after(begun, samples)) for name, samples in run.samples.items()}
    for name, item in memory.items():
        _say(_line(name, item))
    heard = run.heard
    lost = sum(count for _, count in _after(begun, heard.lost))
    share = lost / (minutes * 60e9 / real.PERIOD_NS)
    age = drift(*zip(*_after(begun, heard.ages_ms), strict=True))
    good = {
        'memory': all(item['holds'] for item in memory.values()),
        'grid': not heard.off_grid,
        'ticks': share <= LOST,
        'age': age.steady(AGE_DRIFT),
        'codes': not run.codes,
    }
    _say(f'{heard.ticks} ticks heard, {lost} periods ({share:.3%}) without one after warm-up, '
         f'{heard.off_grid} off the grid; {heard.frames} predicted frames; exit codes other than '
         f'0: {dict(run.codes)}; age p50 {age.first:.1f} to {age.last:.1f} ms, '
         f'{age.per_hour:+.1f} ms/h ({age.low_per_hour:+.1f} to {age.high_per_hour:+.1f}); not '
         f'well: {[name for name, well in good.items() if not well] or "nothing"}')  # fmt: skip
    return {'warm_up_minutes': warm_up, 'minutes': minutes, 'ticks': heard.ticks,
            'periods_lost': lost, 'lost_share': share, 'off_grid': heard.off_grid,
            'frames': heard.frames, 'age_p50_ms': asdict(age), 'codes': dict(run.codes),
            'memory': memory, 'good': good, 'holds': all(good.values())}  # fmt: skip


def used(settled: Sequence[tuple[float, Usage]]) -> dict[str, Any]:
    """Return how memory, threads and open files of a process went."""
    memory = growth([hour for hour, _ in settled], [item.private_kib for _, item in settled])
    threads = [item.threads for _, item in settled]
    handles = [item.handles for _, item in settled]
    quarter = max(len(settled) // 4, 1)
    grown = {
        name: max(values[-quarter:]) - max(values[:quarter])
        for name, values in (('threads', threads), ('handles', handles))
    }
    holds = memory.level(GROWTH) and all(value <= 0 for value in grown.values())
    return {'private_kib': asdict(memory), 'threads': threads[-1], 'handles': handles[-1],
            'grown': grown, 'holds': holds}  # fmt: skip


def _after(hour: float, samples: Sequence[tuple[float, Any]]) -> list[tuple[float, Any]]:
    """Leave out warm-up."""
    return [sample for sample in samples if sample[0] > hour]


def _line(name: str, item: dict[str, Any]) -> str:
    """Return a process's growth for a person."""
    memory = item['private_kib']
    return (
        f'{name}: {memory["first"] / 1024:.1f} to {memory["last"] / 1024:.1f} MiB, '
        f'{memory["per_hour"]:+.0f} KiB/h ({memory["low_per_hour"]:+.0f} to '
        f'{memory["high_per_hour"]:+.0f}); {item["threads"]} threads, {item["handles"]} files, '
        f'grown by {item["grown"]["threads"]} and {item["grown"]["handles"]}'
        f'{"" if item["holds"] else "  GROWS, OR MAY"}'
    )


def _arguments() -> argparse.Namespace:
    """Read the command line."""
    parser = argparse.ArgumentParser(description=__doc__.strip().splitlines()[0])
    add = parser.add_argument
    add('--hours', type=int, default=24, help='of the simulated part, 0 or from 3')
    add('--minutes', type=float, default=20.0, help='of the real part, 0 or from 3')
    add('--warm-up', type=float, default=5.0, help='minutes of the real part before those')
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
