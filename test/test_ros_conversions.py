# SPDX-License-Identifier: Apache-2.0
"""Messages and our types: both ways without loss, malformed ones refused whole."""

from __future__ import annotations

from dataclasses import fields, replace
from typing import Any

import numpy as np
import pytest

pytest.importorskip('rclpy')
pytest.importorskip('physis_ros.msg')

from ros_cases import JOINTS, picture, steady_chunk
from sensor_msgs.msg import JointState
from std_msgs.msg import Float64MultiArray

from physis_ros.errors import ChunkError
from physis_ros.msg import ActionChunk as ActionChunkMessage
from physis_ros.msg import InputStamp, Playback
from physis_ros.ros import conversions, qos
from physis_ros.ros.qos import QosWatch
from physis_ros.ros.stream_config import StreamNames
from physis_ros.ros.wam_outputs import WamOutputs
from physis_ros.session.delay import ToldDelay
from physis_ros.session.produced import Produced
from physis_ros.types import Command, Play, PredictedFrame, Reason


@pytest.mark.parametrize('instant_ns', [0, 1, 999_999_999, 10**9, 1_795_987_570_036_932_001])
def test_instants_and_durations_keep_every_nanosecond(instant_ns: int) -> None:
    assert conversions.time_ns(conversions.time_message(instant_ns)) == instant_ns
    assert conversions.duration_ns(conversions.duration_message(-instant_ns)) == -instant_ns


def test_a_chunk_comes_back_as_it_was() -> None:
    made = steady_chunk(7, (0.5, 1.25), epoch=3, now_ns=1_795_987_570_036_932_001)
    chunk = replace(made, taken_over=3, taken_over_stamps_ns={'camera': 17, 'joints': 10**9})
    back = conversions.chunk(conversions.chunk_message(chunk))
    for field in fields(chunk):
        mine, its = getattr(chunk, field.name), getattr(back, field.name)
        if field.name == 'actions':
            np.testing.assert_array_equal(mine, its)
        else:
            assert mine == its, field.name


def test_the_stamp_of_a_chunk_is_its_oldest_input() -> None:
    message = conversions.chunk_message(steady_chunk(0, (0.0, 1.0), now_ns=10**9))
    assert conversions.time_ns(message.header.stamp) == 950_000_000
    assert list(message.units) == ['rad', 'rad']


def test_chunks_go_out_in_the_unit_of_the_model(bench: Any) -> None:
    node = bench.probe
    names = StreamNames('robot', plain=True)
    outputs = WamOutputs(node, QosWatch(node), names, lambda: '', unit='m')
    got = bench.collect(ActionChunkMessage, outputs.topic, qos.CHUNK)
    assert bench.spin_until(lambda: outputs.subscribers, 20)
    outputs.deliver(Produced(steady_chunk(0, (0.0, 1.0)), (), ToldDelay(2, False)))
    assert bench.spin_until(lambda: got, 20)
    assert list(got[0].units) == ['m', 'm']


@pytest.mark.parametrize(
    ('field', 'value', 'words'),
    [
        ('horizon', 15, 'positions must be horizon x joint_names = 15 x 2 values, got 32'),
        ('horizon', 0, 'positions must be'),
        ('kv_rule', 3, 'kv_rule must be < 3, got 3'),
        ('inputs', [], 'input_stamps_ns must name at least one input'),
        ('taken_over', 17, 'taken_over must be in 0..16, got 17'),
        ('taken_over', 1, 'taken_over_stamps_ns must name inputs where steps were taken over'),
        ('taken_over_inputs', [InputStamp(name='camera')], 'and only there, got 0 steps of'),
    ],
)
def test_a_malformed_chunk_is_refused(field: str, value: object, words: str) -> None:
    message = conversions.chunk_message(steady_chunk(0, (0.0, 1.0)))
    setattr(message, field, value)
    with pytest.raises(ChunkError, match=words):
        conversions.chunk(message)


def test_a_chunk_without_a_distance_of_steps_is_refused() -> None:
    message = conversions.chunk_message(steady_chunk(0, (0.0, 1.0)))
    message.dt = conversions.duration_message(0)
    with pytest.raises(ChunkError, match='dt_ns must be > 0, got 0'):
        conversions.chunk(message)


