# SPDX-License-Identifier: Apache-2.0
"""The player where the motion ends: underrun, expiry, epochs, clocks, stop; and whatever comes."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from output_cases import MS, PLAIN, chunk, player, run, tick

from physis_ros.output.interpolate import Interpolation
from physis_ros.output.limits import JointLimit
from physis_ros.output.merge import Merge
from physis_ros.output.verdict import ChunkReject
from physis_ros.session.player import PlayerState
from physis_ros.types import Play, Reason


def test_B5_the_ladder_tick_by_tick():
    made = player(hold_ns=10 * MS, ramp_ns=20 * MS, start_blend_ns=1, **PLAIN)
    made.offer(chunk(steps=[0.0, 0.25]), 0)  # 10 rad/s until 25 ms
    commands = run(made, 0, 70)
    assert [command.play for command in commands] == (
        [Play.PLAYING] * 6 + [Play.HOLD] + [Play.RAMP] * 5 + [Play.SILENT] * 3
    )
    assert {command.reason for command in commands[6:]} == {Reason.CHUNK_LATE}
    assert commands[5].position[0] == pytest.approx(0.25)
    assert commands[6].position[0] == pytest.approx(0.30)
    assert commands[6].velocity[0] == pytest.approx(10.0)
    assert commands[7].position[0] == pytest.approx(0.35)
    # The last one is the rest, where a controller that keeps what it was told stays.
    assert [command.velocity[0] for command in commands[7:12]] == pytest.approx(
        [10.0, 8.75, 5.0, 1.25, 0.0]
    )
    assert commands[11].position[0] == pytest.approx(0.35 + 0.1)
    figures = made.account.figures()
    assert figures.underruns.by_rung == {'hold': 1, 'ramp': 5, 'silent': 3}
    assert figures.misses_by_cause == {'chunk_late': 9}
    assert made.state is PlayerState.UNDERRUN


def test_C23_the_reason_turns_from_late_to_none_when_no_chunk_comes_any_more():
    made = player(chunk_timeout_ns=200 * MS, **PLAIN)
    made.offer(chunk(), 0)
    commands = run(made, 0, 300)
    assert commands[200 // 5].reason is Reason.CHUNK_LATE
    assert commands[205 // 5].reason is Reason.NO_CHUNK
    made.reset(1, 300 * MS)
    reasons = [command.reason for command in run(made, 305, 500, 195)]
    assert reasons == [Reason.EPOCH, Reason.EPOCH]
    assert tick(made, 501).reason is Reason.NO_CHUNK


def test_the_ladder_keeps_within_the_position_limits():
    limits = (JointLimit(upper=0.26),) * 2
    made = player(limits=limits, start_blend_ns=1, **PLAIN)
    made.offer(chunk(steps=[0.0, 0.25]), 0)
    commands = [command for command in run(made, 0, 200) if command.position.size]
    assert max(command.position[0] for command in commands) == 0.26
    # A joint that is kept at its limit is not said to move on, now or in what is foretold.
    kept = [command for command in commands if command.position[0] == 0.26]
    assert kept[0].play is Play.HOLD
    assert not np.any([command.velocity for command in kept])


def test_what_is_foretold_stands_still_at_the_position_limits():
    limits = (JointLimit(upper=0.26), JointLimit())
    made = player(limits=limits, start_blend_ns=1, **PLAIN)
    made.offer(chunk(steps=[0.0, 0.25]), 0)
    tick(made, 20)
    points = made.upcoming(20 * MS, 10, 5 * MS)
    assert points[3].position[0] == 0.26
    assert {point.velocity[0] for point in points[3:]} == {0.0}
    assert points[3].velocity[1] == pytest.approx(10.0)


def test_C5_a_late_chunk_resumes_the_motion_without_a_jump():
    made = player(blend_ns=40 * MS, start_blend_ns=1, **PLAIN)
    made.offer(chunk(0, steps=[0.0, 0.025]), 0)
    run(made, 0, 34, 1)
    verdict = made.offer(chunk(1, start_ms=0, steps=[0.0, 0.0, 0.5, 0.5, 0.5, 0.5]), 35 * MS)
    assert verdict.late
    commands = run(made, 35, 120, 1)
    assert {command.play for command in commands} == {Play.PLAYING}
    assert commands[0].position[0] == pytest.approx(0.035)
    steps = np.abs(np.diff([command.position[0] for command in commands]))
    # 0.5 in 25 ms is the chunk's own speed; the fade adds a little to it.
    assert steps.max() < 0.03
    assert commands[-1].position[0] == 0.5


def test_each_underrun_begins_where_the_robot_then_is():
    made = player(start_blend_ns=1, blend_ns=1, hold_ns=10 * MS, **PLAIN)
    made.offer(chunk(0, steps=[0.0, 0.0]), 0)
    run(made, 0, 30)
    made.offer(chunk(1, start_ms=35, steps=[0.5, 0.75], observed_ms=30), 31 * MS)
    run(made, 35, 60)
    plays = [point.play for point in made.upcoming(50 * MS, 4, 5 * MS)]
    assert plays[:4] == [Play.PLAYING] * 2 + [Play.HOLD, Play.RAMP]
    command = tick(made, 65)
    assert command.play is Play.HOLD
    assert command.position[0] == pytest.approx(0.75 + 10.0 * 0.005)
    assert made.account.figures().underruns.count == 2


def test_ticks_lost_before_an_underrun_do_not_throw_the_robot_ahead():
    made = player(start_blend_ns=1, hold_ns=50 * MS, **PLAIN)
    made.offer(chunk(steps=[0.0, 0.25]), 0)
    run(made, 0, 25)
    command = tick(made, 200)
    assert (command.play, command.position[0]) == (Play.HOLD, pytest.approx(0.25))


def test_A10_after_silence_the_motion_goes_on_from_the_measured_state():
    made = player(start_blend_ns=100 * MS, hold_ns=0, ramp_ns=10 * MS, **PLAIN)
    made.offer(chunk(0, steps=np.zeros(2)), 0)
    run(made, 0, 100)
    made.measured(np.full(2, 0.6), 400 * MS)  # somebody moved it meanwhile
    made.offer(chunk(1, start_ms=405, steps=np.zeros(16), observed_ms=400), 401 * MS)
    assert tick(made, 405).position[0] == pytest.approx(0.6)
    assert tick(made, 505).position[0] == 0.0


def test_after_silence_without_joint_states_it_goes_on_from_the_last_command():
    made = player(start_blend_ns=100 * MS, hold_ns=0, ramp_ns=10 * MS, **PLAIN)
    made.offer(chunk(0, steps=np.zeros(2)), 0)
    run(made, 0, 100)
    made.offer(chunk(1, start_ms=905, steps=np.ones(16), observed_ms=900), 901 * MS)
    assert tick(made, 905).position[0] == pytest.approx(0.0)


def test_B6_exactly_the_greatest_age_is_played_and_nothing_older():
    made = player(max_action_age_ns=50 * MS, **PLAIN)
    made.offer(chunk(steps=np.zeros(16), observed_ms=0), 0)
    assert made.tick(50 * MS, 50 * MS).play is Play.PLAYING
    command = made.tick(50 * MS + 1, 50 * MS + 1)
    assert (command.play, command.reason) == (Play.HOLD, Reason.EXPIRED)


def test_E12_an_older_epoch_is_never_played():
    made = player(**PLAIN)
    made.offer(chunk(0, steps=np.zeros(16)), 0)
    tick(made, 10)
    assert made.reset(3, 12 * MS)
    assert not made.reset(3, 12 * MS)
    command = tick(made, 15)
    assert (command.play, command.reason, command.epoch) == (Play.HOLD, Reason.EPOCH, 3)
    assert made.offer(chunk(1), 16 * MS).reject is ChunkReject.STALE_EPOCH
    assert made.offer(chunk(0, epoch=3, steps=np.ones(16)), 17 * MS).accepted
    command = tick(made, 20)
    assert (command.play, command.epoch) == (Play.PLAYING, 3)
    assert command.position[0] < 0.1


def test_a_chunk_of_a_higher_epoch_begins_it_and_the_robot_does_not_jump():
    made = player(start_blend_ns=50 * MS, **PLAIN)
    made.offer(chunk(5, steps=np.zeros(16)), 0)
    run(made, 0, 100)
    assert made.offer(chunk(0, epoch=1, start_ms=100, steps=np.ones(16)), 101 * MS).new_epoch
    commands = run(made, 105, 200)
    assert {(command.epoch, command.play) for command in commands} == {(1, Play.PLAYING)}
    assert commands[0].position[0] == pytest.approx(0.0)
    assert commands[-1].position[0] == 1.0


def test_T9_a_clock_that_stands_still_repeats_the_command_and_is_no_underrun():
    made = player(**PLAIN)
    made.offer(chunk(), 0)
    command = tick(made, 30)
    assert all(tick(made, 30) is command for _ in range(100))
    figures = made.account.figures()
    assert (figures.due, figures.misses, figures.paused_ticks) == (1, 0, 100)


def test_a_clock_that_stands_still_does_not_repeat_an_older_epoch():
    limit = JointLimit(velocity=1.0, acceleration=10.0)
    made = player(limits=(limit,) * 2, **PLAIN)
    made.offer(chunk(), 0)
    run(made, 0, 30)
    made.reset(1, 30 * MS)
    command = tick(made, 30)
    assert (command.play, command.reason, command.epoch) == (Play.HOLD, Reason.EPOCH, 1)
    assert tick(made, 30) is command
    made.offer(chunk(0, epoch=2), 30 * MS)
    assert tick(made, 30).epoch == 2


def test_T7_a_clock_that_goes_back_drops_everything():
    made = player(**PLAIN)
    made.offer(chunk(0, start_ms=1000, observed_ms=990), 1000 * MS)
    made.measured(np.zeros(2), 1000 * MS)
    run(made, 1000, 1050)
    command = tick(made, 2)
    assert (command.play, command.reason) == (Play.SILENT, Reason.NO_OBSERVATION)
    assert made.depth_ns(2 * MS) == 0
    # A chunk from before the jump, still under way, is known by its inputs.
    old = chunk(1, start_ms=1020, observed_ms=1000)
    assert made.offer(old, 3 * MS).reject is ChunkReject.FUTURE_INPUT
    made.measured(np.zeros(2), 3 * MS)
    assert tick(made, 7).reason is Reason.NO_CHUNK
    made.offer(chunk(0, epoch=1, start_ms=8), 8 * MS)
    assert tick(made, 12).play is Play.PLAYING
    assert made.account.figures().window == 1


def test_B8_C26_deactivating_ends_with_a_final_hold_and_then_silence():
    made = player(start_blend_ns=1, **PLAIN)
    made.offer(chunk(), 0)
    run(made, 0, 30)
    final = made.deactivate(31 * MS)
    assert (final.play, final.reason) == (Play.HOLD, Reason.INACTIVE)
    assert final.position == pytest.approx([1.2, 1.2])
    assert final.velocity.tolist() == [0.0, 0.0]
    assert made.state is PlayerState.INACTIVE
    command = tick(made, 35)
    assert (command.play, command.reason) == (Play.SILENT, Reason.INACTIVE)
    assert made.offer(chunk(1), 36 * MS).reject is ChunkReject.INACTIVE
    assert made.account.figures().misses == 0


def test_deactivating_before_anything_was_commanded_commands_nothing():
    assert player().deactivate(5 * MS).play is Play.SILENT


def test_activating_again_plays_nothing_from_before():
    made = player(**PLAIN)
    made.offer(chunk(steps=np.zeros(16)), 0)
    tick(made, 5)
    made.deactivate(10 * MS)
    made.activate(20 * MS)
    assert tick(made, 25).reason is Reason.NO_CHUNK
    assert made.state is PlayerState.WARMING


EVENTS = st.lists(
    st.one_of(
        st.tuples(
            st.just('offer'),
            st.integers(-1, 6),  # sequence number
            st.integers(0, 2),  # epoch
            st.integers(-300, 300),  # start, ms from now
            st.integers(-400, 50),  # observed, ms from now
            st.sampled_from([0.0, 1.0, 1e6, 1e307, float('nan'), float('inf')]),
        ),
        st.tuples(st.just('tick'), st.integers(0, 60)),
        st.tuples(st.just('back'), st.integers(1, 200)),
        st.tuples(st.just('reset'), st.integers(0, 3)),
        st.tuples(st.just('measured'), st.sampled_from([0.0, -1.0, float('nan')])),
        st.tuples(st.just('stop'), st.just(0)),
    ),
    max_size=40,
)


@settings(max_examples=80, deadline=None)
@given(EVENTS, st.sampled_from(list(Merge)), st.sampled_from(list(Interpolation)))
def test_whatever_comes_nothing_non_finite_too_old_or_of_an_older_epoch_goes_out(
    events, merge, kind
):
    greatest_ns = 200 * MS
    made = player(merge=merge, interpolation=(kind,) * 2, max_action_age_ns=greatest_ns)
    now_ms, epoch = 500, -1
    for name, *values in events:
        if name == 'offer':
            number, chunk_epoch, ahead, observed, level = values
            steps = level * np.arange(1.0, 9.0)
            start, seen = now_ms + ahead, now_ms + observed
            offered = chunk(number, start, steps, epoch=chunk_epoch, observed_ms=seen)
            made.offer(offered, now_ms * MS)
        elif name == 'back':
            now_ms -= values[0]
        elif name == 'reset':
            made.reset(values[0], now_ms * MS)
        elif name == 'measured':
            made.measured(np.full(2, values[0]), now_ms * MS)
        elif name == 'stop':
            made.deactivate(now_ms * MS)
            made.activate(now_ms * MS)
        else:
            now_ms += values[0]
            command = tick(made, now_ms)
            assert np.isfinite(command.position).all()
            assert np.isfinite(command.velocity).all()
            assert command.age_ns is None or 0 <= command.age_ns <= greatest_ns
            assert command.epoch >= epoch
            assert (command.play is Play.PLAYING) == (command.reason is Reason.NONE)
            assert (command.play is Play.SILENT) == (command.position.size == 0)
            points = made.upcoming(now_ms * MS, 4, 20 * MS)
            assert bool(points) == (command.play is not Play.SILENT)
            for point in points:
                assert np.isfinite(point.position).all()
                assert point.stamp_ns > now_ms * MS
            assert not points or not points[-1].velocity.any()
        epoch = max(epoch, made.epoch)
