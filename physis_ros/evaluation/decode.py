# SPDX-License-Identifier: Apache-2.0
"""
Recorded messages as the values that cross our boundaries.

The twin of ``ros/conversions.py`` for messages that ``rosbags`` decoded; no ROS is needed here.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from physis_ros.errors import BagError
from physis_ros.types import ActionChunk, ByteArray, ChunkTimes, Command, Play, Reason

SECOND_NS = 1_000_000_000
PLAYS = tuple(Play)
REASONS = tuple(Reason)
KV_RULES = ('same_step', 'clean', 'override')
CHANNELS = {'rgb8': (3, (0, 1, 2)), 'bgr8': (3, (2, 1, 0)), 'mono8': (1, (0, 0, 0))}


def time_ns(message: Any) -> int:
    """Return a ``Time`` or a ``Duration`` in nanoseconds."""
    return int(message.sec) * SECOND_NS + int(message.nanosec)


def chunk_times(message: Any) -> ChunkTimes:
    """Return where a chunk's time went."""
    return ChunkTimes(
        capture_ns=time_ns(message.capture),
        receive_ns=time_ns(message.receive),
        enter_ns=time_ns(message.enter),
        denoised_ns=time_ns(message.denoised),
        decoded_ns=time_ns(message.decoded),
        publish_ns=time_ns(message.publish),
    )


def chunk(message: Any) -> ActionChunk:
    """
    Return an ``ActionChunk`` message as a chunk.

    :raises ChunkError: when its fields contradict each other.
    """
    horizon, names = int(message.horizon), tuple(message.joint_names)
    values = np.array(message.positions, dtype=np.float64)
    if values.size != horizon * len(names) or message.kv_rule >= len(KV_RULES):
        raise BagError(
            f'chunk {message.epoch}/{message.chunk} must hold {horizon} x {len(names)} positions '
            f'and a known KV rule, got {values.size} and {message.kv_rule}'
        )
    return ActionChunk(
        stream=message.stream,
        epoch=int(message.epoch),
        chunk=int(message.chunk),
        start_ns=time_ns(message.start),
        dt_ns=time_ns(message.dt),
        names=names,
        actions=values.reshape(horizon, len(names)),
        input_stamps_ns={item.name: time_ns(item.stamp) for item in message.inputs},
        times=chunk_times(message.times),
        kv_rule=KV_RULES[message.kv_rule],
    )


def command(message: Any) -> Command:
    """Return the command of a ``Playback`` message."""
    stamp_ns, age_ns = time_ns(message.header.stamp), time_ns(message.age)
    return Command(
        stamp_ns=stamp_ns,
        play=PLAYS[message.play],
        reason=REASONS[message.reason],
        names=tuple(message.joint_names),
        position=np.array(message.position, dtype=np.float64),
        velocity=np.array(message.velocity, dtype=np.float64),
        epoch=int(message.epoch),
        chunk=int(message.chunk),
        age_ns=None if age_ns < 0 else age_ns,
        input_age_ns={item.name: stamp_ns - time_ns(item.stamp) for item in message.inputs},
    )


def image(message: Any) -> ByteArray:
    """
    Return an ``Image`` message as RGB, [height, width, 3].

    :raises BagError: for an encoding that scores do not need, naming it.
    """
    if message.encoding not in CHANNELS:
        raise BagError(
            f'recorded image encoding must be one of {sorted(CHANNELS)}, got {message.encoding!r}'
        )
    channels, order = CHANNELS[message.encoding]
    rows = np.asarray(message.data, dtype=np.uint8).reshape(message.height, message.step)
    pixels = rows[:, : message.width * channels].reshape(message.height, message.width, channels)
    return np.ascontiguousarray(pixels[:, :, list(order)])
