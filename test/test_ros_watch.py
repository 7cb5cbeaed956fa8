# SPDX-License-Identifier: Apache-2.0
"""What goes wrong without a word in ROS is counted, said, and on /diagnostics."""

from __future__ import annotations

import time
from typing import Any

import pytest

pytest.importorskip('rclpy')
pytest.importorskip('physis_ros.msg')

from diagnostic_msgs.msg import DiagnosticArray, DiagnosticStatus
from rclpy.duration import Duration
from rclpy.node import Node
from rclpy.qos import DurabilityPolicy, LivelinessPolicy, QoSProfile, ReliabilityPolicy
from std_msgs.msg import String

from physis_ros.errors import ParameterError
from physis_ros.ros import qos
from physis_ros.ros.diagnostics import Diagnostics, Level, Report
from physis_ros.ros.parameters import refuse_unknown
from physis_ros.ros.qos import QosWatch


class WatchedNode(Node):
    """A node with a subscription, a publisher and a diagnosed task."""

    def __init__(self, **options: Any) -> None:
        super().__init__('watched', **options)
        self.watch = QosWatch(self)
        self.heard: list[str] = []
        self.source = self.watch.subscribe(String, 'words', self._on_words, qos.COMMAND)
        self.diagnostics = Diagnostics(self, self.watch, period_s=0.1)
        self.diagnostics.add('task', lambda: Report(Level.WARN, 'late', {'age_ms': 12.3456}))

    def _on_words(self, message: String) -> None:
        self.heard.append(message.data)


def condition(node: WatchedNode) -> object:
    """Return what is the matter with the topics, in one word."""
    return node.diagnostics.qos().values['condition']


def test_Q1_Q3_a_publisher_that_offers_too_little_is_counted_and_named(bench: Any) -> None:
    node = bench.add(WatchedNode)
    found: list[DiagnosticArray] = bench.collect(DiagnosticArray, '/diagnostics')
    offered = QoSProfile(depth=1, reliability=ReliabilityPolicy.BEST_EFFORT)
    bench.probe.create_publisher(String, 'words', offered)
    assert bench.spin_until(node.watch.sentences, 10)
    item = node.watch.trouble['/words']
    assert (item.incompatible, item.policy) == (1, 'RELIABILITY')
    assert node.watch.sentences() == ['/words: 1 peers with incompatible QoS (RELIABILITY)']

    def told() -> dict[str, DiagnosticStatus]:
        return {status.name: status for status in found[-1].status} if found else {}

    assert bench.spin_until(
        lambda: told() and told()['/watched: qos'].level == DiagnosticStatus.ERROR, 10
    )
    report = told()['/watched: qos']
    assert '/words' in report.message
    assert (report.values[0].key, report.values[0].value) == ('condition', 'incompatible')
    task = told()['/watched: task']
    assert (task.level, task.message) == (DiagnosticStatus.WARN, 'late')
    assert [(value.key, value.value) for value in task.values] == [('age_ms', '12.35')]


def test_Q3_what_could_not_be_matched_is_no_error_any_more_when_it_has_gone(bench: Any) -> None:
    node = bench.add(WatchedNode)
    offered = QoSProfile(depth=1, reliability=ReliabilityPolicy.BEST_EFFORT)
    careless = [bench.probe.create_publisher(String, 'words', offered) for _ in range(2)]
    one, both = (f'/words: {count} peers with incompatible QoS (RELIABILITY)' for count in (1, 2))
    assert bench.spin_until(lambda: node.watch.sentences() == [both], 10)
    assert condition(node) == 'incompatible'
    # One that matches is no reason to forget them.
    words_out = bench.probe.create_publisher(String, 'words', 10)
    assert bench.spin_until(words_out.get_subscription_count, 10)
    bench.probe.destroy_publisher(careless.pop())
    assert bench.spin_until(lambda: node.watch.sentences() == [one], 10)
    assert condition(node) == 'incompatible'
    bench.probe.destroy_publisher(careless.pop())
    assert bench.spin_until(lambda: condition(node) == 'matched', 10)
    assert node.diagnostics.qos().level is Level.OK
    # What there was is still counted.
    assert node.watch.trouble['/words'].incompatible == 2
    # The other way round, and our own end goes.
    told_out = node.watch.advertise(String, 'told', qos.COMMAND)
    bench.probe.create_subscription(String, 'told', node.heard.append, qos.LATCHED)
    assert bench.spin_until(lambda: condition(node) == 'incompatible', 10)
    assert node.watch.sentences() == ['/told: 1 peers with incompatible QoS (DURABILITY)']
    node.destroy_publisher(told_out)
    assert bench.spin_until(lambda: condition(node) == 'matched', 10)


def test_T22_what_is_dropped_before_it_is_taken_is_counted(bench: Any) -> None:
    node = bench.add(WatchedNode)
    words_out = bench.probe.create_publisher(String, 'words', 10)

    def heard() -> bool:
        words_out.publish(String(data='a'))
        return bool(node.heard)

    assert bench.spin_until(heard, 10)
    bench.spin_until(lambda: False, 0.1)
    assert not node.watch.trouble
    assert condition(node) == 'matched'
    # One deep, and nobody takes them meanwhile: of five, four are never seen.
    before = len(node.heard)
    for number in range(5):
        words_out.publish(String(data=str(number)))
        time.sleep(0.02)
    assert bench.spin_until(lambda: len(node.heard) > before, 10)
    assert node.heard[before:] == ['4']
    assert node.watch.trouble['/words'].lost == 4
    assert node.watch.sentences() == ['/words: 4 messages lost']
    assert condition(node) == 'lost'
    # The numbers of two publishers cannot be told apart: they are let be, not mixed up.
    other = bench.probe.create_publisher(String, 'words', 10)
    assert bench.spin_until(lambda: node.source.get_publisher_count() == 2, 10)
    bench.spin_until(lambda: False, 0.1)
    other.publish(String(data='b'))
    assert bench.spin_until(lambda: node.heard[-1] == 'b', 10)
    words_out.publish(String(data='c'))
    assert bench.spin_until(lambda: node.heard[-1] == 'c', 10)
    assert node.watch.trouble['/words'].lost == 4


