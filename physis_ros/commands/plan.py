# SPDX-License-Identifier: Apache-2.0
"""
``physis plan``: how to cut and place a model on devices, with figures, before anything starts.

Feasibility is judged on each stage's p99, so the figures of the table have that margin in them.
"""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Sequence
from dataclasses import asdict, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from physis_ros.commands.files import check_writable
from physis_ros.errors import ParameterError, PlanError

if TYPE_CHECKING:
    from physis_ros.commands.specs import DeviceSpec
    from physis_ros.engine.plan import Plan, Targets, Usual
    from physis_ros.engine.profile import Profile

SAMPLES = 30
# Of any target.
LONGEST_MS = 1e9
OBJECTIVES = ('youngest', 'fleet')


def add_plan_parser(subparsers: Any) -> None:
    """
    Register the command.

    :param subparsers: what ``ArgumentParser.add_subparsers`` returned; ``run`` is set as default.
    """
    parser = subparsers.add_parser(
        'plan',
        help='cut a model into groups and place them on devices',
        description='Cut a model into groups of stages, place them on devices, predict and pick. '
        'Devices: NAME[*COUNT][,memory=GB][,speed=S][,link=GB/s][,uplink=GB/s][,hop=us]'
        '[,uplink_hop=us][,node=NAME]. '
        'cpu and cuda:N are of this machine; any other needs its memory, and its speed relative '
        'to the profiled device.',
    )
    add = parser.add_argument
    add('--model', required=True, help="as 'reach'")
    add(
        '--devices',
        required=True,
        nargs='+',
        metavar='SPEC',
        help='as cpu*2, or h100*8,memory=77,speed=9',
    )
    add('--profile', type=Path, metavar='FILE', help='by physis profile; default: measured now')
    add('--slo-ms', type=float, help='longest interval between chunks of a stream')
    add('--max-age-ms', type=float, help='greatest age of an action at its effect')
    add('--sensor-ms', type=float, default=0.0,
        help='interval of observations (default: 0, always a fresh one)')  # fmt: skip
    add('--streams', type=int, help='how many run at once (default: 1; for a fleet: the most)')
    add('--max-batch', type=int, default=8, help='most rows of one batch (default: 8)')
    add('--objective', choices=OBJECTIVES, default='youngest',
        help='youngest action for one robot, or most streams for a fleet')  # fmt: skip
    add('--draw', type=Path, metavar='FILE.png', help='draw all plans')
    add('--json', action='store_true',
        help="print one JSON object instead; where nothing fits or meets the targets, it says so "
        "under 'refusal', and the table goes to stderr")  # fmt: skip
    parser.set_defaults(run=plan)


def plan(args: argparse.Namespace) -> int:
    """Check everything given, then predict, print, draw and pick."""
    from physis_ros.commands import local
    from physis_ros.commands.specs import device_pool
    from physis_ros.engine import plan as planning
    from physis_ros.engine.groupings import named

    targets, specs = _targets(args), _specs(args.devices)
    found = _profile(args, specs)
    pool = device_pool(specs, local.memory_bytes, found)
    model = found.cost('p99')
    sought = args.streams is None and args.objective == 'fleet'
    if sought:
        targets = replace(targets, streams=planning.most_streams(model, pool, targets))
    try:
        options = planning.plans(model, pool, targets)
    except PlanError as refusal:
        if args.json:
            print(json.dumps({**_choice((), ()), 'refusal': str(refusal)}))
        raise
    schemes = [
        planned
        for grouping, batch in named(model, len(pool))
        if (planned := planning.predict(model, pool, targets, grouping, batch)) is not None
    ]
    everything = [*options, *schemes]
    best = planning.pareto(everything)
    if args.draw is not None:
        from physis_ros.evaluation.plan_drawing import draw

        draw(args.draw, everything, best, schemes, f'{found.model} on {len(pool)} devices')
    title = f'{found.model}, profiled on {found.device}; all figures from the p99 of each stage\n'
    try:
        chosen = planning.choose(everything, targets, args.objective)
    except PlanError as refusal:
        # What there is says how far the targets are off; programs are told apart from people.
        if args.json:
            print(json.dumps({**_choice(best, schemes), 'refusal': str(refusal)}))
        print(f'{title}\n{planning.table(best)}\n', file=sys.stderr if args.json else None)
        raise
    usual = planning.usually(found.cost('chunk'), pool, targets, chosen)
    # Where the search for the most ended at its limit, there may be room for more.
    more = sought and targets.streams == planning.MOST_STREAMS
    if args.json:
        print(json.dumps({**_as_dict(best, schemes, chosen, usual), 'more_may_fit': more}))
        return 0
    print(f'{title}\n{planning.table(best, chosen)}\n\nnamed plans')
    print(planning.table(schemes, chosen) + '\n')
    print(_told(chosen, usual, [device.name for device in pool.devices], args.objective))
    if more:
        print(f'  no more than {planning.MOST_STREAMS} streams are tried; there may be room')
    return 0


