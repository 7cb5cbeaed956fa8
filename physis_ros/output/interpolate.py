# SPDX-License-Identifier: Apache-2.0
"""
Stamped steps made into a curve: position and velocity at any instant between them.

Per joint linear, cubic or step. Each piece is one row of polynomial coefficients, computed when
the chunk comes in, so that a tick only evaluates. No clock, no merging: see ``timeline``.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from enum import Enum

import numpy as np
import numpy.typing as npt

from physis_ros.types import FloatArray

NS = 1e-9


class Interpolation(Enum):
    """
    How a joint moves between two steps.

    LINEAR is continuous, CUBIC continuous with its velocity and never beyond its two steps,
    STEP keeps a value until the next step's instant (grippers).
    """

    LINEAR = 'linear'
    CUBIC = 'cubic'
    STEP = 'step'


@dataclass(frozen=True)
class Kinds:
    """
    The interpolation of all joints, as masks.

    :param cubic: bool [A], the cubic joints.
    :param step: bool [A], the step joints; the others are linear.
    """

    cubic: npt.NDArray[np.bool_]
    step: npt.NDArray[np.bool_]

    @classmethod
    def of(cls, kinds: Sequence[Interpolation]) -> Kinds:
        """Make masks of one :class:`Interpolation` for each joint."""
        return cls(
            np.array([kind is Interpolation.CUBIC for kind in kinds], dtype=np.bool_),
            np.array([kind is Interpolation.STEP for kind in kinds], dtype=np.bool_),
        )


class Curve:
    """
    A piecewise polynomial on an even grid. Immutable.

    :param start_ns: the first knot.
    :param step_ns: distance of knots.
    :param rows: float64 [pieces, 4, A]; ``p(u) = r0 + u (r1 + u (r2 + u r3))``, ``u`` in [0, 1).
    """

    __slots__ = ('_per_s', '_rows', 'start_ns', 'step_ns')

    def __init__(self, start_ns: int, step_ns: int, rows: FloatArray) -> None:
        self.start_ns, self.step_ns = start_ns, step_ns
        self._rows = rows
        self._per_s = 1.0 / (step_ns * NS)

    def at(self, time_ns: int) -> tuple[FloatArray, FloatArray]:
        """Return position and velocity [A]; outside the grid the end pieces go on."""
        row = min(max((time_ns - self.start_ns) // self.step_ns, 0), len(self._rows) - 1)
        u = (time_ns - self.start_ns - row * self.step_ns) / self.step_ns
        square, per_s = u * u, self._per_s
        powers = np.array(
            ((1.0, u, square, square * u), (0.0, per_s, 2.0 * u * per_s, 3.0 * square * per_s))
        )
        position, velocity = powers @ self._rows[row]
        return position, velocity


def through(start_ns: int, step_ns: int, steps: FloatArray, kinds: Kinds) -> Curve:
    """
    Draw the curve through evenly stamped steps.

    :param steps: float64 [H, A]; the last row of the result is the last step itself.
    """
    rise = np.diff(steps, axis=0)
    tangent = tangents(rise)
    rows = np.zeros((len(steps), 4, steps.shape[1]))
    rows[:, 0] = steps
    if len(rise):
        rows[:-1, 1] = np.where(kinds.cubic, tangent[:-1], rise)
        rows[-1, 1] = np.where(kinds.cubic, tangent[-1], rise[-1])
        rows[:-1, 2] = np.where(kinds.cubic, 3 * rise - 2 * tangent[:-1] - tangent[1:], 0.0)
        rows[:-1, 3] = np.where(kinds.cubic, tangent[:-1] + tangent[1:] - 2 * rise, 0.0)
        rows[:, 1:, kinds.step] = 0.0
    return Curve(start_ns, step_ns, rows)


def tangents(rise: FloatArray) -> FloatArray:
    """
    Return shape-preserving tangents [H, A] for even knots, in units per step.

    Fritsch and Butland (1984): the harmonic mean of the neighbouring slopes, zero at a turn; at
    the ends the three-point formula of scipy's ``PchipInterpolator``, which this equals.

    :param rise: float64 [H - 1, A], differences of successive steps.
    """
    if not len(rise):
        return np.zeros((1, rise.shape[1]))
    if len(rise) == 1:
        return np.repeat(rise, 2, axis=0)
    before, after = rise[:-1], rise[1:]
    product = before * after
    total = np.where(product > 0.0, before + after, 1.0)
    inner = np.where(product > 0.0, 2.0 * product / total, 0.0)
    return np.concatenate((_end(rise[0], rise[1]), inner, _end(rise[-1], rise[-2])))


def _end(near: FloatArray, far: FloatArray) -> FloatArray:
    """Return the end tangent [1, A] from the two slopes next to it."""
    tangent = (3.0 * near - far) / 2.0
    tangent = np.where(np.sign(tangent) != np.sign(near), 0.0, tangent)
    turn = (np.sign(near) != np.sign(far)) & (np.abs(tangent) > 3.0 * np.abs(near))
    return np.where(turn, 3.0 * near, tangent)[np.newaxis]


@dataclass(frozen=True)
class State:
    """Position [A] and velocity [A] at an instant."""

    time_ns: int
    position: FloatArray
    velocity: FloatArray


def between(first: State, last: State, kinds: Kinds) -> Curve:
    """Join two states: a straight line, a cubic with both velocities, or the first value kept."""
    span_ns = last.time_ns - first.time_ns
    rise = last.position - first.position
    out, into = first.velocity * span_ns * NS, last.velocity * span_ns * NS
    rows = np.zeros((1, 4, len(rise)))
    rows[0, 0] = first.position
    rows[0, 1] = np.where(kinds.cubic, out, rise)
    rows[0, 2] = np.where(kinds.cubic, 3 * rise - 2 * out - into, 0.0)
    rows[0, 3] = np.where(kinds.cubic, out + into - 2 * rise, 0.0)
    rows[0, 1:, kinds.step] = 0.0
    return Curve(first.time_ns, span_ns, rows)


def fading(offset: State, duration_ns: int) -> Curve:
    """Let an offset and its velocity go to zero over ``duration_ns``, smoothly at both ends."""
    joints = len(offset.position)
    everything = Kinds(np.ones(joints, dtype=np.bool_), np.zeros(joints, dtype=np.bool_))
    rest = State(offset.time_ns + duration_ns, np.zeros(joints), np.zeros(joints))
    return between(offset, rest, everything)
