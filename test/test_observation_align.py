# SPDX-License-Identifier: Apache-2.0
"""Observations joined by time: exact values, every refusal counted with its reason."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest

from physis_ros.errors import ObservationError, ParameterError
from physis_ros.observation.align import Aligner, Intake, Lack, names_after
from physis_ros.observation.config import AlignConfig, Timeline
from physis_ros.observation.joints import JointMatch, JointReading
from physis_ros.observation.skew import SkewEstimate
from physis_ros.types import ByteArray, Observation

MS = 1_000_000
NAMES = ('shoulder', 'elbow')


def config(**changes: Any) -> AlignConfig:
    return AlignConfig(
        **{
            'height': 2,
            'width': 2,
            'history_ns': (-100 * MS, -50 * MS, 0),
            'joint_names': NAMES,
            **changes,
        }
    )


def image(value: int) -> ByteArray:
    return np.full((2, 2, 3), value, np.uint8)


def seen(aligner: Aligner, now_ms: float) -> Observation:
    observation = aligner.as_of(round(now_ms * MS))
    assert isinstance(observation, Observation), observation
    return observation


def values(observation: Observation) -> list[int]:
    return [int(frame[0, 0, 0]) for frame in observation.frames]


def filled(count: int = 5, **changes: Any) -> Aligner:
    """Frames 1, 2, .. at 25, 50, .. ms, received 3 ms later; joints q = stamp in ms, both."""
    aligner = Aligner(config(**changes))
    for index in range(1, count + 1):
        stamp = index * 25 * MS
        aligner.joints(
            JointReading(stamp, stamp + MS, NAMES, [index * 25.0, -index * 25.0], [1.0, -1.0])
        )
        aligner.frame(stamp, stamp + 3 * MS, image(index))
    return aligner


def test_full_history_and_joints_of_the_same_instant() -> None:
    observation = seen(filled(), 130)
    assert observation.stamp_ns == observation.joint_stamp_ns == observation.oldest_ns == 125 * MS
    assert observation.receive_ns == 128 * MS
    assert values(observation) == [1, 3, 5]
    assert observation.frame_stamps_ns == (25 * MS, 75 * MS, 125 * MS)
    assert observation.joint_position.tolist() == [125.0, -125.0]
    assert observation.joint_velocity.tolist() == [1.0, -1.0]


def test_missing_past_repeats_the_oldest_and_is_counted() -> None:
    aligner = filled(2)
    assert values(seen(aligner, 55)) == [1, 1, 2]
    assert aligner.counts['history_incomplete'] == 1
    assert values(seen(filled(1), 30)) == [1, 1, 1]


def test_history_within_tolerance_is_complete() -> None:
    aligner = filled(1)
    for stamp, value in ((62, 2), (112, 3)):  # 12 and 13 ms off what is wanted
        aligner.frame(stamp * MS, stamp * MS, image(value))
    aligner.joints(JointReading(112 * MS, 112 * MS, NAMES, [0.0, 0.0]))
    assert values(seen(aligner, 113)) == [1, 2, 3]
    assert aligner.counts['history_incomplete'] == 0
    strict = filled(4, frame_tolerance_ns=0)
    seen(strict, 101)
    assert strict.counts['history_incomplete'] == 1


def test_joints_between_two_states_are_interpolated() -> None:
    aligner = Aligner(config())
    aligner.joints(JointReading(20 * MS, 20 * MS, NAMES, [0.0, 1.0], [4.0, 0.0]))
    aligner.joints(JointReading(40 * MS, 41 * MS, NAMES, [2.0, 1.0], [8.0, 0.0]))
    aligner.frame(25 * MS, 30 * MS, image(1))
    observation = seen(aligner, 42)
    assert observation.joint_position.tolist() == [0.5, 1.0]
    assert observation.joint_velocity.tolist() == [5.0, 0.0]
    assert observation.joint_stamp_ns == 25 * MS
    assert observation.receive_ns == 41 * MS


def test_T20_joints_behind_the_frame_are_held_with_their_own_stamp() -> None:
    aligner = Aligner(config())
    aligner.joints(JointReading(20 * MS, 20 * MS, NAMES, [3.0, 1.0], [4.0, 0.0]))
    aligner.frame(25 * MS, 26 * MS, image(1))
    observation = seen(aligner, 27)
    assert observation.joint_position.tolist() == [3.0, 1.0]
    assert observation.joint_stamp_ns == observation.oldest_ns == 20 * MS


def test_T20_joints_only_after_the_frame_serve_within_the_tolerance() -> None:
    aligner = Aligner(config())
    aligner.frame(25 * MS, 26 * MS, image(1))
    aligner.joints(JointReading(30 * MS, 31 * MS, NAMES, [3.0, 1.0]))
    observation = seen(aligner, 32)
    assert observation.joint_stamp_ns == 30 * MS
    assert observation.oldest_ns == 25 * MS


@pytest.mark.parametrize(
    ('match', 'frame_ms', 'position', 'stamp_ms', 'offset'),
    [
        (JointMatch.INTERPOLATE, 36, 1.6, 36, 0),
        (JointMatch.ASOF, 36, 0.0, 20, 1),
        (JointMatch.NEAREST, 36, 2.0, 40, 1),
        (JointMatch.NEAREST, 24, 0.0, 20, 1),
        (JointMatch.NEAREST, 30, 0.0, 20, 1),  # as far from both: the one that was known
        (JointMatch.ASOF, 40, 2.0, 40, 0),
        (JointMatch.NEAREST, 12, 0.0, 20, 1),  # only newer ones
        (JointMatch.ASOF, 12, 0.0, 20, 1),
    ],
)
def test_T17_joints_are_matched_as_is_asked_and_what_is_off_is_counted(
    match: JointMatch, frame_ms: int, position: float, stamp_ms: int, offset: int
) -> None:
    aligner = Aligner(config(joint_match=match))
    aligner.joints(JointReading(20 * MS, 20 * MS, NAMES, [0.0, 1.0], [4.0, 0.0]))
    aligner.joints(JointReading(40 * MS, 41 * MS, NAMES, [2.0, 1.0], [8.0, 0.0]))
    aligner.frame(frame_ms * MS, 45 * MS, image(1))
    observation = seen(aligner, 46)
    assert observation.joint_position[0] == pytest.approx(position)
    assert observation.joint_stamp_ns == stamp_ms * MS
    assert aligner.counts['joints_offset'] == offset


@pytest.mark.parametrize('match', list(JointMatch))
def test_T17_beyond_the_tolerance_there_is_no_match_but_a_reason(match: JointMatch) -> None:
    aligner = Aligner(config(joint_match=match, joint_tolerance_ns=5 * MS))
    aligner.joints(JointReading(20 * MS, 20 * MS, NAMES, [0.0, 1.0]))
    aligner.joints(JointReading(40 * MS, 41 * MS, NAMES, [2.0, 1.0]))
    aligner.frame(30 * MS, 45 * MS, image(1))
    assert aligner.as_of(46 * MS) is Lack.STALE_JOINTS
    assert aligner.counts['stale_joints'] == 1
    aligner.reconfigure(config(joint_match=match, joint_tolerance_ns=10 * MS))
    assert seen(aligner, 46).joint_position[0] in (0.0, 1.0)


def test_missing_velocity_is_the_slope_or_rest() -> None:
    aligner = Aligner(config())
    aligner.joints(JointReading(10 * MS, 10 * MS, NAMES, [1.0, 0.0], []))
    aligner.frame(10 * MS, 10 * MS, image(1))
    assert seen(aligner, 10).joint_velocity.tolist() == [0.0, 0.0]
    aligner.joints(JointReading(30 * MS, 30 * MS, NAMES, [1.5, 0.0], [math.nan, 7.0]))
    aligner.frame(35 * MS, 35 * MS, image(2))
    assert seen(aligner, 36).joint_velocity.tolist() == pytest.approx([25.0, 7.0])


def test_I12_several_publishers_any_order_and_aliases() -> None:
    """Names are mapped, never positions."""
    aligner = Aligner(config(aliases={'arm_joint_1': 'shoulder'}))
    aligner.joints(
        JointReading(24 * MS, 24 * MS, ['wheel', 'elbow'], [9.0, 2.0], [9.0, 0.2], source='a')
    )
    aligner.joints(JointReading(22 * MS, 25 * MS, ['arm_joint_1'], [1.0], [0.1], source='b'))
    aligner.frame(25 * MS, 26 * MS, image(1))
    observation = seen(aligner, 27)
    assert observation.joint_position.tolist() == [1.0, 2.0]
    assert observation.joint_velocity.tolist() == [0.1, 0.2]
    assert observation.joint_stamp_ns == 22 * MS
    assert aligner.skew_ns == {'a': 0, 'b': 3 * MS, 'camera': MS}
    assert names_after({'arm_joint_1': 'shoulder'}, NAMES) == ('arm_joint_1', 'elbow')


def test_why_there_is_no_observation() -> None:
    aligner = Aligner(config(max_age_ns=200 * MS, max_future_ns=50 * MS))
    assert aligner.as_of(0) is Lack.NO_FRAME
    aligner.frame(500 * MS, 501 * MS, image(1))
    aligner.joints(JointReading(500 * MS, 500 * MS, ['elbow'], [0.0]))
    assert aligner.as_of(501 * MS) is Lack.NO_JOINTS
    assert aligner.missing_joints == ('shoulder',)
    assert aligner.heard_joints == ('elbow',)
    aligner.joints(JointReading(440 * MS, 500 * MS, ['shoulder'], [0.0]))
    assert aligner.as_of(501 * MS) is Lack.STALE_JOINTS
    aligner.joints(JointReading(450 * MS, 500 * MS, ['shoulder'], [0.0]))
    assert isinstance(aligner.as_of(700 * MS), Observation)
    assert aligner.as_of(700 * MS + 1) is Lack.STALE_FRAME
    assert isinstance(aligner.as_of(450 * MS), Observation)
    assert aligner.as_of(450 * MS - 1) is Lack.SKEW
    expected = ('no_frame', 'no_joints', 'stale_joints', 'stale_frame', 'clock_skew')
    assert [aligner.counts[name] for name in expected] == [1] * 5
    aligner.as_of(450 * MS - 1)
    assert aligner.counts['clock_skew'] == 1  # once for each frame, however often it is asked
    assert aligner.lack(450 * MS - 1) is Lack.SKEW
    assert aligner.lack(450 * MS) is None


def test_X23_one_joint_without_a_position_refuses_the_whole_message() -> None:
    aligner = filled(4)
    broken = JointReading(110 * MS, 112 * MS, NAMES, [7.0, math.nan])
    assert aligner.joints(broken) is Intake.NON_FINITE
    # Nothing of it was taken: the same instant may still come, and is not a duplicate.
    sound = JointReading(110 * MS, 113 * MS, NAMES, [0.0, 0.0])
    assert aligner.joints(sound) is Intake.TAKEN


def test_what_becomes_of_messages() -> None:
    aligner = filled(4)
    assert aligner.frame(100 * MS, 110 * MS, image(9)) is Intake.DUPLICATE
    assert aligner.frame(75 * MS, 110 * MS, image(9)) is Intake.OUT_OF_ORDER
    assert aligner.frame(0, 110 * MS, image(9)) is Intake.UNSTAMPED
    assert aligner.frame(125 * MS, 110 * MS, image(5)) is Intake.TAKEN

    def joints(*given: Any) -> Intake:
        return aligner.joints(JointReading(*given))

    assert joints(100 * MS, 110 * MS, NAMES, [0.0, 0.0]) is Intake.DUPLICATE
    assert joints(90 * MS, 110 * MS, NAMES, [0.0, 0.0]) is Intake.OUT_OF_ORDER
    assert joints(0, 110 * MS, NAMES, [0.0, 0.0]) is Intake.UNSTAMPED
    assert joints(125 * MS, 110 * MS, NAMES, [math.nan, 0.0]) is Intake.NON_FINITE
    # Finite, but not in the 32 bits of a model.
    assert joints(126 * MS, 111 * MS, NAMES, [1e300, 0.0]) is Intake.NON_FINITE
    assert joints(125 * MS, 110 * MS, ['wheel'], [0.0]) is Intake.OTHER_JOINTS
    assert joints(125 * MS, 110 * MS, NAMES, [0.0]) is Intake.MALFORMED
    assert joints(125 * MS, 110 * MS, NAMES, [0.0, 0.0], [1.0]) is Intake.MALFORMED
    assert dict(aligner.counts) == {
        'frame': 8,
        'joints': 12,
        'duplicate_stamp': 2,
        'out_of_order': 2,
        'stamp_zero': 2,
        'non_finite_joints': 2,
        'other_joints': 1,
        'malformed_joints': 2,
        'future_stamp': 4,  # a frame and three joint states 15 ms ahead of their receipt
    }
    assert values(seen(aligner, 130)) == [1, 3, 5]


def test_T7_time_going_back_is_told_apart_from_a_late_message() -> None:
    """T8, T19: the owner clears, nothing old is compared with the new."""
    aligner = Aligner(config(regress_ns=500 * MS))
    aligner.frame(1000 * MS, 1000 * MS, image(1))
    aligner.joints(JointReading(1000 * MS, 1000 * MS, NAMES, [0.0, 0.0]))
    assert aligner.frame(501 * MS, 1001 * MS, image(2)) is Intake.OUT_OF_ORDER
    assert aligner.frame(500 * MS, 1001 * MS, image(2)) is Intake.REGRESSED
    assert aligner.joints(JointReading(500 * MS, 1001 * MS, NAMES, [0.0, 0.0])) is Intake.REGRESSED
    aligner.clear()
    assert aligner.frame(500 * MS, 1001 * MS, image(2)) is Intake.TAKEN
    assert aligner.joints(JointReading(500 * MS, 1001 * MS, NAMES, [7.0, 0.0])) is Intake.TAKEN
    assert seen(aligner, 502).joint_position.tolist() == [7.0, 0.0]


def test_receive_timeline_ignores_the_stamps() -> None:
    """T4: for publishers whose clock is no use."""
    aligner = Aligner(config(timeline=Timeline.RECEIVE))
    aligner.frame(0, 25 * MS, image(1))
    aligner.frame(9_000_000 * MS, 50 * MS, image(2))
    aligner.joints(JointReading(3 * MS, 50 * MS, NAMES, [1.0, 2.0]))
    observation = seen(aligner, 51)
    assert observation.frame_stamps_ns == (25 * MS, 25 * MS, 50 * MS)
    assert observation.joint_stamp_ns == 50 * MS
    assert aligner.skew_ns == {'camera': 50 * MS - 9_000_000 * MS, 'joints': 47 * MS}


def test_X12_memory_is_bounded() -> None:
    aligner = Aligner(config(max_frames=4))
    for index in range(1, 1000):
        aligner.frame(index * 25 * MS, index * 25 * MS, image(index % 256))
    assert len(aligner._rings['camera']) == 4
    wide = Aligner(config())
    for index in range(1, 1000):
        wide.frame(index * 25 * MS, index * 25 * MS, image(index % 256))
    assert len(wide._rings['camera']) == 5  # 0, -25, .., -100 ms


def test_another_size_is_refused() -> None:
    with pytest.raises(ObservationError, match='image must be 2x2, got 4x2'):
        Aligner(config()).frame(1, 1, np.zeros((2, 4, 3), np.uint8))


def test_T16_skew_is_the_least_delay_of_the_last_window() -> None:
    skew = SkewEstimate(100)
    assert [skew.least_ns] == [None]
    for receive, delay in ((0, 9), (50, -7), (99, 9)):
        skew.add(receive - delay, receive)
    assert skew.least_ns == -7
    skew.add(120 - 8, 120)
    assert skew.least_ns == -7
    skew.add(230 - 9, 230)
    assert skew.least_ns == 8
    skew.add(10 - 5, 10)  # the clock went back: a new window
    assert skew.least_ns == 5


@pytest.mark.parametrize(
    ('changes', 'name'),
    [
        ({'height': 0}, 'height'),
        ({'history_ns': ()}, 'history_ns'),
        ({'history_ns': (-5, -10, 0)}, 'history_ns'),
        ({'history_ns': (-5,)}, 'history_ns'),
        ({'joint_names': ('a', 'a')}, 'joint_names'),
        ({'aliases': {'x': 'nobody'}}, 'aliases'),
        ({'aliases': {'x': 'elbow', 'y': 'elbow'}}, 'aliases'),
        ({'joint_tolerance_ns': -1}, 'joint_tolerance_ns'),
        ({'max_joint_samples': 1}, 'max_joint_samples'),
    ],
)
def test_impossible_rules_are_refused(changes: dict[str, Any], name: str) -> None:
    with pytest.raises(ParameterError, match=f'^{name} must be'):
        config(**changes)


def test_T14_a_camera_on_another_clock_than_the_joints_shows_and_is_refused() -> None:
    """As with a simulator whose camera is stamped by the wall and whose joints by the world."""
    aligner = Aligner(config(joint_tolerance_ns=50 * MS))
    aligner.frame(1000 * MS, 5000 * MS, image(1))
    aligner.joints(JointReading(4995 * MS, 5000 * MS, NAMES, [0.0, 0.0]))
    assert aligner.skew_ns == {'camera': 4000 * MS, 'joints': 5 * MS}
    assert aligner.as_of(5000 * MS) is Lack.STALE_FRAME
    aligner.frame(4900 * MS, 5001 * MS, image(2))
    assert aligner.as_of(5001 * MS) is Lack.STALE_JOINTS
