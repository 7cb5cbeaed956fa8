# SPDX-License-Identifier: Apache-2.0
"""``physis simulate``: a trace on a pool, or the published experiment. The only printing here."""

from __future__ import annotations

import argparse
import json
import time
from pathlib import Path
from typing import Any

from physis_ros.errors import ParameterError


def add_simulate_parser(subparsers: Any) -> None:
    """
    Register the command.

    :param subparsers: what ``ArgumentParser.add_subparsers`` returned; ``run`` is set as default.
    """
    parser = subparsers.add_parser(
        'simulate',
        help='run streams on a pool in virtual time',
        description='Run streams on a pool that need not exist, with the engine in virtual time.',
    )
    parser.add_argument('--pool', type=Path, metavar='FILE', help='devices and models, JSON')
    parser.add_argument('--trace', type=Path, metavar='FILE', help='what happens, JSON')
    parser.add_argument(
        '--published', action='store_true', help='the published capacity experiment beside ours'
    )
    parser.add_argument(
        '--sensitivity', action='store_true', help='with --published: change the assumptions, too'
    )
    parser.add_argument('--json', action='store_true', help='print one JSON object instead')
    parser.set_defaults(run=run_simulate)


def run_simulate(args: argparse.Namespace) -> int:
    """
    Do what was asked.

    :raises ParameterError: unless either a trace or the published experiment was asked for.
    """
    _check(args)
    if args.published:
        return _published(args)
    from physis_ros.evaluation.pool.figures import text
    from physis_ros.evaluation.pool.pool_file import read_pool
    from physis_ros.evaluation.pool.simulate import simulate
    from physis_ros.evaluation.pool.trace import read_trace

    pool = read_pool(args.pool)
    trace = read_trace(args.trace, pool)
    start_s = time.perf_counter()
    outcome = simulate(pool, trace)
    took_s = time.perf_counter() - start_s
    if args.json:
        took = {'took_s': took_s, 'speed_up': trace.duration_s / took_s}
        print(json.dumps({**outcome.as_dict(), **took}))
        return 0
    print(text(outcome))
    print(f'{trace.duration_s:g} s in {took_s:.2f} s: {trace.duration_s / took_s:.0f} x real time')
    return 0


def _check(args: argparse.Namespace) -> None:
    names = ('pool', 'trace', 'published', 'sensitivity')
    given = {f'--{name}' for name in names if getattr(args, name)}
    ways = ({'--pool', '--trace'}, {'--published'}, {'--published', '--sensitivity'})
    if given not in ways:
        rule = 'given --pool and --trace, or --published, with --sensitivity or without'
        raise ParameterError('simulate', rule, ' '.join(sorted(given)) or 'none of them')


def _published(args: argparse.Namespace) -> int:
    from physis_ros.evaluation.pool import published

    figures = published.report()
    found = published.as_dict(figures)
    changed = published.sensitivity() if args.sensitivity else []
    if args.json:
        found['sensitivity'] = {what: published.as_dict(f)['models'] for what, f in changed}
        print(json.dumps(found))
    else:
        published.text(figures, print)
        for what, other in changed:
            print(f'\nwith {what}:')
            published.text(other, print)
        print(f'\n{published.DECIDES}')
    return 0 if found['holds'] else 1
