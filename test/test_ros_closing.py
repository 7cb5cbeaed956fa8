# SPDX-License-Identifier: Apache-2.0
"""What is destroyed is not called back any more, whatever waited for it, and ends no node."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any

import pytest

pytest.importorskip('rclpy')
pytest.importorskip('physis_ros.msg')

from rclpy.node import Node
from sensor_msgs.msg import JointState
from std_msgs.msg import String
from std_srvs.srv import Trigger

from physis_ros.ros import qos
from physis_ros.ros.clock import RosClock, steady
from physis_ros.ros.qos import QosWatch
from physis_ros.ros.source import SOON_S, Source

PENDING_S = 0.005
# What comes is handed out in so many steps and fewer: things are closed before each of them.
STEPS = 8


class Closer(Node):
    """A node that makes and destroys what the test says."""

    def __init__(self, **options: Any) -> None:
        super().__init__('closer', **options)
        self.watch = QosWatch(self)


def waited(condition: Callable[[], Any], timeout_s: float = 10.0) -> bool:
    """Wait without serving any callback."""
    deadline_s = time.monotonic() + timeout_s
    while not condition() and time.monotonic() < deadline_s:
        time.sleep(0.0005)
    return bool(condition())


def serve(bench: Any, most: int = 16) -> None:
    """Serve what waits in the queue, and nothing that comes later."""
    for _ in range(most):
        bench.executor.spin_once(timeout_sec=0)


def test_a_message_and_an_event_that_wait_for_a_closed_subscription(bench: Any) -> None:
    node = bench.add(Closer)
    bench.probe.create_publisher(String, 'words', qos.LATCHED).publish(String(data='a'))
    heard: list[Any] = []
    serve(bench)
    for number in range(240):
        words_in = node.watch.subscribe(String, 'words', heard.append, qos.LATCHED, heard.append)
        assert waited(words_in.get_publisher_count)
        # Now the executor learns of the subscription, and of its match and message with it.
        serve(bench, number % STEPS)
        node.destroy_subscription(words_in)
        before = len(heard)
        serve(bench)
        assert heard[before:] == []
    # The next one is as good as the first.
    node.watch.subscribe(String, 'words', heard.append, qos.LATCHED)
    assert bench.spin_until(lambda: heard and heard[-1] == String(data='a'), 10)


def test_an_event_that_waits_for_a_closed_publisher(bench: Any) -> None:
    node = bench.add(Closer)
    bench.probe.create_subscription(String, 'words', heard_nothing, qos.LATCHED)
    serve(bench)

    def told() -> int:
        return sum(item.incompatible for item in node.watch.trouble.values())

    for number in range(6 * STEPS):
        # Offers too little: a subscriber that asks for more is told of.
        words_out = node.watch.advertise(String, 'words', qos.COMMAND)
        time.sleep(PENDING_S)
        serve(bench, number % STEPS)
        node.destroy_publisher(words_out)
        before = told()
        serve(bench)
        assert told() == before
    assert told() > 0


def test_a_subscription_that_is_closed_in_its_own_callback(bench: Any) -> None:
    node, heard = bench.add(Closer), []
    words_out = bench.probe.create_publisher(String, 'words', 10)

    def once(message: String) -> None:
        heard.append(message.data)
        node.destroy_subscription(words_in)

    for _ in range(20):
        words_in = node.watch.subscribe(String, 'words', once, qos.CHUNK)
        assert bench.spin_until(words_in.get_publisher_count, 10)
        serve(bench)
        heard.clear()
        for word in ('a', 'b', 'c'):
            words_out.publish(String(data=word))
        assert bench.spin_until(lambda: heard, 10)
        serve(bench)
        assert heard == ['a']


def test_a_timer_that_was_due_when_it_was_closed(bench: Any) -> None:
    """Of two that are due, the one that comes first closes both."""
    node, calls = bench.add(Closer), []

    def close() -> None:
        calls.append(len(calls))
        for timer in timers:
            node.destroy_timer(timer)

    for _ in range(50):
        calls.clear()
        timers = [node.create_timer(0.001, close, clock=steady()) for _ in range(2)]
        bench.executor.spin_once(timeout_sec=0)
        time.sleep(0.002)
        assert bench.spin_until(lambda: calls, 10)
        time.sleep(0.002)
        serve(bench)
        assert calls == [0]


def test_a_request_that_waits_for_a_closed_service(bench: Any) -> None:
    node, asked = bench.add(Closer), []

    def answered(request: Any, response: Any) -> Any:
        asked.append(request)
        return response

    client = bench.probe.create_client(Trigger, 'ask')
    for _ in range(20):
        service = node.create_service(Trigger, 'ask', answered)
        assert bench.spin_until(client.service_is_ready, 10)
        serve(bench)
        answer = client.call_async(Trigger.Request())
        time.sleep(PENDING_S)
        node.destroy_service(service)
        serve(bench)
        client.remove_pending_request(answer)
        assert bench.spin_until(lambda: not client.service_is_ready(), 10)
    assert asked == []


def test_an_answer_that_waits_for_a_closed_client(bench: Any) -> None:
    node, asked = bench.add(Closer), []

    def answered(request: Any, response: Any) -> Any:
        asked.append(request)
        return response

    bench.probe.create_service(Trigger, 'ask', answered)
    for _ in range(20):
        client = node.create_client(Trigger, 'ask')
        assert bench.spin_until(client.service_is_ready, 10)
        serve(bench)
        asked.clear()
        answer = client.call_async(Trigger.Request())
        assert bench.spin_until(lambda: asked, 10)
        time.sleep(PENDING_S)
        node.destroy_client(client)
        serve(bench)
        assert not answer.done()


def test_a_node_that_is_destroyed_with_everything_pending(bench: Any) -> None:
    words_out = bench.probe.create_publisher(String, 'words', qos.LATCHED)
    words_out.publish(String(data='a'))
    serve(bench)
    for number in range(2 * STEPS):
        node, heard = Closer(context=bench.context), []
        bench.executor.add_node(node)
        words_in = node.watch.subscribe(String, 'words', heard.append, qos.LATCHED, heard.append)
        assert waited(words_in.get_publisher_count)
        serve(bench, number % STEPS)
        bench.executor.remove_node(node)
        node.destroy_node()
        before = len(heard)
        serve(bench, 64)
        assert heard[before:] == []


def test_a_source_that_is_closed_when_it_was_to_be_renewed(bench: Any) -> None:
    """How it reads is decided again when a publisher has gone, but not once it is closed."""
    node = bench.add(Closer)
    found = bench.probe.get_subscriptions_info_by_topic

    def close() -> None:
        source.close()
        node.destroy_timer(closing)

    for _ in range(STEPS):
        source = Source(
            node, node.watch, RosClock(node), JointState, 'joints', heard_nothing, 'no_joints',
            qos.images_in(1),
        )  # fmt: skip
        joints_out = bench.probe.create_publisher(JointState, 'joints', qos.SENSOR_OUT)
        assert bench.spin_until(joints_out.get_subscription_count, 10)
        serve(bench)
        bench.probe.destroy_publisher(joints_out)
        assert bench.spin_until(lambda: list(node.timers), 10)
        # Both are due at once, and either may come first.
        closing = node.create_timer(SOON_S, close, clock=steady())
        serve(bench)
        time.sleep(1.2 * SOON_S)
        assert bench.spin_until(lambda: not list(node.timers), 10)
        serve(bench)
        assert bench.spin_until(lambda: not found('/joints'), 5)


def heard_nothing(*_: Any) -> None:
    """Stand where a callback is wanted."""
