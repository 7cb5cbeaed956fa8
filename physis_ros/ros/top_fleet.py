# SPDX-License-Identifier: Apache-2.0
"""
The streams of a model node that has several: found in the graph as they come and go.

The status of a stream lies at ``wam_node/<stream>/stream_status``; the servo that plays it may lie
anywhere below the namespace, and says itself whose chunks it plays.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Any

from rclpy.node import Node

from physis_ros.msg import PlaybackStatus, StreamStatus
from physis_ros.ros import qos
from physis_ros.ros.draining import drained, subscribe

LOOK_S = 1.0
PATIENCE_S = 3.0
KINDS = {f'physis_ros/msg/{kind.__name__}': kind for kind in (StreamStatus, PlaybackStatus)}


@dataclass(frozen=True)
class Pair:
    """
    One stream.

    :param stream: its status in the engine; None before the first.
    :param playback: status of the servo that plays it; None before the first.
    """

    stream: Any | None = None
    playback: Any | None = None


@dataclass
class Heard:
    """
    One topic.

    :param heard_s: when the last message came; at first when it was found. Steady.
    """

    kind: type
    subscription: Any
    heard_s: float
    newest: Any | None = None


class TopFleet:
    """
    Looks for streams and servos, and listens to them. Single-threaded.

    :param node: the listener, in the namespace to watch.
    """

    def __init__(self, node: Node) -> None:
        self._node = node
        prefix = node.get_namespace().rstrip('/')
        self._streams = re.compile(rf'{prefix}/wam_node/\w+/stream_status')
        # The servo of the only stream is listened to elsewhere.
        self._servos = re.compile(rf'{prefix}/(\w+/)+servo_node/playback_status')
        self._heard: dict[str, Heard] = {}
        self._looked_s = -LOOK_S

    def look(self, now_s: float) -> dict[str, Pair]:
        """Take in what has come since the last look; by stream, none where there is only one."""
        if now_s - self._looked_s >= LOOK_S:
            self._looked_s = now_s
            self._discover(now_s)
        for heard in self._heard.values():
            for message, _ in drained(heard.subscription):
                heard.newest, heard.heard_s = message, now_s
        playing = {one.stream: one for one in self._newest(PlaybackStatus)}
        return {
            one.stream: Pair(one, playing.get(one.stream))
            for one in sorted(self._newest(StreamStatus), key=lambda one: one.stream)
        }

    def silent(self, now_s: float) -> list[str]:
        """Return the topics of which nothing comes."""
        return [
            f'{topic} silent for {now_s - heard.heard_s:.0f} s'
            for topic, heard in self._heard.items()
            if now_s - heard.heard_s > PATIENCE_S
        ]

    def _newest(self, kind: type) -> list[Any]:
        """Return the last message of each topic of a kind."""
        return [
            heard.newest
            for heard in self._heard.values()
            if heard.kind is kind and heard.newest is not None
        ]

    def _discover(self, now_s: float) -> None:
        """Listen to what there is now, and to nothing that is gone."""
        there = {
            topic: KINDS[kinds[0]]
            for topic, kinds in self._node.get_topic_names_and_types()
            if kinds[0] in KINDS and self._is_of_fleet(topic)
        }
        for topic in set(self._heard) - set(there):
            self._node.destroy_subscription(self._heard.pop(topic).subscription)
        for topic in set(there) - set(self._heard):
            subscription = subscribe(self._node, there[topic], topic, qos.LATCHED)
            self._heard[topic] = Heard(there[topic], subscription, now_s)

    def _is_of_fleet(self, topic: str) -> bool:
        """Whether a topic that somebody publishes is a status of one of several."""
        named = self._streams.fullmatch(topic) or self._servos.fullmatch(topic)
        return bool(named and self._node.get_publishers_info_by_topic(topic))
