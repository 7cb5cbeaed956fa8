# SPDX-License-Identifier: Apache-2.0
"""``physis report``: all figures of a recording, as files and as a table."""

from __future__ import annotations

import argparse
import json
from pathlib import Path
from typing import Any

from physis_ros.commands.bag import add_bag


def add_report_parser(commands: Any) -> None:
    """Add ``report``."""
    command = commands.add_parser(
        'report', help='compute all figures of a recording and write summary, report, animation'
    )
    add_bag(command)
    command.add_argument('--trace', type=Path, help="the engine's trace of the run")
    command.add_argument('--json', action='store_true', help='print the figures as JSON')
    command.set_defaults(run=report)


def report(args: argparse.Namespace) -> int:
    """Write summary, report and animation beside the recording."""
    from rich.console import Console

    from physis_ros.evaluation import products
    from physis_ros.evaluation.table import summary_table

    folder = args.bag if args.bag.is_dir() else args.bag.parent
    trace = args.trace or folder / 'trace.json'
    made = products.write(args.bag, trace=trace if trace.is_file() else None)
    if args.json:
        print(json.dumps(made.summary))
        return 0
    console = Console()
    console.print(summary_table(made.summary))
    for path in made.files:
        console.print(f'  {path}', markup=False, highlight=False, soft_wrap=True)
    return 0
