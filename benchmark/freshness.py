#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""
What renewing the conditioning at every denoise step (E11) is worth on the arm.

Runs the demo with ``entry`` and with ``step`` in turn, at one and at two workers, at the speed of
the world and at twice that, which is a model that takes twice as long; both of a pair have the
same seeds, so the same targets. Printed are the age of commands and the tracking error over the
episodes, as means over the rounds.

What can be gained is known beforehand: the last of four denoise steps begins after three quarters
of the time in the engine, and takes the last frame that came until then; one that comes within a
quarter of a camera interval of that comes to every other chunk only and is not counted on.

With ``--json`` it ends with one JSON object. It holds when the age (p50) is lower by at least half
of what can be gained and the tracking error is not greater wherever something can be gained, which
must be so in one case at least; and where nothing can, because chunks are out before the next
frame comes, the age is not higher by more than half a camera interval and the error not by more
than a tenth, which is how much runs differ. Takes about 3 minutes on an idle machine; ``--quick``
is one episode a run.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import tempfile
from itertools import product
from pathlib import Path
from statistics import mean
from typing import Any

CONDITIONINGS = ('entry', 'step')
CAMERA_MS = 25.0
LAST_STEP = 0.75
UNSURE = 0.25
NOISE = 0.1
ADVICE = ': nothing is shown; give a greater speed (--speeds)'


def main() -> int:
    """Run all rounds, print how each case went; return 0 when the bar holds."""
    args = _arguments()
    runs: list[dict[str, Any]] = []
    with tempfile.TemporaryDirectory(prefix='physis-fresh-') as folder:
        every = product(range(args.rounds), args.speeds, args.workers)
        for place, (number, speed, workers) in enumerate(every):
            # Whoever goes first differs from pair to pair.
            for conditioning in CONDITIONINGS if place % 2 == 0 else CONDITIONINGS[::-1]:
                way = {'round': number, 'speed': speed, 'workers': workers}
                way['conditioning'] = conditioning
                runs.append({**way, **_run(args, way, Path(folder) / str(len(runs)))})
                _say(_line(runs[-1]))
    cases = [_compare(runs, *case) for case in product(args.speeds, args.workers)]
    for case in cases:
        _say(_verdict(case))
    gaining = sum(case['can_gain_ms'] > 0 for case in cases)
    holds = gaining > 0 and all(case['holds'] for case in cases)
    _say(f'something to gain in {gaining} of {len(cases)} cases{"" if gaining else ADVICE}')
    _say(f'younger by what can be gained, tracking not worse: {"yes" if holds else "NO"}')
    if args.json:
        result = {'benchmark': 'freshness', 'runs': runs, 'cases': cases, 'gaining': gaining}
        print(json.dumps({**result, 'holds': holds}))
    return 0 if holds else 1


def _arguments() -> argparse.Namespace:
    """Read the command line."""
    parser = argparse.ArgumentParser(description=__doc__.strip().splitlines()[0])
    add = parser.add_argument
    add('--rounds', type=int, default=1, help='pairs of runs in each case')
    add('--episodes', type=int, default=2, help='of a run')
    add('--workers', type=int, nargs='+', default=[1, 2], metavar='W')
    add('--speeds', type=float, nargs='+', default=[1.0, 2.0], metavar='F')
    add('--seconds', type=float, default=6.0, help='length of an episode')
    add('--seed', type=int, default=0, help='of the first episode')
    add('--quick', action='store_true', help='one episode')
    add('--json', action='store_true', help='end with one JSON object')
    args = parser.parse_args()
    if args.quick:
        args.episodes = 1
    return args


