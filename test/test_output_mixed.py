# SPDX-License-Identifier: Apache-2.0
"""
Joints of several kinds in one chunk: a cubic arm, a linear slide, a stepped gripper.

C22: a gripper that opens and closes within a chunk does so in full. B3: cubic joints keep their
velocity over every seam. Whoever asks for a mixture gets each joint as if it were alone.
"""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from output_cases import MS, chunk, player, run
from scipy.interpolate import PchipInterpolator

from physis_ros.output.interpolate import Interpolation
from physis_ros.output.limits import JointLimit
from physis_ros.output.merge import Merge
from physis_ros.output.timeline import Timeline
from physis_ros.session.player import PlayerConfig
from physis_ros.types import Play

NAMES = ('arm', 'slide', 'gripper')
KINDS = (Interpolation.CUBIC, Interpolation.LINEAR, Interpolation.STEP)
ARM = np.array([0.0, 0.1, 0.4, 0.5, 0.45, 0.45, 0.6, 0.8])
SLIDE = np.array([0.0, 0.2, 0.1, 0.1, 0.3, 0.0, 0.0, 0.4])
GRIPPER = np.array([0.0, 1.0, 0.0, 0.0, 1.0, 1.0, 0.0, 1.0])
MIXED = np.stack((ARM, SLIDE, GRIPPER), axis=1)


def test_C22_each_joint_of_a_chunk_moves_in_its_own_way():
    made = player(names=NAMES, interpolation=KINDS, start_blend_ns=1)
    # The columns come in another order.
    made.offer(chunk(steps=MIXED[:, [2, 0, 1]], names=('gripper', 'arm', 'slide')), 0)
    commands = run(made, 0, 175, 1)
    times = np.array([command.stamp_ns for command in commands]) / (25 * MS)
    got = np.array([command.position for command in commands])
    np.testing.assert_allclose(got[:, 0], PchipInterpolator(np.arange(8), ARM)(times), atol=1e-12)
    np.testing.assert_allclose(got[:, 1], np.interp(times, np.arange(8), SLIDE), atol=1e-12)
    np.testing.assert_array_equal(got[:, 2], GRIPPER[np.floor(times).astype(int)])
    speed = np.array([command.velocity for command in commands])
    assert not speed[:, 2].any()
    slopes = np.diff(SLIDE)[np.minimum(np.floor(times).astype(int), 6)] / 0.025
    np.testing.assert_allclose(speed[1:, 1], slopes[1:])


