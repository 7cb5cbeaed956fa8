# SPDX-License-Identifier: Apache-2.0
"""
Records topics into a rosbag2 folder: serialized bytes in, serialized bytes out, nothing decoded.

Parameters (all read-only):
    folder (string)      existing output folder; ``run/`` and ``run.mcap`` are made in it
    topics (string[])    topics to record; each is taken as soon as somebody publishes it

Subscriptions: the topics, with the reliability and durability that their publishers offer.
"""

from __future__ import annotations

import importlib
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from rcl_interfaces.msg import ParameterDescriptor
from rclpy.node import Node
from rclpy.qos import DurabilityPolicy, HistoryPolicy, QoSProfile, ReliabilityPolicy
from rclpy.subscription import Subscription

from physis_ros.evaluation.definitions import typestore
from physis_ros.evaluation.writer import BagWriter
from physis_ros.ros.draining import drained, subscribe
from physis_ros.ros.sequence import Sequence
from physis_ros.ros.signals import Stop

DRAIN_S = 0.02
ROUNDS_PER_LOOK = 10
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
    :param alone: it has one publisher, so that a gap in the sequence is a loss.
    """

    def __init__(self, subscription: Subscription, msgtype: str, alone: bool) -> None:
        self.subscription, self.msgtype = subscription, msgtype
        self.topic = subscription.topic_name
        self._sequence = Sequence()
        self._sequence.publishers(1 if alone else 2)

    @property
    def lost(self) -> int:
        """Messages that never came."""
        return self._sequence.lost

    def drain(self, put: Callable[[str, str, int, bytes], bool]) -> None:
        """Hand over everything that has come, with the time at which it came."""
        for data, info in drained(self.subscription):
            put(self.topic, self.msgtype, info['received_timestamp'], data)
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
        self._writer.close()
        self._say_missing()
        if self._missing:
            self.get_logger().warning(f'never published: {sorted(self._missing)}')

    def _parameter(self, name: str, default: Any) -> Any:
        """Declare one parameter and return its value."""
        text = {'folder': 'existing output folder', 'topics': 'topics to record'}[name]
        descriptor = ParameterDescriptor(description=text, read_only=True)
        return self.declare_parameter(name, default, descriptor).value

    def _drain(self) -> None:
        """Hand everything that has come to the writer."""
        for source in self._sources:
            source.drain(self._writer.put)

    def _discover(self) -> None:
        """Subscribe to what is wanted and published by now."""
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
        alone = len(offers) == 1 and topic not in SHARED
        self._sources.append(Source(subscription, msgtype, alone))

    def _say_missing(self) -> None:
        """Warn when messages did not come, or the disk did not keep up."""
        dropped = self._writer.dropped
        missing = {
            source.topic: source.lost + dropped.get(source.topic, 0)
            for source in self._sources
            if source.lost or source.topic in dropped
        }
        if missing != self._said:
            self.get_logger().warning(f'not recorded since the start: {missing}')
            self._said = missing


def _message_class(msgtype: str) -> Any:
    """Return the generated class of ``package/msg/Name``."""
    package, _, name = msgtype.split('/')
    return getattr(importlib.import_module(f'{package}.msg'), name)
