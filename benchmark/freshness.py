#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""
What renewing the conditioning at every denoise step (E11) is worth on the arm.

Runs the demo with ``entry`` and with ``step`` in turn, round after round, at one and at two
workers; both of a round have the same seed, so the same target. Printed are the age of commands
and the tracking error, as means over the rounds. With ``--json`` it ends with one JSON object. It
holds when at each number of workers the age (p50) is lower with ``step`` by at least half a camera
interval and the tracking error is not greater. Takes about 4.5 minutes on an idle machine; with
``--quick`` 1.5.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import tempfile
from pathlib import Path
from statistics import mean
from typing import Any

CONDITIONINGS = ('entry', 'step')
# [ms] Half the interval of the arm's camera.
LEAST_GAIN_MS = 12.5


def main() -> int:
    """Run all rounds, print a table; return 0 when the bar holds."""
    args = _arguments()
    runs: list[dict[str, Any]] = []
    with tempfile.TemporaryDirectory(prefix='physis-fresh-') as folder:
        for number in range(args.rounds):
            # Whoever goes first differs from round to round.
            order = CONDITIONINGS if number % 2 == 0 else CONDITIONINGS[::-1]
            for workers in args.workers:
                for conditioning in order:
                    out = Path(folder) / f'{number}-{workers}-{conditioning}'
                    runs.append(_run(args, number, workers, conditioning, out))
                    _say(_line(runs[-1]))
    found = [_compare(runs, workers) for workers in args.workers]
    for one in found:
        _say(_verdict(one))
    holds = all(one['age_gain_ms'] >= LEAST_GAIN_MS for one in found)
    holds = holds and all(one['track_gain_mm'] >= 0 for one in found)
    _say(
        f'younger by at least {LEAST_GAIN_MS:g} ms, tracking not worse: {"yes" if holds else "NO"}'
    )
    if args.json:
        result = {'benchmark': 'freshness', 'least_gain_ms': LEAST_GAIN_MS, 'runs': runs}
        print(json.dumps({**result, 'workers': found, 'holds': holds}))
    return 0 if holds else 1


def _arguments() -> argparse.Namespace:
    """Read the command line."""
    parser = argparse.ArgumentParser(description=__doc__.strip().splitlines()[0])
    add = parser.add_argument
    add('--rounds', type=int, default=3, help='pairs of runs at each number of workers')
    add('--workers', type=int, nargs='+', default=[1, 2], metavar='W')
    add('--seconds', type=float, default=10.0, help='length of the episode of a run')
    add('--seed', type=int, default=0, help='of the first round')
    add('--quick', action='store_true', help='one round of 8 s')
    add('--json', action='store_true', help='end with one JSON object')
    args = parser.parse_args()
    if args.quick:
        args.rounds, args.seconds = 1, 8.0
    return args


def _run(
    args: argparse.Namespace, number: int, workers: int, conditioning: str, out: Path
) -> dict[str, Any]:
    """Run the demo once and keep what is compared."""
    given = {
        '--out': out, '--episodes': 1, '--seconds': args.seconds, '--seed': args.seed + number,
        '--workers': workers, '--conditioning': conditioning,
    }  # fmt: skip
    options = [str(word) for pair in given.items() for word in pair]
    command = [sys.executable, '-m', 'physis_ros.ros.demo', '--json', '--no-report', *options]
    done = subprocess.run(command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True)
    if done.returncode:
        sys.exit(f'freshness: the demo ended with code {done.returncode}; run it by itself to see')
    summary = json.loads(done.stdout)
    return {
        'round': number,
        'workers': workers,
        'conditioning': conditioning,
        'age_p50_ms': summary['action_age_ms']['p50'],
        'age_p99_ms': summary['action_age_ms']['p99'],
        'track_mm': summary['track_error_m']['mean'] * 1e3,
        'response_p50_ms': summary['response_latency_ms']['p50'],
        'interval_p50_ms': summary['output_interval_ms']['p50'],
        'missed': summary['deadline_misses'] / max(summary['deadline_due'], 1),
        'frames_db': summary['frame_psnr_db'],
    }


def _compare(runs: list[dict[str, Any]], workers: int) -> dict[str, Any]:
    """Return the means of both ways at a number of workers, and what renewal gained."""
    found: dict[str, Any] = {'workers': workers}
    for conditioning in CONDITIONINGS:
        own = [r for r in runs if (r['workers'], r['conditioning']) == (workers, conditioning)]
        names = [name for name in own[0] if name.endswith(('_ms', '_mm', '_db', 'missed'))]
        found[conditioning] = {name: round(mean(run[name] for run in own), 4) for name in names}
    entry, step = (found[conditioning] for conditioning in CONDITIONINGS)
    found['age_gain_ms'] = round(entry['age_p50_ms'] - step['age_p50_ms'], 2)
    found['track_gain_mm'] = round(entry['track_mm'] - step['track_mm'], 2)
    return found


def _line(run: dict[str, Any]) -> str:
    """Return one run for a person."""
    return (
        f'round {run["round"]}, {run["workers"]} workers, {run["conditioning"]:5}: '
        f'age {run["age_p50_ms"]:6.1f} / {run["age_p99_ms"]:6.1f} ms, tracking error '
        f'{run["track_mm"]:5.1f} mm, response {run["response_p50_ms"]:5.1f} ms, interval '
        f'{run["interval_p50_ms"]:5.1f} ms, missed {run["missed"]:.1%}'
    )


def _verdict(found: dict[str, Any]) -> str:
    """Return what renewal did at a number of workers."""
    entry, step = (found[conditioning] for conditioning in CONDITIONINGS)
    return (
        f'{found["workers"]} workers: age p50 {entry["age_p50_ms"]:.1f} -> '
        f'{step["age_p50_ms"]:.1f} ms ({-found["age_gain_ms"]:+.1f}), tracking error '
        f'{entry["track_mm"]:.1f} -> {step["track_mm"]:.1f} mm ({-found["track_gain_mm"]:+.1f})'
    )


def _say(text: str) -> None:
    """Print for a person, out of the way of JSON."""
    print(text, file=sys.stderr, flush=True)


if __name__ == '__main__':
    sys.exit(main())
