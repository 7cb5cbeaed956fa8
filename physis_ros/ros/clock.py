# SPDX-License-Identifier: Apache-2.0
"""
ROS time as a :class:`physis_ros.clock.Clock`, and its jumps as events.

System time, or /clock under ``use_sim_time``. Durations are measured on the steady clock instead.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

from rclpy.clock import ClockChange, JumpHandle, JumpThreshold, TimeJump
from rclpy.duration import Duration
from rclpy.node import Node

# A forward step of this size is a jump (a bag was wound on), below it a clock that came late.
FORWARD_JUMP_NS = 1_000_000_000
BACKWARD_JUMP_NS = 1


class Jump(NamedTuple):
    """
    A jump of the time.

    :param text: what happened, as a sentence.
    :param backward: it went back on the same clock.
    """

    text: str
    backward: bool


class RosClock:
    """
    The time of a node.

    :param node: whose clock; honours its ``use_sim_time``.
    """

    def __init__(self, node: Node) -> None:
        self._clock: Any = node.get_clock()

    def now_ns(self) -> int:
        """Return ROS time [ns]; 0 under simulation until the first /clock message."""
        now: int = self._clock.now().nanoseconds
        return now

    @property
    def simulated(self) -> bool:
        """Whether the time comes from /clock."""
        active: bool = self._clock.ros_time_is_active
        return active

    def on_jump(self, callback: Callable[[Jump], None]) -> JumpHandle:
        """
        Call ``callback`` when the time jumps; keep the handle to stay registered.

        A backward step (bag loop, simulator reset) of any size, a forward step of a second or
        more, and the change between system and simulated time count; the first /clock message
        after a start does not.
        """

        def judged(jump: TimeJump) -> None:
            if jump.clock_change in (ClockChange.ROS_TIME_ACTIVATED,):
                return
            if jump.clock_change == ClockChange.ROS_TIME_DEACTIVATED:
                callback(Jump('the clock changed from /clock to system time', False))
                return
            delta_ns = jump.delta.nanoseconds
            # The step from 0 to the first /clock message is a start, not a jump.
            if delta_ns >= self.now_ns():
                return
            callback(Jump(f'the clock jumped by {delta_ns * 1e-9:+.3f} s', delta_ns < 0))

        return self._clock.create_jump_callback(
            JumpThreshold(
                min_forward=Duration(nanoseconds=FORWARD_JUMP_NS),
                min_backward=Duration(nanoseconds=-BACKWARD_JUMP_NS),
                on_clock_change=True,
            ),
            post_callback=judged,
        )
