# SPDX-License-Identifier: Apache-2.0
"""
The values that cross a boundary between rooms.

Plain frozen data: no behaviour beyond checks and derived properties, no ROS, no torch. Times are
integer nanoseconds of the *stream clock* (ROS time: system time, or /clock under simulation)
unless a name says ``steady``. Arrays are numpy, owned by the value, never written once it is made.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import Enum
from typing import Any

import numpy as np
import numpy.typing as npt

from physis_ros.errors import ChunkError

FloatArray = npt.NDArray[np.float64]
ByteArray = npt.NDArray[np.uint8]

# Inputs by name: the camera of a model that has only one, and the joint states.
CAMERA, JOINTS = 'camera', 'joints'


@dataclass(frozen=True)
class View:
    """
    What one camera saw.

    :param frames: uint8 [K, height, width, 3] RGB, or float32 [K, height, width] depth in metres,
        oldest first.
    :param stamps_ns: capture time of each.
    """

    frames: npt.NDArray[Any]
    stamps_ns: tuple[int, ...]


@dataclass(frozen=True)
class Observation:
    """
    What was seen, aligned at one instant.

    :param stamp_ns: capture time of the newest frame; the age of everything derived from this
        observation counts from the *oldest input it needs at this instant* (see ``oldest_ns``).
        With several cameras it is the first one's, and the others' frames are as of it.
    :param receive_ns: when the last input that completed it was received.
    :param frames: uint8 [K, height, width, 3] RGB, oldest first, the last one is the newest.
    :param frame_stamps_ns: capture time of each frame, oldest first.
    :param joint_position: float64 [J], in the model's joint order [rad or m].
    :param joint_velocity: float64 [J] [rad/s or m/s].
    :param joint_stamp_ns: time of the joint state used.
    :param camera: name of the camera, the first one of several.
    :param others: what the other cameras saw, by name.
    """

    stamp_ns: int
    receive_ns: int
    frames: ByteArray
    frame_stamps_ns: tuple[int, ...]
    joint_position: FloatArray
    joint_velocity: FloatArray
    joint_stamp_ns: int
    camera: str = CAMERA
    others: Mapping[str, View] = field(default_factory=dict)

    @property
    def input_stamps_ns(self) -> dict[str, int]:
        """Capture time of the present inputs: each camera's newest frame, and the joint state."""
        others = {name: view.stamps_ns[-1] for name, view in self.others.items()}
        return {self.camera: self.stamp_ns, **others, JOINTS: self.joint_stamp_ns}

    @property
    def oldest_ns(self) -> int:
        """The worst of the present inputs, whichever is the oldest."""
        return min(self.input_stamps_ns.values())


@dataclass(frozen=True)
class ChunkTimes:
    """
    One chunk's way, each instant in stream-clock nanoseconds; they never decrease.

    The differences are the parts of an action's age: capture -> receive (transport), receive ->
    enter (queue), enter -> denoised (engine), denoised -> decoded, decoded -> published
    (hand-over); the wait in the output buffer follows at the player.
    """

    capture_ns: int
    receive_ns: int
    enter_ns: int
    denoised_ns: int
    decoded_ns: int
    publish_ns: int


