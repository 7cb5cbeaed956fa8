# SPDX-License-Identifier: Apache-2.0
"""
The underrun ladder: what is commanded when no chunk can be played.

Hold keeps the last motion (its velocity) for a moment, so that a chunk a few ticks late leaves no
mark; ramp brings that velocity to rest; silent commands nothing and leaves the robot to its own
controller. Which rung follows from the time since the underrun began alone: a clock that stands
still climbs nothing.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from physis_ros.errors import ParameterError
from physis_ros.output.interpolate import NS, State
from physis_ros.types import FloatArray, Play


@dataclass(frozen=True)
class LadderConfig:
    """
    How long each rung lasts.

    :param hold_ns: constant velocity for this long; 0 ramps at once.
    :param ramp_ns: least time to come to rest.
    :param acceleration: float64 [A], greatest deceleration [rad/s^2 or m/s^2]; infinite where
        there is no limit. The ramp takes longer than ``ramp_ns`` where it must.
    """

    hold_ns: int
    ramp_ns: int
    acceleration: FloatArray

    def __post_init__(self) -> None:
        """Refuse rungs that end before they begin."""
        if self.hold_ns < 0:
            raise ParameterError('hold_ns', '>= 0', self.hold_ns)
        if self.ramp_ns <= 0:
            raise ParameterError('ramp_ns', '> 0', self.ramp_ns, 'a robot cannot stop at once')


class Ladder:
    """
    One underrun's way down, a function of time. Immutable.

    :param config: the rungs.
    :param start: the last commanded state and its instant.
    """

    __slots__ = ('_hold_ns', '_ramp_ns', '_start')

    def __init__(self, config: LadderConfig, start: State) -> None:
        self._start = start
        self._hold_ns = config.hold_ns
        # The steepest point of a smoothstep is 1.5 times its mean slope.
        needed_s = float(np.max(1.5 * np.abs(start.velocity) / config.acceleration, initial=0.0))
        self._ramp_ns = max(config.ramp_ns, int(needed_s / NS) + 1)

    @property
    def rest_ns(self) -> int:
        """The instant of rest; silent from then on."""
        return self._start.time_ns + self._hold_ns + self._ramp_ns

    def at(self, time_ns: int) -> tuple[Play, FloatArray, FloatArray]:
        """Return the rung, position and velocity at ``time_ns``; the rest pose when silent."""
        passed_ns = max(time_ns - self._start.time_ns, 0)
        first, speed = self._start.position, self._start.velocity
        if passed_ns < self._hold_ns:
            return Play.HOLD, first + speed * (passed_ns * NS), speed
        u = min((passed_ns - self._hold_ns) / self._ramp_ns, 1.0)
        moving_s = self._hold_ns * NS + self._ramp_ns * NS * (u - u**3 + u**4 / 2)
        rung = Play.RAMP if u < 1.0 else Play.SILENT
        return rung, first + speed * moving_s, speed * (1.0 - u * u * (3.0 - 2.0 * u))
