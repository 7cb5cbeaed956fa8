# SPDX-License-Identifier: Apache-2.0
"""The simulated arm: kinematics, physics, determinism and what the camera shows."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from physis_ros.errors import ParameterError
from physis_ros.simulation.arm import Arm
from physis_ros.simulation.kinematics import joint_position, tip_position
from physis_ros.simulation.scene import ArmConfig

LINK_M = (0.25, 0.20)
RED, BLUE, GREEN, WHITE = (242, 64, 38), (38, 115, 242), (51, 204, 89), (255, 255, 255)


def centre_m(frame: np.ndarray, colour: tuple[int, int, int]) -> np.ndarray:
    """Return the mean position of a colour's pixels, in metres from the shoulder."""
    rows, columns = np.nonzero((np.abs(frame.astype(int) - colour) <= 2).all(axis=2))
    px_m = 0.96 / 128
    return np.array([(columns.mean() + 0.5 - 64) * px_m, (64 - rows.mean() - 0.5) * px_m])


def test_straight_and_bent_poses_put_the_tip_where_geometry_says():
    poses = np.array([[0.0, 0.0], [np.pi / 2, 0.0], [0.0, np.pi / 2]])
    expected = [[0.45, 0.0], [0.0, 0.45], [0.25, 0.20]]
    np.testing.assert_allclose(tip_position(poses, LINK_M), expected, atol=1e-15)


def test_inverse_kinematics_inverts_forward_kinematics():
    random = np.random.default_rng(0)
    joint = np.stack([random.uniform(-2.5, 1.5, 1000), random.uniform(0.1, 2.8, 1000)], axis=1)
    np.testing.assert_allclose(
        joint_position(tip_position(joint, LINK_M), LINK_M), joint, atol=1e-12
    )


def test_unreachable_points_give_the_nearest_pose():
    far = joint_position(np.array([1.0, 0.0]), LINK_M)
    np.testing.assert_allclose(far, [0.0, 0.0], atol=1e-15)
    near = joint_position(np.array([0.01, 0.0]), LINK_M)
    assert near[1] == pytest.approx(np.pi)


def test_time_counts_whole_milliseconds():
    arm = Arm()
    assert arm.time_ns == 0
    arm.advance()
    arm.advance(24)
    assert arm.time_ns == 25_000_000
    arm.advance(0)
    assert arm.time_ns == 25_000_000


def run(arm: Arm, seed: int, render: bool) -> tuple[np.ndarray, list[np.ndarray]]:
    """Drive the arm by a fixed sequence; return all joints and some frames."""
    arm.reset(seed)
    joints, frames = [], []
    for index in range(60):
        arm.command(np.array([np.sin(0.3 * index), 1.2 + np.cos(0.2 * index)]))
        arm.advance(5)
        joints.append(np.concatenate([arm.joint_position_rad, arm.joint_velocity_rad_s]))
        if render and index % 20 == 0:
            frames.append(arm.render())
    return np.stack(joints), frames


def test_same_seed_and_commands_give_the_same_bits_rendered_or_not():
    with Arm() as first, Arm() as second:
        run(second, 3, render=False)  # a used arm is as good as a new one
        joints, frames = run(first, 8, render=True)
        joints_again, frames_again = run(second, 8, render=True)
        joints_unseen, _ = run(first, 8, render=False)
        joints_other, _ = run(first, 9, render=False)
    assert np.array_equal(joints, joints_again)
    assert np.array_equal(joints, joints_unseen)
    assert all(np.array_equal(a, b) for a, b in zip(frames, frames_again, strict=True))
    assert not np.array_equal(joints, joints_other)


def test_the_camera_shows_joints_and_target_of_this_very_moment():
    with Arm(seed=2) as arm:
        arm.command(np.array([0.5, 1.0]))
        arm.advance(90)  # on the move
        frame = arm.render()
        assert frame.shape == (128, 128, 3) and frame.dtype == np.uint8
        np.testing.assert_allclose(centre_m(frame, RED), arm.target_position_m, atol=0.004)
        np.testing.assert_allclose(centre_m(frame, WHITE), arm.tip_position_m, atol=0.004)
        upper = np.array([arm.joint_position_rad[0], 0.0])
        middle = tip_position(upper, (0.125, 0.0))
        np.testing.assert_allclose(centre_m(frame, BLUE), middle, atol=0.02)


def test_drives_lag_saturate_and_arrive():
    arm = Arm()
    arm.reset(0, np.array([0.0, 1.5]))
    arm.command(np.array([1.0, 1.5]))
    arm.advance(40)
    # Greatest torque 2.5 N m: the arm cannot be faster than its inertia alone would allow.
    assert 0.0 < arm.joint_position_rad[0] < 0.5 * (2.5 / 0.02) * 0.040**2
    arm.advance(3000)
    np.testing.assert_allclose(arm.joint_position_rad, [1.0, 1.5], atol=1e-3)
    np.testing.assert_allclose(arm.joint_velocity_rad_s, [0.0, 0.0], atol=1e-3)


def test_commands_beyond_a_joint_limit_mean_the_limit():
    arm = Arm()
    arm.command(np.array([9.0, -9.0]))
    arm.advance(3000)
    np.testing.assert_allclose(arm.joint_position_rad, [2.6, 0.1], atol=5e-3)


@pytest.mark.parametrize('command', [[0.0], [0.0, float('nan')], [[0.0, 1.0]]])
def test_malformed_commands_are_refused(command):
    with pytest.raises(ParameterError, match='position_rad must be two finite numbers'):
        Arm().command(np.array(command))


def test_time_does_not_go_backwards():
    with pytest.raises(ParameterError, match='steps must be 0 or greater, got -1'):
        Arm().advance(-1)


def test_read_values_are_copies():
    arm = Arm()
    arm.joint_position_rad[:] = 7.0
    arm.joint_velocity_rad_s[:] = 7.0
    assert (arm.joint_position_rad < 4).all() and (arm.joint_velocity_rad_s == 0).all()


@pytest.mark.parametrize(
    ('field', 'value'),
    [
        ('link_m', (0.25, 0.0)),
        ('damping_nm_s', (-0.1, 0.0)),
        ('lower_rad', (3.0, 0.1)),
        ('lower_rad', (-3.0, -0.1)),
        ('torque_nm', (float('nan'), 1.0)),
        ('image_px', 127),
        ('view_m', 0.0),
    ],
)
def test_impossible_arms_are_refused_by_name(field, value):
    with pytest.raises(ParameterError, match=f'^{field} must be'):
        replace(ArmConfig(), **{field: value})


def test_negative_seeds_are_refused():
    with pytest.raises(ParameterError, match='seed must be 0 or greater, got -1'):
        Arm(seed=-1)


def test_closing_twice_is_harmless_and_physics_goes_on():
    arm = Arm()
    arm.render()
    arm.close()
    arm.close()
    arm.advance(5)
    assert arm.time_ns == 5_000_000
    assert arm.render().max() > 200
    arm.close()
