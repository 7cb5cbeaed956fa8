#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""
Records topics into a rosbag2 folder: serialized bytes in, serialized bytes out, nothing decoded.

Parameters (all read-only):
    folder (string)      existing output folder; ``run/`` and ``run.mcap`` are made in it
    topics (string[])    topics to record; each is taken as soon as somebody publishes it
    status_s (double)    how often drops are looked for [s]

Subscriptions: the topics, with the reliability and durability that their publishers offer.
SIGINT and SIGTERM finish the file and end the process with exit code 0.
"""

from __future__ import annotations

import importlib
import signal
import sys
from pathlib import Path
from types import FrameType
from typing import Any

import rclpy
from rcl_interfaces.msg import ParameterDescriptor
from rclpy.experimental.events_executor import EventsExecutor
from rclpy.node import Node
from rclpy.qos import DurabilityPolicy, HistoryPolicy, QoSProfile, ReliabilityPolicy
from rclpy.signals import SignalHandlerOptions
from rclpy.task import Future
from setproctitle import setproctitle

from physis_ros.errors import PhysisError
from physis_ros.evaluation.definitions import typestore
from physis_ros.evaluation.writer import BagWriter

DISCOVERY_S = 0.2
QUEUE_DEPTH = 200


class Recorder(Node):
    """The node; all callbacks run on the one thread that spins it."""

    def __init__(self) -> None:
        super().__init__('recorder')
        self._missing = set(self._parameter('topics', ['']) or []) - {''}
        folder = Path(self._parameter('folder', '.'))
        self._writer = BagWriter(folder, typestore())
        self._said_dropped = 0
        self._subscriptions_kept: list[Any] = []
        self._discovery = self.create_timer(DISCOVERY_S, self._discover)
        self.create_timer(self._parameter('status_s', 1.0), self._say_dropped)
        self._discover()
        self.get_logger().info(f'recording into {folder}')

    def finish(self) -> None:
        """Complete the file; says what was dropped and what never came."""
        self._writer.close()
        self._say_dropped()
        if self._missing:
            self.get_logger().warning(f'never published: {sorted(self._missing)}')

    def _parameter(self, name: str, default: Any) -> Any:
        """Declare one parameter and return its value."""
        text = {
            'folder': 'existing output folder',
            'topics': 'topics to record',
            'status_s': 'how often drops are looked for [s]',
        }[name]
        descriptor = ParameterDescriptor(description=text, read_only=True)
        return self.declare_parameter(name, default, descriptor).value

    def _discover(self) -> None:
        """Subscribe to what is wanted and published by now."""
        for topic in sorted(self._missing):
            offers = self.get_publishers_info_by_topic(topic)
            if offers:
                self._subscribe(topic, offers)
                self._missing.discard(topic)
        if not self._missing:
            self._discovery.cancel()

    def _subscribe(self, topic: str, offers: list[Any]) -> None:
        """Take the topic as bytes, asking for no more than what its publishers offer."""
        reliable = all(o.qos_profile.reliability == ReliabilityPolicy.RELIABLE for o in offers)
        latched = all(
            o.qos_profile.durability == DurabilityPolicy.TRANSIENT_LOCAL for o in offers
        )
        qos = QoSProfile(
            history=HistoryPolicy.KEEP_LAST,
            depth=QUEUE_DEPTH,
            reliability=ReliabilityPolicy.RELIABLE if reliable else ReliabilityPolicy.BEST_EFFORT,
            durability=DurabilityPolicy.TRANSIENT_LOCAL if latched else DurabilityPolicy.VOLATILE,
        )
        msgtype = offers[0].topic_type
        put = self._writer.put

        def keep(data: bytes, info: Any) -> None:
            put(topic, msgtype, info['received_timestamp'], data)

        self._subscriptions_kept.append(
            self.create_subscription(_message_class(msgtype), topic, keep, qos, raw=True)
        )

    def _say_dropped(self) -> None:
        """Warn when the disk did not keep up."""
        dropped = self._writer.dropped
        total = sum(dropped.values())
        if total > self._said_dropped:
            self.get_logger().warning(f'dropped since the start: {dropped}')
            self._said_dropped = total


def _message_class(msgtype: str) -> Any:
    """Return the generated class of ``package/msg/Name``."""
    package, _, name = msgtype.split('/')
    return getattr(importlib.import_module(f'{package}.msg'), name)


def main(args: list[str] | None = None) -> int:
    """Record until told to stop; return the exit code."""
    setproctitle('physis: recorder')
    stopping: Future = Future()

    def stop(_signal: int, _frame: FrameType | None) -> None:
        stopping.set_result(None)

    rclpy.init(args=args, signal_handler_options=SignalHandlerOptions.NO)
    try:
        recorder = Recorder()
        signal.signal(signal.SIGINT, stop)
        signal.signal(signal.SIGTERM, stop)
        executor = EventsExecutor()
        executor.add_node(recorder)
        executor.spin_until_future_complete(stopping)
        recorder.finish()
    except PhysisError as error:
        sys.stderr.write(f'recorder: {error}\n')
        return 2
    finally:
        rclpy.try_shutdown()
    return 0


if __name__ == '__main__':
    sys.exit(main())
