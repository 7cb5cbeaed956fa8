# SPDX-License-Identifier: Apache-2.0
"""
The underrun ladder: what is commanded when no chunk can be played.

Hold keeps the last motion (its velocity) for a moment, so that a chunk a few ticks late leaves no
mark; ramp brings that velocity to rest, with bounded jerk (Ruckig); silent commands nothing and
leaves the robot to its own controller. Which rung follows from the time since the underrun began
alone: a clock that stands still climbs nothing. The limits of motion are kept from the very state
that was commanded last, its acceleration too.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
from ruckig import (
    ControlInterface,
    InputParameter,
    Ruckig,
    RuckigError,
    Synchronization,
    Trajectory,
)

from physis_ros.errors import ParameterError
from physis_ros.output.interpolate import NS, State
from physis_ros.types import FloatArray, Play

LEAST = 1e-6


@dataclass(frozen=True)
class LadderConfig:
    """
    How long each rung lasts.

    :param hold_ns: constant velocity for this long; 0 ramps at once.
    :param ramp_ns: least time to come to rest.
    :param acceleration: float64 [A], greatest deceleration [rad/s^2 or m/s^2]; infinite where
        there is no limit. The ramp takes longer than ``ramp_ns`` where it must.
    :param jerk: float64 [A], greatest jerk [rad/s^3 or m/s^3], likewise.
    """

    hold_ns: int
    ramp_ns: int
    acceleration: FloatArray
    jerk: FloatArray

    def __post_init__(self) -> None:
        """Refuse rungs that end before they begin."""
        if self.hold_ns < 0:
            raise ParameterError('hold_ns', '>= 0', self.hold_ns)
        if self.ramp_ns <= 0:
            raise ParameterError('ramp_ns', '> 0', self.ramp_ns, 'a robot cannot stop at once')

    @property
    def limited(self) -> bool:
        """Whether there is a joint that must not stop at once."""
        return bool(np.isfinite(self.acceleration).any() or np.isfinite(self.jerk).any())

    def braking(self, most_ns: int | None) -> LadderConfig:
        """Return the rungs without a hold; with a ramp of at most this, as the limits allow."""
        ramp_ns = self.ramp_ns if most_ns is None else min(self.ramp_ns, most_ns)
        return replace(self, hold_ns=0, ramp_ns=ramp_ns)

    def unlimited(self) -> LadderConfig:
        """Return the same rungs without limits of motion."""
        free = np.full(len(self.jerk), np.inf)
        return replace(self, acceleration=free, jerk=free)


class Ladder:
    """
    One underrun's way down, a function of time. Immutable.

    Limits within which no stop can be planned are left aside, and a speed for which none can be
    planned at all ends where it is.

    :param config: the rungs.
    :param start: the last commanded state and its instant.
    :param acceleration: with which it was commanded [A]; 0 by default. It ends as fast as the
        jerk allows, and its end belongs to the hold.
    """

    __slots__ = ('_began', '_hold_ns', '_jerk', '_ramp', '_start', 'rest_ns')

    def __init__(
        self, config: LadderConfig, start: State, acceleration: FloatArray | None = None
    ) -> None:
        began: FloatArray = np.zeros(len(start.position))
        if acceleration is not None:
            # Without a limit of jerk it may end at once.
            began = np.where(np.isfinite(config.jerk), acceleration, 0.0)
        self._start, self._began = start, began
        self._jerk: FloatArray = np.where(began == 0.0, 0.0, config.jerk)
        self._hold_ns = config.hold_ns
        held = self._held(config.hold_ns * NS)
        self._ramp = _ramp(config, *held) or _ramp(config.unlimited(), *held)
        needed_ns = 0 if self._ramp is None else round(self._ramp.duration / NS)
        ramp_ns = max(config.ramp_ns, needed_ns)
        #: The instant of rest; silent from then on.
        self.rest_ns = start.time_ns + config.hold_ns + ramp_ns

    def at(self, time_ns: int) -> tuple[Play, FloatArray, FloatArray]:
        """Return the rung, position and velocity at ``time_ns``; the rest pose when silent."""
        return (self.rung(time_ns), *self.state(time_ns)[:2])

    def rung(self, time_ns: int) -> Play:
        """Return the rung at ``time_ns``."""
        if time_ns - self._start.time_ns < self._hold_ns:
            return Play.HOLD
        return Play.RAMP if time_ns < self.rest_ns else Play.SILENT

    def state(self, time_ns: int) -> tuple[FloatArray, FloatArray, FloatArray]:
        """Return position, velocity and acceleration at ``time_ns`` [A]."""
        passed_ns = max(time_ns - self._start.time_ns, 0)
        if passed_ns < self._hold_ns:
            return self._held(passed_ns * NS)
        if self._ramp is None:
            still = np.zeros(len(self._start.position))
            return self._start.position, still, still
        ramped_s = min((passed_ns - self._hold_ns) * NS, self._ramp.duration)
        position, velocity, acceleration = self._ramp.at_time(ramped_s)[:3]
        return np.array(position), np.array(velocity), np.array(acceleration)

    def _held(self, passed_s: float) -> tuple[FloatArray, FloatArray, FloatArray]:
        """Return the state so long after the start, while the velocity is kept."""
        began, start = self._began, self._start
        end_s = np.abs(began) / np.where(began == 0.0, 1.0, self._jerk)
        jerk, s = -np.sign(began) * self._jerk, np.minimum(end_s, passed_s)
        velocity = start.velocity + s * (began + s * jerk / 2.0)
        swung = s * (start.velocity + s * (began / 2.0 + s * jerk / 6.0))
        position = start.position + swung + (passed_s - s) * velocity
        return position, velocity, np.where(passed_s < end_s, began + s * jerk, 0.0)


def _ramp(
    config: LadderConfig, position: FloatArray, velocity: FloatArray, began: FloatArray
) -> Trajectory | None:
    """
    Plan the way to rest from where the hold leads; None when it cannot be planned.

    The gentlest symmetric stop in a time R has its greatest deceleration 2 v / R and the jerk
    4 v / R^2; a limit that is lower makes the stop longer. An acceleration with which it begins
    ends as fast as the limit allows, so that the speed does not rise beyond its own.
    """
    joints, ramp_s, speed = len(position), config.ramp_ns * NS, np.abs(velocity)
    given, plan = InputParameter(joints), Trajectory(joints)
    given.control_interface = ControlInterface.Velocity
    given.synchronization = Synchronization.No
    given.current_position = position
    given.current_velocity, given.current_acceleration = velocity, began
    given.target_velocity = np.zeros(joints)
    deceleration = np.maximum(np.maximum(2 * speed / ramp_s, np.abs(began)), LEAST)
    given.max_acceleration = np.minimum(config.acceleration, deceleration)
    gentle = np.maximum(4 * speed / ramp_s**2, LEAST)
    given.max_jerk = np.where(began == 0.0, np.minimum(config.jerk, gentle), config.jerk)
    try:
        Ruckig(joints).calculate(given, plan)
    except (RuckigError, ValueError):
        return None
    return plan
