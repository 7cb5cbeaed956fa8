# SPDX-License-Identifier: Apache-2.0
"""
Who else is on a topic, in the words of a person.

Peers whose messages are of another type never match, and no event tells of them: without a word
nothing comes, or nobody takes what goes out.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from rclpy.node import Node


def type_name(kind: type) -> str:
    """Return what ROS calls a type of messages: ``sensor_msgs/msg/Image``."""
    return f'{kind.__module__.partition(".")[0]}/msg/{kind.__name__}'


def other_types(peers: Iterable[Any], kind: type) -> list[str]:
    """
    Return the types that are not ours, each once.

    :param peers: as ``get_publishers_info_by_topic`` and its like tell them.
    :param kind: of our messages.
    """
    return sorted({peer.topic_type for peer in peers} - {type_name(kind)})


def publishers(node: Node, topic: str) -> str:
    """Say who publishes a topic."""
    count = node.count_publishers(topic)
    return f'{topic} has {count or "no"} publisher{"" if count == 1 else "s"}'
