# SPDX-License-Identifier: Apache-2.0
"""
Writes a recording from serialized messages, on a thread of its own.

Whoever receives messages only puts bytes into a bounded queue and never waits for the disk; what
does not fit is dropped and counted. Knows no ROS: the node around it is ``ros/recorder.py``.
"""

from __future__ import annotations

import os
import threading
from collections import Counter, deque
from dataclasses import dataclass
from pathlib import Path

from rosbags.interfaces import Connection
from rosbags.rosbag2 import (
    CompressionFormat,
    CompressionMode,
    StoragePlugin,
    Writer,
    WriterError,
)
from rosbags.typesys.store import Typestore

from physis_ros.errors import BagError, ParameterError


@dataclass(frozen=True)
class WriterConfig:
    """
    Bounds of the queue between receiver and disk.

    :param messages: greatest number of waiting messages.
    :param octets: greatest size of all waiting messages together [bytes].
    :param wake_s: how long a message may wait for company before it is written.
    """

    messages: int = 20_000
    octets: int = 64 << 20
    wake_s: float = 0.1

    def __post_init__(self) -> None:
        """Refuse a queue that holds nothing."""
        for name in ('messages', 'octets', 'wake_s'):
            if getattr(self, name) <= 0:
                raise ParameterError(name, 'greater than 0', getattr(self, name))


class BagWriter:
    """
    A rosbag2 folder ``<folder>/run`` with ``run.mcap`` in it, and the same file beside it.

    :meth:`put` and :meth:`dropped` may be called from any thread, the rest from one.

    :param folder: existing output folder.
    :param store: knows the types that will be written.
    :param config: bounds.
    :raises BagError: when the recording exists already or cannot be made.
    """

    def __init__(
        self, folder: Path, store: Typestore, config: WriterConfig | None = None
    ) -> None:
        self.path = folder / 'run'
        self._config = config or WriterConfig()
        self._store = store
        self._queue: deque[tuple[str, str, int, bytes]] = deque()
        self._octets = 0
        self._dropped: Counter[str] = Counter()
        self._lock = threading.Lock()
        self._stopping = threading.Event()
        self._error: Exception | None = None
        try:
            self._writer = Writer(self.path, version=9, storage_plugin=StoragePlugin.MCAP)
            # Simulated pictures shrink twentyfold; zstd works per piece, readers need no more.
            self._writer.set_compression(CompressionMode.STORAGE, CompressionFormat.ZSTD)
            self._writer.open()
            _link(self.path / 'run.mcap', folder / 'run.mcap')
        except (WriterError, OSError) as error:
            raise BagError(f'recording {self.path} cannot be made: {error}') from error
        self._thread = threading.Thread(target=self._run, name='bag-writer', daemon=True)
        self._thread.start()

    @property
    def dropped(self) -> dict[str, int]:
        """Messages that did not fit the queue, by topic."""
        with self._lock:
            return dict(self._dropped)

    def put(self, topic: str, msgtype: str, log_ns: int, data: bytes) -> bool:
        """
        Take one serialized message; never waits.

        :returns: False when it was dropped, because the queue is full or writing has failed.
        """
        with self._lock:
            full = (
                len(self._queue) >= self._config.messages
                or self._octets + len(data) > self._config.octets
            )
            if full or self._error or self._stopping.is_set():
                self._dropped[topic] += 1
                return False
            self._queue.append((topic, msgtype, log_ns, data))
            self._octets += len(data)
        return True

    def close(self, timeout_s: float = 10.0) -> None:
        """
        Write what waits, the index and the metadata.

        :param timeout_s: how long the disk may take.
        :raises BagError: when it could not all be written.
        """
        self._stopping.set()
        self._thread.join(timeout_s)
        if self._thread.is_alive():
            raise BagError(f'recording {self.path} must be finished within {timeout_s} s, is not')
        if self._error:
            raise BagError(f'recording {self.path} broke off: {self._error}') from self._error

    def _run(self) -> None:
        """Write batches until told to stop; an error ends the writing and is kept for close."""
        connections: dict[str, Connection] = {}
        try:
            while not self._stopping.wait(self._config.wake_s):
                self._write(connections)
            self._write(connections)
            self._writer.set_custom_data('dropped', str(sum(self._dropped.values())))
            self._writer.close()
        except (WriterError, OSError, ValueError, KeyError) as error:
            self._error = error
            self._writer.abort()

    def _write(self, connections: dict[str, Connection]) -> None:
        """Write everything that waits now."""
        with self._lock:
            batch, self._queue, self._octets = self._queue, deque(), 0
        for topic, msgtype, log_ns, data in batch:
            connection = connections.get(topic)
            if connection is None:
                connection = self._writer.add_connection(topic, msgtype, typestore=self._store)
                connections[topic] = connection
            self._writer.write(connection, log_ns, data)


def _link(source: Path, link: Path) -> None:
    """Give the file a second name; a relative symbolic link where hard links are not to be had."""
    link.unlink(missing_ok=True)
    try:
        os.link(source, link)
    except OSError:
        link.symlink_to(source.relative_to(link.parent))
