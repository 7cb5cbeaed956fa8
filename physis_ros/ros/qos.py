# SPDX-License-Identifier: Apache-2.0
"""
Quality of service: the profiles by name, and what goes wrong with them, counted.

Every publisher and subscription is made here, so each takes the standard ``qos_overrides``
parameters, and mismatches, losses and missed deadlines, which ROS passes over in silence, reach
log and diagnostics.
"""

from __future__ import annotations

from collections.abc import Callable
from copy import copy
from dataclasses import dataclass
from typing import Any

from rclpy.event_handler import PublisherEventCallbacks, SubscriptionEventCallbacks
from rclpy.node import Node
from rclpy.publisher import Publisher
from rclpy.qos import (
    DurabilityPolicy,
    QoSCompatibility,
    QoSPolicyKind,
    QoSProfile,
    ReliabilityPolicy,
    qos_check_compatible,
    qos_policy_name_from_kind,
)
from rclpy.subscription import Subscription

from physis_ros.ros import qos_overrides
from physis_ros.ros.metrics import Page
from physis_ros.ros.qos_overrides import DEADLINE, LIVELINESS, PUBLISHER, SUBSCRIPTION
from physis_ros.ros.sequence import Sequence, informed

_RELIABLE = ReliabilityPolicy.RELIABLE
_BEST_EFFORT = ReliabilityPolicy.BEST_EFFORT
_BEST_AVAILABLE = ReliabilityPolicy.BEST_AVAILABLE
_LATCHED = DurabilityPolicy.TRANSIENT_LOCAL

# Joint states and the like are read best effort, which matches every publisher, whenever it comes
# up; they are small, and the next one makes up for a lost one.
SENSOR_IN = QoSProfile(depth=5, reliability=_BEST_EFFORT)
# Drivers offer reliable, which matches every reader.
SENSOR_OUT = QoSProfile(depth=10, reliability=_RELIABLE)
# An old command is worth nothing: one deep.
COMMAND = QoSProfile(depth=1, reliability=_RELIABLE)
# Chunks come ten times a second and none may be lost, be the processor taken for seconds.
CHUNK = QoSProfile(depth=32, reliability=_RELIABLE)
# One message per tick, and a recorder that must get all of them: four seconds of 250 Hz.
PLAYBACK = QoSProfile(depth=1000, reliability=_RELIABLE)
# What a late comer must know.
LATCHED = QoSProfile(depth=1, reliability=_RELIABLE, durability=_LATCHED)
CLOCK = QoSProfile(depth=1, reliability=_RELIABLE)


def images_in(depth: int) -> QoSProfile:
    """
    Return how pictures are read: reliably where their publisher can, else best effort.

    A picture is many packets, and best effort loses all of it with one of them. What reliability
    delivers late is bounded by the depth, and refused by its age.

    :param depth: pictures that may wait: no more than a model looks at.
    """
    return QoSProfile(depth=depth, reliability=_BEST_AVAILABLE)


@dataclass
class TopicTrouble:
    """
    What went wrong on one topic so far.

    :param incompatible: peers that could not be matched.
    :param policy: why the last of them could not.
    :param refused: those that are there now; as of :meth:`QosWatch.sentences`.
    :param told: messages that the middleware said to be lost.
    :param missed: messages that a publisher numbered and that never came, those among them.
    :param overdue: times that no message came, or went, within the deadline that was set for it.
    :param silent: times that a publisher, or ours, did not say within the lease that it lives.
    """

    incompatible: int = 0
    policy: str = ''
    refused: int = 0
    told: int = 0
    missed: int = 0
    overdue: int = 0
    silent: int = 0

    @property
    def lost(self) -> int:
        """Messages that never came."""
        return max(self.told, self.missed)