def _targets(args: argparse.Namespace) -> Targets:
    """Return the targets; what is given must be above zero."""
    from physis_ros.engine.plan import Targets

    for name in ('slo_ms', 'max_age_ms'):
        value = getattr(args, name)
        if value is not None and not 0 < value <= LONGEST_MS:
            raise ParameterError(_option(name), f'> 0, at most {LONGEST_MS:g}', value)
    if not 0 <= args.sensor_ms <= LONGEST_MS:
        raise ParameterError('--sensor-ms', f'>= 0, at most {LONGEST_MS:g}', args.sensor_ms)
    if args.objective == 'fleet' and args.streams is None and args.slo_ms is None:
        raise ParameterError('--objective fleet', 'given --slo-ms or --streams', 'neither')
    if args.draw is not None:
        if args.draw.suffix != '.png':
            raise ParameterError('--draw', 'a .png file', str(args.draw))
        check_writable('--draw', args.draw)
    try:
        return Targets(
            streams=1 if args.streams is None else args.streams,
            slo_s=(args.slo_ms or 0.0) / 1e3,
            max_age_s=(args.max_age_ms or 0.0) / 1e3,
            sensor_s=args.sensor_ms / 1e3,
            max_batch=args.max_batch,
        )
    except ParameterError as error:
        raise ParameterError(_option(error.name), error.rule, error.value) from error


def _option(name: str) -> str:
    """Return what a user calls an argument."""
    return f'--{name.replace("_", "-")}'


def _specs(texts: Sequence[str]) -> list[DeviceSpec]:
    """Return the devices; those of this machine must be there."""
    from physis_ros.commands import local
    from physis_ros.commands.specs import parse_spec

    found = []
    for spec in map(parse_spec, texts):
        if spec.foreign:
            found.append(spec)
            continue
        try:
            found.append(replace(spec, name=local.known_device(spec.name)))
        except ParameterError as error:
            raise ParameterError(
                'device', f'{error.rule}, or given with memory=GB and speed=', spec.name
            ) from error
    return found


def _profile(args: argparse.Namespace, specs: Sequence[DeviceSpec]) -> Profile:
    """Return the profile given, checked, or one that is measured now, briefly."""
    from physis_ros.backbones.registry import read_spec
    from physis_ros.commands import local
    from physis_ros.commands.profile import BATCHES, measured
    from physis_ros.engine.measure import Effort
    from physis_ros.engine.profile import check, load

    spec = read_spec(args.model)
    own = [s.name for s in specs if s.speed is None]
    if args.profile is None:
        return measured(args.model, own[0] if own else 'cpu', Effort(BATCHES, SAMPLES), None, None)
    found = load(args.profile)
    try:
        check(found, spec, versions=local.versions() if own else None)
        for device in own:
            check(found, spec, local.device_name(device))
    except PlanError as error:
        raise PlanError(f'{args.profile}: {error}') from error
    return found


def _told(chosen: Plan, usual: Usual, names: Sequence[str], objective: str) -> str:
    """Return the choice in words."""
    lines = [
        f'picked for {objective}, streams: {len(chosen.placements)}: '
        f'{chosen.grouping.scheme} ({chosen.grouping.shape}) on '
        f'{len(chosen.devices)} of {len(names)} devices, batches of up to {chosen.max_batch}, '
        f'{chosen.in_flight} chunks in flight',
        f'  usually (median chunk) period {usual.period_s * 1e3:.2f} ms; response '
        f'{usual.response_s * 1e3:.2f} ms where one enters each {usual.pace_s * 1e3:.2f} ms',
    ]
    hosts = chosen.hosts[0]
    for device in chosen.devices:
        count = sum(host == device for host in hosts)
        lines.append(
            f'  {names[device]}: {count} stages of each stream, '
            f'{chosen.bytes[device] / 1e6:.2f} MB'
        )
    return '\n'.join(lines)


def _as_dict(
    best: Sequence[Plan], schemes: Sequence[Plan], chosen: Plan, usual: Usual
) -> dict[str, Any]:
    return {
        **_choice(best, schemes),
        'streams': len(chosen.placements),
        'picked': {**_figures(chosen), 'hosts': [list(hosts) for hosts in chosen.hosts]},
        'picked_usual': asdict(usual),
    }


def _choice(best: Sequence[Plan], schemes: Sequence[Plan]) -> dict[str, Any]:
    return {
        'pareto': [_figures(one) for one in best],
        'named': {one.grouping.scheme: _figures(one) for one in schemes},
    }


def _figures(one: Plan) -> dict[str, Any]:
    cost_s = one.on_time_cost_s
    return {
        'scheme': one.grouping.scheme, 'groups': one.grouping.shape, 'max_batch': one.max_batch,
        'in_flight': one.in_flight, 'devices': list(one.devices), 'period_s': one.period_s,
        'response_s': one.response_s, 'worst_age_s': one.worst_age_s, 'bytes': list(one.bytes),
        'device_s': one.device_s, 'on_time_cost_s': cost_s if cost_s < float('inf') else None,
    }  # fmt: skip
