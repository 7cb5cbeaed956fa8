# SPDX-License-Identifier: Apache-2.0
"""The player tick by tick: start, play, what is foretold, depth, limits, configuration."""

from __future__ import annotations

import subprocess
import sys
from itertools import pairwise

import numpy as np
import pytest
from output_cases import MS, NAMES, PLAIN, chunk, player, run, tick

from physis_ros.errors import ParameterError
from physis_ros.output.interpolate import Interpolation
from physis_ros.output.limits import JointLimit
from physis_ros.output.merge import Merge
from physis_ros.output.verdict import ChunkReject
from physis_ros.session.player import PlayerConfig, PlayerState
from physis_ros.types import ActionChunk, Play, Reason


def test_A10_the_first_command_starts_at_the_measured_state_without_a_jump():
    made = player(measured=0.7, start_blend_ns=100 * MS, **PLAIN)
    made.offer(chunk(steps=[0.1] * 16), 0)
    commands = run(made, 0, 150, 1)
    positions = np.array([command.position[0] for command in commands])
    assert positions[0] == pytest.approx(0.7)
    assert commands[0].velocity[0] == pytest.approx(0.0)
    # The smoothstep over 100 ms from 0.7 to 0.1 is never faster than 1.5 * 0.6 / 0.1 s.
    assert np.abs(np.diff(positions)).max() <= 9.0e-3 + 1e-9
    assert positions[50] == pytest.approx(0.4)
    assert positions[100:] == pytest.approx(0.1)


def test_no_command_before_a_measured_state_unless_allowed():
    made = player(measured=None)
    made.offer(chunk(), 0)
    command = tick(made, 5)
    assert (command.play, command.reason) == (Play.SILENT, Reason.NO_OBSERVATION)
    assert command.position.shape == (0,)
    assert not made.measured(np.array([np.nan, 0.0]), 6 * MS)
    assert not made.measured(np.zeros(3), 6 * MS)
    assert tick(made, 10).play is Play.SILENT
    assert made.measured(np.zeros(2), 11 * MS)
    assert tick(made, 15).play is Play.PLAYING
    bold = player(measured=None, require_measured=False, **PLAIN)
    assert tick(bold, 0).reason is Reason.NO_CHUNK
    bold.offer(chunk(), 0)
    assert tick(bold, 10).position[0] == pytest.approx(0.4)


def test_a_measured_state_too_old_does_not_start_the_robot():
    made = player(state_age_ns=100 * MS)
    made.offer(chunk(0, start_ms=150), 120 * MS)
    assert tick(made, 150).reason is Reason.NO_OBSERVATION


def test_T2_ages_count_from_the_oldest_input():
    made = player(**PLAIN)
    made.offer(chunk(3, observed_ms=-40, joints_ms=-30), 0)
    command = tick(made, 20)
    assert command.age_ns == 60 * MS
    assert command.input_age_ns == {'camera': 60 * MS, 'joints': 50 * MS}
    assert (command.chunk, command.epoch, command.reason) == (3, 0, Reason.NONE)


def test_T2_what_fades_after_a_seam_is_still_behind_the_command():
    made = player(merge=Merge.BLEND, blend_ns=40 * MS, start_blend_ns=1)
    made.offer(chunk(0, steps=np.zeros(16), observed_ms=-10, joints_ms=-30), 0)
    run(made, 0, 45)
    made.offer(chunk(1, start_ms=50, steps=np.ones(16), observed_ms=30, joints_ms=30), 45 * MS)
    fading, after = tick(made, 85), tick(made, 90)
    assert (fading.chunk, fading.age_ns) == (1, 115 * MS)
    assert fading.input_age_ns == {'camera': 95 * MS, 'joints': 115 * MS}
    assert (after.chunk, after.age_ns) == (1, 60 * MS)


def test_an_input_from_the_future_has_age_zero_and_is_counted():
    made = player(**PLAIN)
    made.offer(chunk(observed_ms=30), 0)
    assert tick(made, 0).age_ns == 0


