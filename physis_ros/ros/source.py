# SPDX-License-Identifier: Apache-2.0
"""
One topic that comes in, and what is wrong with it.

A publisher that is silent, out of reach or on another clock looks the same to a model; a person is
told which it is, with the topic and the quality of service.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any, NamedTuple

from rclpy.node import Node

from physis_ros.clock import Clock
from physis_ros.ros import conversions, qos
from physis_ros.ros.clock import seldom
from physis_ros.ros.qos import QosWatch
from physis_ros.ros.servo_report import apart

SILENCE_NS = 2_500_000_000


class Complaint(NamedTuple):
    """
    Something a person should know.

    :param condition: one word for monitors.
    :param text: a sentence.
    """

    condition: str
    text: str


class Source:
    """
    A subscription. ``count`` messages came; ``refused`` of them could not be read.

    :param node: the owner.
    :param watch: makes the subscription.
    :param clock: the stream clock.
    :param kind: the message's type.
    :param topic: its name.
    :param take: called with each message, its stamp and when it was received.
    :param missing: the condition while nothing comes.
    """

    def __init__(
        self,
        node: Node,
        watch: QosWatch,
        clock: Clock,
        kind: type,
        topic: str,
        take: Callable[[Source, Any, int, int], None],
        missing: str,
    ) -> None:
        self._node, self._clock, self._take, self._missing = node, clock, take, missing
        self.topic: str = node.resolve_topic_name(topic)
        self.count = self.refused = 0
        # Why the last message could not be used; empty when it could.
        self.trouble = ''
        self._apart_ns = 0
        self._heard_ns = time.monotonic_ns()
        self._subscription = watch.subscribe(kind, topic, self._on_message, qos.SENSOR_IN)

    def close(self) -> None:
        """Unsubscribe."""
        self._node.destroy_subscription(self._subscription)

    def refuse(self, why: str) -> None:
        """Remember and say why a message could not be used."""
        self.refused += 1
        self.trouble = why
        self._node.get_logger().error(f'{self.topic}: {why}', **seldom(5.0))

    def complaints(self) -> list[Complaint]:
        """Return what a person should know; empty when all is well."""
        found = []
        if self.trouble:
            found.append(Complaint('refused', f'{self.topic}: {self.trouble}'))
        if time.monotonic_ns() - self._heard_ns > SILENCE_NS:
            found.append(Complaint(self._missing, self._silence()))
        if far := apart(self._apart_ns):
            found.append(Complaint('clock_skew', f'{self.topic}: {far}'))
        return found

    def _on_message(self, message: Any) -> None:
        """Note that the topic lives and how far its clock is from ours, and hand on."""
        receive_ns = self._clock.now_ns()
        self._heard_ns = time.monotonic_ns()
        self.count += 1
        stamp_ns = conversions.time_ns(message.header.stamp)
        # No stamp, or no time of our own yet, says nothing of a clock.
        self._apart_ns = receive_ns - stamp_ns if stamp_ns and receive_ns else 0
        self._take(self, message, stamp_ns, receive_ns)

    def _silence(self) -> str:
        """Say of a silent topic who publishes it and how."""
        text = f'nothing on {self.topic} for {SILENCE_NS * 1e-9:g} s and more: '
        peers = self._node.get_publishers_info_by_topic(self.topic)
        if not peers:
            return f'{text}nobody publishes it; check name, namespace, remapping and ROS_DOMAIN_ID'
        offered = sorted(
            {f'{p.qos_profile.reliability.name}/{p.qos_profile.durability.name}' for p in peers}
        )
        profile = self._subscription.qos_profile
        asked = f'{profile.reliability.name}/{profile.durability.name}'
        return (
            f'{text}{len(peers)} publishers with QoS {offered}, asked for {asked}; if they do not '
            f'match set qos_overrides.{self.topic}, else the publisher itself is silent'
        )
