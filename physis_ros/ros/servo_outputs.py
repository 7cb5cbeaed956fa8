# SPDX-License-Identifier: Apache-2.0
"""What the servo node says at each tick while it is configured: the command, and its account."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import ExitStack
from typing import Any

from rclpy.duration import Duration
from rclpy.node import Node
from rclpy.publisher import Publisher

from physis_ros.msg import Playback
from physis_ros.ros import qos
from physis_ros.ros.peers import other_types, type_name
from physis_ros.ros.qos import QosWatch

LISTENERS_NS = 500_000_000
LAST_WORDS = Duration(nanoseconds=200_000_000)


class ServoOutputs:
    """
    Publishes ``~/command`` and ``~/playback``.

    :param node: the owner.
    :param watch: makes the publishers.
    :param kind: type of the commands.
    :param closing: takes them away.
    """

    def __init__(self, node: Node, watch: QosWatch, kind: type, closing: ExitStack) -> None:
        self._node, self._kind = node, kind
        self._command_out = watch.advertise(kind, '~/command', qos.COMMAND)
        closing.callback(self._end, node, self._command_out)
        self._playback_out = watch.advertise(Playback, '~/playback', qos.PLAYBACK)
        closing.callback(self._end, node, self._playback_out)
        self._listened, self._looked_ns = False, 0

    @property
    def topic(self) -> str:
        """Where the commands go."""
        return str(self._command_out.topic_name)

    @property
    def subscribers(self) -> int:
        """How many take the commands."""
        count: int = self._command_out.get_subscription_count()
        return count

    @property
    def strangers(self) -> str:
        """Say that whoever takes the commands wants another type; nothing when one fits."""
        if self.subscribers:
            return ''
        peers = self._node.get_subscriptions_info_by_topic(self.topic)
        others = other_types(peers, self._kind)
        if not others:
            return ''
        return (
            f'{self.topic} is taken as {", ".join(others)}, and commands are '
            f'{type_name(self._kind)}; set command_type, or send them elsewhere'
        )

    def told(self, joints: Sequence[str]) -> str:
        """Say where commands go, as what, and for which joints."""
        return f'commands for {list(joints)} go to {self.topic} as {type_name(self._kind)}'

    def command(self, message: Any | None) -> None:
        """Publish a command; nothing when there is nothing to say."""
        if message is not None:
            self._command_out.publish(message)

    def listened(self, now_ns: int) -> bool:
        """
        Whether someone wants to hear of each tick; asked of the middleware now and then.

        :param now_ns: steady clock.
        """
        if now_ns - self._looked_ns > LISTENERS_NS:
            self._looked_ns = now_ns
            self._listened = self._playback_out.get_subscription_count() > 0
        return self._listened

    def account(self, message: Playback) -> None:
        """Publish what a tick was."""
        self._playback_out.publish(message)

    @staticmethod
    def _end(node: Node, publisher: Publisher) -> None:
        """Destroy a publisher; best effort to see its last words off before that."""
        publisher.wait_for_all_acked(LAST_WORDS)
        node.destroy_publisher(publisher)