def test_A1_a_broken_chunk_leaves_the_one_before_in_place():
    made = player(start_blend_ns=1, **PLAIN)
    made.offer(chunk(0, steps=np.ones(16)), 0)
    assert made.offer(chunk(1, steps=[np.nan] * 16), 5 * MS).reject is ChunkReject.NON_FINITE
    tick(made, 5)
    assert tick(made, 100).position[0] == 1.0
    assert made.account.figures().chunks.rejected == {'non_finite': 1}


def test_states_follow_the_stream():
    made = player(settle_ns=10 * MS, **PLAIN)
    assert made.state is PlayerState.WARMING
    made.offer(chunk(), 0)
    tick(made, 0)
    assert made.state is PlayerState.WARMING
    tick(made, 10)
    assert made.state is PlayerState.PLAYING
    tick(made, 80)
    assert made.state is PlayerState.UNDERRUN


@pytest.mark.parametrize('merge', list(Merge))
def test_C14_C16_chunks_at_10_hz_make_steady_motion_at_200_hz(merge):
    made = player(start_blend_ns=1, merge=merge)
    for at in range(0, 1000, 5):
        if at % 100 == 0:
            # Half a radian a second, planned 40 ms ahead; a chunk covers four intervals.
            steps = 0.5 * (at + 40 + 25 * np.arange(16)) * 1e-3
            made.offer(chunk(at // 100, at + 40, steps, observed_ms=at), at * MS)
        command = tick(made, at)
        if at > 40:
            assert command.play is Play.PLAYING
            assert command.position == pytest.approx(0.5e-3 * at)
            assert command.velocity == pytest.approx(0.5)
    assert made.account.figures().underruns.ticks == 0


def test_C18_several_points_with_velocities_lie_ahead_not_one_that_stops():
    made = player(start_blend_ns=1, **PLAIN)
    made.offer(chunk(steps=0.01 * np.arange(16)), 0)
    tick(made, 50)
    points = made.upcoming(50 * MS, 8, 25 * MS)
    ahead, stopping = points[:8], points[8:]
    assert [round(point.position[0], 9) for point in ahead] == [0.03 + 0.01 * i for i in range(8)]
    assert all(point.velocity == pytest.approx(0.4) for point in ahead)
    # After them the robot is brought to rest, should nothing more ever come.
    assert {point.play for point in stopping} == {Play.RAMP}
    speeds = [point.velocity[0] for point in points[7:]]
    assert speeds == sorted(speeds, reverse=True)
    assert points[-1].velocity.tolist() == [0.0, 0.0]
    assert np.diff([point.stamp_ns for point in points]).tolist() == [25 * MS] * 17


@pytest.mark.parametrize('merge', list(Merge))
def test_T5_a_feedback_that_is_late_does_not_pull_the_motion_back(merge):
    """What goes on from the last command does not fight the way from the command to its echo."""
    deaf, hearing = (player(merge=merge, start_blend_ns=1, hold_ns=20 * MS) for _ in range(2))
    commands = {deaf: [], hearing: []}
    for at_ms in range(0, 600, 5):
        if at_ms % 100 == 0 and at_ms < 300:
            new = chunk(
                at_ms // 100, at_ms, 0.01 * (at_ms / 25 + np.arange(12)), observed_ms=at_ms
            )
            deaf.offer(new, at_ms * MS)
            hearing.offer(new, at_ms * MS)
        if at_ms > 0:
            # The arm as it was 100 ms ago, off by what its controller lags behind.
            late = commands[hearing][max(at_ms // 5 - 20, 0)].position - 0.3
            hearing.measured(late, at_ms * MS)
        for made, told in commands.items():
            told.append(tick(made, at_ms))
    plays = [command.play for command in commands[hearing]]
    # Through seams, and down the ladder to rest.
    assert {Play.PLAYING, Play.RAMP} <= set(plays)
    moving = [i for i, play in enumerate(plays) if play is not Play.SILENT]
    assert [command.play for command in commands[deaf]] == plays
    for index in moving:
        np.testing.assert_array_equal(
            commands[deaf][index].position, commands[hearing][index].position
        )


@pytest.mark.parametrize('merge', list(Merge))
def test_A3_upcoming_points_continue_the_last_output(merge):
    made = player(measured=0.5, merge=merge)
    made.offer(chunk(steps=np.linspace(0, 1, 16)), 0)
    made.offer(chunk(1, start_ms=0, steps=np.linspace(0.2, 1, 16)), 10 * MS)
    last = run(made, 0, 60)[-1]
    points = made.upcoming(60 * MS, 8, 10 * MS)[:8]
    assert [point.stamp_ns for point in points] == [(70 + 10 * i) * MS for i in range(8)]
    assert points[0].position == pytest.approx(last.position, abs=0.05)
    assert all(point.velocity.shape == (2,) for point in points)
    # What was foretold is what is then commanded.
    for point in points:
        command = made.tick(point.stamp_ns, point.stamp_ns)
        assert command.position == pytest.approx(point.position)
        assert command.velocity == pytest.approx(point.velocity)


@pytest.mark.parametrize('limits', [(), (JointLimit(velocity=9.0, acceleration=900.0),) * 2])
def test_A3_upcoming_goes_on_down_the_ladder_to_rest_and_is_empty_when_silent(limits):
    made = player(limits=limits, start_blend_ns=1, ramp_ns=100 * MS, **PLAIN)
    assert made.upcoming(0, 5, 10 * MS) == ()
    made.offer(chunk(steps=0.1 * np.arange(4)), 0)  # until 75 ms
    last = run(made, 0, 50)[-1]
    points = made.upcoming(50 * MS, 40, 10 * MS)
    plays = [point.play for point in points]
    assert plays == [Play.PLAYING] * 2 + [Play.HOLD] * 5 + [Play.RAMP] * 11
    travel = [point.position[0] for point in (last, *points)]
    assert travel == sorted(travel)
    assert points[-1].velocity.tolist() == [0.0, 0.0]
    # What was foretold is what is then commanded, also where the ladder begins between points.
    commands = {command.stamp_ns: command for command in run(made, 55, 230)}
    for point in points[:-1]:
        command = commands[point.stamp_ns]
        assert command.position == pytest.approx(point.position, abs=1e-9 if not limits else 1e-2)
    assert tick(made, 1000).play is Play.SILENT
    assert made.upcoming(1000 * MS, 5, 10 * MS) == ()


@pytest.mark.parametrize(('ahead_ms', 'starts'), [(500, True), (501, False)])
def test_A11_a_measured_state_from_far_ahead_does_not_count(ahead_ms, starts):
    made = player(measured=None, skew_ns=500 * MS)
    made.measured(np.zeros(2), (5 + ahead_ms) * MS)
    made.offer(chunk(), 0)
    assert (tick(made, 5).play is Play.PLAYING) == starts


def test_a_very_long_way_to_rest_is_told_in_few_points():
    made = player(start_blend_ns=1, ramp_ns=10_000 * MS, **PLAIN)
    made.offer(chunk(steps=0.1 * np.arange(16)), 0)
    tick(made, 50)
    points = made.upcoming(50 * MS, 2, MS)
    assert len(points) == 2 + 50
    assert points[-1].velocity.tolist() == [0.0, 0.0]


def test_C24_depth_follows_the_measured_interval():
    made = player(depth_intervals=2.0, max_action_age_ns=10_000 * MS, **PLAIN)
    for number in range(21):
        at = number * 150
        made.offer(still(number, at), at * MS)
        tick(made, at + 5)
    assert made.depth_ns(3000 * MS) == 375 * MS
    made.offer(still(21, 3150), 3150 * MS)
    assert made.depth_ns(3150 * MS) == pytest.approx(300 * MS, rel=0.006)


def test_depth_is_never_so_small_that_the_stream_starves():
    made = player(depth_intervals=1.0, max_action_age_ns=10_000 * MS, **PLAIN)
    for number in range(30):
        made.offer(still(number, 0), 0)
    assert made.depth_ns(0) == 200 * MS


def still(number: int, at_ms: int) -> ActionChunk:
    """Return a chunk of 16 equal steps, observed and published at its start."""
    return chunk(number, at_ms, np.zeros(16), observed_ms=at_ms, publish_ms=at_ms)


def test_C15_far_from_the_first_chunk_the_start_takes_its_time():
    made = player(measured=3.0, start_blend_ns=100 * MS, start_speed=2.0, **PLAIN)
    for at in range(0, 2400, 100):
        made.offer(still(at // 100, at), at * MS)
        commands = run(made, at, at + 99, 1)
        assert max(np.abs(command.velocity).max() for command in commands) <= 2.0 + 1e-6
    assert commands[-1].position[0] == pytest.approx(0.0, abs=1e-9)


def test_values_too_large_to_reckon_with_are_refused():
    made = player(**PLAIN)
    assert made.offer(chunk(steps=[1e308, -1e308]), 0).reject is ChunkReject.NON_FINITE
    assert not made.measured(np.full(2, 1e300), 0)


@pytest.mark.parametrize('merge', list(Merge))
def test_C9_start_seams_underrun_and_resume_keep_the_limits_of_motion(merge):
    limit = JointLimit(-2.0, 2.0, velocity=1.5, acceleration=12.0, jerk=400.0)
    made = player(measured=0.8, merge=merge, limits=(limit,) * 2, hold_ns=20 * MS)
    commands = []
    for at in range(0, 3000, 5):
        if at % 100 == 0 and not 1000 <= at < 1500:
            steps = 0.5 * np.sin((at / 1000 + np.arange(8) * 0.025) * 2) + 0.2 * (at // 100 % 2)
            made.offer(chunk(at // 100, at, steps, observed_ms=at - 50), at * MS)
        commands.append(tick(made, at))
        if commands[-1].play is Play.SILENT:
            made.measured(commands[0].position * 0 + 0.3, at * MS)
    plays = [command.play for command in commands]
    assert {Play.PLAYING, Play.HOLD, Play.RAMP, Play.SILENT} == set(plays)
    for before, after in pairwise(commands):
        if Play.SILENT in (before.play, after.play):
            continue
        assert np.abs(after.velocity).max() <= 1.5 + 1e-6
        assert np.abs(after.velocity - before.velocity).max() / 5e-3 <= 12.0 + 1e-6
        moved = np.abs(after.position - before.position).max()
        assert moved <= 1.5 * 5e-3 + 1e-6


@pytest.mark.parametrize(
    'changes',
    [
        {'servo_rate_hz': 0.5},
        {'servo_rate_hz': float('nan')},
        {'blend_ns': 0},
        {'ramp_ns': 0},
        {'hold_ns': -1},
        {'max_action_age_ns': 0},
        {'depth_ns': 0},
        {'depth_intervals': 0.5},
        {'start_speed': 0.0},
        {'ensemble_decay': -11.0},
        {'ensemble_decay': float('nan')},
        {'interpolation': (Interpolation.LINEAR,)},
        {'limits': (JointLimit(),) * 3},
        {'names': ()},
        {'names': ('a', 'a')},
    ],
)
def test_a_configuration_that_cannot_be_played_is_refused(changes):
    with pytest.raises(ParameterError, match='must be'):
        PlayerConfig(**{'names': NAMES, **changes})


def test_the_player_needs_no_torch():
    code = 'import sys, physis_ros.session.player; print("torch" in sys.modules)'
    done = subprocess.run([sys.executable, '-c', code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == 'False'
