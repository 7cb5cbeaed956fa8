# SPDX-License-Identifier: Apache-2.0
"""What the servo can be told is all that its player knows, and what cannot be is refused."""

from __future__ import annotations

from dataclasses import fields, replace
from typing import Any

import pytest

pytest.importorskip('rclpy')

from physis_ros.errors import ParameterError
from physis_ros.output.interpolate import Interpolation
from physis_ros.output.limits import JointLimit, LimitMode
from physis_ros.output.merge import Merge
from physis_ros.ros.servo_config import ServoConfig
from physis_ros.session.player_config import PlayerConfig

MS = 1_000_000
JOINTS = ('arm', 'slide', 'gripper')
# Every parameter that is the player's, with another value than its default, and what it becomes.
TOLD: dict[str, tuple[Any, str, Any]] = {
    'servo_rate_hz': (100.0, 'servo_rate_hz', 100.0),
    'merge': ('ensemble', 'merge', Merge.ENSEMBLE),
    'blend_ms': (55.0, 'blend_ns', 55 * MS),
    'ensemble_decay': (-0.5, 'ensemble_decay', -0.5),
    'limit_mode': ('reject', 'limit_mode', LimitMode.REJECT),
    'max_action_age_ms': (700.0, 'max_action_age_ns', 700 * MS),
    'depth_ms': (350.0, 'depth_ns', 350 * MS),
    'depth_intervals': (2.5, 'depth_intervals', 2.5),
    'far_future_ms': (1500.0, 'far_future_ns', 1500 * MS),
    'skew_ms': (20.0, 'skew_ns', 20 * MS),
    'chunk_timeout_ms': (400.0, 'chunk_timeout_ns', 400 * MS),
    'hold_ms': (0.0, 'hold_ns', 0),
    'ramp_ms': (120.0, 'ramp_ns', 120 * MS),
    'start_blend_ms': (90.0, 'start_blend_ns', 90 * MS),
    'start_speed': (0.5, 'start_speed', 0.5),
    'settle_ms': (10.0, 'settle_ns', 10 * MS),
    'state_age_ms': (80.0, 'state_age_ns', 80 * MS),
    'require_measured': (False, 'require_measured', False),
}
KINDS = {
    'interpolation': 'cubic',
    'linear_joints': ('slide',),
    'step_joints': ('gripper',),
}
LIMITS = {
    'lower': (-1.0, -float('inf'), 0.0),
    'upper': (1.0, 2.0, float('inf')),
    'velocity': (3.0, float('inf'), float('inf')),
    'acceleration': (4.0, 5.0, float('inf')),
    'jerk': (6.0, 7.0, float('inf')),
}


def is_dynamic(name: str) -> bool:
    """Whether a parameter may be set while the node runs."""
    (found,) = [item for item in fields(ServoConfig) if item.name == name]
    return bool(found.metadata['rule'].dynamic)


def test_everything_that_the_player_knows_can_be_told() -> None:
    values = {name: value for name, (value, _, _) in TOLD.items()}
    made = ServoConfig(joints=JOINTS, **values, **KINDS, **LIMITS).player
    assert {field: getattr(made, field) for _, field, _ in TOLD.values()} == {
        field: became for _, field, became in TOLD.values()
    }
    plain = PlayerConfig(JOINTS)
    same = [
        item.name for item in fields(made) if getattr(made, item.name) == getattr(plain, item.name)
    ]
    assert same == ['names']


def test_what_is_not_told_is_as_the_player_has_it() -> None:
    # The rate apart: the player alone is used in tests and benchmarks at 200 Hz.
    given = {'servo_rate_hz': PlayerConfig.servo_rate_hz, 'joints': JOINTS}
    plain = PlayerConfig(JOINTS, interpolation=(Interpolation.CUBIC,) * 3)
    assert replace(ServoConfig(**given).player, limits=()) == plain


@pytest.mark.parametrize('name', [name for name in TOLD if name != 'servo_rate_hz'] + list(LIMITS))
def test_what_can_be_taken_between_two_ticks_is_dynamic(name: str) -> None:
    present = ServoConfig(joints=JOINTS)
    value = LIMITS[name] if name in LIMITS else TOLD[name][0]
    assert is_dynamic(name)
    replace(present, **{name: value}).player.check_change(present.player, None)


@pytest.mark.parametrize('name', ['joints', 'servo_rate_hz', *KINDS, 'joint_units'])
def test_what_chunks_were_laid_by_is_not(name: str) -> None:
    assert not is_dynamic(name)


def test_C22_each_joint_is_interpolated_as_it_is_named() -> None:
    kinds = ServoConfig(joints=JOINTS, **KINDS).player.interpolation
    assert kinds == (Interpolation.CUBIC, Interpolation.LINEAR, Interpolation.STEP)
    others = ServoConfig(joints=JOINTS, interpolation='step', linear_joints=('arm',)).player
    assert others.interpolation == (Interpolation.LINEAR, *[Interpolation.STEP] * 2)


def test_an_infinite_limit_is_none_so_that_a_gripper_may_step() -> None:
    arm, slide, gripper = ServoConfig(joints=JOINTS, **LIMITS).player.limits
    assert arm == JointLimit(-1.0, 1.0, 3.0, 4.0, 6.0)
    assert slide == JointLimit(None, 2.0, None, 5.0, 7.0)
    assert gripper == JointLimit(0.0, None, None, None, None)


@pytest.mark.parametrize(
    ('given', 'words'),
    [
        ({'step_joints': ('wrist',)}, "step_joints must be some of ['arm', 'slide', 'gripper']"),
        (
            {'linear_joints': ('wrist',)},
            "linear_joints must be some of ['arm', 'slide', 'gripper']",
        ),
        (
            {'step_joints': ('arm', 'slide'), 'linear_joints': ('slide',)},
            "linear_joints must be other joints than step_joints, got ['slide']",
        ),
        ({'velocity': (1.0, float('nan'), 1.0)}, 'velocity must be finite and > 0'),
        ({'lower': (float('inf'), 0.0, 0.0)}, 'lower must be finite'),
        ({'upper': (1.0, 1.0)}, "upper must be one for each of ['arm', 'slide', 'gripper']"),
        ({'ensemble_decay': 11.0}, 'ensemble_decay must be in -10..10'),
    ],
)
def test_what_cannot_be_told_is_refused(given: dict[str, Any], words: str) -> None:
    with pytest.raises(ParameterError) as caught:
        _ = ServoConfig(joints=JOINTS, **given).player
    assert words in str(caught.value)
