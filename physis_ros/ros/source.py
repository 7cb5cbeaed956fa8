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
from rclpy.qos import QoSPolicyKind, QoSProfile, ReliabilityPolicy
from rclpy.subscription import Subscription
from rclpy.timer import Timer

from physis_ros.ros import conversions, qos
from physis_ros.ros.clock import RosClock, seldom, steady
from physis_ros.ros.peers import other_types, type_name
from physis_ros.ros.qos import QosWatch
from physis_ros.ros.servo_report import apart

SILENCE_NS = 2_500_000_000
# A message does not wait longer than this for its callback; more is a step of the system clock.
LONGEST_WAIT_NS = 1_000_000_000
# Until it is known everywhere which publishers there are.
SOON_S = 0.05


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

    With the reliability ``best_available`` it takes what its publishers offer, those that come
    later too: the middleware alone decides once, when it knows of none.

    :param node: the owner.
    :param watch: makes the subscription.
    :param clock: the stream clock.
    :param kind: the message's type.
    :param topic: its name.
    :param take: called with each message, its stamp and when it was received.
    :param missing: the condition while nothing comes.
    :param profile: the quality of service, unless it is overridden.
    """

    def __init__(
        self,
        node: Node,
        watch: QosWatch,
        clock: RosClock,
        kind: type,
        topic: str,
        take: Callable[[Source, Any, int, int], None],
        missing: str,
        profile: QoSProfile,
    ) -> None:
        self._node, self._watch, self._clock = node, watch, clock
        self._kind, self._name, self._profile = kind, topic, profile
        self._take, self._missing = take, missing
        self.topic: str = node.resolve_topic_name(topic)
        self.count = self.refused = 0
        # Why the last message could not be used; empty when it could.
        self.trouble = ''
        self._apart_ns = 0
        self._arrived_ns = 0
        self._heard_ns = time.monotonic_ns()
        self._renewing: Timer | None = None
        self._subscription = self._subscribed()

    @property
    def lost(self) -> int:
        """Messages that never came."""
        return self._watch.lost(self.topic)

    def close(self) -> None:
        """Unsubscribe."""
        self._end_renewal()
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

    # Messages.

    def _on_info(self, info: Any) -> None:
        """Note when the middleware received the message that comes next, on the system clock."""
        self._arrived_ns = info['received_timestamp'] or 0

    def _on_message(self, message: Any) -> None:
        """Note that the topic lives and how far its clock is from ours, and hand on."""
        receive_ns = self._received_ns()
        self._heard_ns = time.monotonic_ns()
        self.count += 1
        stamp_ns = conversions.time_ns(message.header.stamp)
        # No stamp, or no time of our own yet, says nothing of a clock.
        self._apart_ns = receive_ns - stamp_ns if stamp_ns and receive_ns else 0
        self._take(self, message, stamp_ns, receive_ns)

    def _received_ns(self) -> int:
        """
        Return when the message was received: the wait for this callback is not its way.

        On a simulated clock that is now: how fast that ran meanwhile is not known.
        """
        now_ns = self._clock.now_ns()
        if self._clock.simulated:
            return now_ns
        waited_ns = time.time_ns() - self._arrived_ns
        return now_ns - waited_ns if 0 <= waited_ns <= LONGEST_WAIT_NS else now_ns

    # Quality of service.

    def _subscribed(self) -> Subscription:
        """Subscribe; what is best available is decided here."""
        return self._watch.subscribe(
            self._kind,
            self._name,
            self._on_message,
            self._profile,
            self._on_matched,
            self._on_mismatched,
            self._on_info,
        )

    @property
    def _adapts(self) -> bool:
        """Whether its reliability is that of its publishers."""
        reliability = self._subscription.qos_profile.reliability
        return bool(reliability == ReliabilityPolicy.BEST_AVAILABLE)

    def _on_matched(self, info: Any) -> None:
        """See what those that are left offer when a publisher has gone."""
        if info.current_count_change < 0 and self._adapts:
            self._renew()

    def _on_mismatched(self, info: Any) -> bool:
        """Come down to a publisher that offers less, where that is left to us."""
        mendable = info.last_policy_kind == QoSPolicyKind.RELIABILITY.value and self._adapts
        if mendable:
            self._renew()
        return bool(mendable)

    def _renew(self) -> None:
        """Subscribe anew, soon: a subscription cannot end within its own event."""
        if self._renewing is None:
            self._renewing = self._node.create_timer(SOON_S, self._on_renewal, clock=steady())

    def _on_renewal(self) -> None:
        """Subscribe anew."""
        self._end_renewal()
        self._node.destroy_subscription(self._subscription)
        self._subscription = self._subscribed()

    def _end_renewal(self) -> None:
        """Take the timer away."""
        timer, self._renewing = self._renewing, None
        if timer is not None:
            self._node.destroy_timer(timer)

    def _silence(self) -> str:
        """Say of a silent topic who publishes it and how."""
        text = f'nothing on {self.topic} for {SILENCE_NS * 1e-9:g} s and more: '
        peers = self._node.get_publishers_info_by_topic(self.topic)
        if not peers:
            return f'{text}nobody publishes it; check name, namespace, remapping and ROS_DOMAIN_ID'
        if others := other_types(peers, self._kind):
            wanted = type_name(self._kind)
            return (
                f'{text}it is published as {", ".join(others)}, not as {wanted}; check name and '
                f'remapping, of pictures image_transport and depth_transport too'
            )
        offered = sorted(
            {f'{p.qos_profile.reliability.name}/{p.qos_profile.durability.name}' for p in peers}
        )
        profile = self._subscription.qos_profile
        asked = f'{profile.reliability.name}/{profile.durability.name}'
        text += f'published with QoS {offered}, asked for {asked}; '
        if all(qos.apart(peer.qos_profile, profile) for peer in peers):
            return f'{text}they do not match: set qos_overrides.{self.topic}'
        return f'{text}they match: the publisher itself is silent'
