# SPDX-License-Identifier: Apache-2.0
"""Pictures over real DDS: the quality of service, what waits, and when they were received."""

from __future__ import annotations

import time
from typing import Any

import pytest

pytest.importorskip('rclpy')
pytest.importorskip('physis_ros.msg')

from conftest import made_bench
from diagnostic_msgs.msg import DiagnosticArray, DiagnosticStatus
from rclpy.node import Node
from rclpy.qos import QoSProfile, ReliabilityPolicy
from ros_cases import picture
from sensor_msgs.msg import CompressedImage, Image

from physis_ros.ros import conversions, qos, source
from physis_ros.ros.clock import RosClock
from physis_ros.ros.diagnostics import Diagnostics
from physis_ros.ros.qos import QosWatch
from physis_ros.ros.source import Source

RELIABLE, BEST_EFFORT = ReliabilityPolicy.RELIABLE, ReliabilityPolicy.BEST_EFFORT
TOPIC = '/camera/image_raw'
RELIABILITY = f'qos_overrides.{TOPIC}.subscription.reliability'
MS = 1_000_000


class Reader(Node):
    """A node that reads a camera as the model node does."""

    def __init__(self, **options: Any) -> None:
        super().__init__('reader', **options)
        self.watch = QosWatch(self)
        self.seen: list[tuple[int, int]] = []
        self.busy_s = 0.0
        self.diagnostics = Diagnostics(self, self.watch, period_s=0.1)
        self.source = Source(
            self, self.watch, RosClock(self), Image, TOPIC, self._take, 'no_frame',
            qos.images_in(1),
        )  # fmt: skip

    def _take(self, source: Source, message: Any, stamp_ns: int, receive_ns: int) -> None:
        self.seen.append((stamp_ns, receive_ns))
        time.sleep(self.busy_s)


class Camera:
    """A publisher of pictures with a quality of service of its own."""

    def __init__(self, bench: Any, reliability: ReliabilityPolicy) -> None:
        self._bench = bench
        self._out = bench.probe.create_publisher(
            Image, TOPIC, QoSProfile(depth=10, reliability=reliability)
        )

    def send(self) -> int:
        """Publish a picture; return its stamp."""
        stamp_ns = time.time_ns()
        self._out.publish(conversions.image_message(picture(16), stamp_ns, 'camera'))
        return stamp_ns

    def seen_by(self, node: Reader) -> bool:
        """Publish until the reader sees something new."""
        before = len(node.seen)

        def arrived() -> bool:
            self.send()
            return len(node.seen) > before

        return bool(self._bench.spin_until(arrived, 10))

    def close(self) -> None:
        """Take the publisher away."""
        self._bench.probe.destroy_publisher(self._out)


def reads(bench: Any) -> list[ReliabilityPolicy]:
    """Return how the camera's topic is subscribed to."""
    found = bench.probe.get_subscriptions_info_by_topic(TOPIC)
    return [info.qos_profile.reliability for info in found]


def test_Q1_pictures_are_read_as_reliably_as_they_are_offered(bench: Any) -> None:
    """Whoever comes first, and whatever takes its place."""
    node = bench.add(Reader)
    careless = Camera(bench, BEST_EFFORT)
    assert careless.seen_by(node)
    assert reads(bench) == [BEST_EFFORT]
    # No message was withheld for long, and nothing is wrong any more.
    assert node.watch.sentences() == []
    careless.close()
    careful = Camera(bench, RELIABLE)
    assert bench.spin_until(lambda: reads(bench) == [RELIABLE], 10)
    assert careful.seen_by(node)
    # One of each: nobody is left out.
    other = Camera(bench, BEST_EFFORT)
    assert bench.spin_until(lambda: reads(bench) == [BEST_EFFORT], 10)
    assert other.seen_by(node)
    assert careful.seen_by(node)
    assert node.watch.sentences() == []


def test_Q1_what_is_asked_for_by_hand_is_kept_and_a_mismatch_is_an_error(bench: Any) -> None:
    node = bench.add(Reader, {RELIABILITY: 'reliable'})
    found: list[DiagnosticArray] = bench.collect(DiagnosticArray, '/diagnostics')
    camera = Camera(bench, BEST_EFFORT)

    def told() -> DiagnosticStatus | None:
        statuses = found[-1].status if found else ()
        return next((s for s in statuses if s.level == DiagnosticStatus.ERROR), None)

    assert bench.spin_until(told, 10)
    camera.send()
    bench.spin_until(lambda: False, 0.1)
    status = told()
    assert status is not None
    assert (status.name, status.message) == (
        '/reader: qos', f'{TOPIC}: 1 peers with incompatible QoS (RELIABILITY)',
    )  # fmt: skip
    assert (reads(bench), node.seen) == ([RELIABLE], [])


def test_T22_of_a_backlog_only_the_newest_picture_is_read(bench: Any) -> None:
    node, camera = bench.add(Reader), Camera(bench, RELIABLE)
    assert camera.seen_by(node)
    bench.spin_until(lambda: False, 0.1)
    before, lost = len(node.seen), node.source.lost
    for _ in range(6):
        last_ns = camera.send()
        time.sleep(0.01)
    assert bench.spin_until(lambda: len(node.seen) > before, 10)
    bench.spin_until(lambda: False, 0.1)
    assert [stamp_ns for stamp_ns, _ in node.seen[before:]] == [last_ns]
    assert node.source.lost - lost == 5
    assert f'{TOPIC}: {node.source.lost} messages lost' in node.watch.sentences()


def test_Q9_the_wait_for_a_callback_is_not_the_way_of_a_picture(bench: Any) -> None:
    """The age on receipt is that of the receipt, however busy the node was then."""
    node, camera = bench.add(Reader), Camera(bench, RELIABLE)
    assert camera.seen_by(node)
    bench.spin_until(lambda: False, 0.1)
    before = len(node.seen)
    stamp_ns = camera.send()
    time.sleep(0.4)
    assert bench.spin_until(lambda: len(node.seen) > before, 10)
    (seen,) = node.seen[before:]
    assert seen[0] == stamp_ns
    # Received before the node looked: that was 400 ms later.
    assert 0 <= seen[1] - stamp_ns < 400 * MS


def test_Q3_pictures_of_another_type_are_told_apart_from_silence(
    bench: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(source, 'SILENCE_NS', 100 * MS)
    node = bench.add(Reader)
    wanted = 'it is published as sensor_msgs/msg/CompressedImage, not as sensor_msgs/msg/Image; '

    def told() -> bool:
        return any(wanted in complaint.text for complaint in node.source.complaints())

    # A participant has one type on a topic: this is another's.
    with made_bench() as stranger:
        stranger.probe.create_publisher(CompressedImage, TOPIC, 10)
        assert bench.spin_until(told, 10), node.source.complaints()


@pytest.mark.parametrize(
    ('given', 'end'),
    [
        ({}, 'they match: the publisher itself is silent'),
        ({RELIABILITY: 'reliable'}, f'they do not match: set qos_overrides.{TOPIC}'),
    ],
)
def test_Q1_silence_of_a_publisher_is_told_apart_from_a_mismatch(
    bench: Any, monkeypatch: pytest.MonkeyPatch, given: dict[str, str], end: str
) -> None:
    monkeypatch.setattr(source, 'SILENCE_NS', 100 * MS)
    node = bench.add(Reader, given)
    Camera(bench, BEST_EFFORT)

    def told() -> bool:
        return any(complaint.text.endswith(end) for complaint in node.source.complaints())

    assert bench.spin_until(told, 10), node.source.complaints()
