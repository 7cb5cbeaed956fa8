# SPDX-License-Identifier: Apache-2.0
"""
ROS time as a :class:`physis_ros.clock.Clock`, and its jumps as events.

System time, or /clock under ``use_sim_time``. Durations are measured on the steady clock instead.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from functools import cache
from typing import Any, NamedTuple

from rclpy.clock import Clock, ClockChange, ClockType, JumpHandle, JumpThreshold, TimeJump
from rclpy.duration import Duration
from rclpy.node import Node

from physis_ros.clock import STEP_NS, ClockSteps
from physis_ros.ros import conversions

# A forward step of this size is a jump (a bag was wound on), below it a clock that came late.
FORWARD_JUMP_NS = STEP_NS
BACKWARD_JUMP_NS = 1
# An hour before the last time that fits a message: what is said is of instants ahead, too.
LATEST_NS = (2**31 - 3600) * 1_000_000_000
# So long a missing clock, or one that stands still, is nothing to speak of.
PATIENCE_NS = 5_000_000_000


@cache
def steady() -> Clock:
    """Return the steady clock, for timers and logs that no step of the time may hold up."""
    return Clock(clock_type=ClockType.STEADY_TIME)


def seldom(duration_s: float) -> dict[str, Any]:
    """Return what tells a logger to say a line at most once in that time, of the steady clock."""
    return {'throttle_duration_sec': duration_s, 'throttle_time_source_type': steady()}


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
        self._steps = ClockSteps()
        self._stood: tuple[int, int] | None = None
        self._log = node.get_logger()
        # Messages on /clock that hold no time, and what is wrong with the last, if it was one.
        self.refused, self._refusal = 0, ''
        self._guard(node._time_source)

    def _guard(self, source: Any) -> None:
        """Let only times through to rclpy: what is none, it answers with the end of the node."""
        take = source.clock_callback

        def guarded(message: Any) -> None:
            time_ns = conversions.time_ns(message.clock)
            if 0 <= time_ns <= LATEST_NS:
                self._refusal = ''
                take(type(message)(clock=conversions.time_message(time_ns)))
            else:
                self._refuse(time_ns)

        source.clock_callback = guarded
        if source._clock_sub is not None:
            source._clock_sub.callback = guarded

    def _refuse(self, time_ns: int) -> None:
        """Count and say that a message on /clock holds no time."""
        self.refused += 1
        rule, got = f'from 0 to {LATEST_NS * 1e-9:.0f} s', f'{time_ns * 1e-9:.3f} s'
        self._refusal = f'the time on /clock must be {rule}, got {got}'
        self._log.error(self._refusal, **seldom(5.0))

    def now_ns(self) -> int:
        """Return ROS time [ns]; 0 under simulation until the first /clock message."""
        now: int = self._clock.now().nanoseconds
        return now

    @property
    def simulated(self) -> bool:
        """Whether the time comes from /clock."""
        active: bool = self._clock.ros_time_is_active
        return active

    def system_step(self) -> Jump | None:
        """
        Return the jump when the system clock was set ahead since the last call, else None.

        ROS tells of jumps of /clock only (:meth:`on_jump`); to be called every now and then.
        """
        if self.simulated:
            return None
        ahead_ns = self._steps.ahead_ns(self.now_ns(), time.monotonic_ns())
        if not ahead_ns:
            return None
        return Jump(f'the system clock was set by {ahead_ns * 1e-9:+.3f} s', False)

    def waiting(self) -> str:
        """
        Say that /clock has not come, or stands still, for five seconds and more; else nothing.

        To be called every now and then.
        """
        if not self.simulated:
            return ''
        now_ns, steady_ns = self.now_ns(), time.monotonic_ns()
        if self._stood is None or self._stood[0] != now_ns:
            self._stood = now_ns, steady_ns
        stood_ns = steady_ns - self._stood[1]
        if stood_ns < PATIENCE_NS:
            return ''
        if self._refusal:
            return f'{self._refusal} ({self.refused} messages were refused)'
        if now_ns == 0:
            return 'waiting for /clock: use_sim_time is true and nobody has published the time yet'
        return f'the time stands still at {now_ns * 1e-9:.3f} s: /clock is paused or has ended'

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
