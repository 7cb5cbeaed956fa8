# SPDX-License-Identifier: Apache-2.0
"""
Limits per joint: what a chunk may ask for.

A chunk with a non-finite value, or one beyond 1e9, is always refused whole. All else is off
until a limit is given, and then either moves the step onto the limit or refuses the chunk. Limits
of motion are kept tick by tick in ``motion``; here a chunk that asks for more is refused, when
that is wanted.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from enum import Enum

import numpy as np

from physis_ros.errors import ParameterError
from physis_ros.output.verdict import ChunkReject
from physis_ros.types import FloatArray

GREATEST = 1e9
ROUNDING = 1e-9
MOTION = {
    ChunkReject.VELOCITY_LIMIT: 'velocity',
    ChunkReject.ACCELERATION_LIMIT: 'acceleration',
    ChunkReject.JERK_LIMIT: 'jerk',
}


class LimitMode(Enum):
    """What to do with a step beyond a limit."""

    CLAMP = 'clamp'
    REJECT = 'reject'


@dataclass(frozen=True)
class JointLimit:
    """
    One joint's limits; None means none.

    :param lower: least position [rad or m].
    :param upper: greatest position [rad or m].
    :param velocity: greatest speed [rad/s or m/s].
    :param acceleration: greatest change of speed [rad/s^2 or m/s^2].
    :param jerk: greatest change of acceleration [rad/s^3 or m/s^3].
    """

    lower: float | None = None
    upper: float | None = None
    velocity: float | None = None
    acceleration: float | None = None
    jerk: float | None = None

    def __post_init__(self) -> None:
        """Refuse limits that no motion can keep."""
        for name in ('lower', 'upper'):
            value = getattr(self, name)
            if value is not None and not math.isfinite(value):
                raise ParameterError(name, 'finite', value, 'leave it out for no limit')
        if self.lower is not None and self.upper is not None and self.lower >= self.upper:
            raise ParameterError('lower', f'< upper ({self.upper})', self.lower)
        for name in ('velocity', 'acceleration', 'jerk'):
            value = getattr(self, name)
            if value is not None and not (math.isfinite(value) and value > 0.0):
                raise ParameterError(name, 'finite and > 0', value, 'leave it out for no limit')


def usable(values: FloatArray) -> bool:
    """Whether all values are finite, and small enough for sums and differences to stay so."""
    return bool((np.abs(values) <= GREATEST).all())


def column(limits: Sequence[JointLimit], name: str, default: float) -> FloatArray:
    """Return one limit of all joints [A], ``default`` where there is none."""
    values = [getattr(limit, name) for limit in limits]
    return np.array([default if value is None else value for value in values])


class Limits:
    """
    The limits of all joints, applied to whole chunks and to single positions. Single-threaded.

    :param joints: one for each joint, in the order of the columns.
    :param mode: what to do with a step beyond.
    """

    def __init__(self, joints: Sequence[JointLimit], mode: LimitMode = LimitMode.CLAMP) -> None:
        self.joints, self.mode = tuple(joints), mode
        self._lower = column(joints, 'lower', -math.inf)
        self._upper = column(joints, 'upper', math.inf)
        self._motion = [
            (reject, column(joints, name, math.inf)) for reject, name in MOTION.items()
        ]
        self._bounded = bool(np.isfinite(self._lower).any() or np.isfinite(self._upper).any())

    def screen(self, actions: FloatArray) -> tuple[FloatArray, int, ChunkReject | None]:
        """
        Judge a chunk's steps.

        :returns: the steps to play, how many were moved onto a limit, and the reason when the
            chunk must be refused.
        """
        if not usable(actions):
            return actions, 0, ChunkReject.NON_FINITE
        if not self._bounded:
            return actions, 0, None
        inside = self.clamp(actions)
        moved = int((inside != actions).any(axis=1).sum())
        if moved and self.mode is LimitMode.REJECT:
            return actions, 0, ChunkReject.POSITION_LIMIT
        return inside, moved, None

    def too_fast(self, actions: FloatArray, dt_ns: int) -> ChunkReject | None:
        """Return which limit of motion the steps' differences break, when chunks are refused."""
        if self.mode is not LimitMode.REJECT:
            return None
        change = actions
        for reject, greatest in self._motion:
            change = np.diff(change, axis=0) / (dt_ns * 1e-9)
            if (np.abs(change) > greatest * (1.0 + ROUNDING)).any():
                return reject
        return None

    def clamp(self, position: FloatArray) -> FloatArray:
        """Move positions ([A] or [H, A]) onto the position limits."""
        if not self._bounded:
            return position
        inside: FloatArray = np.minimum(np.maximum(position, self._lower), self._upper)
        return inside

    def stopped(self, position: FloatArray, velocity: FloatArray) -> tuple[FloatArray, FloatArray]:
        """Move positions onto the limits; a joint that is kept there does not move."""
        inside = self.clamp(position)
        return inside, velocity if inside is position else velocity * (inside == position)
