# SPDX-License-Identifier: Apache-2.0
"""The streams of a pool, as the pool keeps account of them. Plain state, no side effects."""

from __future__ import annotations

from dataclasses import dataclass, field

from physis_ros.engine.board import era_of
from physis_ros.errors import EngineError


@dataclass
class Stream:
    """
    One open stream.

    :param index: its place on the board.
    :param life: which opening this is, over all streams of the pool.
    :param next_chunk: the next chunk's number.
    :param in_flight: chunks entered and not yet out.
    :param awaiting: workers that have not yet answered an opening or closing.
    """

    name: str
    index: int
    life: int
    epoch: int = 0
    next_chunk: int = 0
    in_flight: set[int] = field(default_factory=set)
    awaiting: set[int] = field(default_factory=set)

    @property
    def era(self) -> int:
        """Life and epoch in one number."""
        return era_of(self.life, self.epoch)

    def restart(self) -> int:
        """Begin the next epoch; nothing is in flight any more."""
        self.epoch, self.next_chunk = self.epoch + 1, 0
        self.in_flight.clear()
        return self.epoch


class StreamTable:
    """
    Names, indices and lives.

    :param most: most streams at once.
    """

    def __init__(self, most: int) -> None:
        self._free = list(range(most))
        self._most, self._lives = most, 0
        self._by_name: dict[str, Stream] = {}
        self._by_index: dict[int, Stream] = {}

    def names(self) -> list[str]:
        """Return the open streams."""
        return sorted(self._by_name)

    def add(self, name: str) -> Stream:
        """
        Take a place.

        :raises EngineError: when the name is taken or no place is left.
        """
        if name in self._by_name:
            raise EngineError(f"stream '{name}' is already open")
        if not self._free:
            raise EngineError(
                f'streams must be <= max_streams = {self._most}, got {name!r} beside '
                f'{self.names()}; close one or start the pool with more'
            )
        self._lives += 1
        stream = Stream(name, self._free.pop(0), self._lives)
        self._by_name[name] = self._by_index[stream.index] = stream
        return stream

    def remove(self, stream: Stream) -> None:
        """Give the place back."""
        del self._by_name[stream.name], self._by_index[stream.index]
        self._free.append(stream.index)

    def named(self, name: str) -> Stream:
        """
        Find a stream.

        :raises EngineError: when it is not open.
        """
        found = self._by_name.get(name)
        if found is None:
            raise EngineError(f"stream '{name}' is not open; open are {self.names()}")
        return found

    def at(self, index: int) -> Stream | None:
        """Return the stream at a place of the board."""
        return self._by_index.get(index)
