# SPDX-License-Identifier: Apache-2.0
"""
What a recording of a run holds, as arrays: ticks, chunks, truth, joints, camera instants.

Reads the bag once and keeps no image; frames are picked later (``frames.py``), when it is known
which instants are wanted. Sits between ``bag.py`` and the scores.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from physis_ros.errors import BagError, ChunkError
from physis_ros.evaluation.bag import Bag, Record
from physis_ros.evaluation.scores import Times
from physis_ros.evaluation.topics import Topics
from physis_ros.session import decode
from physis_ros.types import ActionChunk, Command, FloatArray, Reason


@dataclass(frozen=True)
class Tick:
    """
    One servo tick.

    :param log_ns: when the recorder received it.
    :param command: what was commanded.
    :param warm_up: outside the figures.
    :param due: a chunk had to be playable.
    :param depth_ns: motion that lay ahead.
    :param scheduled_ns: when it was meant to be, steady clock.
    :param ticked_ns: when it began, steady clock.
    :param published_ns: when its command was handed over, steady clock.
    :param begun_ns: when the servo began to count, steady clock: one value for each of its lives;
        0 when it does not say.
    :param chunk_ns: when the newest chunk behind it was published; 0 when it does not say.
    """

    log_ns: int
    command: Command
    warm_up: bool
    due: bool
    depth_ns: int
    scheduled_ns: int
    ticked_ns: int
    published_ns: int
    begun_ns: int = 0
    chunk_ns: int = 0

    @property
    def key(self) -> tuple[int, int, int]:
        """Epoch, number and instant of the newest chunk behind it: engines count from 0 again."""
        return self.command.epoch, self.command.chunk, self.chunk_ns

    @property
    def final(self) -> bool:
        """Whether it is the final hold, which is sent between two ticks."""
        inactive = self.command.reason is Reason.INACTIVE
        return inactive and self.published_ns == self.scheduled_ns


@dataclass(frozen=True)
class Lost:
    """
    What the recorder noticed that it had not got.

    :param log_ns: when it noticed.
    :param ticks: of the servo.
    :param chunks: for it.
    """

    log_ns: int
    ticks: int
    chunks: int


@dataclass(frozen=True)
class Series:
    """
    Samples of some values over stream time.

    :param stamps_ns: non-decreasing [n].
    :param values: [n, k].
    """

    stamps_ns: Times
    values: FloatArray

    def between(self, start_ns: int, end_ns: int) -> Series:
        """Return the samples from ``start_ns`` on and before ``end_ns``."""
        first, last = np.searchsorted(self.stamps_ns, [start_ns, end_ns])
        return Series(self.stamps_ns[first:last], self.values[first:last])


@dataclass(frozen=True)
class Episode:
    """
    One stretch of the run that is scored.

    :param index: from 0; its seed is the run's seed plus this.
    :param start_ns: the arm is in its first pose and the target begins to move.
    :param end_ns: the next reset, or the end.
    """

    index: int
    start_ns: int
    end_ns: int


@dataclass(frozen=True)
class Recording:
    """
    A run.

    :param configuration: what the run was started with; empty when nobody recorded it.
    :param ticks: in order received.
    :param chunks: in order received.
    :param chunk_log_ns: when the recorder received each chunk.
    :param malformed_log_ns: when it received messages that contradict themselves: no chunks.
    :param episodes: stretches to score; one for all when the recording names none.
    :param camera_ns: capture instants, non-decreasing.
    :param joints: measured positions, columns as ``joint_names`` [rad or m].
    :param tip: where the tip was [m], or None.
    :param target: where the target was [m], or None.
    :param statuses: what the servo said of itself, in order received.
    :param lost: what the recorder missed; nothing where it does not say.
    """

    configuration: Mapping[str, Any]
    ticks: tuple[Tick, ...]
    chunks: tuple[ActionChunk, ...]
    chunk_log_ns: tuple[int, ...]
    malformed_log_ns: tuple[int, ...]
    episodes: tuple[Episode, ...]
    camera_ns: Times
    joint_names: tuple[str, ...]
    joints: Series
    tip: Series | None
    target: Series | None
    stages: tuple[Mapping[str, Any], ...]
    statuses: tuple[Record, ...]
    lost: tuple[Lost, ...] = ()

    @property
    def start_ns(self) -> int:
        """The first instant of interest."""
        return self.episodes[0].start_ns


def read(bag: Bag, topics: Topics) -> Recording:
    """
    Read everything but pictures.

    :raises BagError: when there are no ticks or nobody records chunks, or text is no JSON.
    """
    bag.require(topics.chunks, topics.playback)
    collected = _Collected(topics)
    handlers = collected.handlers()
    for record in bag.records(*handlers):
        handlers[record.topic](record)
    return collected.recording()


@dataclass
class _Collected:
    """What has been read so far."""

    topics: Topics
    configuration: dict[str, Any] = field(default_factory=dict)
    ticks: list[Tick] = field(default_factory=list)
    chunks: list[ActionChunk] = field(default_factory=list)
    chunk_log_ns: list[int] = field(default_factory=list)
    malformed_log_ns: list[int] = field(default_factory=list)
    marks: list[tuple[int, int]] = field(default_factory=list)
    camera: list[int] = field(default_factory=list)
    names: tuple[str, ...] = ()
    stamps: dict[str, list[int]] = field(default_factory=dict)
    values: dict[str, list[Any]] = field(default_factory=dict)
    stages: list[Mapping[str, Any]] = field(default_factory=list)
    statuses: list[Record] = field(default_factory=list)
    lost: list[Lost] = field(default_factory=list)
    last_ns: int = 0

    def handlers(self) -> dict[str, Callable[[Record], None]]:
        """Return what to do with each topic; topics that are not recorded are left out."""
        topics = self.topics
        wanted: dict[str, Callable[[Record], None]] = {
            topics.chunks: self._chunk,
            topics.playback: self._tick,
            topics.status: self._status,
            topics.missing: self._missing,
            topics.episode: self._episode,
            topics.configuration: self._configuration,
            topics.stages: self._stages,
            topics.camera: self._camera,
            topics.joints: self._joints,
            topics.tip: lambda record: self._point('tip', record),
            topics.target: lambda record: self._point('target', record),
        }
        return {topic: handler for topic, handler in wanted.items() if topic}

    def _chunk(self, record: Record) -> None:
        try:
            self.chunks.append(decode.chunk(record.message))
        except ChunkError:
            # As the servo does: counted, and passed over.
            self.malformed_log_ns.append(record.log_ns)
        else:
            self.chunk_log_ns.append(record.log_ns)

    def _tick(self, record: Record) -> None:
        message = record.message
        self.ticks.append(
            Tick(
                record.log_ns,
                decode.command(message),
                bool(message.warm_up),
                bool(message.due),
                decode.time_ns(message.buffer_depth),
                int(message.scheduled_steady_ns),
                int(message.ticked_steady_ns),
                int(message.published_steady_ns),
                int(getattr(message, 'begun_steady_ns', 0)),
                decode.time_ns(message.times.publish),
            )
        )

    def _status(self, record: Record) -> None:
        self.statuses.append(record)

    def _missing(self, record: Record) -> None:
        # It tells what is missing since its start, by topic.
        missing = _json(record)
        ticks = int(missing.get(self.topics.playback, 0)) - sum(lost.ticks for lost in self.lost)
        chunks = int(missing.get(self.topics.chunks, 0)) - sum(lost.chunks for lost in self.lost)
        if ticks or chunks:
            self.lost.append(Lost(record.log_ns, ticks, chunks))

    def _episode(self, record: Record) -> None:
        # An Int32 has no stamp: the last truth or tick before it tells the stream time.
        self.marks.append((int(record.message.data), self.last_ns))

    def _configuration(self, record: Record) -> None:
        self.configuration = _json(record)

    def _stages(self, record: Record) -> None:
        self.stages.append(_json(record))

    def _camera(self, record: Record) -> None:
        self.camera.append(decode.time_ns(record.message.header.stamp))

    def _joints(self, record: Record) -> None:
        message = record.message
        self.names = self.names or tuple(message.name)
        if tuple(message.name) == self.names:
            self._sample('joints', record, list(message.position))

    def _point(self, name: str, record: Record) -> None:
        point = record.message.point
        self._sample(name, record, [point.x, point.y, point.z])

    def _sample(self, name: str, record: Record, values: list[float]) -> None:
        stamp_ns = decode.time_ns(record.message.header.stamp)
        self.last_ns = max(self.last_ns, stamp_ns)
        self.stamps.setdefault(name, []).append(stamp_ns)
        self.values.setdefault(name, []).append(values)

    def recording(self) -> Recording:
        """Return all of it."""
        return Recording(
            configuration=self.configuration,
            ticks=tuple(self.ticks),
            chunks=tuple(self.chunks),
            chunk_log_ns=tuple(self.chunk_log_ns),
            malformed_log_ns=tuple(self.malformed_log_ns),
            episodes=self._episodes(),
            camera_ns=np.sort(np.array(self.camera, dtype=np.int64)),
            joint_names=self.names,
            joints=self._series('joints') or Series(np.empty(0, np.int64), np.empty((0, 0))),
            tip=self._series('tip'),
            target=self._series('target'),
            stages=tuple(self.stages),
            statuses=tuple(self.statuses),
            lost=tuple(self.lost),
        )

    def _series(self, name: str) -> Series | None:
        """Return a series in order of its stamps; None when nothing came."""
        if name not in self.values:
            return None
        stamps = np.array(self.stamps[name], dtype=np.int64)
        order = np.argsort(stamps, kind='stable')
        return Series(stamps[order], np.array(self.values[name], dtype=np.float64)[order])

    def _episodes(self) -> tuple[Episode, ...]:
        """Return the scored stretches, from the marks or, without any, the whole run."""
        end_ns = max(self.last_ns, self.ticks[-1].command.stamp_ns) + 1
        if not any(index >= 0 for index, _ in self.marks):
            return (Episode(0, self.ticks[0].command.stamp_ns, end_ns),)
        first_ns = self.ticks[0].command.stamp_ns
        marks = [(index, stamp_ns or first_ns) for index, stamp_ns in self.marks]
        following = [*(stamp_ns for _, stamp_ns in marks[1:]), end_ns]
        before = [-1, *(index for index, _ in marks[:-1])]
        # Between two episodes nothing runs (-1); a number right after another one is the end.
        return tuple(
            Episode(index, start_ns, stop_ns)
            for (index, start_ns), stop_ns, last in zip(marks, following, before, strict=True)
            if index >= 0 > last and stop_ns > start_ns
        )


def _json(record: Record) -> dict[str, Any]:
    """Return the JSON object in a ``std_msgs/String``."""
    try:
        found = json.loads(record.message.data)
    except json.JSONDecodeError as error:
        raise BagError(f'{record.topic} must hold JSON, got {record.message.data!r}') from error
    if not isinstance(found, dict):
        raise BagError(f'{record.topic} must hold a JSON object, got {found!r}')
    return found
