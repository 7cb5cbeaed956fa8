# SPDX-License-Identifier: Apache-2.0
"""What the demo is asked to do, checked before anything is started."""

from __future__ import annotations

import argparse
import math
import time
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from physis_ros.errors import ParameterError

KV_MODELS = {'same_step': 'reach', 'clean': 'reach:clean'}
# How a chunk takes over, as parameters of servo and model node; compared in docs/merging.md.
MERGES: Mapping[str, tuple[Mapping[str, object], Mapping[str, object]]] = {
    **{name: ({'merge': name}, {}) for name in ('blend', 'replace', 'ensemble')},
    'rtc': ({'merge': 'replace'}, {'rtc_frozen_ms': 25.0, 'rtc_soft_ms': 50.0}),
}
LEAST_SECONDS = 2.0
MOST_STREAMS = 8
# [ms] For each stream, so that all together ask no more of the engine than one; but a chunk covers
# 400 ms, and the next must be there well before it ends.
PERIOD_MS, LONGEST_PERIOD_MS = 100.0, 300.0
# [Hz] Of one arm, and of several together: their players share the cores with the engine.
SERVO_HZ, SERVO_HZ_OF_ALL = 250.0, 150.0


@dataclass(frozen=True)
class DemoOptions:
    """
    One run.

    :param episodes: how many [1].
    :param seconds: length of each, the first of which is not scored [s].
    :param seed: episode k uses seed + k.
    :param out: folder for everything that is written.
    :param workers: of the engine [1].
    :param servo_hz: commands per second [Hz].
    :param delay_ms: added to the camera's path [ms].
    :param model: what runs; see ``physis_ros.backbones.registry``.
    :param grouping: how its stages are placed on workers.
    :param conditioning: ``entry`` or ``step``: whether chunks under way see what is newer.
    :param merge: how a chunk takes over from the one before: a key of ``MERGES``.
    :param trace: file for a trace that Perfetto opens.
    :param speed: simulated per real time [1].
    :param streams: arms, each with a stream of its own, on one engine [1].
    :param period_ms: between the chunks of a stream [ms].
    :param json: print one JSON object instead of a table.
    :param report: write ``report.html`` and ``predicted.gif``.
    """

    out: Path
    trace: Path
    episodes: int = 5
    seconds: float = 10.0
    seed: int = 0
    workers: int = 2
    servo_hz: float = SERVO_HZ
    delay_ms: float = 0.0
    model: str = 'reach'
    grouping: str = 'stage'
    conditioning: str = 'entry'
    merge: str = 'blend'
    speed: float = 1.0
    streams: int = 1
    period_ms: float = PERIOD_MS
    json: bool = False
    report: bool = True

    def __post_init__(self) -> None:
        """
        Refuse what cannot be run.

        :raises ParameterError: naming the option.
        """
        whole = (
            ('episodes', 1, 10_000),
            ('seed', 0, 2**31 - 1),
            ('workers', 1, 256),
            ('streams', 1, MOST_STREAMS),
        )
        for name, low, high in whole:
            if not low <= getattr(self, name) <= high:
                raise ParameterError(f'--{name}', f'from {low} to {high}', getattr(self, name))
        spans = (
            ('seconds', LEAST_SECONDS, 86_400.0),
            ('servo_hz', 10.0, 1000.0),
            ('delay_ms', 0.0, 5000.0),
            ('speed', 0.05, 20.0),
            ('period_ms', 1.0, 60_000.0),
        )
        for name, least, most in spans:
            value = getattr(self, name)
            if not (math.isfinite(value) and least <= value <= most):
                option = '--' + name.replace('_', '-')
                raise ParameterError(option, f'from {least:g} to {most:g}', value)

        if self.streams > 1 and self.speed != 1.0:
            rule = '1 with several arms, as each makes a time of its own'
            raise ParameterError('--speed', rule, self.speed)

    def configuration(self) -> dict[str, Any]:
        """Return what is recorded with the run, for whoever evaluates it."""
        given = {**asdict(self), 'out': str(self.out), 'trace': str(self.trace)}
        for name in ('json', 'report'):
            del given[name]
        return given


