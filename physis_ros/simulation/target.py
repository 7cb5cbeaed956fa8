# SPDX-License-Identifier: Apache-2.0
"""
The thing the arm follows: smooth motion that cannot be foretold for long.

A waypoint jumps at random moments inside a sector of a ring around the shoulder; the target goes
after it with bounded speed and acceleration. The path is a function of seed and time alone: one
second blocks are integrated at 1 ms on demand, and old blocks are recomputed from a kept state,
so any order of questions has the same answers and a day of running costs little memory.
"""

from __future__ import annotations

import math
from collections import OrderedDict
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from physis_ros.errors import ParameterError
from physis_ros.simulation.randomness import WAYPOINT, generator

Floats = NDArray[np.float64]

STEP_NS = 1_000_000
BLOCK_STEPS = 1000
BLOCK_NS = STEP_NS * BLOCK_STEPS
CACHED_BLOCKS = 16


@dataclass(frozen=True)
class TargetConfig:
    """
    Where and how the target moves.

    :param radius_m: nearest and farthest waypoint from the shoulder.
    :param angle_rad: lowest and highest waypoint angle around the shoulder.
    :param hold_s: shortest and longest life of a waypoint.
    :param speed_m_s: greatest speed it heads for.
    :param acceleration_m_s2: greatest change of velocity.
    :param approach_hz: wanted speed per metre of distance [1/s].
    :param response_s: time constant of the velocity.
    """

    radius_m: tuple[float, float] = (0.19, 0.40)
    angle_rad: tuple[float, float] = (-1.8, 1.8)
    hold_s: tuple[float, float] = (0.4, 1.1)
    speed_m_s: float = 0.95
    acceleration_m_s2: float = 3.5
    approach_hz: float = 4.0
    response_s: float = 0.08

    def __post_init__(self) -> None:
        """Refuse what cannot be integrated."""
        for name in ('radius_m', 'angle_rad', 'hold_s'):
            low, high = getattr(self, name)
            if not (math.isfinite(low) and math.isfinite(high) and low < high):
                raise ParameterError(name, 'a finite (low, high) pair', (low, high))
        for name in ('speed_m_s', 'acceleration_m_s2', 'approach_hz', 'response_s'):
            value = getattr(self, name)
            if not (math.isfinite(value) and value > 0):
                raise ParameterError(name, 'finite and greater than 0', value)
        for name in ('radius_m', 'hold_s'):
            if getattr(self, name)[0] <= 0:
                raise ParameterError(name, 'greater than 0', getattr(self, name))


@dataclass(frozen=True)
class _State:
    """Where the integration stands: polar position and velocity, and the present waypoint."""

    radius_m: float
    angle_rad: float
    radial_m_s: float
    tangential_m_s: float
    waypoint: int
    jump_step: int


class Target:
    """
    A moving point.

    :param seed: decides the whole path.
    :param config: region and pace.
    """

    def __init__(self, seed: int = 0, config: TargetConfig | None = None) -> None:
        self.config = config or TargetConfig()
        self._seed = seed
        # Waypoint 0 is where it rests at first; it sets off at once, to waypoint 1.
        radius, angle, _ = self._waypoint(0)
        self._starts = [_State(radius, angle, 0.0, 0.0, 1, self._waypoint(1)[2])]
        self._blocks: OrderedDict[int, Floats] = OrderedDict()

    def position_m(self, time_ns: int) -> Floats:
        """Return x and y at a time, [2]."""
        return self.states(np.array([time_ns]))[0, :2]

    def states(self, times_ns: NDArray[np.int64]) -> Floats:
        """
        Return x, y, vx, vy at many times, [n, 4].

        :param times_ns: times from 0, in any order, [n].
        """
        times = np.asarray(times_ns, dtype=np.int64)
        if times.size and int(times.min()) < 0:
            raise ParameterError('time_ns', '0 or greater', int(times.min()))
        result = np.empty((times.size, 4))
        blocks = times // BLOCK_NS
        for block in np.unique(blocks):
            chosen = blocks == block
            rows = self._block(int(block))
            step, rest_ns = np.divmod(times[chosen] - block * BLOCK_NS, STEP_NS)
            part = (rest_ns / STEP_NS)[:, None]
            result[chosen] = rows[step] * (1 - part) + rows[step + 1] * part
        return result

    def _waypoint(self, index: int) -> tuple[float, float, int]:
        """Return radius, angle and life in steps; each has its own generator, so order is free."""
        draw = generator(self._seed, WAYPOINT, index).uniform
        config = self.config
        # Uniform over area, not over radius: the middle of a ring is not its mean radius.
        near, far = config.radius_m
        radius = math.sqrt(draw(near**2, far**2))
        hold_s = draw(*config.hold_s)
        return radius, draw(*config.angle_rad), max(1, round(hold_s * 1e9 / STEP_NS))

    def _block(self, index: int) -> Floats:
        """Return the path over one second, both ends included, [BLOCK_STEPS + 1, 4]."""
        rows = self._blocks.get(index)
        if rows is None:
            while len(self._starts) <= index:
                self._starts.append(self._integrate(len(self._starts) - 1)[1])
            rows = self._integrate(index)[0]
            self._blocks[index] = rows
            while len(self._blocks) > CACHED_BLOCKS:
                self._blocks.popitem(last=False)
        self._blocks.move_to_end(index)
        return rows

    def _integrate(self, index: int) -> tuple[Floats, _State]:
        """Walk one block from its kept start; return the rows and the start of the next."""
        config, state = self.config, self._starts[index]
        radius, angle = state.radius_m, state.angle_rad
        radial, tangential = state.radial_m_s, state.tangential_m_s
        waypoint, jump_step = state.waypoint, state.jump_step
        goal_radius, goal_angle, _ = self._waypoint(waypoint)
        dt = STEP_NS * 1e-9
        polar = np.empty((BLOCK_STEPS + 1, 4))
        for step in range(BLOCK_STEPS):
            if index * BLOCK_STEPS + step >= jump_step:
                waypoint += 1
                goal_radius, goal_angle, life = self._waypoint(waypoint)
                jump_step += life
            polar[step] = radius, angle, radial, tangential
            want_r = config.approach_hz * (goal_radius - radius)
            want_t = config.approach_hz * radius * (goal_angle - angle)
            scale = min(1.0, config.speed_m_s / max(math.hypot(want_r, want_t), 1e-12))
            push_r = (want_r * scale - radial) / config.response_s
            push_t = (want_t * scale - tangential) / config.response_s
            limit = config.acceleration_m_s2 / max(math.hypot(push_r, push_t), 1e-12)
            gain = min(1.0, limit) * dt
            radial += push_r * gain
            tangential += push_t * gain
            radius += radial * dt
            angle += tangential / radius * dt
        polar[BLOCK_STEPS] = radius, angle, radial, tangential
        return _cartesian(polar), _State(radius, angle, radial, tangential, waypoint, jump_step)


def _cartesian(polar: Floats) -> Floats:
    """Turn radius, angle, radial and tangential speed into x, y, vx, vy, [n, 4]."""
    radius, angle, radial, tangential = polar.T
    cosine, sine = np.cos(angle), np.sin(angle)
    return np.stack(
        [
            radius * cosine,
            radius * sine,
            radial * cosine - tangential * sine,
            radial * sine + tangential * cosine,
        ],
        axis=1,
    )
