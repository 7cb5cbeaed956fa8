# SPDX-License-Identifier: Apache-2.0
"""Curves through stamped steps: exact values, and cubic ones against scipy."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from physis_ros.output.interpolate import Interpolation, Kinds, State, between, fading, through

MS = 1_000_000
LINEAR = Kinds.of([Interpolation.LINEAR])
CUBIC = Kinds.of([Interpolation.CUBIC])
STEP = Kinds.of([Interpolation.STEP])


def column(*values: float) -> np.ndarray:
    return np.array(values, dtype=np.float64)[:, None]


def test_linear_is_a_straight_line_between_two_steps():
    curve = through(100 * MS, 20 * MS, column(0.0, 1.0, 0.5), LINEAR)
    position, velocity = curve.at(105 * MS)
    assert position[0] == pytest.approx(0.25)
    assert velocity[0] == pytest.approx(50.0)
    assert curve.at(120 * MS)[0][0] == 1.0
    assert curve.at(120 * MS)[1][0] == pytest.approx(-25.0)
    assert curve.at(140 * MS)[0][0] == 0.5


def test_step_keeps_a_value_until_the_next_ones_instant():
    curve = through(0, 20 * MS, column(0.0, 1.0, 0.0), STEP)
    got = [curve.at(t)[0][0] for t in (0, 20 * MS - 1, 20 * MS, 40 * MS - 1, 40 * MS)]
    assert got == [0.0, 0.0, 1.0, 1.0, 0.0]
    assert curve.at(10 * MS)[1][0] == 0.0


def test_joints_keep_their_own_kinds():
    kinds = Kinds.of([Interpolation.LINEAR, Interpolation.STEP])
    curve = through(0, 10 * MS, np.array([[0.0, 0.0], [1.0, 1.0]]), kinds)
    assert curve.at(5 * MS)[0].tolist() == [0.5, 0.0]


def test_a_single_step_is_a_point():
    for kinds in (LINEAR, CUBIC, STEP):
        curve = through(7, 10 * MS, column(3.0), kinds)
        assert curve.at(7)[0][0] == 3.0
        assert curve.at(7)[1][0] == 0.0


@settings(max_examples=50, deadline=None)
@given(st.lists(st.integers(-3000, 3000), min_size=3, max_size=12), st.floats(0, 1))
def test_cubic_equals_scipys_pchip(thousandths, where):
    values = [value / 1000 for value in thousandths]
    interpolate = pytest.importorskip('scipy.interpolate')
    times = np.arange(len(values)) * 0.025
    expected = interpolate.PchipInterpolator(times, values)
    curve = through(0, 25 * MS, column(*values), CUBIC)
    time_ns = round(where * (len(values) - 1) * 25 * MS)
    position, velocity = curve.at(time_ns)
    assert position[0] == pytest.approx(float(expected(time_ns * 1e-9)), abs=1e-6)
    if time_ns % (25 * MS):
        slope = float(expected.derivative()(time_ns * 1e-9))
        assert velocity[0] == pytest.approx(slope, abs=1e-4)


def test_a_cubic_bridge_meets_both_velocities():
    first = State(0, np.array([1.0]), np.array([2.0]))
    last = State(50 * MS, np.array([0.5]), np.array([-1.0]))
    curve = between(first, last, CUBIC)
    for state in (first, last):
        position, velocity = curve.at(state.time_ns)
        assert position[0] == pytest.approx(state.position[0])
        assert velocity[0] == pytest.approx(state.velocity[0])


def test_an_offset_fades_to_nothing():
    curve = fading(State(0, np.array([1.0]), np.array([0.0])), 100 * MS)
    assert curve.at(50 * MS)[0][0] == pytest.approx(0.5)
    position, velocity = curve.at(100 * MS)
    assert position[0] == pytest.approx(0.0, abs=1e-12)
    assert velocity[0] == pytest.approx(0.0, abs=1e-12)