@dataclass(frozen=True)
class ActionChunk:
    """
    A piece of future motion: H control steps, ``dt_ns`` apart, the first meant for ``start_ns``.

    :param stream: the stream's name.
    :param epoch: the stream's life between resets; older epochs are never played.
    :param chunk: sequence number within the epoch, from 0.
    :param start_ns: the instant the first action is meant for.
    :param dt_ns: distance of control steps, > 0.
    :param names: joint names, one for each column.
    :param actions: float64 [H, A] position targets [rad or m].
    :param input_stamps_ns: capture time behind this chunk for each input: the cameras, ``joints``.
    :param times: where the time went.
    :param kv_rule: ``same_step`` or ``clean``; ``override`` when clean weights were pipelined.
    :param taken_over: so many steps, from the first on, were drawn to what was committed already.
    :param taken_over_stamps_ns: oldest capture time of each input behind what they were taken
        from.
    """

    stream: str
    epoch: int
    chunk: int
    start_ns: int
    dt_ns: int
    names: tuple[str, ...]
    actions: FloatArray
    input_stamps_ns: Mapping[str, int]
    times: ChunkTimes
    kv_rule: str = 'same_step'
    taken_over: int = 0
    taken_over_stamps_ns: Mapping[str, int] = field(default_factory=dict)

    def __post_init__(self) -> None:
        """
        Refuse a malformed chunk whole.

        :raises ChunkError: on a wrong shape, no steps, no inputs or ``dt_ns`` <= 0. Non-finite
            values are the output side's business, which counts them.
        """
        if self.actions.ndim != 2 or not self.actions.shape[0]:
            raise ChunkError(f'actions must be [H >= 1, A], got shape {self.actions.shape}')
        if self.actions.shape[1] != len(self.names):
            raise ChunkError(
                f'actions must have one column for each of {list(self.names)}, '
                f'got {self.actions.shape[1]} columns'
            )
        if self.dt_ns <= 0:
            raise ChunkError(f'dt_ns must be > 0, got {self.dt_ns}')
        if not self.input_stamps_ns:
            raise ChunkError('input_stamps_ns must name at least one input, got none')
        if not 0 <= self.taken_over <= self.horizon:
            raise ChunkError(f'taken_over must be in 0..{self.horizon}, got {self.taken_over}')
        if bool(self.taken_over) != bool(self.taken_over_stamps_ns):
            raise ChunkError(
                f'taken_over_stamps_ns must name inputs where steps were taken over, and only '
                f'there, got {self.taken_over} steps of {dict(self.taken_over_stamps_ns)}'
            )

    @property
    def horizon(self) -> int:
        """Number of control steps H."""
        return int(self.actions.shape[0])

    @property
    def end_ns(self) -> int:
        """The instant of the last action."""
        return self.start_ns + (self.horizon - 1) * self.dt_ns

    @property
    def observed_ns(self) -> int:
        """Capture time of the oldest input behind this chunk: what its age counts from."""
        return min(self.input_stamps_ns.values())


@dataclass(frozen=True)
class PredictedFrame:
    """
    A frame the model expects to see.

    :param about_ns: the instant the frame is about.
    :param observed_ns: capture time of the newest frame behind it.
    :param image: uint8 [height, width, 3] RGB.
    """

    stream: str
    epoch: int
    chunk: int
    about_ns: int
    observed_ns: int
    image: ByteArray


class Play(Enum):
    """What a command is: played from a chunk, or a rung of the underrun ladder."""

    PLAYING = 'playing'
    HOLD = 'hold'
    RAMP = 'ramp'
    SILENT = 'silent'


class Reason(Enum):
    """Why nothing could be played from a chunk at a tick."""

    NONE = 'none'
    NO_OBSERVATION = 'no_observation'
    NO_CHUNK = 'no_chunk'
    CHUNK_LATE = 'chunk_late'
    EXPIRED = 'expired'
    EPOCH = 'epoch'
    INACTIVE = 'inactive'


@dataclass(frozen=True)
class Command:
    """
    One tick's output.

    :param stamp_ns: the tick.
    :param position: float64 [A] [rad or m]; empty when ``play`` is SILENT.
    :param velocity: float64 [A] [rad/s or m/s].
    :param age_ns: ``stamp_ns`` minus the oldest input behind it; None when no chunk is behind it.
    :param input_age_ns: the same for each input.
    """

    stamp_ns: int
    play: Play
    reason: Reason
    names: tuple[str, ...]
    position: FloatArray
    velocity: FloatArray
    epoch: int = -1
    chunk: int = -1
    age_ns: int | None = None
    input_age_ns: Mapping[str, int] = field(default_factory=dict)
