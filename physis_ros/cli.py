#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""
``physis``: the command line. Starts fast: each command imports what it needs when it runs.

Errors of this package are one line and exit code 2.
"""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Sequence
from pathlib import Path

from physis_ros import __version__
from physis_ros.errors import PhysisError

REFUSED = 2
TRAIN = 'train-reach'


def main(arguments: Sequence[str] | None = None) -> int:
    """Run one command and return its exit code."""
    given = list(sys.argv[1:] if arguments is None else arguments)
    try:
        args = parser(training=TRAIN in given).parse_args(given)
        return int(args.run(args))
    except PhysisError as error:
        print(f'physis: {error}', file=sys.stderr)
        return REFUSED
    except BrokenPipeError:
        # Whoever read our output has had enough.
        sys.stderr.close()
        return 0


def parser(training: bool = False) -> argparse.ArgumentParser:
    """
    Return the parser.

    :param training: with the full training command, which needs torch; else with its name alone.
    """
    top = argparse.ArgumentParser(prog='physis', description='World-action models on a robot.')
    top.add_argument('--version', action='version', version=f'physis_ros {__version__}')
    commands = top.add_subparsers(title='commands', required=True, metavar='COMMAND')
    _add_report(commands)
    _add_account(commands)
    _add_mend(commands)
    if training:
        from physis_ros.training.cli import add_train_parser

        add_train_parser(commands)
    else:
        commands.add_parser(TRAIN, help='train the embedded reach model, from nothing to weights')
    return top


def _add_report(commands: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    """Add ``report``."""
    command = commands.add_parser(
        'report', help='compute all figures of a recording and write summary, report, animation'
    )
    _add_bag(command)
    command.add_argument('--trace', type=Path, help="the engine's trace of the run")
    command.add_argument('--json', action='store_true', help='print the figures as JSON')
    command.set_defaults(run=_report)


def _add_account(commands: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    """Add ``account``."""
    command = commands.add_parser(
        'account', help="recompute ages, misses and underruns; compare with the servo's own"
    )
    _add_bag(command)
    command.add_argument('--json', action='store_true', help='print the figures as JSON')
    command.set_defaults(run=_account)


def _add_mend(commands: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    """Add ``mend``."""
    command = commands.add_parser('mend', help='make a recording readable whose recorder died')
    command.add_argument('file', type=Path, metavar='FILE', help='an .mcap file; changed in place')
    command.set_defaults(run=_mend)


def _add_bag(command: argparse.ArgumentParser) -> None:
    """Add the recording to read."""
    command.add_argument(
        'bag', type=Path, metavar='BAG', help='rosbag2 folder, .mcap or .db3, or a demo output'
    )


def _report(args: argparse.Namespace) -> int:
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


def _account(args: argparse.Namespace) -> int:
    """Print the account; exit code 1 when it is not what the servo had said."""
    from dataclasses import asdict

    from physis_ros.evaluation import accounting, topics
    from physis_ros.evaluation.bag import Bag
    from physis_ros.evaluation.recording import read

    with Bag(args.bag) as bag:
        recording = read(bag, topics.find(bag))
    rows = accounting.agreements(accounting.recompute(recording), recording.status)
    if args.json:
        print(json.dumps([asdict(row) for row in rows]))
    else:
        print(f'{"":28}{"live":>14}{"recomputed":>14}')
        for row in rows:
            mark = {True: '', False: '  differs', None: ''}[row.agrees]
            print(f'{row.name:28}{_figure(row.live):>14}{_figure(row.recomputed):>14}{mark}')
    return int(any(row.agrees is False for row in rows))


def _figure(value: float | None) -> str:
    """Return a number for a table."""
    if value is None:
        return '-'
    return str(value) if isinstance(value, int) else f'{value:.3f}'


def _mend(args: argparse.Namespace) -> int:
    """Mend a torn file in place."""
    from physis_ros.errors import BagError
    from physis_ros.evaluation.mend import mend

    if not args.file.is_file():
        raise BagError(f'recording must exist, got {args.file}')
    cut = mend(args.file)
    print(f'{args.file}: {f"cut {cut} torn bytes off" if cut else "is whole"}')
    return 0


if __name__ == '__main__':
    sys.exit(main())
