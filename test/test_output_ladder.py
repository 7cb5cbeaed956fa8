# SPDX-License-Identifier: Apache-2.0
"""The rungs of an underrun: hold the motion, come to rest, be silent."""

from __future__ import annotations

import numpy as np
import pytest

from physis_ros.errors import ParameterError
from physis_ros.output.interpolate import State
from physis_ros.output.ladder import Ladder, LadderConfig
from physis_ros.types import Play

MS = 1_000_000
FREE = np.full(1, np.inf)


def ladder(speed: float = 1.0, acceleration: np.ndarray = FREE, jerk: np.ndarray = FREE) -> Ladder:
    config = LadderConfig(50 * MS, 200 * MS, acceleration, jerk)
    return Ladder(config, State(1000 * MS, np.array([2.0]), np.array([speed])))


def test_B5_hold_keeps_the_velocity_then_ramp_ends_at_rest():
    way = ladder()
    assert way.at(1000 * MS)[0] is Play.HOLD
    rung, position, velocity = way.at(1049 * MS)
    assert (rung, position[0], velocity[0]) == (Play.HOLD, pytest.approx(2.049), 1.0)
    rung, position, velocity = way.at(1050 * MS)
    assert (rung, position[0], velocity[0]) == (Play.RAMP, pytest.approx(2.05), 1.0)
    rung, position, velocity = way.at(1150 * MS)
    # Half-way down with the jerk 4 v / R^2: v t - j t^3 / 6 = 0.1 - 1 / 60.
    assert (rung, velocity[0]) == (Play.RAMP, pytest.approx(0.5))
    assert position[0] == pytest.approx(2.05 + 0.1 - 1 / 60)
    assert way.at(1250 * MS - 1)[0] is Play.RAMP
    rung, position, velocity = way.at(1250 * MS)
    assert (rung, velocity[0]) == (Play.SILENT, pytest.approx(0.0, abs=1e-12))
    assert position[0] == pytest.approx(2.15)


def test_a_robot_at_rest_stays_where_it_is():
    way = ladder(speed=0.0)
    assert {way.at(t * MS)[1][0] for t in range(1000, 1400)} == {2.0}
    assert way.rest_ns == 1250 * MS


def test_the_ramp_takes_the_time_that_the_acceleration_limit_needs():
    way = ladder(speed=1.0, acceleration=np.array([3.0]))
    # v / a + a / j with the gentle stop's own jerk of 100.
    assert way.rest_ns == pytest.approx((1050 + 1000 / 3 + 30) * MS, abs=2)
    times = np.arange(1050, 1420) * MS
    speeds = np.array([way.at(int(t))[2][0] for t in times])
    assert np.abs(np.diff(speeds)).max() / 1e-3 <= 3.0 + 1e-6


def test_the_ramp_takes_the_time_that_the_jerk_limit_needs():
    way = ladder(speed=1.0, jerk=np.array([25.0]))
    assert way.rest_ns == pytest.approx((1050 + 400) * MS, abs=2)  # 2 sqrt(v / j)
    times = np.arange(1050, 1460) * MS
    speeds = np.array([way.at(int(t))[2][0] for t in times])
    assert np.abs(np.diff(speeds, 2)).max() / 1e-6 <= 25.0 + 1e-3


@pytest.mark.parametrize('speed', [1e6, 1e12])
def test_the_robot_comes_to_rest_whatever_the_figures(speed):
    way = ladder(speed=speed)
    rung, _, velocity = way.at(1250 * MS)
    assert (rung, velocity[0]) == (Play.SILENT, pytest.approx(0.0, abs=1e-9 * speed))


def test_velocity_is_the_derivative_of_position():
    way = ladder()
    for time_ns in range(1011 * MS, 1240 * MS, 7 * MS):
        ahead, behind = way.at(time_ns + MS // 10)[1], way.at(time_ns - MS // 10)[1]
        assert (ahead - behind)[0] / 2e-4 == pytest.approx(way.at(time_ns)[2][0], abs=1e-3)


def test_a_time_before_the_underrun_counts_as_its_beginning():
    assert ladder().at(0)[1][0] == 2.0


@pytest.mark.parametrize(('hold_ns', 'ramp_ns'), [(-1, 1), (0, 0)])
def test_rungs_that_cannot_be_are_refused(hold_ns, ramp_ns):
    with pytest.raises(ParameterError, match='must be'):
        LadderConfig(hold_ns, ramp_ns, FREE, FREE)
