# SPDX-License-Identifier: Apache-2.0
"""
What becomes of a pool when workers die (E16): the streams that they carried end, others go on.

A stream that is lost ends on the workers that are left, too, and a new worker is started in the
place of the dead one. Where no stream would go on the pool ends instead. The pool's lock is around
everything here.
"""

from __future__ import annotations

from collections.abc import Callable, Collection

from physis_ros.engine.crew import Crew
from physis_ros.engine.message import Header, Kind
from physis_ros.engine.places import Places
from physis_ros.engine.streams import Stream, StreamTable
from physis_ros.errors import WorkerDied


class Losses:
    """
    Takes deaths in.

    :param streams: those of the pool.
    :param drop: forgets what has come out of a stream.
    """

    def __init__(self, streams: StreamTable, drop: Callable[[Stream], None]) -> None:
        self.places = Places()
        self._streams, self._drop = streams, drop

    def take(self, crew: Crew, dead: Collection[int], up: Collection[int], now_ns: int) -> None:
        """
        Take in that workers have ended, all that they said being read.

        :param up: workers that had come up, the dead included.
        :raises WorkerDied: when no stream goes on without them.
        """
        deaths = [crew.death_of(worker) for worker in dead]
        if not self._streams.beside(dead):
            raise deaths[0]
        left = set(up) - set(dead)
        for died in deaths:
            for stream in self._streams.on((died.worker,)):
                self._end(crew, stream, died, left)
        for died in deaths:
            crew.vacate(died.worker)
            if self.places.died(died, died.worker in up, now_ns):
                self._fill(crew, died.worker)

    def end_overdue(self, crew: Crew, now_ns: int) -> None:
        """End new workers that take too long to come up."""
        for worker in self.places.overdue(now_ns):
            patience_s = self.places.patience_s
            crew.kill(worker, f'it must be up within {patience_s:g} s, and was not')

    def _end(self, crew: Crew, stream: Stream, died: WorkerDied, left: set[int]) -> None:
        """End a stream: whatever bears its era is dead, and who is left frees what it holds."""
        stream.awaiting.discard(died.worker)
        if stream.closed:
            return
        self._streams.lose(stream, died)
        crew.board.set_era(stream.index, stream.era)
        self._drop(stream)
        stream.awaiting = left.intersection(stream.grouping.used)
        crew.tell(stream.awaiting, Header(Kind.CLOSE, stream=stream.index, chunk=stream.life))

    def _fill(self, crew: Crew, worker: int) -> None:
        """Start a new worker; where the machine has no room for it the place stays empty."""
        try:
            crew.fill(worker)
        except OSError:
            self.places.give_up(worker)