def _run(args: argparse.Namespace, way: dict[str, Any], out: Path) -> dict[str, Any]:
    """Run the demo once in one way and return what is compared."""
    given = {
        '--out': out, '--episodes': args.episodes, '--seconds': args.seconds,
        '--seed': args.seed + way['round'] * args.episodes, '--speed': way['speed'],
        '--workers': way['workers'], '--conditioning': way['conditioning'],
    }  # fmt: skip
    options = [str(word) for pair in given.items() for word in pair]
    command = [sys.executable, '-m', 'physis_ros.ros.demo', '--json', '--no-report', *options]
    done = subprocess.run(command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True)
    if done.returncode:
        sys.exit(f'freshness: the demo ended with code {done.returncode}; run it by itself to see')
    summary = json.loads(done.stdout)
    if not summary['action_age_ms']['n']:
        sys.exit('freshness: nothing could be played in time; this machine is too busy to measure')
    return {
        'age_p50_ms': summary['action_age_ms']['p50'],
        'age_p99_ms': summary['action_age_ms']['p99'],
        'track_mm': summary['track_error_m']['mean'] * 1e3,
        'engine_p50_ms': summary['engine_latency_ms']['p50'],
        'interval_p50_ms': summary['output_interval_ms']['p50'],
        'missed': summary['deadline_misses'] / max(summary['deadline_due'], 1),
        'frames_db': summary['frame_psnr_db'],
    }


def _compare(runs: list[dict[str, Any]], speed: float, workers: int) -> dict[str, Any]:
    """Return the means of both ways in one case, and what renewal gained."""
    case = {'speed': speed, 'workers': workers}
    found: dict[str, Any] = {**case}
    for conditioning in CONDITIONINGS:
        way = {**case, 'conditioning': conditioning}
        found[conditioning] = _means([run for run in runs if way.items() <= run.items()])
    entry, step = (found[conditioning] for conditioning in CONDITIONINGS)
    frames = max(0.0, (LAST_STEP * entry['engine_p50_ms'] - UNSURE * CAMERA_MS) // CAMERA_MS)
    found['can_gain_ms'] = frames * CAMERA_MS
    found['age_gain_ms'] = round(entry['age_p50_ms'] - step['age_p50_ms'], 2)
    found['track_gain_mm'] = round(entry['track_mm'] - step['track_mm'], 2)
    younger = found['age_gain_ms'] >= (found['can_gain_ms'] / 2 if frames else -CAMERA_MS / 2)
    most_mm = entry['track_mm'] * (1 if frames else 1 + NOISE)
    found['holds'] = younger and step['track_mm'] <= most_mm
    return found


def _means(runs: list[dict[str, Any]]) -> dict[str, float]:
    """Return the means of all figures over some runs."""
    names = [name for name in runs[0] if name.endswith(('_ms', '_mm', '_db', 'missed'))]
    return {name: round(mean(run[name] for run in runs), 4) for name in names}


def _line(run: dict[str, Any]) -> str:
    """Return one run for a person."""
    return (
        f'round {run["round"]}, {_case(run)}, {run["conditioning"]:5}: '
        f'age {run["age_p50_ms"]:6.1f} / {run["age_p99_ms"]:6.1f} ms, tracking error '
        f'{run["track_mm"]:5.1f} mm, in the engine {run["engine_p50_ms"]:5.1f} ms, interval '
        f'{run["interval_p50_ms"]:5.1f} ms, missed {run["missed"]:.1%}'
    )


def _verdict(found: dict[str, Any]) -> str:
    """Return what renewal did in one case."""
    entry, step = (found[conditioning] for conditioning in CONDITIONINGS)
    return (
        f'{_case(found)}: age p50 {entry["age_p50_ms"]:.1f} -> {step["age_p50_ms"]:.1f} ms '
        f'({-found["age_gain_ms"]:+.1f}, {found["can_gain_ms"]:.0f} can be gained), '
        f'tracking error {entry["track_mm"]:.1f} -> {step["track_mm"]:.1f} mm '
        f'({-found["track_gain_mm"]:+.1f})'
    )


def _case(found: dict[str, Any]) -> str:
    """Name a case."""
    return f'speed {found["speed"]:g}, {found["workers"]} workers'


def _say(text: str) -> None:
    """Print for a person, out of the way of JSON."""
    print(text, file=sys.stderr, flush=True)


if __name__ == '__main__':
    sys.exit(main())