class Rise:
    """
    The rise of a total, which each end of a topic counts from 0.

    The change that events bear is not to be had: it counts from the last look, which the
    middleware takes too.
    """

    def __init__(self) -> None:
        self._total = 0

    def by(self, total: int) -> int:
        """Return by how much the total rose since the last call."""
        risen, self._total = total - self._total, total
        return risen


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
        mismatched: Callable[[Any], bool] | None = None,
        came: Callable[[Any], None] | None = None,
    ) -> Subscription:
        """
        Subscribe with overrides and events.

        :param matched: called when a publisher comes or goes.
        :param mismatched: called when one cannot be matched; returns whether that will be mended.
        :param came: called before each message, with what the middleware says of it.
        :raises ParameterError: on an override that its policy does not have.
        """
        resolved, sequence = self._node.resolve_topic_name(topic), Sequence()
        refused, told = Rise(), Rise()

        def on_matched(info: Any) -> None:
            sequence.publishers(info.current_count)
            if matched is not None:
                matched(info)

        def on_mismatched(info: Any) -> None:
            if mismatched is None or not mismatched(info):
                self._incompatible(resolved, 'publisher', refused, info)

        def on_info(info: Any) -> None:
            self._came(resolved, sequence, info)
            if came is not None:
                came(info)

        events = SubscriptionEventCallbacks(
            incompatible_qos=on_mismatched,
            message_lost=lambda info: self._told(resolved, told, info),
            matched=on_matched,
            **self._watches(resolved, SUBSCRIPTION),
        )
        return self._node.create_subscription(
            kind,
            topic,
            informed(callback, on_info),
            # Overrides are written into it.
            copy(profile),
            event_callbacks=events,
            qos_overriding_options=qos_overrides.options(),
        )

    def advertise(self, kind: type, topic: str, profile: QoSProfile) -> Publisher:
        """
        Make a publisher with overrides and events.

        :raises ParameterError: on an override that its policy does not have.
        """
        resolved, refused = self._node.resolve_topic_name(topic), Rise()
        events = PublisherEventCallbacks(
            incompatible_qos=lambda info: self._incompatible(
                resolved, 'subscriber', refused, info
            ),
            **self._watches(resolved, PUBLISHER),
        )
        return self._node.create_publisher(
            kind,
            topic,
            copy(profile),
            event_callbacks=events,
            qos_overriding_options=qos_overrides.options(),
        )

    def sentences(self) -> list[str]:
        """
        Return what a person should know, worst first.

        A peer that could not be matched is told of until it, or our own end, has gone.
        """
        items = self.trouble.items()
        for topic, item in items:
            # The middleware tells of each that comes, and of none that goes.
            item.refused = self._refused(topic) if item.incompatible else 0
        found = [
            f'{topic}: {item.refused} peers with incompatible QoS ({item.policy})'
            for topic, item in items
            if item.refused
        ]
        counted = (
            ('messages lost', lambda item: item.lost),
            ('deadlines of its QoS missed', lambda item: item.overdue),
            ('times without a sign of life within its QoS', lambda item: item.silent),
        )
        return found + [
            f'{topic}: {count(item)} {what}'
            for what, count in counted
            for topic, item in items
            if count(item)
        ]

    def fill(self, page: Page) -> None:
        """Add the counts to a page of metrics; may be called in another thread."""
        for topic, item in list(self.trouble.items()):
            text = 'Peers with incompatible quality of service.'
            page.counter('physis_qos_incompatible', text, item.incompatible, topic=topic)
            text = 'Messages that never came.'
            page.counter('physis_messages_lost', text, item.lost, topic=topic)
            text = 'Deadlines of the quality of service that were missed.'
            page.counter('physis_qos_deadlines_missed', text, item.overdue, topic=topic)
            text = 'Leases of liveliness of the quality of service that ran out.'
            page.counter('physis_qos_leases_ended', text, item.silent, topic=topic)

    def lost(self, topic: str) -> int:
        """Return how many messages of a topic never came."""
        item = self.trouble.get(topic)
        return 0 if item is None else item.lost

    def _refused(self, topic: str) -> int:
        """Return how many peers that are there cannot be matched with an end of ours."""
        node = self._node
        read = [s.qos_profile for s in node.subscriptions if s.topic_name == topic]
        written = [p.qos_profile for p in node.publishers if p.topic_name == topic]
        offers = [peer.qos_profile for peer in node.get_publishers_info_by_topic(topic)]
        wishes = [peer.qos_profile for peer in node.get_subscriptions_info_by_topic(topic)]
        return sum(any(apart(offer, ours) for ours in read) for offer in offers) + sum(
            any(apart(ours, wish) for ours in written) for wish in wishes
        )

    def _incompatible(self, topic: str, peer: str, refused: Rise, info: Any) -> None:
        """Count and say that a peer asks for, or offers, something that cannot be matched."""
        item = self.trouble.setdefault(topic, TopicTrouble())
        item.incompatible += refused.by(info.total_count)
        item.policy = _policy_name(info.last_policy_kind)
        self._node.get_logger().error(
            f'{topic}: a {peer} has an incompatible QoS, no messages will pass; policy: '
            f'{item.policy}; change it there or with qos_overrides.{topic} here'
        )

    def _watches(self, topic: str, end: str) -> dict[str, Any]:
        """Return what else is to be told of: each costs, and only an override asks for it."""
        given = qos_overrides.overrides(self._node, topic, end)
        missed, silent = Rise(), Rise()
        found = {}
        if given.get(DEADLINE):
            found['deadline'] = lambda info: self._overdue(topic, missed, info)
        if given.get(LIVELINESS):
            found['liveliness'] = lambda info: self._silent(topic, silent, info)
        return found

    def _overdue(self, topic: str, missed: Rise, info: Any) -> None:
        """Count deadlines that passed without a message."""
        self.trouble.setdefault(topic, TopicTrouble()).overdue += missed.by(info.total_count)

    def _silent(self, topic: str, silent: Rise, info: Any) -> None:
        """Count publishers, others or ours, that did not say in time that they live."""
        # Of others it is told how many are silent now: fewer, when one lives again.
        now = info.not_alive_count if hasattr(info, 'not_alive_count') else info.total_count
        lost = max(silent.by(now), 0)
        if lost:
            self.trouble.setdefault(topic, TopicTrouble()).silent += lost

    def _told(self, topic: str, told: Rise, info: Any) -> None:
        """Add what the middleware says to be lost."""
        self.trouble.setdefault(topic, TopicTrouble()).told += told.by(info.total_count)

    def _came(self, topic: str, sequence: Sequence, info: Any) -> None:
        """Count messages that were dropped before this one."""
        missing = sequence.came(info)
        if missing:
            self.trouble.setdefault(topic, TopicTrouble()).missed += missing


def apart(offered: QoSProfile, asked: QoSProfile) -> bool:
    """Whether no message passes from a publisher to a subscription."""
    return bool(qos_check_compatible(offered, asked)[0] == QoSCompatibility.ERROR)


def _policy_name(kind: int) -> str:
    """Return a policy's name for a person."""
    try:
        return str(qos_policy_name_from_kind(QoSPolicyKind(kind)))
    except ValueError:
        return f'policy {kind}'
