# SPDX-License-Identifier: Apache-2.0
"""``physis account``: what the servo said of itself, recomputed."""

from __future__ import annotations

import argparse
import json
from typing import Any

from physis_ros.commands.bag import add_bag


def add_account_parser(commands: Any) -> None:
    """Add ``account``."""
    command = commands.add_parser(
        'account', help="recompute ages, misses and underruns; compare with the servo's own"
    )
    add_bag(command)
    command.add_argument('--json', action='store_true', help='print the figures as JSON')
    command.set_defaults(run=account)


def account(args: argparse.Namespace) -> int:
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