def parse(arguments: Sequence[str] | None = None) -> DemoOptions:
    """
    Read the command line.

    :raises ParameterError: naming the option that breaks a rule.
    """
    parser = argparse.ArgumentParser(
        prog='./run demo',
        description='A simulated arm follows a target under the embedded world-action model: '
        'real ROS 2 nodes, real worker processes. Shows how it goes and writes recording, '
        'figures and report.',
    )
    default = DemoOptions(Path(), Path())
    add = parser.add_argument
    add('--episodes', type=int, default=default.episodes, metavar='N', help='default %(default)s')
    add('--seconds', type=float, default=default.seconds, metavar='S',
        help='length of an episode [s], default %(default)s')  # fmt: skip
    add('--seed', type=int, default=default.seed, metavar='K',
        help='of target, pose and noise, default %(default)s')  # fmt: skip
    add('--out', type=Path, metavar='DIR', help='output folder, default out/demo-<time>')
    add('--workers', type=int, default=default.workers, metavar='W',
        help='worker processes of the engine, default %(default)s')  # fmt: skip
    add('--servo-hz', type=float, metavar='F',
        help=f'commands per second of each arm, default {SERVO_HZ:g}, of N > 1 arms '
        f'{SERVO_HZ_OF_ALL:g} / N')  # fmt: skip
    add('--delay-ms', type=float, default=default.delay_ms, metavar='X',
        help='camera images come so much later [ms], default %(default)s')  # fmt: skip
    add('--kv-rule', choices=list(KV_MODELS), default='same_step',
        help='weights: same-step (pipelined) or the clean-KV twin (serial), '
        'default %(default)s')  # fmt: skip
    add('--merge', choices=list(MERGES), default=default.merge,
        help='how a chunk takes over from the one before; rtc: real-time chunking; '
        'default %(default)s')  # fmt: skip
    add('--conditioning', choices=['entry', 'step'], default=default.conditioning,
        help='chunks keep the observation they entered with, or take the newest at every denoise '
        'step; default %(default)s')  # fmt: skip
    add('--model', metavar='URI',
        help='another model: reach:FILE.safetensors; default: weights of --kv-rule')  # fmt: skip
    add('--trace', type=Path, metavar='FILE',
        help='where to write the trace that Perfetto opens, default DIR/trace.json')  # fmt: skip
    add('--speed', type=float, default=default.speed, metavar='F',
        help='simulated seconds per real second, default %(default)s')  # fmt: skip
    add('--streams', type=int, default=default.streams, metavar='N',
        help='arms on one engine, each with a stream of its own, default %(default)s')  # fmt: skip
    add('--period-ms', type=float, metavar='P',
        help='between chunks of a stream [ms], default 100 times N, at most 300')  # fmt: skip
    add('--no-report', action='store_true', help='leave report.html and predicted.gif out')
    add('--json', action='store_true', help='print one JSON object, nothing else, to stdout')
    return options(parser.parse_args(arguments))


def options(args: argparse.Namespace) -> DemoOptions:
    """Return what was asked for."""
    out = args.out or Path('out') / time.strftime('demo-%Y%m%d-%H%M%S')
    clean = args.kv_rule == 'clean'
    servo_hz = SERVO_HZ if args.streams < 2 else SERVO_HZ_OF_ALL / args.streams
    period_ms = min(PERIOD_MS * max(args.streams, 1), LONGEST_PERIOD_MS)
    return DemoOptions(
        out=out.absolute(),
        trace=(args.trace or out / 'trace.json').absolute(),
        episodes=args.episodes,
        seconds=args.seconds,
        seed=args.seed,
        workers=args.workers,
        servo_hz=servo_hz if args.servo_hz is None else args.servo_hz,
        delay_ms=args.delay_ms,
        model=args.model or KV_MODELS[args.kv_rule],
        # Clean weights keep all passes of a block on one worker.
        grouping='block' if clean else 'stage',
        conditioning=args.conditioning,
        merge=args.merge,
        speed=args.speed,
        streams=args.streams,
        period_ms=period_ms if args.period_ms is None else args.period_ms,
        json=args.json,
        report=not args.no_report,
    )
