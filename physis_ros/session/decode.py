# SPDX-License-Identifier: Apache-2.0
"""
Messages as the values that cross our boundaries, by the names of their fields alone.

The same for messages that rclpy delivers and for those that a recording gives; no ROS is needed.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import numpy as np

from physis_ros.errors import ChunkError
from physis_ros.types import ActionChunk, ChunkTimes, Command, Play, Reason

SECOND_NS = 1_000_000_000
PLAYS = tuple(Play)
REASONS = tuple(Reason)
UNITS = {'rad', 'm'}
KV_RULES = ('same_step', 'clean', 'override')


def time_ns(message: Any) -> int:
    """Return a ``Time`` or a ``Duration`` in nanoseconds."""
    return int(message.sec) * SECOND_NS + int(message.nanosec)


def chunk_times(message: Any) -> ChunkTimes:
    """Return where the time went."""
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
    Return a chunk message as a chunk.

    :raises ChunkError: when its fields contradict each other; nothing of it is used.
    """
    horizon, width = int(message.horizon), len(message.joint_names)
    if len(message.positions) != horizon * width:
        raise ChunkError(
            f'positions must be horizon x joint_names = {horizon} x {width} values, '
            f'got {len(message.positions)}'
        )
    units = list(message.units)
    if units and (len(units) != width or not set(units) <= UNITS):
        rule = f'empty or one of {sorted(UNITS)} for each of {width} joints'
        raise ChunkError(f'units must be {rule}, got {units}')
    if not message.stream:
        raise ChunkError('stream must be a name, got none')
    if message.kv_rule >= len(KV_RULES):
        raise ChunkError(f'kv_rule must be < {len(KV_RULES)}, got {message.kv_rule}')
    return ActionChunk(
        stream=message.stream,
        epoch=int(message.epoch),
        chunk=int(message.chunk),
        start_ns=time_ns(message.start),
        dt_ns=time_ns(message.dt),
        names=tuple(message.joint_names),
        actions=np.array(message.positions, dtype=np.float64).reshape(horizon, width),
        input_stamps_ns=stamps_ns(message.inputs),
        times=chunk_times(message.times),
        kv_rule=KV_RULES[message.kv_rule],
        # Recordings of older chunks do not say so.
        taken_over=int(getattr(message, 'taken_over', 0)),
        taken_over_stamps_ns=stamps_ns(getattr(message, 'taken_over_inputs', ())),
    )


def stamps_ns(messages: Iterable[Any]) -> dict[str, int]:
    """Return capture times by input, the oldest where one is named twice."""
    found: dict[str, int] = {}
    for item in messages:
        stamp_ns = time_ns(item.stamp)
        found[item.name] = min(stamp_ns, found.get(item.name, stamp_ns))
    return found


def command(message: Any) -> Command:
    """Return the command of a tick."""
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
