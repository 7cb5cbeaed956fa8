# SPDX-License-Identifier: Apache-2.0
"""Another configuration while the player plays: from the next tick, and never with a jump."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from output_cases import MS, PLAIN, chunk, player, run, tick

from physis_ros.errors import ParameterError
from physis_ros.output.limits import JointLimit
from physis_ros.output.merge import Merge
from physis_ros.output.verdict import ChunkReject
from physis_ros.session.player import Player
from physis_ros.types import Play, Reason

RAMP = np.arange(60) * 0.05  # 2 rad/s at 25 ms a step


def change(made: Player, **changes: object) -> None:
    """Change some of a player's configuration."""
    made.reconfigure(replace(made.config, **changes))


def steps(made: Player, first_ms: int, last_ms: int) -> np.ndarray:
    """Return the steps of the first joint from tick to tick, the tick before included."""
    before = made._moved.position[0]
    positions = [command.position[0] for command in run(made, first_ms, last_ms)]
    return np.abs(np.diff([before, *positions]))


def test_a_limit_of_speed_holds_from_the_next_tick():
    made = player(start_blend_ns=1, **PLAIN)
    made.offer(chunk(steps=RAMP), 0)
    tick(made, 0)
    assert steps(made, 5, 200)[-1] == pytest.approx(0.01)
    change(made, limits=(JointLimit(velocity=1.0),) * 2)
    # 1 rad/s at 5 ms; it was at 2 rad/s, and may brake as hard as it likes.
    assert steps(made, 205, 600)[2:].max() <= 0.005 + 1e-9


def test_a_limit_that_is_lifted_lets_the_robot_catch_up_smoothly():
    made = player(start_blend_ns=100 * MS, limits=(JointLimit(velocity=0.5),) * 2, **PLAIN)
    made.offer(chunk(steps=RAMP), 0)
    run(made, 0, 600)
    behind = 2.0 * 0.6 - made._moved.position[0]
    assert behind > 0.5
    change(made, limits=())
    caught_up = steps(made, 605, 800)
    # In 100 ms, 20 ticks, and no faster than twice that on the way.
    assert caught_up.max() <= 2 * behind / 20
    assert caught_up[-1] == pytest.approx(0.01)


@pytest.mark.parametrize('after', [Merge.REPLACE, Merge.BLEND])
def test_the_merge_policy_changes_without_a_jump(after: Merge):
    made = player(merge=Merge.ENSEMBLE, start_blend_ns=100 * MS, blend_ns=20 * MS)
    for number, level in enumerate((0.0, 0.4)):
        made.offer(chunk(number, 50 * number, steps=[level] * 40), 50 * number * MS)
        run(made, 50 * number + 5, 50 * number + 45)
    run(made, 100, 300)
    mean = made._moved.position[0]
    assert 0.1 < mean < 0.3
    change(made, merge=after)
    # Now the newest chunk alone is played; from the mean to it in 100 ms at least.
    way = 0.4 - mean
    found = steps(made, 305, 500)
    assert found.max() <= 1.5 * way * 5 / 100 + 1e-6
    assert tick(made, 505).position[0] == pytest.approx(0.4)


def test_the_greatest_age_holds_from_the_next_tick():
    made = player(**PLAIN)
    made.offer(chunk(steps=RAMP, observed_ms=-100), 0)
    assert tick(made, 50).play is Play.PLAYING
    change(made, max_action_age_ns=120 * MS)
    assert (tick(made, 55).play, tick(made, 60).reason) == (Play.HOLD, Reason.EXPIRED)


def test_what_would_be_a_jump_is_refused_and_nothing_changes():
    made = player(start_blend_ns=1, **PLAIN)
    made.offer(chunk(steps=RAMP), 0)
    run(made, 5, 200)
    before = made.config
    limits = (JointLimit(upper=0.3),) * 2
    words = r'upper must be around the last command \[0.4, 0.4\], got \[0.3, 0.3\]; move there'
    with pytest.raises(ParameterError, match=words):
        change(made, limits=limits, max_action_age_ns=1)
    assert made.config is before
    assert tick(made, 205).play is Play.PLAYING
    with pytest.raises(
        ParameterError, match=r'servo_rate_hz must be 200.0 while the player exists'
    ):
        change(made, servo_rate_hz=100.0)
    # Before anything was commanded every limit can be set.
    change(player(), limits=limits)


def test_a_change_of_nothing_changes_no_command():
    plain, changed = (player(start_blend_ns=1, **PLAIN) for _ in range(2))
    for made in (plain, changed):
        made.offer(chunk(steps=RAMP), 0)
        run(made, 5, 100)
    change(changed)
    for before, after in zip(run(plain, 105, 300), run(changed, 105, 300), strict=True):
        np.testing.assert_allclose(after.position, before.position, atol=1e-12)


def test_bounds_of_what_comes_hold_from_the_next_chunk():
    made = player(max_action_age_ns=5000 * MS, **PLAIN)
    line = np.zeros(60)
    assert made.offer(chunk(0, 1500, line, observed_ms=0), 0).accepted
    change(made, far_future_ns=1000 * MS, skew_ns=30 * MS)
    assert made.offer(chunk(1, 1001, line), 0).reject is ChunkReject.FAR_FUTURE
    assert made.offer(chunk(1, 0, line, observed_ms=31), 0).reject is ChunkReject.FUTURE_INPUT
    assert made.offer(chunk(1, 0, line, observed_ms=30), 0).accepted
    change(made, depth_ns=150 * MS)
    # What the first one says beyond its end is kept.
    assert made.depth_ns(0) == 2975 * MS
    assert made.offer(chunk(2, 0, line, observed_ms=0), 0).accepted
    assert made.depth_ns(0) == 150 * MS


def test_waiting_is_as_long_as_was_set_last():
    made = player(**PLAIN)
    made.offer(chunk(), 0)
    run(made, 0, 100)
    assert tick(made, 300).reason is Reason.CHUNK_LATE
    change(made, chunk_timeout_ns=200 * MS)
    assert tick(made, 305).reason is Reason.NO_CHUNK
    run(made, 310, 1000)
    made.measured(np.full(2, 0.5), 900 * MS)
    change(made, state_age_ns=50 * MS)
    # Too old by now: it goes on from the last command.
    made.offer(chunk(1, 1005, np.full(16, 0.5), observed_ms=1000), 1000 * MS)
    assert tick(made, 1005).position[0] > 2.9


def test_an_ensemble_weighs_by_the_decay_that_was_set_last():
    made = player(merge=Merge.ENSEMBLE, interpolation=PLAIN['interpolation'], blend_ns=20 * MS)
    made.offer(chunk(0, 0, np.zeros(20)), 0)
    made.offer(chunk(1, 0, np.ones(20)), 0)
    assert run(made, 0, 350)[-1].position[0] == pytest.approx(1 / (1 + np.exp(0.01)))
    change(made, ensemble_decay=-2.0, start_blend_ns=20 * MS)
    told = [command.position[0] for command in run(made, 355, 400)]
    assert np.abs(np.diff(told)).max() < 0.15
    assert told[-1] == pytest.approx(np.exp(2.0) / (1 + np.exp(2.0)))
