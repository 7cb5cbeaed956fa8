# SPDX-License-Identifier: Apache-2.0
"""
Plays a recording with its time as /clock, as ``ros2 bag play --clock`` does.

Messages go out as the bytes that were recorded, at their log times.
"""

from __future__ import annotations

import argparse
import importlib
import sys
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import rclpy
from rclpy.node import Node
from rosbags.rosbag2 import Reader
from rosgraph_msgs.msg import Clock

from physis_ros.ros import qos
from physis_ros.ros.conversions import time_message

CLOCK_NS = 5_000_000


@dataclass(frozen=True)
class Said:
    """One recorded message."""

    log_ns: int
    topic: str
    kind: str
    data: bytes


def read(folder: Path) -> list[Said]:
    """Return all messages of a recording in their order."""
    with Reader(folder) as reader:
        return [
            Said(log_ns, connection.topic, connection.msgtype, bytes(data))
            for connection, log_ns, data in reader.messages()
        ]


class BagPlayer:
    """
    Plays messages.

    :param rate: recorded per real time.
    """

    def __init__(self, node: Node, messages: list[Said], rate: float) -> None:
        self._messages, self._rate = messages, rate
        self._clock_out = node.create_publisher(Clock, '/clock', qos.CLOCK)
        self._out = {
            item.topic: node.create_publisher(message_class(item.kind), item.topic, 10)
            for item in messages
        }

    def matched(self) -> bool:
        """Whether somebody listens to everything."""
        publishers = [self._clock_out, *self._out.values()]
        return all(publisher.get_subscription_count() for publisher in publishers)

    def play(self, start_offset_s: float, pause_at_s: float, pause_s: float) -> None:
        """Play once, from an offset on, with one pause."""
        begin_ns = self._messages[0].log_ns
        now_ns = begin_ns + round(start_offset_s * 1e9)
        pause_ns = begin_ns + round(pause_at_s * 1e9)
        left = [item for item in self._messages if item.log_ns >= now_ns]
        due_s = time.monotonic()
        while left:
            self._clock_out.publish(Clock(clock=time_message(now_ns)))
            while left and left[0].log_ns <= now_ns:
                item = left.pop(0)
                self._out[item.topic].publish(item.data)
            if pause_s and now_ns >= pause_ns:
                time.sleep(pause_s)
                due_s, pause_s = time.monotonic(), 0.0
            now_ns += CLOCK_NS
            due_s += CLOCK_NS * 1e-9 / self._rate
            time.sleep(max(due_s - time.monotonic(), 0.0))


def message_class(kind: str) -> Any:
    """Return the generated class of ``package/msg/Name``."""
    package, _, name = kind.split('/')
    return getattr(importlib.import_module(f'{package}.msg'), name)


def main() -> None:
    """Play as the command line says."""
    parser = argparse.ArgumentParser(description=__doc__.strip().splitlines()[0])
    parser.add_argument('bag', type=Path)
    parser.add_argument('--rate', type=float, default=1.0)
    parser.add_argument('--loops', type=int, default=1)
    parser.add_argument('--start-offset', type=float, default=0.0)
    parser.add_argument('--pause-at', type=float, default=0.0)
    parser.add_argument('--pause', type=float, default=0.0)
    args = parser.parse_args()
    rclpy.init(args=[])
    player = BagPlayer(Node('bag_player'), read(args.bag), args.rate)
    until_s = time.monotonic() + 30
    while not player.matched():
        if time.monotonic() > until_s:
            sys.exit('bag_player: somebody must listen to every topic within 30 s, and does not')
        time.sleep(0.02)
    for _ in range(args.loops):
        player.play(args.start_offset, args.pause_at, args.pause)
    # The last messages are on their way.
    time.sleep(0.3)
    rclpy.shutdown()


if __name__ == '__main__':
    main()
