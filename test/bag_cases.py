# SPDX-License-Identifier: Apache-2.0
"""
A small hand-made recording whose every figure is known.

Two seconds of one episode: a frame every 25 ms, a chunk every 100 ms that was published 80 ms
after its frame, a tick every 4 ms played from the newest chunk published 20 ms before or earlier.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
from rosbags.rosbag2 import StoragePlugin, Writer

from physis_ros.evaluation.agreement import OF_CHUNKS
from physis_ros.evaluation.definitions import typestore

MS = 1_000_000
ORIGIN_NS = 1_700_000_000_000_000_000
PERIOD_MS = 4
FRAME_MS, CHUNK_MS, RESPONSE_MS, ENGINE_MS = 25, 100, 80, 70
CONFIGURATION = {
    'seed': 3, 'servo_hz': 250.0, 'settle_ms': 0.0, 'max_action_age_ms': 1000.0,
    'workers': 2, 'stages': 24, 'kv_rule': 'same_step', 'episodes': 1,
}  # fmt: skip


class BagMaker:
    """
    Collects messages and writes them in the order of their log times.

    :param path: the rosbag2 folder to make.
    """

    def __init__(self, path: Path, plugin: StoragePlugin = StoragePlugin.MCAP) -> None:
        self.path, self._plugin = path, plugin
        self.store = typestore()
        self._messages: list[tuple[int, int, str, str, Any]] = []

    def make(self, kind: str, **fields: Any) -> Any:
        """Make a message; fields that are not given are 0, empty or false."""
        return self.store.types[kind](**{**self._zero(kind), **fields})

    def _zero(self, kind: str) -> dict[str, Any]:
        _, definitions = self.store.fielddefs[kind]
        return {name: self._zero_of(node) for name, node in definitions}

    def _zero_of(self, node: tuple[Any, Any]) -> Any:
        what, detail = node
        if what == 1:
            return {'string': '', 'bool': False}.get(detail[0], 0)
        if what == 2:
            return self.make(detail)
        element = detail[0]
        if element[0] == 1 and element[1][0] != 'string':
            return np.zeros(0, dtype=element[1][0])
        return []

    def time(self, ns: int) -> Any:
        return self.make('builtin_interfaces/msg/Time', sec=ns // 10**9, nanosec=ns % 10**9)

    def duration(self, ns: int) -> Any:
        return self.make('builtin_interfaces/msg/Duration', sec=ns // 10**9, nanosec=ns % 10**9)

    def header(self, ns: int) -> Any:
        return self.make('std_msgs/msg/Header', stamp=self.time(ns))

    def put(self, topic: str, log_ns: int, kind: str, **fields: Any) -> None:
        message = self.make(kind, **fields)
        self._messages.append((log_ns, len(self._messages), topic, kind, message))

    def write(self) -> Path:
        with Writer(self.path, version=9, storage_plugin=self._plugin) as writer:
            connections = {}
            for log_ns, _, topic, kind, message in sorted(self._messages, key=lambda m: m[:2]):
                if topic not in connections:
                    connections[topic] = writer.add_connection(topic, kind, typestore=self.store)
                data = bytes(self.store.serialize_cdr(message, kind))
                writer.write(connections[topic], log_ns, data)
        return self.path


def at(ms: float) -> int:
    """Return an instant of the recording."""
    return ORIGIN_NS + round(ms * MS)


def ages_ms(ms: int) -> tuple[int, int] | None:
    """Return chunk and age of the tick at ``ms``; None before the first chunk can be played."""
    number = (ms - RESPONSE_MS - 20) // CHUNK_MS
    return None if number < 0 else (number, ms - number * CHUNK_MS)


def write_bag(path: Path, *, gap_ms: tuple[int, int] = (0, 0), seconds: float = 2.0) -> Path:
    """
    Write the recording.

    :param gap_ms: ticks from the first to before the second instant hold for want of a chunk.
    """
    maker = BagMaker(path)
    end = round(seconds * 1000)
    maker.put('/demo/configuration', at(-5), 'std_msgs/msg/String', data=json.dumps(CONFIGURATION))
    maker.put('/arm_node/episode', at(0), 'std_msgs/msg/Int32', data=0)
    for ms in range(0, end, FRAME_MS):
        put_image(maker, '/camera/image_raw', ms, ms + 1, level=ms // FRAME_MS % 200, size=4)
    for ms in range(0, end, 10):
        put_point(maker, '/arm_node/tip', ms, 0.3, 0.0)
        put_point(maker, '/arm_node/target', ms, 0.3, 0.04 if ms >= 1000 else 0.5)
    for number, ms in enumerate(range(0, end - RESPONSE_MS, CHUNK_MS)):
        put_chunk(maker, number, ms)
        # About 100 ms and 150 ms after its frame; always two levels too bright.
        for about in (ms + 100, ms + 150):
            level = about // FRAME_MS % 200 + 2
            put_image(
                maker, '/wam_node/predicted_image', about, ms + RESPONSE_MS + 1, level, size=2
            )
    for ms in range(0, end, PERIOD_MS):
        put_tick(maker, ms, held=gap_ms[0] <= ms < gap_ms[1])
    return maker.write()


def put_image(
    maker: BagMaker, topic: str, ms: int, log_ms: int, level: int, size: int
) -> None:
    """Put an even grey picture."""
    maker.put(
        topic, at(log_ms), 'sensor_msgs/msg/Image', header=maker.header(at(ms)), height=size,
        width=size, encoding='rgb8', step=3 * size,
        data=np.full(3 * size * size, level, dtype=np.uint8),
    )  # fmt: skip


def put_point(maker: BagMaker, topic: str, ms: int, x: float, y: float) -> None:
    """Put a position."""
    point = maker.make('geometry_msgs/msg/Point', x=x, y=y)
    kind = 'geometry_msgs/msg/PointStamped'
    maker.put(topic, at(ms), kind, header=maker.header(at(ms)), point=point)


def put_chunk(maker: BagMaker, number: int, ms: int) -> None:
    """Put a chunk made from the frame at ``ms``, its first action meant for 100 ms later."""
    inputs = [maker.make('physis_ros/msg/InputStamp', name='camera', stamp=maker.time(at(ms)))]
    maker.put(
        '/wam_node/action_chunk', at(ms + RESPONSE_MS), 'physis_ros/msg/ActionChunk',
        header=maker.header(at(ms)), stream='arm', chunk=number, start=maker.time(at(ms + 100)),
        dt=maker.duration(25 * MS), joint_names=['shoulder', 'elbow'], horizon=16,
        positions=np.zeros(32), inputs=inputs, times=put_times(maker, ms),
    )  # fmt: skip


def held_up(rows: dict[str, Any]) -> set[str]:
    """
    Return the figures that a busy machine leaves open, as nobody records when it took a chunk.

    :param rows: of ``physis account``, by name.
    """
    taken = rows['chunks_accepted']
    alike = taken['live'] == taken['recomputed']
    others = {name for name in rows if name.startswith(OF_CHUNKS) and not alike}
    return {'chunks_late', 'steps_skipped'} | others


def put_times(maker: BagMaker, ms: int) -> Any:
    """Return a chunk's way: 2 ms transport, 8 queue, 60 engine, 6 decoding, 4 hand-over."""
    instants = {
        'capture': 0, 'receive': 2, 'enter': 10, 'denoised': 70, 'decoded': 76, 'publish': 80,
    }  # fmt: skip
    times = {name: maker.time(at(ms + offset)) for name, offset in instants.items()}
    return maker.make('physis_ros/msg/ChunkTimes', **times)


