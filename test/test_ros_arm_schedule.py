# SPDX-License-Identifier: Apache-2.0
"""The arm node's schedule and pace: pure, exact."""

from __future__ import annotations

import pytest

from physis_ros.errors import ParameterError
from physis_ros.ros.arm_config import ArmNodeConfig
from physis_ros.ros.arm_episodes import Episodes, Phase
from physis_ros.ros.pacing import Pace, newest_tick


def test_episodes_run_one_after_another_and_end() -> None:
    episodes = Episodes(count=2, length_ns=100)
    assert (episodes.phase, episodes.announced) == (Phase.WAITING, -1)
    episodes.prepare()
    assert (episodes.phase, episodes.index, episodes.announced) == (Phase.RESETTING, 0, -1)
    episodes.begin(1000)
    assert (episodes.phase, episodes.announced) == (Phase.RUNNING, 0)
    assert not episodes.ended(1099)
    assert episodes.ended(1100)
    episodes.prepare()
    episodes.begin(1200)
    assert episodes.announced == 1
    assert episodes.ended(1300)
    assert (episodes.phase, episodes.announced) == (Phase.DONE, 2)
    assert not episodes.ended(1400)


def test_no_count_means_one_without_an_end() -> None:
    episodes = Episodes(count=0, length_ns=100)
    episodes.prepare()
    episodes.begin(0)
    assert not episodes.ended(10**18)
    assert episodes.announced == 0


@pytest.mark.parametrize('speed', [0.5, 1.0, 4.0])
def test_pace_is_a_line_both_ways(speed: float) -> None:
    pace = Pace(start_steady_ns=1_000, speed=speed)
    assert pace.steady_ns(0) == 1_000
    assert pace.simulated_ns(1_000 + 8_000) == 8_000 * speed
    assert pace.simulated_ns(pace.steady_ns(8_000)) == 8_000


def test_time_that_stood_still_is_not_caught_up() -> None:
    pace = Pace(start_steady_ns=1_000, speed=4.0).held(500)
    assert pace.steady_ns(0) == 1_500
    assert pace.simulated_ns(1_501) == 4


def test_the_newest_tick_is_on_the_grid_and_never_in_the_future() -> None:
    assert newest_tick(due_ns=10, now_ns=249, period_ns=25) == 225
    assert newest_tick(due_ns=10, now_ns=250, period_ns=25) == 250
    assert newest_tick(due_ns=10, now_ns=24, period_ns=25) == 10


def test_ticks_fall_on_all_rates() -> None:
    config = ArmNodeConfig()
    assert config.tick_ns == 5_000_000
    assert config.period_ns('camera') == 25_000_000
    assert ArmNodeConfig(clock_rate_hz=500.0).tick_ns == 1_000_000


@pytest.mark.parametrize('rate', [30.0, 60.0, 999.0])
def test_a_rate_off_the_physics_grid_is_refused(rate: float) -> None:
    with pytest.raises(ParameterError, match='camera_rate_hz must be of a period of whole'):
        ArmNodeConfig(camera_rate_hz=rate)


def test_system_time_at_another_speed_is_refused() -> None:
    with pytest.raises(ParameterError, match="time_base must be 'zero' at a speed other than 1"):
        ArmNodeConfig(speed=2.0)
    assert ArmNodeConfig(speed=2.0, time_base='zero').speed == 2.0
