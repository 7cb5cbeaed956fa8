# SPDX-License-Identifier: Apache-2.0
"""
All translation between messages and our types, both ways. No node, no clock, no decisions.

Messages are filled by keyword, with arrays in the type that the message holds, so that rclpy does
not check them value by value.
"""

from __future__ import annotations

from array import array
from collections.abc import Iterable, Mapping, Sequence

import numpy as np
from builtin_interfaces.msg import Duration, Time
from geometry_msgs.msg import Point, PointStamped
from sensor_msgs.msg import Image, JointState
from std_msgs.msg import Float64MultiArray, Header
from trajectory_msgs.msg import JointTrajectory, JointTrajectoryPoint

from physis_ros.errors import ChunkError
from physis_ros.msg import ActionChunk as ActionChunkMessage
from physis_ros.msg import ChunkTimes as ChunkTimesMessage
from physis_ros.msg import InputStamp, Playback
from physis_ros.session import decode
from physis_ros.types import (
    ActionChunk,
    ByteArray,
    ChunkTimes,
    Command,
    FloatArray,
    PredictedFrame,
)

SECOND_NS = 1_000_000_000
NO_AGE_NS = -SECOND_NS

PLAYS = {play: index for index, play in enumerate(decode.PLAYS)}
REASONS = {reason: index for index, reason in enumerate(decode.REASONS)}
KV_RULES = decode.KV_RULES
# The way back is shared with recordings, where no ROS is at hand.
time_ns, chunk_times = decode.time_ns, decode.chunk_times
chunk, command = decode.chunk, decode.command


def time_message(time_ns: int) -> Time:
    """Return an instant as a message."""
    sec, nanosec = divmod(time_ns, SECOND_NS)
    return Time(sec=sec, nanosec=nanosec)


def duration_message(duration_ns: int) -> Duration:
    """Return a duration as a message."""
    sec, nanosec = divmod(duration_ns, SECOND_NS)
    return Duration(sec=sec, nanosec=nanosec)


def duration_ns(message: Duration) -> int:
    """Return a duration in nanoseconds."""
    return decode.time_ns(message)


def header(stamp_ns: int, frame_id: str = '') -> Header:
    """Return a header."""
    return Header(stamp=time_message(stamp_ns), frame_id=frame_id)


def input_messages(stamps_ns: Mapping[str, int]) -> list[InputStamp]:
    """Return the capture times behind something."""
    return [InputStamp(name=n, stamp=time_message(t)) for n, t in stamps_ns.items()]


def chunk_times_message(times: ChunkTimes) -> ChunkTimesMessage:
    """Return where the time went."""
    return ChunkTimesMessage(
        capture=time_message(times.capture_ns),
        receive=time_message(times.receive_ns),
        enter=time_message(times.enter_ns),
        denoised=time_message(times.denoised_ns),
        decoded=time_message(times.decoded_ns),
        publish=time_message(times.publish_ns),
    )


def chunk_message(chunk: ActionChunk, unit: str = 'rad') -> ActionChunkMessage:
    """Return a chunk as a message; its header stamp is the capture of the oldest input."""
    return ActionChunkMessage(
        header=header(chunk.observed_ns),
        stream=chunk.stream,
        epoch=chunk.epoch,
        chunk=chunk.chunk,
        start=time_message(chunk.start_ns),
        dt=duration_message(chunk.dt_ns),
        joint_names=list(chunk.names),
        units=[unit] * len(chunk.names),
        horizon=chunk.horizon,
        positions=_doubles(chunk.actions),
        inputs=input_messages(chunk.input_stamps_ns),
        times=chunk_times_message(chunk.times),
        kv_rule=KV_RULES.index(chunk.kv_rule),
        taken_over=chunk.taken_over,
        taken_over_inputs=input_messages(chunk.taken_over_stamps_ns),
    )


