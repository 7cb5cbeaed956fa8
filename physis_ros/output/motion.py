# SPDX-License-Identifier: Apache-2.0
"""
Limits of motion: velocity, acceleration and jerk of what is commanded, joint by joint.

Each tick asks Ruckig (Berscheid and Kroeger, RSS 2021) for the next state on the way to the one
wanted. What keeps the limits passes unchanged; what does not is followed as fast as they allow,
and not overtaken. Joints without such limits are not touched.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from ruckig import InputParameter, Result, Ruckig, RuckigError, Trajectory

from physis_ros.output.interpolate import NS
from physis_ros.output.limits import JointLimit
from physis_ros.types import FloatArray

SLACK = 1e-6
Joint = tuple[float, float, float]


@dataclass(frozen=True)
class Motion:
    """
    What was commanded last, and what had been wanted.

    :param position: float64 [A] [rad or m]; ``velocity`` and ``acceleration`` likewise.
    :param wanted: velocity that was asked for, to tell the acceleration of what is wanted.
    """

    time_ns: int
    position: FloatArray
    velocity: FloatArray
    acceleration: FloatArray
    wanted: FloatArray


class MotionLimits:
    """
    Keeps commands within limits. Single-threaded; holds no state of the motion itself.

    :param limits: one for each joint.
    """

    def __init__(self, limits: Sequence[JointLimit]) -> None:
        self._joints = [
            (index, _Follower(limit))
            for index, limit in enumerate(limits)
            if not (limit.velocity is None and limit.acceleration is None and limit.jerk is None)
        ]

    @property
    def idle(self) -> bool:
        """Whether no joint has such a limit."""
        return not self._joints

    @staticmethod
    def begin(time_ns: int, position: FloatArray, velocity: FloatArray) -> Motion:
        """Return the motion of a robot that is taken over as it is."""
        return Motion(time_ns, position, velocity, np.zeros(len(position)), velocity)

    def step(
        self, last: Motion, time_ns: int, position: FloatArray, velocity: FloatArray
    ) -> Motion:
        """Return the motion at ``time_ns``, after ``last``, as near to the wanted as may be."""
        passed_s = (time_ns - last.time_ns) * NS
        wanted = (velocity - last.wanted) / passed_s
        states = np.stack((position, velocity, wanted))
        for index, follower in self._joints:
            before = (last.position[index], last.velocity[index], last.acceleration[index])
            target = (position[index], velocity[index], wanted[index])
            states[:, index] = follower.next(before, target, passed_s)
        return Motion(time_ns, states[0], states[1], states[2], velocity)


class _Follower:
    """One joint's way to what is wanted."""

    def __init__(self, limit: JointLimit) -> None:
        self._velocity = math.inf if limit.velocity is None else limit.velocity
        self._acceleration = math.inf if limit.acceleration is None else limit.acceleration
        self._solver, self._input, self._plan = Ruckig(1), InputParameter(1), Trajectory(1)
        self._input.max_velocity = [self._velocity]
        self._input.max_acceleration = [self._acceleration]
        self._input.max_jerk = [math.inf if limit.jerk is None else limit.jerk]

    def next(self, before: Joint, target: Joint, passed_s: float) -> Joint:
        """
        Return the state after ``passed_s``.

        First what is wanted exactly; else towards it, with its acceleration, its velocity or
        neither, whichever of them first does not run beyond it.
        """
        position, velocity, acceleration = target
        velocity = min(max(velocity, -self._velocity), self._velocity)
        acceleration = min(max(acceleration, -self._acceleration), self._acceleration)
        exact = self._solve(before, (position, velocity, acceleration), passed_s)
        if exact and self._plan.duration <= passed_s * (1.0 + SLACK):
            return self._at(passed_s)
        for goal in ((position, velocity, acceleration), (position, velocity, 0.0)):
            if self._solve(before, goal, None) and self._within(before[0], position):
                return self._at(passed_s)
        if self._solve(before, (position, 0.0, 0.0), None):
            return self._at(passed_s)
        return before[0] + before[1] * passed_s, before[1], 0.0

    def _solve(self, before: Joint, goal: Joint, at_least_s: float | None) -> bool:
        """Plan the way to ``goal``; False when there is none within the limits."""
        given = self._input
        given.current_position, given.current_velocity = [before[0]], [before[1]]
        given.current_acceleration = [before[2]]
        given.target_position, given.target_velocity = [goal[0]], [goal[1]]
        given.target_acceleration = [goal[2]]
        given.minimum_duration = at_least_s
        try:
            result = self._solver.calculate(given, self._plan)
        except (RuckigError, ValueError):
            return False
        return result in (Result.Working, Result.Finished)

    def _within(self, first: float, last: float) -> bool:
        """Whether the plan stays between where it begins and where it goes."""
        reach = self._plan.position_extrema[0]
        return bool(
            reach.min >= min(first, last) - SLACK and reach.max <= max(first, last) + SLACK
        )

    def _at(self, time_s: float) -> Joint:
        """Return the planned state."""
        position, velocity, acceleration = self._plan.at_time(time_s)[:3]
        return position[0], velocity[0], acceleration[0]