def test_C22_limits_of_motion_of_the_arm_leave_the_gripper_as_it_is():
    limits = (JointLimit(velocity=2.0, acceleration=30.0), JointLimit(), JointLimit())
    made = player(names=NAMES, interpolation=KINDS, start_blend_ns=1, limits=limits)
    made.offer(chunk(steps=MIXED, names=NAMES), 0)
    commands = run(made, 0, 175)
    assert max(abs(command.velocity[0]) for command in commands) <= 2.0 + 1e-6
    assert [command.position[2] for command in commands] == [
        GRIPPER[command.stamp_ns // (25 * MS)] for command in commands
    ]


def test_C22_a_gripper_stays_where_it_is_down_the_ladder_and_in_what_is_foretold():
    made = player(names=NAMES, interpolation=KINDS, start_blend_ns=1, hold_ns=20 * MS)
    made.offer(chunk(steps=MIXED, names=NAMES), 0)
    last = run(made, 0, 150)[-1]
    ahead = made.upcoming(last.stamp_ns, 5, 20 * MS)
    assert [point.position[2] for point in ahead] == [0.0] + [1.0] * (len(ahead) - 1)
    assert not any(point.velocity[2] for point in ahead)
    down = [command for command in run(made, 155, 900) if command.play is not Play.SILENT]
    assert {command.play for command in down} == {Play.PLAYING, Play.HOLD, Play.RAMP}
    assert {command.position[2] for command in down if command.play is not Play.PLAYING} == {1.0}
    assert down[-1].position[0] > down[4].position[0]


@pytest.mark.parametrize('merge', list(Merge))
@settings(max_examples=20, deadline=None)
@given(
    st.lists(
        st.tuples(st.integers(0, 60), st.integers(-30, 60), st.integers(2, 8)),
        min_size=2,
        max_size=8,
    )
)
def test_B3_over_every_seam_the_arm_keeps_its_velocity_and_the_gripper_its_values(merge, stories):
    """
    Whatever comes when, instant by instant.

    A story is the wait before a chunk comes, how far ahead it begins, and its steps [ms, ms, 1].
    """
    config = PlayerConfig(NAMES, merge=merge, blend_ns=40 * MS, interpolation=KINDS)
    timeline, now_ms = Timeline(config.timeline), 0
    for number, (wait_ms, ahead_ms, count) in enumerate(stories):
        for at_ms in range(now_ms + 1, now_ms + wait_ms + 1):
            assert_smooth(timeline, at_ms * MS)
        now_ms += wait_ms
        # Chunks disagree by a third of what they move.
        steps = MIXED[:count] + np.array([0.3 * (number % 3), 0.1 * (number % 2), 0.0])
        made = chunk(number, now_ms + ahead_ms, steps, names=NAMES, observed_ms=now_ms - 20)
        before = timeline.at(now_ms * MS)
        timeline.offer(made, now_ms * MS)
        after = timeline.at(now_ms * MS)
        if before is not None and after is not None:
            assert after.position[0] == pytest.approx(before.position[0], abs=1e-9)
            assert after.velocity[0] == pytest.approx(before.velocity[0], abs=1e-6)
    for at_ms in range(now_ms + 1, now_ms + 200):
        assert_smooth(timeline, at_ms * MS)


def test_B3_an_ensemble_hands_over_in_blend_time_where_chunks_barely_overlap():
    config = PlayerConfig(NAMES, merge=Merge.ENSEMBLE, blend_ns=40 * MS, interpolation=KINDS)
    timeline = Timeline(config.timeline)
    timeline.offer(chunk(0, 0, np.zeros((5, 3)), names=NAMES), 0)
    # The first one ends 3 ms after the second one begins, which wants to be elsewhere.
    timeline.offer(chunk(1, 97, np.ones((9, 3)), names=NAMES, observed_ms=50), 90 * MS)
    assert timeline.at(97 * MS).position.tolist() == [0.0, 0.0, 1.0]
    assert timeline.at(97 * MS).chunks == (0, 1)
    way = [timeline.at(at * MS).position[0] for at in range(97, 140)]
    # The steepest millisecond of a smooth way of 40.
    assert np.diff(way).max() == pytest.approx(1.5 / 40, abs=1e-3)
    assert way[-3:] == [1.0, 1.0, 1.0]
    assert timeline.at(137 * MS).chunks == (1,)


def test_C10_a_chunk_that_ends_before_the_old_one_fades_out_of_an_ensemble_again():
    config = PlayerConfig(
        NAMES, merge=Merge.ENSEMBLE, blend_ns=20 * MS, ensemble_decay=0.0, interpolation=KINDS
    )
    timeline = Timeline(config.timeline)
    timeline.offer(chunk(0, 0, np.zeros((17, 3)), names=NAMES), 0)
    timeline.offer(chunk(1, 100, np.ones((5, 3)), names=NAMES), 90 * MS)
    told = {at: timeline.at(at * MS).position[0] for at in (100, 120, 180, 190, 200, 300)}
    # Of two with the same weight the mean; half way out 1/2 against 1, and nothing at its end.
    assert told == pytest.approx({100: 0, 120: 0.5, 180: 0.5, 190: 1 / 3, 200: 0, 300: 0})


def assert_smooth(timeline: Timeline, at_ns: int) -> None:
    """Look at both sides of an instant; every knot is a whole millisecond."""
    left, right = timeline.at(at_ns - 1), timeline.at(at_ns)
    if left is None or right is None:
        return
    assert right.position[2] in (0.0, 1.0)
    assert right.velocity[2] == 0.0
    assert right.position[0] == pytest.approx(left.position[0], abs=1e-6)
    # A bridge may be 1 ms long and its acceleration high, but that has no part in 1 ns.
    assert right.velocity[0] == pytest.approx(left.velocity[0], abs=0.02)
