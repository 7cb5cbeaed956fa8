# SPDX-License-Identifier: Apache-2.0
"""When the benchmarks of endurance say that nothing grows or drifts, and no tick is lost."""

from __future__ import annotations

from itertools import accumulate

import numpy as np
import pytest
from endurance.slope import drift, growth

N = 600
HOURS = [i / 1800 for i in range(N)]
SHARE = 0.01


def memory(per_hour: float, step: float) -> list[float]:
    """Return what a process of 50,000 KiB uses while pages of it come and go."""
    steps = np.random.default_rng(1).normal(0.0, step, N)
    walk = np.array(list(accumulate(steps - steps.mean())))
    return list(50_000.0 + walk + np.array(HOURS) * per_hour)


@pytest.mark.parametrize(
    ('per_hour', 'step', 'level'),
    [
        pytest.param(0.0, 0.5, True, id='nothing grows'),
        pytest.param(-400.0, 0.5, True, id='it goes down'),
        pytest.param(400.0, 0.5, False, id='it grows'),
        pytest.param(0.0, 200.0, False, id='so noisy that nobody can tell'),
    ],
)
def test_memory_is_level_only_where_growth_is_ruled_out(
    per_hour: float, step: float, level: bool
) -> None:
    found = growth(HOURS, memory(per_hour, step))
    assert found.low_per_hour < found.per_hour < found.high_per_hour
    assert found.level(SHARE) is level


@pytest.mark.parametrize(
    ('per_hour', 'noise', 'steady'),
    [
        pytest.param(0.0, 3.0, True, id='it stays'),
        pytest.param(40.0, 3.0, False, id='it gets older'),
        pytest.param(-40.0, 3.0, False, id='it gets younger'),
        pytest.param(0.0, 300.0, False, id='so noisy that nobody can tell'),
    ],
)
def test_an_age_is_steady_only_where_a_drift_is_ruled_out(
    per_hour: float, noise: float, steady: bool
) -> None:
    ages = 150.0 + np.random.default_rng(2).normal(0.0, noise, N) + np.array(HOURS) * per_hour
    found = drift(HOURS, list(ages))
    assert found.low_per_hour < found.per_hour < found.high_per_hour
    assert found.steady(0.1) is steady


@pytest.mark.ros
def test_periods_without_a_tick_are_counted_and_a_pause_is_none() -> None:
    pytest.importorskip('physis_ros.msg')
    from endurance.real import PERIOD_NS, Heard

    from physis_ros.msg import Playback

    heard = Heard()

    def tick(period: float, late_ns: int = 50_000, age_ms: int = 0) -> None:
        due_ns = 10**12 + round(period * PERIOD_NS)
        message = Playback(scheduled_steady_ns=due_ns, ticked_steady_ns=due_ns + late_ns)
        message.play = Playback.PLAY_PLAYING if age_ms else Playback.PLAY_RAMP
        message.reason = Playback.REASON_NONE if age_ms else Playback.REASON_INACTIVE
        message.age.nanosec = age_ms * 1_000_000
        heard.tick(message)

    for period in range(3):
        tick(period, age_ms=100 + period)
    heard.sample(0.1)
    for period in (3, 4, 8):
        tick(period)
    # The hold at the end of a pause or a reset is between two ticks.
    tick(8.3, late_ns=0)
    tick(9, age_ms=140)
    heard.sample(0.2)
    assert heard.lost == [(0.1, 0), (0.2, 3)]
    assert heard.ages_ms == [(0.1, 101.0), (0.2, 140.0)]
    assert (heard.ticks, heard.off_grid) == (7, 0)
