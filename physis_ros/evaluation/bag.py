# SPDX-License-Identifier: Apache-2.0
"""
Recordings: rosbag2 folders or files, mcap or sqlite3, read without ROS.

Messages come lazily, one at a time, in the order they were received. The definitions in the
recording win over ours, so that a recording stays readable when a message grows a field.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import AbstractContextManager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from rosbags.highlevel import AnyReader, AnyReaderError
from rosbags.rosbag2 import ReaderError

from physis_ros.errors import BagError
from physis_ros.evaluation.definitions import typestore


@dataclass(frozen=True)
class Record:
    """
    One recorded message.

    :param topic: full topic name.
    :param log_ns: when the recorder received it.
    :param message: decoded, fields as attributes.
    """

    topic: str
    log_ns: int
    message: Any


class Bag(AbstractContextManager['Bag']):
    """
    An opened recording. Single-threaded; close it or use it as a context.

    :param path: a rosbag2 folder, a ``.mcap`` or a ``.db3`` file, or a demo's output folder.
    :raises BagError: when it cannot be opened; the message names the path and the reason.
    """

    def __init__(self, path: Path | str) -> None:
        self.path = located(Path(path))
        try:
            self._reader = AnyReader([self.path], default_typestore=typestore())
            self._reader.open()
        except (AnyReaderError, ReaderError, OSError, ValueError, IndexError) as error:
            raise BagError(
                f'recording {self.path} cannot be read: {error}; if its recorder was killed, '
                f'`physis mend FILE` makes what was written readable'
            ) from error

    @property
    def topics(self) -> dict[str, str]:
        """Message type by topic name."""
        return {item.topic: item.msgtype for item in self._reader.connections}

    @property
    def counts(self) -> dict[str, int]:
        """Number of messages by topic name."""
        counts: dict[str, int] = {}
        for item in self._reader.connections:
            counts[item.topic] = counts.get(item.topic, 0) + item.msgcount
        return counts

    @property
    def span_ns(self) -> int:
        """Time between the first and the last message."""
        return max(0, int(self._reader.duration))

    def require(self, *topics: str) -> None:
        """
        Refuse a recording that lacks topics.

        :raises BagError: naming what is missing and what there is.
        """
        missing = [topic for topic in topics if not self.counts.get(topic)]
        if missing:
            raise BagError(
                f'recording {self.path} must hold {missing}, got {sorted(self.counts)}; '
                f'record these topics too'
            )

    def of_type(self, msgtype: str) -> list[str]:
        """Return the topics of a type, sorted, e.g. of ``sensor_msgs/msg/Image``."""
        return sorted(name for name, kind in self.topics.items() if kind == msgtype)

    def records(self, *topics: str) -> Iterator[Record]:
        """
        Yield messages in the order received.

        :param topics: which; all when none is given.
        :raises BagError: when a message does not decode, naming topic and instant.
        """
        wanted = [c for c in self._reader.connections if not topics or c.topic in topics]
        if not wanted:
            return
        try:
            for connection, log_ns, data in self._reader.messages(wanted):
                yield Record(connection.topic, log_ns, self._decode(connection, log_ns, data))
        except (AnyReaderError, ReaderError) as error:
            raise BagError(f'recording {self.path} breaks off: {error}') from error

    def close(self) -> None:
        """Let go of the file."""
        self._reader.close()

    def __exit__(self, *_: object) -> None:
        """Close."""
        self.close()

    def _decode(self, connection: Any, log_ns: int, data: bytes) -> Any:
        """Return the decoded message or say which one is broken."""
        try:
            return self._reader.deserialize(data, connection.msgtype)
        except (AnyReaderError, ValueError, IndexError, KeyError, AssertionError) as error:
            raise BagError(
                f'recording {self.path}: message of {connection.topic} at {log_ns} ns must be a '
                f'{connection.msgtype}, got {len(data)} bytes that do not decode: {error}'
            ) from error


def located(path: Path) -> Path:
    """
    Return what to open for a path that a user would give.

    :param path: a recording, or a folder that a demo filled (``run.mcap`` inside).
    :raises BagError: when nothing is there.
    """
    if not path.exists():
        raise BagError(f'recording must exist, got {path}')
    if path.is_file() or (path / 'metadata.yaml').is_file():
        return path
    inside = [*sorted(path.glob('*.mcap')), *sorted(path.glob('*.db3'))]
    if len(inside) == 1:
        return inside[0]
    raise BagError(
        f'recording must be a rosbag2 folder or hold exactly one .mcap or .db3 file, got {path} '
        f'with {len(inside)} such files'
    )
