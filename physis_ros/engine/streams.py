# SPDX-License-Identifier: Apache-2.0
"""The streams of a pool, as the pool keeps account of them. Plain state, no side effects."""

from __future__ import annotations

from collections import deque
from collections.abc import Collection
from dataclasses import dataclass, field

from physis_ros.backbones.base import ModelSpec
from physis_ros.engine.board import CLOSED, era_of
from physis_ros.engine.grid import Grouping
from physis_ros.errors import EngineError, StreamLost, WorkerDied


@dataclass
class Stream:
    """
    One open stream.

    :param index: its place on the board.
    :param life: which opening this is, over all streams of the pool.
    :param grouping: which workers carry it.
    :param most: chunks that may be in flight.
    :param next_chunk: the next chunk's number.
    :param next_turn: the next place in the order of chunks and commits.
    :param in_flight: turns entered and not yet out.
    :param entered: for each chunk in flight its turn and the observation it entered with.
    :param awaiting: workers that have not yet answered an opening or closing.
    :param refused: why a worker could not open it.
    :param up: all its workers carry it.
    :param closed: it has begun to close; whatever still comes of it is dropped.
    :param leaving: nobody waits for its end: it is forgotten once its workers have freed it.
    :param died: the end of a worker that carried it, which was its own.
    """

    name: str
    index: int
    life: int
    grouping: Grouping
    most: int
    epoch: int = 0
    next_chunk: int = 0
    next_turn: int = 0
    in_flight: set[int] = field(default_factory=set)
    entered: dict[int, tuple[int, int]] = field(default_factory=dict)
    awaiting: set[int] = field(default_factory=set)
    refused: str = ''
    up: bool = False
    closed: bool = False
    leaving: bool = False
    died: WorkerDied | None = None

    @property
    def era(self) -> int:
        """Life and epoch in one number; what bears another is dead."""
        return CLOSED if self.closed else era_of(self.life, self.epoch)

    def enter(self, version: int) -> int:
        """Note that the next chunk takes the next turn with an observation; return its number."""
        inside = {c: way for c, way in self.entered.items() if way[0] in self.in_flight}
        self.entered = {**inside, self.next_chunk: (self.next_turn, version)}
        self.next_chunk += 1
        return self.next_chunk - 1

    def observation_of(self, chunk: int) -> int | None:
        """Return the observation that a chunk entered with; None when it is out."""
        turn, version = self.entered.get(chunk, (-1, 0))
        return version if turn in self.in_flight else None

    def check_commit(self, chunk: int, spec: ModelSpec) -> None:
        """
        Ask whether a chunk's history can still be replaced (E13).

        :raises EngineError: when the model replaces none, or the chunk's KV is gone.
        """
        if not spec.commits:
            raise EngineError(f'{spec.name} must name what it commits, and names nothing')
        if not self.next_chunk:
            raise EngineError(
                f"stream '{self.name}' must have a chunk to commit, and none has entered its epoch"
            )
        oldest = max(0, self.next_chunk - 1 - spec.window)
        if not (oldest <= chunk < self.next_chunk or 0 <= chunk < min(spec.sink, oldest)):
            raise EngineError(
                f"chunk to commit of stream '{self.name}' must be {oldest} .. "
                f'{self.next_chunk - 1}, got {chunk}'
            )

    def restart(self) -> int:
        """Begin the next epoch; nothing is in flight any more."""
        self.epoch, self.next_chunk, self.next_turn = self.epoch + 1, 0, 0
        self.in_flight.clear()
        self.entered.clear()
        return self.epoch


