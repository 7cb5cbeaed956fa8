# SPDX-License-Identifier: Apache-2.0
"""From a run to its result: follow it, stop it, evaluate its recording, print the table."""

from __future__ import annotations

import json
import signal
import sys
from pathlib import Path
from types import FrameType
from typing import Any

from rich.console import Console

from physis_ros.errors import PhysisError
from physis_ros.evaluation import products
from physis_ros.evaluation.table import summary_table
from physis_ros.ros.demo_options import DemoOptions
from physis_ros.ros.demo_preflight import Ready
from physis_ros.ros.demo_run import DemoRun
from physis_ros.ros.demo_view import View
from physis_ros.ros.signals import SIGNALS, Stop

GOOD, BROKEN = 0, 1


def run(options: DemoOptions, ready: Ready, stop: Stop) -> int:
    """Run everything and return the exit code."""
    stop.arm()
    view = View(options, sys.stderr if options.json else sys.stdout)
    finished, troubles = _follow(options, ready, view, stop)
    if stop.requested:
        print(f'demo: stopped by {stop.reason}; {_kept(options)}', file=sys.stderr)
        return GOOD
    for trouble in troubles:
        print(f'demo: {trouble}', file=sys.stderr)
    if not finished:
        print(f'demo: {_kept(options)}', file=sys.stderr)
        return BROKEN
    _leave_at_once_on_signals()
    return _evaluate(options, troubles)


def _follow(
    options: DemoOptions, ready: Ready, view: View, stop: Stop
) -> tuple[bool, list[str]]:
    """Run the nodes; return whether all episodes ran, and what went wrong."""
    demo = DemoRun(options, ready, view, stop)
    finished, troubles = False, []
    try:
        finished = demo.follow()
    except PhysisError as error:
        troubles.append(str(error))
    finally:
        try:
            troubles += demo.finish()
        finally:
            view.close()
    return finished, troubles


def _evaluate(options: DemoOptions, troubles: list[str]) -> int:
    """Write the products, print the result; return the exit code."""
    if not options.json:
        print('demo: evaluating the recording ...', flush=True)
    try:
        made = products.write(options.out, trace=options.trace, report=options.report)
    except PhysisError as error:
        print(f'demo: {error}', file=sys.stderr)
        return BROKEN
    result = {**made.summary, 'troubles': troubles}
    if options.json:
        print(json.dumps({**result, 'files': [str(path) for path in made.files]}))
    else:
        _print(result, made.files)
    return BROKEN if troubles else GOOD


def _print(summary: dict[str, Any], files: list[Path]) -> None:
    """Print the table and where everything is."""
    console = Console()
    console.print(summary_table(summary))
    for path in files:
        console.print(f'  {path}', markup=False, highlight=False, soft_wrap=True)


def _kept(options: DemoOptions) -> str:
    """Say what can still be looked at."""
    return f'logs and what was recorded are in {options.out}'


def _leave_at_once_on_signals() -> None:
    """From here on no node runs: Ctrl-C just ends the evaluation."""

    def leave(_number: int, _frame: FrameType | None) -> None:
        raise SystemExit(GOOD)

    for number in SIGNALS:
        signal.signal(number, leave)
