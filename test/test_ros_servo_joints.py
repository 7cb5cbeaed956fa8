# SPDX-License-Identifier: Apache-2.0
"""Joint states of several publishers, as the player takes them."""

from __future__ import annotations

import numpy as np
import pytest

pytest.importorskip('sensor_msgs.msg')

from sensor_msgs.msg import JointState

from physis_ros.ros.joint_map import JointMap
from physis_ros.ros.servo_joints import PATIENCE_NS, ServoJoints

MS = 1_000_000
ROBOT = JointMap.of(('shoulder', 'elbow'))


def state(**positions: float) -> JointState:
    """Return a message with these joints."""
    return JointState(name=list(positions), position=list(positions.values()))


def test_a_state_in_parts_is_whole_when_every_joint_has_come() -> None:
    joints = ServoJoints(ROBOT, 500 * MS)
    assert joints.read(state(elbow=1.0), 100 * MS) is None
    assert joints.trouble == ''
    whole = joints.read(state(gripper=9.0, shoulder=0.5), 103 * MS)
    assert whole is not None
    np.testing.assert_array_equal(whole[0], [0.5, 1.0])
    # As old as the oldest part.
    assert whole[1] == 100 * MS


def test_a_publisher_that_falls_silent_takes_the_state_away_and_is_named() -> None:
    joints = ServoJoints(ROBOT, 500 * MS)
    joints.read(state(elbow=1.0, shoulder=0.5), 100 * MS)
    assert joints.read(state(shoulder=0.6), 600 * MS) is not None
    assert joints.read(state(shoulder=0.6), 601 * MS) is None
    assert joints.read(state(shoulder=0.6), 1700 * MS) is None
    assert "joints missing: ['elbow']" in joints.trouble
    assert joints.read(state(elbow=1.0), 1710 * MS) is not None
    assert joints.trouble == ''


def test_a_joint_that_never_comes_is_named_after_a_second() -> None:
    joints = ServoJoints(ROBOT, 500 * MS)
    joints.read(state(elbow=1.0, gripper=0.0), 1)
    assert joints.trouble == ''
    joints.read(state(elbow=1.0), PATIENCE_NS + 2)
    assert joints.trouble.startswith(
        "joints missing: ['shoulder']; expected ['shoulder', 'elbow']"
    )
    assert "got ['elbow', 'gripper']" in joints.trouble
    assert sum(joints.refused.values()) == 0


def test_joints_of_others_are_trouble_only_while_ours_are_missing() -> None:
    joints = ServoJoints(ROBOT, 500 * MS)
    assert joints.read(state(wheel=1.0), 1) is None
    assert "got ['wheel']" in joints.trouble
    assert joints.read(state(shoulder=0.5, elbow=1.0), 2) is not None
    assert joints.read(state(wheel=1.0), 3) is None
    assert joints.trouble == ''
    assert joints.refused == {'other_joints': 2}


def test_A11_a_joint_that_does_not_move_is_known_and_its_age_tells_when_it_was_heard() -> None:
    joints = ServoJoints(ROBOT, 500 * MS)
    still = state(shoulder=0.5, elbow=1.0)
    read = [joints.read(still, stamp_ns) for stamp_ns in (100 * MS, 110 * MS, 9000 * MS)]
    assert [item is not None and item[1] for item in read] == [100 * MS, 110 * MS, 9000 * MS]


def test_T19_when_the_time_goes_back_nothing_from_before_is_put_together() -> None:
    joints = ServoJoints(ROBOT, 500 * MS)
    joints.read(state(shoulder=0.5), 60_000 * MS)
    assert joints.read(state(elbow=1.0), 60_000 * MS) is not None
    assert joints.read(state(shoulder=0.0), 2000 * MS) is None
    whole = joints.read(state(elbow=0.1), 2010 * MS)
    assert whole is not None
    assert (whole[0].tolist(), whole[1]) == ([0.0, 0.1], 2000 * MS)
