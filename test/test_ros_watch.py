# SPDX-License-Identifier: Apache-2.0
"""What goes wrong without a word in ROS is counted, said, and on /diagnostics."""

from __future__ import annotations

import time
from typing import Any

import pytest

pytest.importorskip('rclpy')
pytest.importorskip('physis_ros.msg')

from diagnostic_msgs.msg import DiagnosticArray, DiagnosticStatus
from rclpy.node import Node
from rclpy.qos import QoSProfile, ReliabilityPolicy
from std_msgs.msg import String

from physis_ros.ros import qos
from physis_ros.ros.diagnostics import Diagnostics, Level, Report
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
