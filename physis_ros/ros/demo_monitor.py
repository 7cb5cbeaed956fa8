# SPDX-License-Identifier: Apache-2.0
"""
What the demo hears of its nodes, and the one thing it tells: how the run was configured.

Subscriptions are drained when the view wants to know; no executor, no thread.
"""

from __future__ import annotations

import json
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import rclpy
from geometry_msgs.msg import PointStamped
from rclpy.node import Node
from rclpy.qos import QoSProfile, ReliabilityPolicy
from rclpy.signals import SignalHandlerOptions
from std_msgs.msg import Int32, String

from physis_ros.evaluation.tracking import SETTLE_S
from physis_ros.msg import PlaybackStatus, StreamStatus
from physis_ros.ros import qos
from physis_ros.ros.conversions import time_ns
from physis_ros.ros.demo_robots import Robot
from physis_ros.ros.draining import drained, subscribe

TRUTH = QoSProfile(depth=100, reliability=ReliabilityPolicy.RELIABLE)
NO_EPISODE = -1


@dataclass
class Tracking:
    """Tracking error of the running episode, its first second left out."""

    begun_ns: int = 0
    sum_m: float = 0.0
    count: int = 0
    last_m: float = math.nan

    def add(self, stamp_ns: int, error_m: float) -> None:
        """Take one sample."""
        self.begun_ns = self.begun_ns or stamp_ns
        self.last_m = error_m
        if stamp_ns - self.begun_ns >= SETTLE_S * 1e9:
            self.sum_m += error_m
            self.count += 1

    @property
    def mean_m(self) -> float:
        """The mean so far; NaN before anything counts."""
        return self.sum_m / self.count if self.count else math.nan


@dataclass
class Heard:
    """
    The newest of everything about one robot.

    :param stream: status of the engine, None before the first.
    :param playback: status of the servo, None before the first.
    :param episode: the running one, -1 when none runs, the number of them when all are done.
    :param episodes_m: mean tracking error of each finished episode [m].
    """

    stream: Any | None = None
    playback: Any | None = None
    episode: int = NO_EPISODE
    tracking: Tracking = field(default_factory=Tracking)
    episodes_m: list[float] = field(default_factory=list)


class Monitor:
    """
    A node that listens. Single-threaded.

    :param configuration: of the run; latched on ``/demo/configuration`` for recorder and reader.
    :param robots: to listen to.
    """

    def __init__(self, configuration: Mapping[str, Any], robots: Sequence[Robot]) -> None:
        rclpy.init(args=[], signal_handler_options=SignalHandlerOptions.NO)
        self._node = Node('demo')
        self._out = self._node.create_publisher(String, '~/configuration', qos.LATCHED)
        self._out.publish(String(data=json.dumps(dict(configuration))))
        self._ears = [Ear(self._node, robot) for robot in robots]

    def look(self) -> tuple[Heard, ...]:
        """Take everything that has come since the last look; one for each robot."""
        return tuple(ear.look() for ear in self._ears)

    def close(self) -> None:
        """Leave the graph."""
        self._node.destroy_node()
        rclpy.try_shutdown()


class Ear:
    """
    Listens to one robot and its stream.

    :param node: the listener.
    """

    def __init__(self, node: Node, robot: Robot) -> None:
        self.heard = Heard()
        own, ours = robot.own, robot.namespace
        self._stream = subscribe(node, StreamStatus, f'{own}/stream_status', qos.LATCHED)
        topic = f'{ours}/servo_node/playback_status'
        self._playback = subscribe(node, PlaybackStatus, topic, qos.LATCHED)
        self._episode = subscribe(node, Int32, f'{ours}/arm_node/episode', qos.LATCHED)
        self._tip = subscribe(node, PointStamped, f'{ours}/arm_node/tip', TRUTH)
        self._target = subscribe(node, PointStamped, f'{ours}/arm_node/target', TRUTH)
        self._targets: dict[int, Any] = {}

    def look(self) -> Heard:
        """Take everything that has come since the last look."""
        heard = self.heard
        for message, _ in drained(self._stream):
            heard.stream = message
        for message, _ in drained(self._playback):
            heard.playback = message
        self._track()
        for message, _ in drained(self._episode):
            self._turn(int(message.data))
        return heard

    def _track(self) -> None:
        """Pair tip and target by their stamps."""
        for message, _ in drained(self._target):
            self._targets[time_ns(message.header.stamp)] = message.point
        for message, _ in drained(self._tip):
            stamp_ns = time_ns(message.header.stamp)
            target = self._targets.pop(stamp_ns, None)
            if target is not None and self.heard.episode >= 0:
                error_m = math.hypot(message.point.x - target.x, message.point.y - target.y)
                self.heard.tracking.add(stamp_ns, error_m)
        while len(self._targets) > TRUTH.depth:
            del self._targets[next(iter(self._targets))]

    def _turn(self, episode: int) -> None:
        """Note that another episode runs, or none."""
        heard = self.heard
        if episode != heard.episode and heard.tracking.count:
            heard.episodes_m.append(heard.tracking.mean_m)
            heard.tracking = Tracking()
        heard.episode = episode
