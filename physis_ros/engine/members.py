# SPDX-License-Identifier: Apache-2.0
"""
Who is in a pool: streams are admitted, opened and closed while others run (E9).

Decisions take their time under a lock of their own; the pool's is held for moments only, so that
nobody's chunks wait for somebody's admission.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from typing import TYPE_CHECKING

from physis_ros.engine.desk import Desk
from physis_ros.engine.door import Door
from physis_ros.engine.grid import Grouping, place
from physis_ros.engine.layout import Layout
from physis_ros.engine.message import Header, Kind
from physis_ros.engine.opening import Opening
from physis_ros.engine.overload import Overload, Pressure
from physis_ros.engine.places import Vacancy
from physis_ros.engine.refusal import Refusal
from physis_ros.engine.streams import Stream, StreamTable
from physis_ros.errors import (
    AdmissionRefused,
    DeadlinePassed,
    EngineError,
    PhysisError,
    StreamLost,
)

if TYPE_CHECKING:
    from contextlib import AbstractContextManager

_PAUSE_S = 0.002


class Members:
    """
    The streams of a pool, as they come and go.

    :param layout: of the pool's memory.
    :param streams: the table of those that are open.
    :param desk: hears the workers' answers.
    :param pressure: knows when the pool is behind.
    :param lock: the pool's.
    :param door: decides and places; None: the pool's grouping carries everybody.
    """

    def __init__(
        self,
        layout: Layout,
        streams: StreamTable,
        desk: Desk,
        pressure: Pressure,
        lock: AbstractContextManager[bool],
        door: Door | None,
    ) -> None:
        self._layout, self._streams, self._desk = layout, streams, desk
        self._pressure, self._lock, self._door = pressure, lock, door
        self._deciding = threading.RLock()
        self._patience_s = layout.config.open_timeout_s
        # Workers that the door was told are gone, and whether new ones are on their way.
        self._away: set[int] = set()
        self._short = False

    @property
    def overload(self) -> Overload | None:
        """Where the pool is stuck, when more is asked of it than it can do."""
        with self._lock:
            now_ns = time.monotonic_ns()
            self._pressure.idle(self._streams.idle(), now_ns)
            return self._pressure.look(now_ns)

    def open(self, name: str, slo_s: float, response_s: float) -> None:
        """Take a stream on and bring it up, or leave nothing of it; see the pool."""
        with self._deciding:
            self._await_end(name)
            self._sweep()
            with self._lock:
                self._desk.crew()
                self._streams.check(name)
            self._refuse_when_behind(name)
            stream = self._add(name, self._seat(name, slo_s, response_s))
            try:
                self._bring_up(stream)
            except PhysisError:
                self._give_up(stream)
                raise

    def close(self, name: str) -> None:
        """End a stream and free what it held; see the pool."""
        with self._deciding:
            with self._lock:
                self._desk.crew()
                if self._streams.let_go(name):
                    return
                stream = self._streams.named(name)
            self._end(stream, self._patience_s)

    def what_if(self, count: int, slo_s: float, response_s: float) -> list[str]:
        """Tell what would be answered to so many more streams; see the pool."""
        with self._deciding:
            self._sweep()
            with self._lock:
                left = min(count, self._streams.free)
            most = self._layout.config.max_streams
            full = [f'max_streams is {most} and {left} places are left'] * (count - left)
            behind = self._behind('what if')
            if behind is not None:
                return [str(behind)] * left + full
            if self._door is None:
                return [''] * left + full
            answers = self._door.what_if(left, slo_s, response_s)
            note = self._note()
            return [f'{answer}{note}' if answer else '' for answer in answers] + full

    def until(self, done: Callable[[], bool], timeout_s: float, what: str) -> None:
        """
        Wait for the workers.

        :raises DeadlinePassed: when it takes too long.
        """
        until_s = time.monotonic() + timeout_s
        while True:
            with self._lock:
                self._desk.take_in()
                self._desk.look()
                if done():
                    return
            if time.monotonic() > until_s:
                raise DeadlinePassed(f'{what} must take at most {timeout_s:g} s, and did not')
            time.sleep(_PAUSE_S)

    def _behind(self, name: str) -> Refusal | None:
        overload = self.overload
        if overload is None:
            return None
        return Refusal(name, 'closed', '', overload.text(time.monotonic_ns()))

    def _refuse_when_behind(self, name: str) -> None:
        behind = self._behind(name)
        if behind is not None:
            # A worker that comes up takes its share of the processors from those that run.
            raise AdmissionRefused(behind, self._short)

    def _seat(self, name: str, slo_s: float, response_s: float) -> Grouping:
        """Ask which workers a new stream is carried by."""
        config, grouping = self._layout.config, self._layout.grouping
        if self._door is None:
            return grouping
        try:
            owner = self._door.admit(name, slo_s, response_s)
        except AdmissionRefused as refused:
            if not self._away:
                raise
            raise AdmissionRefused(f'{refused}{self._note()}', self._short) from None
        return place(self._layout.spec, owner, config.workers, config.override_kv_rule)

    def _note(self) -> str:
        """Say which workers are missing, to whom that may have cost the place."""
        return ''.join(f'; {vacancy}' for vacancy in list(self._vacant.values()))

    @property
    def _vacant(self) -> dict[int, Vacancy]:
        return self._desk.losses.places.vacant

    def _add(self, name: str, grouping: Grouping) -> Stream:
        """Give a stream its place; its workers may have ended while that was decided."""
        with self._lock:
            gone = self._vacant.keys() & set(grouping.used)
            if gone:
                self._leave(name)
                raise StreamLost(name, self._vacant[min(gone)].died)
            most = self._layout.in_flight_of(len(grouping.used))
            stream = self._streams.add(name, grouping, most)
            self._pressure.follow(self._streams.hops())
            self._desk.crew().board.set_era(stream.index, stream.era)
            return stream

    def _bring_up(self, stream: Stream) -> None:
        opening = Opening(stream.name, stream.grouping.owner)
        with self._lock:
            self._tell(stream, Kind.OPEN, opening.text())
        what = f"opening of '{stream.name}'"
        self.until(lambda: stream.closed or not stream.awaiting, self._patience_s, what)
        with self._lock:
            if stream.died is not None:
                raise StreamLost(stream.name, stream.died)
            if stream.refused:
                raise EngineError(f"stream '{stream.name}' cannot be opened: {stream.refused}")
            stream.up = True

    def _give_up(self, stream: Stream) -> None:
        """Undo an opening that failed; why it did matters more than whether this works."""
        try:
            if not self._desk.failed:
                self._end(stream, self._layout.config.hop_timeout_s)
        except DeadlinePassed:
            # Its place, its memory and its time stay taken as long as a worker is busy with it.
            stream.leaving = True
        except EngineError:
            return

    def _end(self, stream: Stream, patience_s: float) -> None:
        """Have the workers free what they hold of a stream, then forget it."""
        with self._lock:
            if stream.died is None:
                stream.closed = True
                self._desk.crew().board.set_era(stream.index, stream.era)
                self._desk.forget(stream)
                self._tell(stream, Kind.CLOSE)
        self.until(lambda: not stream.awaiting, patience_s, f"closing of '{stream.name}'")
        self._forget(stream)

    def _await_end(self, name: str) -> None:
        """Wait until the workers that are left have freed what they held of a lost stream."""
        with self._lock:
            before = self._streams.leaver(name)
        if before is not None and before.died is not None:
            what = f"end of '{name}', which was lost,"
            self.until(lambda: not before.awaiting, self._patience_s, what)

    def _sweep(self) -> None:
        """Forget streams that nobody waits for, and tell the door which workers there are."""
        with self._lock:
            gone, vacant = self._streams.gone(), set(self._vacant)
            self._short = any(vacancy.filling for vacancy in self._vacant.values())
        for stream in gone:
            self._forget(stream)
        if self._door is not None:
            for worker in vacant - self._away:
                self._door.retire(worker)
            for worker in self._away - vacant:
                self._door.restore(worker)
        self._away = vacant

    def _forget(self, stream: Stream) -> None:
        with self._lock:
            self._streams.remove(stream)
            self._pressure.follow(self._streams.hops())
            self._pressure.forget(stream.name)
        self._leave(stream.name)

    def _leave(self, name: str) -> None:
        if self._door is not None:
            self._door.leave(name)

    def _tell(self, stream: Stream, kind: Kind, text: str = '') -> None:
        """Say something to all workers of a stream, if it was not lost; the lock is held."""
        if stream.died is None:
            stream.awaiting = set(stream.grouping.used)
            header = Header(kind, stream=stream.index, chunk=stream.life)
            self._desk.crew().tell(stream.awaiting, header, text)