class StreamTable:
    """
    Names, indices and lives. ``untold`` are the streams that were lost, to be told once each.

    :param most: most streams at once.
    """

    def __init__(self, most: int) -> None:
        self._free = list(range(most))
        self._most, self._lives = most, 0
        self._by_name: dict[str, Stream] = {}
        self._by_index: dict[int, Stream] = {}
        self._lost: dict[str, WorkerDied] = {}
        self.untold: deque[StreamLost] = deque()

    def names(self) -> list[str]:
        """Return the open streams."""
        return sorted(name for name, stream in self._by_name.items() if not stream.closed)

    @property
    def lost(self) -> dict[str, WorkerDied]:
        """Those that ended with a worker and were neither opened again nor closed."""
        return dict(self._lost)

    def on(self, workers: Collection[int]) -> list[Stream]:
        """Return the streams, those that close included, that any of these workers carries."""
        return [s for s in self._by_name.values() if not set(s.grouping.used).isdisjoint(workers)]

    def beside(self, workers: Collection[int]) -> bool:
        """Tell whether an open stream needs none of these workers."""
        known = (s for s in self._by_name.values() if not s.closed)
        return any(set(s.grouping.used).isdisjoint(workers) for s in known)

    def lose(self, stream: Stream, died: WorkerDied) -> None:
        """End a stream with a worker that carried it; the name is known as lost from here on."""
        stream.closed, stream.leaving, stream.died = True, True, died
        stream.in_flight.clear()
        if stream.up:
            self._lost[stream.name] = died
            self.untold.append(StreamLost(stream.name, died))

    def leaver(self, name: str) -> Stream | None:
        """Return the stream of a name whose workers still have to free it; None: there is none."""
        found = self._by_name.get(name)
        return found if found is not None and found.leaving else None

    def gone(self) -> list[Stream]:
        """Return the streams that nobody waits for and that no worker holds any more."""
        return [s for s in self._by_name.values() if s.leaving and not s.awaiting]

    def let_go(self, name: str) -> bool:
        """Forget that a stream was lost, which somebody knows; tell whether it was."""
        self.untold = deque(lost for lost in self.untold if lost.stream != name)
        return self._lost.pop(name, None) is not None

    @property
    def free(self) -> int:
        """Places left."""
        return len(self._free)

    def check(self, name: str) -> None:
        """
        Ask whether a stream could be added.

        :raises EngineError: when the name is taken or no place is left.
        """
        if name in self._by_name:
            how = 'still being closed' if self._by_name[name].closed else 'already open'
            raise EngineError(f"stream '{name}' is {how}")
        if not self._free:
            raise EngineError(
                f'streams must be <= max_streams = {self._most}, got {name!r} beside '
                f'{sorted(self._by_name)}; close one or start the pool with more'
            )

    def add(self, name: str, grouping: Grouping, most: int) -> Stream:
        """
        Take a place; errors as :meth:`check`.

        :param grouping: which workers carry it.
        :param most: chunks that may be in flight.
        """
        self.check(name)
        self.let_go(name)
        self._lives += 1
        stream = Stream(name, self._free.pop(0), self._lives, grouping, most)
        self._by_name[name] = self._by_index[stream.index] = stream
        return stream

    def remove(self, stream: Stream) -> None:
        """Give the place back."""
        del self._by_name[stream.name], self._by_index[stream.index]
        self._free.append(stream.index)

    def named(self, name: str) -> Stream:
        """
        Find a stream.

        :raises StreamLost: when it ended with a worker.
        :raises EngineError: when it is not open.
        """
        if name in self._lost:
            raise StreamLost(name, self._lost[name])
        found = self._by_name.get(name)
        if found is None:
            raise EngineError(f"stream '{name}' is not open; open are {self.names()}")
        return found

    def idle(self) -> list[str]:
        """Return the streams that have nothing in the pipe."""
        return [name for name, stream in self._by_name.items() if not stream.in_flight]

    def hops(self) -> set[tuple[int, int]]:
        """Return the pairs of workers between which hidden states of any stream travel."""
        return {hop for stream in self._by_name.values() for hop in stream.grouping.hops}

    def at(self, index: int) -> Stream | None:
        """Return the stream at a place of the board."""
        return self._by_index.get(index)
