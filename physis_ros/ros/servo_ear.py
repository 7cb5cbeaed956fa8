# SPDX-License-Identifier: Apache-2.0
"""
Listens to the servo that plays a stream, wherever it is.

A servo says itself whose chunks it plays; its status may lie anywhere in the graph, so nobody has
to be told its name.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any

from rclpy.node import Node
from rclpy.subscription import Subscription

from physis_ros.msg import PlaybackStatus
from physis_ros.ros import qos

KIND = 'physis_ros/msg/PlaybackStatus'
LOOK_S = 1.0


class ServoEar:
    """
    Hears the status of a servo. Belongs to the executor's thread.

    :param node: the owner.
    :param stream: whose chunks it plays.
    :param heard: called with each status.
    """

    def __init__(self, node: Node, stream: str, heard: Callable[[Any], None]) -> None:
        self._node, self._stream, self._heard = node, stream, heard
        self._topics: dict[str, Subscription] = {}
        self._looked_s = time.monotonic() - LOOK_S

    def look(self) -> None:
        """Listen to servos that have come, and no more to those that are gone."""
        now_s = time.monotonic()
        if now_s - self._looked_s < LOOK_S:
            return
        self._looked_s = now_s
        found = self._node.get_topic_names_and_types()
        # A topic that only we listen to is there as well.
        there = {t for t, kinds in found if KIND in kinds and self._node.count_publishers(t)}
        for topic in there - set(self._topics):
            self._topics[topic] = self._node.create_subscription(
                PlaybackStatus, topic, self._on_status, qos.LATCHED
            )
        for topic in set(self._topics) - there:
            self._node.destroy_subscription(self._topics.pop(topic))

    def close(self) -> None:
        """Listen no more."""
        for subscription in self._topics.values():
            self._node.destroy_subscription(subscription)
        self._topics.clear()

    def _on_status(self, message: PlaybackStatus) -> None:
        """Hand on what is said of this stream."""
        if message.stream == self._stream:
            self._heard(message)
