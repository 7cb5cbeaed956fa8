# SPDX-License-Identifier: Apache-2.0
"""
Quality of service: the profiles by name, and what goes wrong with them, counted.

Every publisher and subscription is made here, so each takes the standard ``qos_overrides``
parameters, and mismatches and losses, which ROS drops in silence, reach log and diagnostics.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from rclpy.event_handler import PublisherEventCallbacks, SubscriptionEventCallbacks
from rclpy.node import Node
from rclpy.publisher import Publisher
from rclpy.qos import (
    DurabilityPolicy,
    QoSPolicyKind,
    QoSProfile,
    ReliabilityPolicy,
    qos_policy_name_from_kind,
)
from rclpy.qos_overriding_options import QoSOverridingOptions
from rclpy.subscription import Subscription

from physis_ros.ros.metrics import Page
from physis_ros.ros.sequence import Sequence, informed

_RELIABLE = ReliabilityPolicy.RELIABLE
_BEST_EFFORT = ReliabilityPolicy.BEST_EFFORT
_LATCHED = DurabilityPolicy.TRANSIENT_LOCAL

# Sensors are read best effort, which matches every publisher, whenever it comes up.
SENSOR_IN = QoSProfile(depth=5, reliability=_BEST_EFFORT)
# Drivers offer reliable, which matches every reader.
SENSOR_OUT = QoSProfile(depth=10, reliability=_RELIABLE)
# An old command is worth nothing: one deep.
COMMAND = QoSProfile(depth=1, reliability=_RELIABLE)
# Chunks come ten times a second and none may be lost.
CHUNK = QoSProfile(depth=4, reliability=_RELIABLE)
# One message per tick, and a recorder that must get all of them.
PLAYBACK = QoSProfile(depth=200, reliability=_RELIABLE)
# What a late comer must know.
LATCHED = QoSProfile(depth=1, reliability=_RELIABLE, durability=_LATCHED)
CLOCK = QoSProfile(depth=1, reliability=_RELIABLE)


@dataclass
class TopicTrouble:
    """
    What went wrong on one topic so far.

    :param told: messages that the middleware said to be lost.
    :param missed: messages that a publisher numbered and that never came, those among them.
    """

    incompatible: int = 0
    policy: str = ''
    told: int = 0
    missed: int = 0

    @property
    def lost(self) -> int:
        """Messages that never came."""
        return max(self.told, self.missed)


class QosWatch:
    """
    Makes a node's publishers and subscriptions and counts their quality-of-service events.

    :param node: the owner.
    """

    def __init__(self, node: Node) -> None:
        self._node = node
        self.trouble: dict[str, TopicTrouble] = {}

    def subscribe(
        self,
        kind: type,
        topic: str,
        callback: Callable[[Any], None],
        profile: QoSProfile,
        matched: Callable[[Any], None] | None = None,
    ) -> Subscription:
        """
        Subscribe with overrides and events.

        :param matched: called when a publisher comes or goes.
        """
        resolved, sequence = self._node.resolve_topic_name(topic), Sequence()

        def on_matched(info: Any) -> None:
            sequence.publishers(info.current_count)
            if matched is not None:
                matched(info)

        events = SubscriptionEventCallbacks(
            incompatible_qos=lambda info: self._incompatible(resolved, 'publisher', info),
            message_lost=lambda info: self._told(resolved, info),
            matched=on_matched,
        )
        return self._node.create_subscription(
            kind,
            topic,
            informed(callback, lambda info: self._came(resolved, sequence, info)),
            profile,
            event_callbacks=events,
            qos_overriding_options=QoSOverridingOptions.with_default_policies(),
        )

    def advertise(self, kind: type, topic: str, profile: QoSProfile) -> Publisher:
        """Make a publisher with overrides and events."""
        resolved = self._node.resolve_topic_name(topic)
        events = PublisherEventCallbacks(
            incompatible_qos=lambda info: self._incompatible(resolved, 'subscriber', info),
        )
        return self._node.create_publisher(
            kind,
            topic,
            profile,
            event_callbacks=events,
            qos_overriding_options=QoSOverridingOptions.with_default_policies(),
        )

    def sentences(self) -> list[str]:
        """Return what a person should know, worst first."""
        items = self.trouble.items()
        found = [
            f'{topic}: {item.incompatible} peers with incompatible QoS ({item.policy})'
            for topic, item in items
            if item.incompatible
        ]
        lost = [f'{topic}: {item.lost} messages lost' for topic, item in items if item.lost]
        return found + lost

    def fill(self, page: Page) -> None:
        """Add the counts to a page of metrics; may be called in another thread."""
        for topic, item in list(self.trouble.items()):
            text = 'Peers with incompatible quality of service.'
            page.counter('physis_qos_incompatible', text, item.incompatible, topic=topic)
            text = 'Messages that never came.'
            page.counter('physis_messages_lost', text, item.lost, topic=topic)

    def _incompatible(self, topic: str, peer: str, info: Any) -> None:
        """Count and say that a peer asks for, or offers, something that cannot be matched."""
        item = self.trouble.setdefault(topic, TopicTrouble())
        item.incompatible = info.total_count
        item.policy = _policy_name(info.last_policy_kind)
        self._node.get_logger().error(
            f'{topic}: a {peer} has an incompatible QoS, no messages will pass; policy: '
            f'{item.policy}; change it there or with qos_overrides.{topic} here'
        )

    def _told(self, topic: str, info: Any) -> None:
        """Take the middleware's count of lost messages."""
        self.trouble.setdefault(topic, TopicTrouble()).told = info.total_count

    def _came(self, topic: str, sequence: Sequence, info: Any) -> None:
        """Count messages that were dropped before this one."""
        missing = sequence.came(info)
        if missing:
            self.trouble.setdefault(topic, TopicTrouble()).missed += missing


def _policy_name(kind: int) -> str:
    """Return a policy's name for a person."""
    try:
        return str(qos_policy_name_from_kind(QoSPolicyKind(kind)))
    except ValueError:
        return f'policy {kind}'
