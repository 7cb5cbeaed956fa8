# SPDX-License-Identifier: Apache-2.0
"""Several cameras and depth: joined as of one instant, each with its own counts and skew."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from physis_ros.errors import ObservationError, ParameterError
from physis_ros.observation.align import Aligner, Intake, Lack
from physis_ros.observation.config import AlignConfig, Timeline
from physis_ros.observation.depth import resize_depth
from physis_ros.observation.joints import JointReading
from physis_ros.types import Observation

MS = 1_000_000


def aligner(**changes: Any) -> Aligner:
    """Return an aligner of two cameras and a joint, known at every instant."""
    given = {
        'height': 2,
        'width': 2,
        'history_ns': (-50 * MS, 0),
        'joint_names': ('shoulder',),
        'cameras': ('top', 'wrist'),
        'camera_tolerance_ns': 20 * MS,
        **changes,
    }
    made = Aligner(AlignConfig(**given))
    for at_ms in range(10, 1000, 10):
        made.joints(JointReading(at_ms * MS, at_ms * MS, ('shoulder',), [0.0]))
    return made


def show(made: Aligner, camera: str, at_ms: int, late_ms: int = 3) -> Intake:
    """Give a picture whose value is its time."""
    image = np.full((2, 2, 3), at_ms % 256, np.uint8)
    return made.frame(at_ms * MS, (at_ms + late_ms) * MS, image, camera)


def seen(made: Aligner, now_ms: int) -> Observation:
    """Return the observation that there is."""
    observation = made.as_of(now_ms * MS)
    assert isinstance(observation, Observation), observation
    return observation


def test_the_others_are_taken_as_of_the_first() -> None:
    made = aligner()
    for at_ms in (100, 150, 200):
        show(made, 'top', at_ms)
        show(made, 'wrist', at_ms - 7, late_ms=30)
    observation = seen(made, 230)
    assert (observation.camera, observation.stamp_ns) == ('top', 200 * MS)
    assert observation.frame_stamps_ns == (150 * MS, 200 * MS)
    wrist = observation.others['wrist']
    assert wrist.stamps_ns == (143 * MS, 193 * MS)
    assert wrist.frames[:, 0, 0, 0].tolist() == [143, 193]
    assert observation.input_stamps_ns == {
        'top': 200 * MS, 'wrist': 193 * MS, 'joints': 200 * MS
    }  # fmt: skip
    # The age counts the oldest; complete it was when the last part had come.
    assert observation.oldest_ns == 193 * MS
    assert observation.receive_ns == 223 * MS


def test_T20_a_camera_that_is_late_makes_observations_older_not_fewer() -> None:
    made = aligner()
    for at_ms in (100, 130, 160, 190):
        show(made, 'top', at_ms)
    show(made, 'wrist', 125)
    # 190 and 160 have none within 20 ms; 130 has.
    assert seen(made, 200).stamp_ns == 130 * MS
    assert made.newest is not None
    assert made.newest.stamp_ns == 130 * MS
    show(made, 'wrist', 155)
    assert seen(made, 210).stamp_ns == 160 * MS


def test_a_camera_that_is_silent_is_named_and_counted() -> None:
    made = aligner()
    show(made, 'top', 100)
    assert made.as_of(110 * MS) is Lack.NO_FRAME
    assert made.lagging() == 'wrist'
    assert made.counts['no_frame'] == made.counts['no_frame.wrist'] == 1
    show(made, 'wrist', 100)
    assert made.lagging() == ''
    for at_ms in range(130, 1300, 30):
        show(made, 'top', at_ms)
    # The last picture that both have is older than a frame may be.
    assert made.as_of(1300 * MS) is Lack.STALE_FRAME
    assert made.counts['frame.top'] == 40
    assert made.counts['frame.wrist'] == 1


def test_counts_and_skew_are_each_cameras_own() -> None:
    made = aligner()
    show(made, 'top', 100, late_ms=3)
    show(made, 'wrist', 100, late_ms=40)
    assert show(made, 'wrist', 100) is Intake.DUPLICATE
    assert show(made, 'wrist', 90) is Intake.OUT_OF_ORDER
    assert made.counts['duplicate_stamp.wrist'] == made.counts['out_of_order.wrist'] == 1
    assert made.counts['duplicate_stamp.top'] == 0
    assert (made.skew_ns['top'], made.skew_ns['wrist']) == (3 * MS, -3 * MS + 6 * MS)


def test_with_receive_times_cameras_of_any_clock_are_joined() -> None:
    made = aligner(timeline=Timeline.RECEIVE)
    show(made, 'top', 100)
    image = np.zeros((2, 2, 3), np.uint8)
    # A clock that is a quarter of an hour ahead.
    made.frame(900_000 * MS, 110 * MS, image, 'wrist')
    assert seen(made, 120).others['wrist'].stamps_ns[-1] == 110 * MS


def test_tolerances_change_while_it_runs() -> None:
    made = aligner()
    show(made, 'top', 200)
    show(made, 'wrist', 165)
    assert made.as_of(210 * MS) is Lack.STALE_FRAME
    made.reconfigure(replace(made.config, camera_tolerance_ns=40 * MS))
    assert seen(made, 210).others['wrist'].stamps_ns[-1] == 165 * MS
    made.reconfigure(replace(made.config, max_age_ns=5 * MS))
    assert made.as_of(210 * MS) is Lack.STALE_FRAME


def test_depth_is_apart_from_colour() -> None:
    made = aligner(cameras=('camera', 'depth'))
    show(made, 'camera', 100)
    depth = np.array([[1.5, np.nan], [0.2, 3.0]], np.float32)
    with pytest.raises(ObservationError, match=r'depth must be float32 .* got uint8 \[2, 2, 3\]'):
        show(made, 'depth', 100)
    with pytest.raises(ObservationError, match=r'image must be uint8 .* got float32 \[2, 2\]'):
        made.frame(100 * MS, 100 * MS, depth, 'camera')
    made.frame(100 * MS, 100 * MS, depth, 'depth')
    view = seen(made, 110).others['depth']
    assert view.frames.dtype == np.float32
    np.testing.assert_array_equal(view.frames[-1], depth)


def test_depth_is_scaled_by_taking_pixels() -> None:
    depth = np.arange(16, dtype=np.float32).reshape(4, 4)
    depth[1, 1] = np.nan
    np.testing.assert_array_equal(resize_depth(depth, 2, 2), depth[1::2, 1::2])
    np.testing.assert_array_equal(resize_depth(depth, 4, 4), depth)
    with pytest.raises(ObservationError, match='depth must have the aspect 3:1'):
        resize_depth(depth, 1, 3)


@pytest.mark.parametrize('cameras', [(), ('top', 'top')])
def test_cameras_without_a_name_of_their_own_are_refused(cameras: tuple[str, ...]) -> None:
    with pytest.raises(ParameterError, match='cameras must be one or more different names'):
        aligner(cameras=cameras)