def playback_message(
    command: Command,
    times: ChunkTimesMessage | None = None,
    *,
    stream: str = '',
    warm_up: bool = False,
    due: bool = False,
    depth_ns: int = 0,
    begun_ns: int = 0,
    steady_ns: tuple[int, int, int] = (0, 0, 0),
) -> Playback:
    """
    Return one tick as a message.

    :param times: of the chunk behind it, as it came; None when it comes from no chunk.
    :param begun_ns: when the servo began to count, steady clock.
    :param steady_ns: when the tick was scheduled, when it began, when its command was published.
    """
    return Playback(
        header=header(command.stamp_ns),
        stream=stream,
        begun_steady_ns=begun_ns,
        epoch=command.epoch,
        chunk=command.chunk,
        play=PLAYS[command.play],
        reason=REASONS[command.reason],
        warm_up=warm_up,
        due=due,
        age=duration_message(NO_AGE_NS if command.age_ns is None else command.age_ns),
        inputs=[
            InputStamp(name=name, stamp=time_message(command.stamp_ns - age_ns))
            for name, age_ns in command.input_age_ns.items()
        ],
        times=times or ChunkTimesMessage(),
        scheduled_steady_ns=steady_ns[0],
        ticked_steady_ns=steady_ns[1],
        published_steady_ns=steady_ns[2],
        buffer_depth=duration_message(depth_ns),
        joint_names=list(command.names),
        position=_doubles(command.position),
        velocity=_doubles(command.velocity),
    )


def image_message(image: ByteArray, stamp_ns: int, frame_id: str) -> Image:
    """
    Return an RGB picture as a message.

    :param image: uint8 [height, width, 3].
    """
    height, width, channels = image.shape
    return Image(
        header=header(stamp_ns, frame_id),
        height=height,
        width=width,
        encoding='rgb8',
        is_bigendian=0,
        step=width * channels,
        data=array('B', np.ascontiguousarray(image).tobytes()),
    )


def predicted_image_message(frame: PredictedFrame, frame_id: str) -> Image:
    """Return a predicted frame; its stamp is the time that the frame is about."""
    return image_message(frame.image, frame.about_ns, frame_id)


def joint_state_message(
    stamp_ns: int, names: Sequence[str], position: FloatArray, velocity: FloatArray
) -> JointState:
    """Return joint positions and velocities as a message, without efforts."""
    return JointState(
        header=header(stamp_ns),
        name=list(names),
        position=_doubles(position),
        velocity=_doubles(velocity),
    )


def point_message(stamp_ns: int, position_m: Iterable[float]) -> PointStamped:
    """Return a place on the table as a message; frame ``world``."""
    x, y = position_m
    return PointStamped(header=header(stamp_ns, 'world'), point=Point(x=float(x), y=float(y)))


def array_message(command: Command) -> Float64MultiArray:
    """Return positions for a forward controller: by order, without names or time."""
    return Float64MultiArray(data=_doubles(command.position))


def state_command_message(command: Command) -> JointState:
    """Return a command as Isaac Sim takes it: a joint state with positions and velocities."""
    return joint_state_message(
        command.stamp_ns, command.names, command.position, command.velocity
    )


def trajectory_message(
    names: Sequence[str],
    offsets_ns: Sequence[int],
    position: FloatArray,
    velocity: FloatArray,
    stamp_ns: int = 0,
) -> JointTrajectory:
    """
    Return points for a joint trajectory controller.

    :param offsets_ns: time of each point from the start, > 0 and rising, [n].
    :param position: [n, A].
    :param velocity: [n, A].
    :param stamp_ns: the start; 0 means on receipt, the only form that every controller obeys.
    """
    points = [
        JointTrajectoryPoint(
            positions=_doubles(position[index]),
            velocities=_doubles(velocity[index]),
            time_from_start=duration_message(offset_ns),
        )
        for index, offset_ns in enumerate(offsets_ns)
    ]
    return JointTrajectory(header=header(stamp_ns), joint_names=list(names), points=points)


def commanded_positions(
    message: JointTrajectory | JointState | Float64MultiArray, names: Sequence[str]
) -> FloatArray:
    """
    Return what a command asks of the joints ``names`` now, whichever form it has.

    A trajectory counts by its first point. An array counts by order.

    :raises ChunkError: when a joint is missing, a length is wrong or a value is not finite.
    """
    if isinstance(message, Float64MultiArray):
        given, values = list(names), message.data
    elif isinstance(message, JointState):
        given, values = list(message.name), message.position
    else:
        given = list(message.joint_names)
        values = message.points[0].positions if message.points else []
    if len(given) != len(values):
        raise ChunkError(f'command must have {len(given)} positions, got {len(values)}')
    missing = [name for name in names if name not in given]
    if missing:
        raise ChunkError(f'command must name the joints {list(names)}, got {given}')
    position = np.array([values[given.index(name)] for name in names], dtype=np.float64)
    if not np.isfinite(position).all():
        raise ChunkError(f'command must be finite, got {position.tolist()}')
    return position


def _doubles(values: FloatArray) -> array[float]:
    """Return values as the array type of ``float64[]`` fields."""
    return array('d', np.ascontiguousarray(values, dtype=np.float64).tobytes())
