# SPDX-License-Identifier: Apache-2.0
"""The arm node as a process over real DDS: what a bridge of a simulator gives, and obeying."""

from __future__ import annotations

import signal
import time
from typing import Any

import numpy as np
import pytest

pytest.importorskip('rclpy')
pytest.importorskip('mujoco')
pytest.importorskip('physis_ros.msg')

from fuzz_cases import FUZZ
from geometry_msgs.msg import PointStamped
from hostile.arm import HostileArm, events
from hypothesis import given
from ros_cases import JOINTS
from rosgraph_msgs.msg import Clock
from sensor_msgs.msg import Image, JointState
from std_msgs.msg import Int32
from std_srvs.srv import Trigger

from physis_ros.ros import conversions, qos

MODULE = 'physis_ros.ros.arm_node'


def stamps_ns(messages: list[Any]) -> np.ndarray[Any, Any]:
    return np.array([conversions.time_ns(message.header.stamp) for message in messages])


def test_topics_types_and_stamps_are_those_of_a_simulator(bench: Any, launcher: Any) -> None:
    images = bench.collect(Image, 'camera/image_raw')
    joints = bench.collect(JointState, 'joint_states')
    clocks = bench.collect(Clock, '/clock')
    targets = bench.collect(PointStamped, 'arm_node/target')
    process = launcher.start(MODULE, '--ros-args', '-p', 'camera_delay_ms:=100.0')
    assert bench.spin_until(lambda: len(images) >= 40, 60), launcher.log(process)

    image = images[-1]
    assert (image.height, image.width, image.encoding) == (128, 128, 'rgb8')
    assert image.header.frame_id == 'camera_optical'
    assert len(set(bytes(image.data))) > 10
    assert tuple(joints[-1].name) == JOINTS
    assert len(joints[-1].velocity) == 2
    # Everything lies on one grid, begun at the system time of the start.
    camera_ns, joints_ns = stamps_ns(images), stamps_ns(joints)
    assert not ((camera_ns - camera_ns[0]) % 25_000_000).any()
    assert not ((joints_ns - joints_ns[0]) % 5_000_000).any()
    assert (np.diff(joints_ns) > 0).all()
    assert (camera_ns[-1] - joints_ns[0]) % 5_000_000 == 0
    assert abs(time.time_ns() - joints_ns[-1]) < 5_000_000_000
    assert (conversions.time_ns(clocks[-1].clock) - joints_ns[0]) % 5_000_000 == 0
    assert targets[-1].header.frame_id == 'world'
    # An image comes so much after the joint state of its instant.
    assert joints_ns[-1] - camera_ns[-1] >= 100_000_000 - 25_000_000


def test_commands_are_obeyed_and_begin_the_episodes(bench: Any, launcher: Any) -> None:
    episodes = bench.collect(Int32, 'arm_node/episode', qos.LATCHED)
    joints = bench.collect(JointState, 'joint_states')
    calls: list[str] = []

    def on_reset(request: Any, response: Trigger.Response) -> Trigger.Response:
        calls.append('reset')
        response.success = True
        return response

    bench.probe.create_service(Trigger, 'first/reset', on_reset)
    commands_out = bench.probe.create_publisher(JointState, 'command', qos.COMMAND)
    process = launcher.start(
        MODULE, '--ros-args', '-p', 'episodes:=2', '-p', 'seconds:=1.0',
        '-p', 'reset_services:=[first/reset, absent/reset]',
    )  # fmt: skip
    assert bench.spin_until(lambda: joints and episodes, 60), launcher.log(process)
    assert episodes[-1].data == -1
    goal = np.array([0.3, 1.2])
    command = conversions.joint_state_message(0, JOINTS, goal, np.zeros(2))
    timer = bench.probe.create_timer(0.01, lambda: commands_out.publish(command))
    # A command that stands still is a hold: nothing begins.
    assert bench.spin_until(lambda: np.allclose(joints[-1].position, goal, atol=0.02), 20)
    assert episodes[-1].data == -1
    timer.cancel()
    commands_out.publish(conversions.joint_state_message(0, JOINTS, goal + 0.01, np.zeros(2)))
    assert bench.spin_until(lambda: episodes[-1].data == 2, 20), launcher.log(process)
    assert calls == ['reset', 'reset']
    assert 'absent/reset is not there' in launcher.log(process)
    process.send_signal(signal.SIGINT)
    assert process.wait(10) == 0, launcher.log(process)


def test_an_arm_that_was_held_up_catches_up_by_leaving_out(bench: Any, launcher: Any) -> None:
    joints = bench.collect(JointState, 'joint_states')
    images = bench.collect(Image, 'camera/image_raw')
    ahead_ns: list[int] = []
    bench.probe.create_subscription(
        Image,
        'camera/image_raw',
        lambda m: ahead_ns.append(conversions.time_ns(m.header.stamp) - time.time_ns()),
        10,
    )
    process = launcher.start(MODULE, '--ros-args', '-p', 'start:=now')
    assert bench.spin_until(lambda: len(joints) > 100 and images, 60), launcher.log(process)
    process.send_signal(signal.SIGSTOP)
    bench.spin_until(lambda: False, 3.0)
    process.send_signal(signal.SIGCONT)
    seen = len(images)

    def up_to_date() -> bool:
        late_ns = time.time_ns() - conversions.time_ns(joints[-1].header.stamp)
        return late_ns < 100_000_000 and len(images) > seen + 5

    assert bench.spin_until(up_to_date, 20), launcher.log(process)
    stamps = stamps_ns(joints)
    assert np.diff(stamps).max() > 2_000_000_000
    assert not ((stamps - stamps[0]) % 5_000_000).any()
    assert not (np.diff(stamps_ns(images)) % 25_000_000).any()
    assert max(ahead_ns) <= 0
    assert launcher.log(process).count('cannot keep up') == 1


def test_a_faster_simulation_counts_its_own_time(bench: Any, launcher: Any) -> None:
    joints = bench.collect(JointState, 'joint_states')
    process = launcher.start(
        MODULE, '--ros-args', '-p', 'speed:=4.0', '-p', 'time_base:=zero', '-p', 'start:=now'
    )
    assert bench.spin_until(lambda: len(joints) > 100, 60), launcher.log(process)
    assert 1_000_000_000 <= stamps_ns(joints)[0] < 1_000_000_000_000


def test_a_wrong_speed_is_refused(launcher: Any) -> None:
    process = launcher.start(MODULE, '--ros-args', '-p', 'speed:=2.0')
    assert process.wait(60) == 2
    assert "time_base must be 'zero' at a speed other than 1" in launcher.log(process)


def test_hostile_commands_are_counted_and_the_arm_stays_finite(bench: Any) -> None:
    arm = HostileArm(bench.context, 'joint_trajectory')

    @FUZZ
    @given(series=events())
    def survives(series: list[Any]) -> None:
        assert arm.play(series).total() == len(series)

    try:
        survives()
    finally:
        arm.close()
