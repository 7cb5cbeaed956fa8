# SPDX-License-Identifier: Apache-2.0
"""
Records topics into a rosbag2 folder: serialized bytes in, serialized bytes out, nothing decoded.

Parameters (all read-only):
    folder (string)      existing output folder; ``run/`` and ``run.mcap`` are made in it
    topics (string[])    topics to record; each is taken as soon as somebody publishes it

Subscriptions: the topics, with the reliability and durability that their publishers offer.

What it has missed since its start it puts into the recording too, by topic: ``/recorder/missing``
(std_msgs/String, JSON), whenever that changes.
"""

from __future__ import annotations

import importlib
import json
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from rcl_interfaces.msg import ParameterDescriptor
from rclpy.node import Node
from rclpy.qos import DurabilityPolicy, HistoryPolicy, QoSProfile, ReliabilityPolicy
from rclpy.serialization import serialize_message
from rclpy.subscription import Subscription
from std_msgs.msg import String

from physis_ros.clock import system_minus_steady_ns
from physis_ros.evaluation.definitions import typestore
from physis_ros.evaluation.topics import MISSING
from physis_ros.evaluation.writer import BagWriter
from physis_ros.ros.draining import drained, subscribe
from physis_ros.ros.log_time import LogTime
from physis_ros.ros.sequence import Sequence
from physis_ros.ros.signals import Stop

DRAIN_S = 0.02
ROUNDS_PER_LOOK = 10
CLOCK_READINGS = 3
# Room for seconds without the processor at 500 messages a second; pictures are a hundred times
# larger and come ten times less often.
QUEUE_DEPTH, PICTURE_DEPTH = 2000, 100
# Every node publishes there, the next one soon: gaps in the numbers say nothing.
SHARED = ('/diagnostics', '/statistics', '/rosout', '/parameter_events')
PICTURES = ('sensor_msgs/msg/Image', 'sensor_msgs/msg/CompressedImage')


class Source:
    """
    One recorded topic, and what of it never came.

    :param subscription: delivers bytes.
    :param msgtype: as ``package/msg/Name``.
    """

    def __init__(self, subscription: Subscription, msgtype: str) -> None:
        self.subscription, self.msgtype = subscription, msgtype
        self.topic: str = subscription.topic_name
        self._sequence, self._last_ns = Sequence(), 0
        self.look()

    @property
    def lost(self) -> int:
        """Messages that never came."""
        return self._sequence.lost

    def look(self) -> None:
        """Count publishers: a gap in the sequence is a loss where there is one."""
        count = self.subscription.get_publisher_count()
        self._sequence.publishers(2 if self.topic in SHARED else count)

    def drain(self, put: Callable[[str, str, int, bytes], bool], times: LogTime) -> None:
        """
        Hand over everything that has come, with the time at which it came.

        Messages come in their order. One that was lost on its way and sent again was received
        after those that had to wait for it; what is sorted by these times would change the order.
        """
        for data, info in drained(self.subscription):
            self._last_ns = max(self._last_ns, times.of(info['received_timestamp']))
            put(self.topic, self.msgtype, self._last_ns, data)
            self._sequence.came(info)


class Recorder(Node):
    """
    The node. Single-threaded, without an executor.

    It drains its subscriptions fifty times a second (``draining.py``).
    """

    def __init__(self) -> None:
        super().__init__('recorder')
        self._missing = set(self._parameter('topics', ['']) or []) - {''}
        folder = Path(self._parameter('folder', '.'))
        self._writer = BagWriter(folder, typestore())
        self._said: dict[str, int] = {}
        self._kept: dict[str, int] = {}
        self._times = LogTime(time.time_ns(), system_minus_steady_ns())
        self._sources: list[Source] = []
        self.get_logger().info(f'recording into {folder}')

    def record(self, stop: Stop) -> None:
        """Record until told to stop, then complete the file."""
        rounds = 0
        while not stop.requested:
            time.sleep(DRAIN_S)
            if rounds % ROUNDS_PER_LOOK == 0:
                self._discover()
                self._say_missing()
            self._drain()
            rounds += 1
        self._drain()
        self._say_missing()
        self._writer.close()
        if self._missing:
            self.get_logger().warning(f'never published: {sorted(self._missing)}')

    def _parameter(self, name: str, default: Any) -> Any:
        """Declare one parameter and return its value."""
        text = {'folder': 'existing output folder', 'topics': 'topics to record'}[name]
        descriptor = ParameterDescriptor(description=text, read_only=True)
        return self.declare_parameter(name, default, descriptor).value

    def _drain(self) -> None:
        """Hand everything that has come to the writer."""
        self._times.look(time.time_ns(), system_minus_steady_ns(CLOCK_READINGS))
        for source in self._sources:
            source.drain(self._writer.put, self._times)

    def _discover(self) -> None:
        """Subscribe to what is wanted and published by now; see who comes and goes."""
        for source in self._sources:
            source.look()
        for topic in sorted(self._missing):
            offers = self.get_publishers_info_by_topic(topic)
            if offers:
                self._subscribe(topic, offers)
                self._missing.discard(topic)

    def _subscribe(self, topic: str, offers: list[Any]) -> None:
        """Take the topic as bytes, asking for no more than what its publishers offer."""
        msgtype = offers[0].topic_type
        reliable = all(o.qos_profile.reliability == ReliabilityPolicy.RELIABLE for o in offers)
        latched = all(o.qos_profile.durability == DurabilityPolicy.TRANSIENT_LOCAL for o in offers)
        qos = QoSProfile(
            history=HistoryPolicy.KEEP_LAST,
            depth=PICTURE_DEPTH if msgtype in PICTURES else QUEUE_DEPTH,
            reliability=ReliabilityPolicy.RELIABLE if reliable else ReliabilityPolicy.BEST_EFFORT,
            durability=DurabilityPolicy.TRANSIENT_LOCAL if latched else DurabilityPolicy.VOLATILE,
        )
        subscription = subscribe(self, _message_class(msgtype), topic, qos, raw=True)
        self._sources.append(Source(subscription, msgtype))

    def _say_missing(self) -> None:
        """Warn, and put down, when messages did not come, or the disk did not keep up."""
        dropped = self._writer.dropped
        missing = {
            source.topic: source.lost + dropped.get(source.topic, 0)
            for source in self._sources
            if source.lost or source.topic in dropped
        }
        if missing != self._said:
            self.get_logger().warning(f'not recorded since the start: {missing}')
            self._said = missing
        if missing != self._kept:
            data = serialize_message(String(data=json.dumps(missing)))
            if self._writer.put(MISSING, 'std_msgs/msg/String', self._times.now_ns, data):
                self._kept = missing


def _message_class(msgtype: str) -> Any:
    """Return the generated class of ``package/msg/Name``."""
    package, _, name = msgtype.split('/')
    return getattr(importlib.import_module(f'{package}.msg'), name)
