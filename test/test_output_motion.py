# SPDX-License-Identifier: Apache-2.0
"""Limits of motion: never broken, what keeps them passes, and nothing is run past."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from physis_ros.output.limits import JointLimit
from physis_ros.output.motion import MotionLimits

MS = 1_000_000
TICK_NS = 5 * MS
TICK_S = 5e-3


def follow(limit: JointLimit, positions: np.ndarray, velocities: np.ndarray) -> np.ndarray:
    """Return position, velocity, acceleration at each tick, from the first wanted state on."""
    limits = MotionLimits([limit])
    motion = limits.begin(0, positions[:1], velocities[:1])
    states = [(motion.position[0], motion.velocity[0], motion.acceleration[0])]
    for index in range(1, len(positions)):
        wanted = positions[index : index + 1], velocities[index : index + 1]
        motion = limits.step(motion, index * TICK_NS, *wanted)
        states.append((motion.position[0], motion.velocity[0], motion.acceleration[0]))
    return np.array(states)


def test_what_keeps_the_limits_passes():
    times = np.arange(800) * TICK_S
    positions, velocities = 0.3 * (1 - np.cos(3 * times)), 0.9 * np.sin(3 * times)
    limit = JointLimit(velocity=1.0, acceleration=10.0)
    states = follow(limit, positions, velocities)
    assert states[1:, 0] == pytest.approx(positions[1:], abs=1e-9)
    assert states[1:, 1] == pytest.approx(velocities[1:], abs=1e-9)


def test_a_step_is_climbed_within_the_limits_and_not_overshot():
    positions = np.r_[0.0, np.full(400, 0.5)]
    limit = JointLimit(velocity=1.0, acceleration=8.0, jerk=100.0)
    states = follow(limit, positions, np.zeros(401))
    assert states[:, 0].max() == pytest.approx(0.5, abs=1e-6)
    assert states[-1] == pytest.approx([0.5, 0.0, 0.0], abs=1e-6)
    # v/a + a/j to speed up, the same to slow down, the rest at full speed: 0.705 s.
    arrived = int(np.argmax(states[:, 0] > 0.5 - 1e-6)) * TICK_S
    assert arrived == pytest.approx(0.5 / 1.0 + 1.0 / 8.0 + 8.0 / 100.0, abs=0.02)


WANTED = st.lists(
    st.tuples(st.floats(-2, 2), st.floats(-5, 5), st.integers(1, 40)), min_size=1, max_size=8
)
LIMIT = st.builds(
    JointLimit,
    velocity=st.one_of(st.none(), st.floats(0.1, 5)),
    acceleration=st.one_of(st.none(), st.floats(0.5, 50)),
    jerk=st.one_of(st.none(), st.floats(5, 2000)),
)


@settings(max_examples=80, deadline=None)
@given(WANTED, LIMIT)
def test_C9_no_limit_is_ever_broken(wanted, limit):
    positions, velocities = [0.0], [0.0]
    for position, velocity, ticks in wanted:
        moved = velocity * TICK_S * np.arange(ticks)
        positions.extend(position + moved)
        velocities.extend([velocity] * ticks)
    states = follow(limit, np.array(positions), np.array(velocities))
    assert np.isfinite(states).all()
    if limit.velocity is not None:
        assert np.abs(states[:, 1]).max() <= limit.velocity * (1 + 1e-6) + 1e-9
    if limit.acceleration is not None:
        change = np.abs(np.diff(states[:, 1])).max() / TICK_S
        assert change <= limit.acceleration * (1 + 1e-6) + 1e-6
    if limit.jerk is not None:
        change = np.abs(np.diff(states[:, 2])).max() / TICK_S
        assert change <= limit.jerk * (1 + 1e-6) + 1e-3


def test_joints_without_limits_are_left_alone():
    limits = MotionLimits([JointLimit(velocity=1.0), JointLimit(lower=-1.0)])
    assert not limits.idle
    assert MotionLimits([JointLimit(lower=-1.0)]).idle
    motion = limits.begin(0, np.zeros(2), np.zeros(2))
    motion = limits.step(motion, TICK_NS, np.array([5.0, 5.0]), np.zeros(2))
    assert motion.position[0] <= 1.0 * TICK_S + 1e-9
    assert motion.position[1] == 5.0