@pytest.mark.parametrize('played', [True, False])
def test_a_tick_comes_back_as_it_was(played: bool) -> None:
    chunk = steady_chunk(7, (0.5, 1.25), now_ns=10**9)
    command = Command(
        stamp_ns=1_010_000_000,
        play=Play.PLAYING if played else Play.SILENT,
        reason=Reason.NONE if played else Reason.CHUNK_LATE,
        names=JOINTS,
        position=np.array([0.5, 1.25]) if played else np.zeros(0),
        velocity=np.array([0.1, -0.2]) if played else np.zeros(0),
        epoch=3,
        chunk=7 if played else -1,
        age_ns=60_000_000 if played else None,
        input_age_ns={'camera': 60_000_000, 'joints': 55_000_000} if played else {},
    )
    taken = conversions.chunk_times_message(chunk.times) if played else None
    message = conversions.playback_message(command, taken, steady_ns=(5, 6, 8))
    back = conversions.command(message)
    np.testing.assert_array_equal(back.position, command.position)
    np.testing.assert_array_equal(back.velocity, command.velocity)
    for field in fields(command):
        if field.name not in ('position', 'velocity'):
            assert getattr(back, field.name) == getattr(command, field.name), field.name
    steady_ns = message.scheduled_steady_ns, message.ticked_steady_ns, message.published_steady_ns
    assert steady_ns == (5, 6, 8)
    times = conversions.chunk_times(message.times)
    assert (times == chunk.times) is played


def test_the_constants_of_the_messages_are_ours() -> None:
    for play, number in conversions.PLAYS.items():
        assert getattr(Playback, f'PLAY_{play.name}') == number
    for reason, number in conversions.REASONS.items():
        assert getattr(Playback, f'REASON_{reason.name}') == number
    for number, rule in enumerate(conversions.KV_RULES):
        assert getattr(ActionChunkMessage, f'KV_RULE_{rule.upper()}') == number


def test_a_predicted_frame_is_stamped_with_what_it_is_about() -> None:
    frame = PredictedFrame('robot', 0, 1, about_ns=2 * 10**9, observed_ns=10**9, image=picture(8))
    message = conversions.predicted_image_message(frame, 'camera_optical')
    assert message.header.stamp.sec == 2
    assert (message.encoding, message.height, message.width, message.step) == ('rgb8', 8, 8, 24)
    assert bytes(message.data) == picture(8).tobytes()


def test_A4_a_trajectory_rises_from_after_now() -> None:
    rows = np.array([[0.0, 1.0], [0.1, 1.1]])
    message = conversions.trajectory_message(JOINTS, [20_000_000, 40_000_000], rows, rows * 2)
    assert (message.header.stamp.sec, message.header.stamp.nanosec) == (0, 0)
    times = [conversions.duration_ns(point.time_from_start) for point in message.points]
    assert times == [20_000_000, 40_000_000]
    assert list(message.points[1].velocities) == [0.2, 2.2]


def test_commands_are_read_by_name_and_arrays_by_order() -> None:
    rows = np.array([[0.25, 1.5]])
    state = JointState(name=['elbow', 'gripper', 'shoulder'], position=[1.5, 9.0, 0.25])
    trajectory = conversions.trajectory_message(JOINTS, [1], rows, rows)
    for message in (state, trajectory, Float64MultiArray(data=[0.25, 1.5])):
        assert conversions.commanded_positions(message, JOINTS).tolist() == [0.25, 1.5]


@pytest.mark.parametrize(
    ('message', 'words'),
    [
        (Float64MultiArray(data=[1.0]), 'must have 2 positions, got 1'),
        (Float64MultiArray(data=[1.0, float('nan')]), 'must be finite'),
        (JointState(name=['elbow'], position=[1.0]), r"must name the joints .* got \['elbow'\]"),
    ],
)
def test_unusable_commands_are_refused(message: object, words: str) -> None:
    with pytest.raises(ChunkError, match=words):
        conversions.commanded_positions(message, JOINTS)
