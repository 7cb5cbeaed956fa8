#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""
Shows 10,000 hostile messages of every topic to the real nodes.

Random series around whole messages (``hostile/``): of the servo node chunks, joint states and
/clock, with each type of command in turn; of the model node, with a worker behind it, pictures,
compressed pictures, depth, compressed depth, joint states, instructions and /clock; of the arm
node commands of each type. After every
series it holds what the nodes counted against what the rules ask for, and what went out against
what may go out. With ``--json`` it ends with one JSON object: the messages of each topic by the
reason they are counted under, and whether nothing was broken. Another ``--seed`` sends others.
"""

from __future__ import annotations

import argparse
import json
import sys
import traceback
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import rclpy
import rclpy.logging
from hostile import arm, model, servo
from hostile.messages import Strategy
from hostile.servo import Counts
from hypothesis import HealthCheck, Phase, given, seed, settings
from rclpy.signals import SignalHandlerOptions

# Their words on what they refuse would be many.
ROBOTS = (f'{kind}.{name}' for kind in servo.COMMAND_TYPES for name in ('servo_node', 'arm_node'))
LOGGERS = ('hostile.wam_node', *ROBOTS)
# Series between two looks at how many messages there have been.
ROUND = 100


def main() -> int:
    """Send to both nodes; return 0 when nothing was broken."""
    parser = argparse.ArgumentParser(description=__doc__.strip().splitlines()[0])
    add = parser.add_argument
    add('--messages', type=int, default=10_000, help='of each topic at least, default %(default)s')
    add('--seed', type=int, default=0, help='of the first series, default %(default)s')
    add('--json', action='store_true', help='end with one JSON object')
    args = parser.parse_args()
    if args.messages < 1:
        parser.error(f'--messages must be >= 1, got {args.messages}')
    result: dict[str, Any] = {'benchmark': 'fuzz', 'seed': args.seed}
    with context() as made:
        result['servo_node'] = to_servo(made, args.messages, args.seed)
        result['wam_node'] = to_model(made, args.messages, args.seed)
        result['arm_node'] = to_arm(made, args.messages, args.seed)
    nodes = [result[name] for name in ('servo_node', 'wam_node', 'arm_node')]
    holds = all(not node['broken'] and node['least'] >= args.messages for node in nodes)
    say(f'nothing broken: {"yes" if holds else "NO"}')
    if args.json:
        print(json.dumps({**result, 'holds': holds}))
    return 0 if holds else 1


@contextmanager
def context() -> Iterator[Any]:
    """Give an initialised context."""
    made = rclpy.Context()
    rclpy.init(context=made, signal_handler_options=SignalHandlerOptions.NO)
    for name in LOGGERS:
        rclpy.logging.set_logger_level(name, rclpy.logging.LoggingSeverity.FATAL)
    yield made
    rclpy.try_shutdown(context=made)


def to_servo(made: Any, messages: int, first: int) -> dict[str, Any]:
    """Send to servo nodes, one for each type of command."""
    nodes = [servo.HostileServo(made, kind) for kind in servo.COMMAND_TYPES]
    try:

        def play(number: int, series: list[Any]) -> Counts:
            return nodes[number % len(nodes)].play(series)

        return send('servo_node', servo.TOPICS, servo.events(), play, messages, first)
    finally:
        for node in nodes:
            node.close()


def to_model(made: Any, messages: int, first: int) -> dict[str, Any]:
    """Send to a model node; it must work before and after."""
    node = model.HostileModel(made)
    try:
        worked = node.works()

        def play(_: int, series: list[Any]) -> Counts:
            return node.play(series)

        sent = send('wam_node', model.TOPICS, model.events(), play, messages, first)
        if not worked or not node.works():
            sent['broken'].append('good messages bring no chunks')
        return sent
    finally:
        node.close()


def to_arm(made: Any, messages: int, first: int) -> dict[str, Any]:
    """Send to arm nodes, one for each type of command."""
    nodes = [arm.HostileArm(made, kind) for kind in servo.COMMAND_TYPES]
    try:

        def play(number: int, series: list[Any]) -> Counts:
            return nodes[number % len(nodes)].play(series)

        return send('arm_node', arm.TOPICS, arm.events(), play, messages, first)
    finally:
        for node in nodes:
            node.close()


def send(
    name: str,
    topics: tuple[str, ...],
    events: Strategy,
    play: Callable[[int, list[Any]], Counts],
    messages: int,
    first: int,
) -> dict[str, Any]:
    """Send round after round until there were enough messages of each topic, or one broke it."""
    counts, number = Counts(), first
    broken: list[str] = []
    while not broken and least(counts, topics) < messages:
        try:
            counts += one_round(number, events, play)
        except Exception:  # whatever a message made of the node is what is looked for
            broken.append(traceback.format_exc(limit=-4))
        number += 1
        say(f'{name}: {least(counts, topics)} of {messages} messages of each topic')
    by_topic: dict[str, dict[str, int]] = {topic: {} for topic in topics}
    for (topic, reason), count in sorted(counts.items()):
        by_topic[topic][reason] = count
    for topic, reasons in by_topic.items():
        say(f'{name} {topic}: {", ".join(f"{why} {count}" for why, count in reasons.items())}')
    for text in broken:
        say(f'{name} BROKEN: {text}')
    return {'topics': by_topic, 'least': least(counts, topics), 'broken': broken}


def one_round(number: int, events: Strategy, play: Callable[[int, list[Any]], Counts]) -> Counts:
    """Send a round of series; return what there was."""
    counts = Counts()

    @seed(number)
    @settings(
        max_examples=ROUND,
        database=None,
        deadline=None,
        phases=(Phase.generate,),
        suppress_health_check=list(HealthCheck),
    )
    @given(series=events)
    def played(series: list[Any]) -> None:
        counts.update(play(number, series))

    played()
    return counts


def least(counts: Counts, topics: tuple[str, ...]) -> int:
    """Return how many messages there were of the topic that had the fewest."""
    sent = dict.fromkeys(topics, 0)
    for (topic, _), count in counts.items():
        sent[topic] += count
    return min(sent.values())


def say(text: str) -> None:
    """Print for a person, out of the way of JSON."""
    print(text, file=sys.stderr, flush=True)


if __name__ == '__main__':
    sys.exit(main())
