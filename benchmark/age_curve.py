#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""
Is the reported age true? Runs the demo with the camera's path made longer by known times.

The reported age p50 must rise by the added delay within 10 %. Beside it stands the tracking error,
which says what an old observation costs. ``--json`` ends with one JSON object.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

TOLERANCE = 0.10
KEPT = ('track_error_m', 'action_age_ms', 'deadline_misses', 'deadline_due', 'underrun_ticks',
        'ticks', 'frame_psnr_db', 'copy_last_psnr_db')  # fmt: skip


def main() -> int:
    """Run all delays, print the curve; return 0 when the bar holds."""
    args = _arguments()
    points = []
    with tempfile.TemporaryDirectory(prefix='physis-age-') as folder:
        for delay_ms in args.delays:
            points.append(_point(args, delay_ms, Path(folder) / f'{delay_ms:g}'))
            _say(_line(points[-1], points[0]))
    holds = all(_holds(point, points[0]) for point in points[1:])
    errors = [point['track_error_m']['mean'] for point in points]
    result = {
        'benchmark': 'age_curve',
        'points': points,
        'tolerance': TOLERANCE,
        'error_grows': errors[-1] > errors[0],
        'holds': holds,
    }
    _say(f'age rises by the added delay within {TOLERANCE:.0%}: {"yes" if holds else "NO"}')
    if args.json:
        print(json.dumps(result))
    return 0 if holds else 1


def _arguments() -> argparse.Namespace:
    """Read the command line."""
    parser = argparse.ArgumentParser(description=__doc__.strip().splitlines()[0])
    add = parser.add_argument
    add('--delays', type=float, nargs='+', default=[0.0, 100.0, 200.0, 400.0], metavar='MS',
        help='added to the camera path; the first is the reference')  # fmt: skip
    add('--episodes', type=int, default=2)
    add('--seconds', type=float, default=8.0)
    add('--seed', type=int, default=0)
    add('--workers', type=int, default=2)
    add('--model', default='reach')
    add('--json', action='store_true', help='end with one JSON object')
    return parser.parse_args()


def _point(args: argparse.Namespace, delay_ms: float, out: Path) -> dict[str, Any]:
    """Run the demo once and keep what the curve needs."""
    given = {
        '--out': out, '--delay-ms': delay_ms, '--episodes': args.episodes,
        '--seconds': args.seconds, '--seed': args.seed, '--workers': args.workers,
        '--model': args.model,
    }  # fmt: skip
    options = [str(word) for pair in given.items() for word in pair]
    command = [sys.executable, '-m', 'physis_ros.ros.demo', '--json', '--no-report', *options]
    done = subprocess.run(command, stdout=subprocess.PIPE, text=True)
    if done.returncode:
        sys.exit(f'age_curve: the demo with {delay_ms:g} ms ended with code {done.returncode}')
    summary = json.loads(done.stdout)
    return {'delay_ms': delay_ms, **{name: summary[name] for name in KEPT}}


def _rise_ms(point: dict[str, Any], reference: dict[str, Any]) -> float:
    """Return by how much the age has risen."""
    return float(point['action_age_ms']['p50'] - reference['action_age_ms']['p50'])


def _holds(point: dict[str, Any], reference: dict[str, Any]) -> bool:
    """Tell whether the age has risen by what was added."""
    added_ms = point['delay_ms'] - reference['delay_ms']
    return bool(abs(_rise_ms(point, reference) - added_ms) <= TOLERANCE * added_ms)


def _line(point: dict[str, Any], reference: dict[str, Any]) -> str:
    """Return one point for a person."""
    return (
        f'delay {point["delay_ms"]:4.0f} ms: age p50 {point["action_age_ms"]["p50"]:6.1f} ms '
        f'(+{_rise_ms(point, reference):5.1f}), tracking error '
        f'{point["track_error_m"]["mean"] * 1e3:5.1f} mm, missed {point["deadline_misses"]} of '
        f'{point["deadline_due"]}'
    )


def _say(text: str) -> None:
    """Print for a person, out of the way of JSON."""
    print(text, file=sys.stderr, flush=True)


if __name__ == '__main__':
    sys.exit(main())
