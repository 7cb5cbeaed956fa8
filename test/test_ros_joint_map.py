# SPDX-License-Identifier: Apache-2.0
"""What a robot calls its joints and counts them in: I12, and the units of output and input."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest

pytest.importorskip('rclpy')

from hypothesis import given
from hypothesis import strategies as st
from output_cases import MS, chunk, player, run
from sensor_msgs.msg import JointState

from physis_ros.errors import ParameterError
from physis_ros.ros.commands import Adapter
from physis_ros.ros.joint_map import JointMap
from physis_ros.ros.servo_config import ServoConfig
from physis_ros.ros.servo_joints import ServoJoints

NAMES = ('lift', 'elbow', 'gripper')
ROBOT: dict[str, Any] = {
    'joint_aliases': ['arm_joint_1=elbow', 'claw=gripper'],
    'joint_units': ['lift=mm', 'elbow=deg'],
    'joint_scales': ['elbow=-1.0', 'gripper=100.0'],
    'joint_offsets': ['elbow=90.0'],
}
# 0.25 m are 250 mm; a quarter turn is -90 deg the other way, and 90 deg more; 0.4 is 40 %.
OURS = np.array([0.25, np.pi / 2, 0.4])
THEIRS = {'lift': 250.0, 'arm_joint_1': 0.0, 'claw': 40.0}
# 0.1 m/s, 1 rad/s, 0.5 /s.
SPEED, THEIR_SPEED = np.array([0.1, 1.0, 0.5]), [100.0, -180.0 / np.pi, 50.0]


def config(**changes: Any) -> ServoConfig:
    """Return the configuration of a servo whose robot is another."""
    given = {'joints': NAMES, 'servo_rate_hz': 200.0, 'trajectory_rate_hz': 200.0, **ROBOT}
    return ServoConfig(**{**given, **changes})


def adapter(kind: str) -> tuple[Adapter, Any]:
    """Return an adapter, and a command in the middle of a chunk whose columns lie otherwise."""
    made = player(measured=None, names=NAMES, require_measured=False)
    steps = (OURS + SPEED * np.arange(16)[:, None] * 0.025)[:, ::-1]
    made.offer(chunk(steps=steps, names=NAMES[::-1]), 0)
    return Adapter(config(command_type=kind), made), run(made, 0, 100)[-1]


def test_I12_a_state_is_by_the_robots_names_and_an_array_by_its_order_in_its_units() -> None:
    forms, command = adapter('joint_state')
    command = replace(command, position=OURS, velocity=SPEED)
    state = forms.message(command)
    assert list(state.name) == list(THEIRS)
    assert list(state.position) == pytest.approx(list(THEIRS.values()), abs=1e-9)
    assert list(state.velocity) == pytest.approx(THEIR_SPEED)
    array, _ = adapter('float64_multi_array')
    assert list(array.message(command).data) == list(state.position)


def test_every_point_of_a_trajectory_and_the_final_hold_are_in_the_robots_units() -> None:
    forms, command = adapter('joint_trajectory')
    message = forms.message(command)
    assert list(message.joint_names) == list(THEIRS)
    ours = OURS + SPEED * (0.1 + 0.02 * np.arange(1, 11)[:, None])
    theirs = ours * [1000.0, -180.0 / np.pi, 100.0] + [0.0, 90.0, 0.0]
    np.testing.assert_allclose([point.positions for point in message.points[:10]], theirs)
    for point in message.points[:10]:
        assert list(point.velocities) == pytest.approx(THEIR_SPEED)
    assert list(message.points[-1].velocities) == pytest.approx([0.0] * 3)
    hold = forms.final(replace(command, position=OURS, velocity=SPEED * 0.0))
    assert list(hold.points[0].positions) == pytest.approx(list(THEIRS.values()), abs=1e-9)
    assert list(hold.points[0].velocities) == [0.0] * 3


def test_joint_states_come_back_in_ours_and_what_is_missing_is_named_as_the_robot_does() -> None:
    joints = ServoJoints(config().robot, 500 * MS)
    # Our name for a joint is nobody's here, or somebody else's.
    message = JointState(name=['claw', 'elbow', 'lift'], position=[40.0, 7.0, 250.0])
    assert joints.read(message, 1) is None
    joints.read(message, 1200 * MS)
    assert "missing: ['arm_joint_1']; expected ['lift', 'arm_joint_1', 'claw']" in joints.trouble
    assert joints.read(JointState(name=['arm_joint_1'], position=[0.0]), 1200 * MS) is not None
    position, _ = joints.read(JointState(name=list(THEIRS), position=THEIRS.values()), 1201 * MS)
    assert position == pytest.approx(OURS)


def test_a_model_hears_velocities_too_and_leaves_what_is_not_whole_to_be_refused() -> None:
    robot = config().robot
    heard = robot.heard(list(THEIRS), list(THEIRS.values()), THEIR_SPEED)
    assert heard[0] == pytest.approx(OURS)
    assert heard[1] == pytest.approx(SPEED)
    assert robot.heard(['wheel', 'claw'], [3.0, 40.0], []) == ([3.0, 0.4], [])
    assert robot.heard(['claw'], [1.0, 2.0], []) == ([1.0, 2.0], [])
    assert robot.heard(['claw', 'lift'], [40.0, 0.0], [5.0])[1] == [5.0]


@given(
    st.lists(st.floats(-1e3, 1e3), min_size=3, max_size=3),
    st.sampled_from(['0.001', '-1', '57.3']),
    st.sampled_from(['0', '-90', '1e3']),
)
def test_what_is_told_is_heard_again(values: list[float], scale: str, offset: str) -> None:
    robot = JointMap.of(NAMES, (), ['elbow=deg'], [f'elbow={scale}'], [f'elbow={offset}'])
    theirs = np.array(values) * robot.factor + robot.offset
    heard, _ = robot.heard(NAMES, theirs, ())
    assert heard == pytest.approx(values, rel=1e-9, abs=1e-6)


def test_limits_stay_in_our_units() -> None:
    limited = config(upper=[0.3, 1.6, 0.5])
    assert limited.player.limits[1].upper == 1.6


@pytest.mark.parametrize(
    ('given', 'words'),
    [
        (
            {'joint_aliases': ['arm_joint_1=wrist']},
            "joint_aliases must be for some of ['lift', 'elbow', 'gripper'], each once, "
            "got ['wrist']",
        ),
        ({'joint_aliases': ['a=elbow', 'b=elbow']}, "each once, got ['elbow', 'elbow']"),
        ({'joint_aliases': ['lift=elbow']}, 'a name of its own for each joint'),
        ({'joint_aliases': ['elbow']}, "joint_aliases must be a list of 'robot_joint=joint'"),
        ({'joint_units': ['wrist=deg']}, "['lift', 'elbow', 'gripper'], each once, got ['wrist']"),
        ({'joint_units': ['elbow=turns']}, "of ['rad', 'deg', 'm', 'mm'], got 'turns'"),
        ({'joint_scales': ['elbow=0.0']}, "joint_scales must be other than 0, got ['elbow']"),
        ({'joint_scales': ['elbow=much']}, "'joint=finite number', got 'elbow=much'"),
        ({'joint_scales': ['elbow=inf']}, "'joint=finite number', got 'elbow=inf'"),
        ({'joint_offsets': ['elbow=nan']}, "'joint=finite number', got 'elbow=nan'"),
        ({'joint_offsets': ['elbow=']}, "joint_offsets must be a list of 'joint=value'"),
    ],
)
def test_what_fits_no_joint_is_refused_with_both_sets(given: dict[str, Any], words: str) -> None:
    with pytest.raises(ParameterError) as caught:
        config(**given)
    assert words in str(caught.value)