def put_tick(maker: BagMaker, ms: int, held: bool = False, begun_ms: int = 0) -> None:
    """
    Put a tick, played from a chunk when there is one and nothing is ``held``.

    :param begun_ms: when its servo began.
    """
    found = None if held else ages_ms(ms)
    common = {
        'header': maker.header(at(ms)), 'stream': 'arm', 'joint_names': ['shoulder', 'elbow'],
        'scheduled_steady_ns': ms * MS, 'ticked_steady_ns': ms * MS,
        'published_steady_ns': ms * MS + 100_000 * (ms % 8 == 4),
        'begun_steady_ns': begun_ms * MS,
    }  # fmt: skip
    topic, kind = '/servo_node/playback', 'physis_ros/msg/Playback'
    if found is None:
        started = ages_ms(ms) is not None
        maker.put(
            topic, at(ms), kind, **common, epoch=0 if started else -1, chunk=-1,
            play=1 if started else 3, reason=3 if started else 2, due=started,
            warm_up=not started, age=maker.make(
                'builtin_interfaces/msg/Duration', sec=-1, nanosec=0
            ),
            position=np.zeros(2 * started), velocity=np.zeros(2 * started),
        )  # fmt: skip
        return
    number, age = found
    stamp = maker.time(at(ms - age))
    maker.put(
        topic, at(ms), kind, **common, chunk=number, due=True, age=maker.duration(age * MS),
        inputs=[maker.make('physis_ros/msg/InputStamp', name='camera', stamp=stamp)],
        times=put_times(maker, ms - age), position=np.zeros(2), velocity=np.zeros(2),
        buffer_depth=maker.duration(300 * MS),
    )  # fmt: skip