def test_Q2_Q4_overrides_from_outside_change_the_quality_of_service(bench: Any) -> None:
    node = bench.add(WatchedNode, {'qos_overrides./words.subscription.reliability': 'best_effort'})
    assert node.source.qos_profile.reliability is ReliabilityPolicy.BEST_EFFORT
    offered = QoSProfile(depth=1, reliability=ReliabilityPolicy.BEST_EFFORT)
    words_out = bench.probe.create_publisher(String, 'words', offered)

    def heard() -> bool:
        words_out.publish(String(data='a'))
        return bool(node.heard)

    assert bench.spin_until(heard, 10)
    assert not node.watch.trouble


def test_Q4_an_override_is_for_its_topic_alone(bench: Any) -> None:
    """Topics share their profiles here, and rclpy writes overrides into them."""
    node = bench.add(WatchedNode, {'qos_overrides./words.subscription.depth': 7})
    assert node.source.qos_profile.depth == 7
    other = node.watch.subscribe(String, 'others', node.heard.append, qos.COMMAND)
    assert (other.qos_profile.depth, qos.COMMAND.depth) == (1, 1)


@pytest.mark.parametrize(
    ('policy', 'value', 'rule'),
    [
        ('reliability', 'realible', "one of ['system_default', 'reliable', 'best_effort'"),
        ('depth', 'deep', 'a whole number of messages'),
        ('deadline', 0.1, 'a whole number of nanoseconds'),
    ],
)
def test_Q4_a_value_that_its_policy_does_not_have_is_refused_with_its_name(
    bench: Any, policy: str, value: object, rule: str
) -> None:
    name = f'qos_overrides./words.subscription.{policy}'
    with pytest.raises(ParameterError) as caught:
        bench.add(WatchedNode, {name: value})
    assert caught.value.name == f'/watched.{name}'
    assert caught.value.rule.startswith(rule)
    assert caught.value.value == value


def test_Q3_a_peer_that_wants_any_policy_can_be_matched_and_what_is_missed_is_told(
    bench: Any,
) -> None:
    """A controller that asks for a deadline, and a durability that rclpy offers no override of."""
    deadline = 'qos_overrides./told.publisher.deadline'
    durability = 'qos_overrides./told.publisher.durability'
    node = bench.add(WatchedNode, {deadline: 50_000_000, durability: 'transient_local'})
    told_out = node.watch.advertise(String, 'told', qos.COMMAND)
    asked = QoSProfile(
        depth=1, durability=DurabilityPolicy.TRANSIENT_LOCAL, deadline=Duration(nanoseconds=10**8)
    )
    bench.probe.create_subscription(String, 'told', node.heard.append, asked)

    def heard() -> bool:
        told_out.publish(String(data='a'))
        return bool(node.heard)

    assert bench.spin_until(heard, 10)
    assert not any(item.incompatible for item in node.watch.trouble.values())
    # Nothing more is published: our own promise is broken, and that is known.
    assert bench.spin_until(lambda: condition(node) == 'overdue', 10)
    missed = node.watch.trouble['/told'].overdue
    assert f'/told: {missed} deadlines of its QoS missed' in node.watch.sentences()


def test_Q3_a_publisher_that_gives_no_sign_of_life_in_time_is_told(bench: Any) -> None:
    prefix = 'qos_overrides./words.subscription.'
    lease = QoSProfile(
        depth=1,
        liveliness=LivelinessPolicy.MANUAL_BY_TOPIC,
        liveliness_lease_duration=Duration(nanoseconds=10**8),
    )
    node = bench.add(
        WatchedNode,
        {f'{prefix}liveliness': 'manual_by_topic', f'{prefix}liveliness_lease_duration': 10**8},
    )
    words_out = bench.probe.create_publisher(String, 'words', lease)

    def heard() -> bool:
        words_out.publish(String(data='a'))
        return bool(node.heard)

    assert bench.spin_until(heard, 10)
    assert bench.spin_until(lambda: node.watch.trouble.get('/words'), 10)
    silent = node.watch.trouble['/words'].silent
    assert node.watch.sentences() == [
        f'/words: {silent} times without a sign of life within its QoS'
    ]


def test_Q4_an_override_of_a_topic_that_there_is_not_is_refused_with_those_there_are(
    bench: Any,
) -> None:
    name = 'qos_overrides./wrods.subscription.depth'
    node = bench.add(WatchedNode, {name: 7})
    with pytest.raises(ParameterError) as caught:
        refuse_unknown(node)
    assert caught.value.value == [name]
    assert caught.value.hint == (
        "did you mean ['qos_overrides./words.subscription.depth']? declared: "
        "['qos_overrides./diagnostics.publisher.*', 'qos_overrides./words.subscription.*']"
    )
