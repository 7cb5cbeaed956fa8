# SPDX-License-Identifier: Apache-2.0
"""``physis account``: what the servo said of itself, recomputed."""

from __future__ import annotations

import argparse
import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict
from typing import TYPE_CHECKING, Any

from physis_ros.commands.bag import add_bag

if TYPE_CHECKING:
    from physis_ros.evaluation.accounting import Recomputed
    from physis_ros.evaluation.agreement import Agreement
    from physis_ros.evaluation.recording import Recording


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
    from physis_ros.evaluation import topics
    from physis_ros.evaluation.agreement import agreements
    from physis_ros.evaluation.bag import Bag
    from physis_ros.evaluation.recording import read
    from physis_ros.evaluation.words import incomplete

    with Bag(args.bag) as bag:
        recordings = {name: read(bag, topics.find(bag, name)) for name in topics.streams(bag)}
    found = {
        called: one for name, recording in recordings.items()
        for called, one in _accounts(name, recording)
    }  # fmt: skip
    accounts = {name: agreements(one) for name, one in found.items()}
    if args.json:
        print(json.dumps(_data(accounts)))
    else:
        for name, rows in accounts.items():
            _print(name, rows, incomplete(found[name].missing_ticks, found[name].missing_chunks))
    return int(any(row.agrees is False for rows in accounts.values() for row in rows))


def _accounts(name: str, recording: Recording) -> Iterator[tuple[str, Recomputed]]:
    """Yield the account of each life of a stream's servo, by the stream's name when it has one."""
    from physis_ros.evaluation import accounting

    lives = accounting.lives(recording)
    for number, life in enumerate(lives, 1):
        called = f'{name} life {number}'.strip() if len(lives) > 1 else name
        yield called, accounting.recompute(life)


def _data(found: Mapping[str, Sequence[Agreement]]) -> object:
    """Return the rows of the only stream and life, or of each by its name."""
    data = {name: [asdict(row) for row in rows] for name, rows in found.items()}
    return data if len(data) > 1 else next(iter(data.values()))


def _print(name: str, rows: Sequence[Agreement], lacks: str) -> None:
    """Print the account of one stream, or of one life of its servo, and what its bag lacks."""
    print(f'{name:28}{"live":>14}{"recomputed":>14}')
    for row in rows:
        mark = {True: '', False: '  differs', None: '  not covered'}[row.agrees]
        print(f'{row.name:28}{_figure(row.live):>14}{_figure(row.recomputed):>14}{mark}')
    if lacks:
        print(lacks)


def _figure(value: float | None) -> str:
    """Return a number for a table."""
    if value is None:
        return '-'
    return str(value) if isinstance(value, int) else f'{value:.3f}'
