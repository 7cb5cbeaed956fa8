# SPDX-License-Identifier: Apache-2.0
"""
What comes back from the workers of a running pool: results, answers, figures, their deaths.

The pool's lock is around everything here.
"""

from __future__ import annotations

import time
from collections import deque

from physis_ros.engine import layout as lay
from physis_ros.engine.board import epoch_of
from physis_ros.engine.crew import Crew
from physis_ros.engine.layout import POOL, Layout
from physis_ros.engine.losses import Losses
from physis_ros.engine.mailbox import Held, Mailbox
from physis_ros.engine.message import FRAMES, Header, Kind
from physis_ros.engine.metrics import Metrics
from physis_ros.engine.overload import Pressure, Queue
from physis_ros.engine.result import ChunkResult
from physis_ros.engine.streams import Stream, StreamTable
from physis_ros.engine.trace import Trace
from physis_ros.errors import EngineError

CHECK_S = 0.2


class Desk:
    """
    Takes the workers' messages in.

    ``results`` are (stream index, result), oldest first; ``freed`` says that a stream became ready
    since it was last set to False.

    :param layout: of the pool's memory.
    :param streams: those of the pool.
    :param pressure: is told how long queues are.
    """

    def __init__(self, layout: Layout, streams: StreamTable, pressure: Pressure) -> None:
        self.metrics = Metrics()
        self.results: deque[tuple[int, ChunkResult]] = deque()
        # Workers that are up.
        self.greeted: set[int] = set()
        self.losses = Losses(streams, self.drop)
        self.freed = False
        self._layout, self._streams, self._pressure = layout, streams, pressure
        self._crew: Crew | None = None
        self._trace: Trace | None = None
        self._failure: EngineError | None = None
        self._looked_s = 0.0

    @property
    def failed(self) -> bool:
        """Whether the workers cannot go on."""
        return self._failure is not None

    @property
    def pids(self) -> tuple[int, ...]:
        """The workers' process ids; empty when none run."""
        return self._crew.pids if self._crew else ()

    def open(self, crew: Crew, patience_s: float) -> None:
        """
        Begin to listen.

        :param patience_s: longest time for a worker to come up that takes the place of another.
        """
        self.losses.places.patience_s = patience_s
        config, grouping = self._layout.config, self._layout.grouping
        if config.trace is not None:
            self._trace = Trace(config.trace, grouping.workers, grouping.blocks)
        self._crew = crew

    def close(self) -> Crew | None:
        """Take in what is left and stop to listen; return the crew, once."""
        crew, self._crew = self._crew, None
        if crew is not None:
            self._drain(crew)
        if self._trace is not None:
            self._trace.close()
            self._trace = None
        self.results.clear()
        return crew

    def crew(self) -> Crew:
        """
        Return the running workers.

        :raises EngineError: what ended them, or that there are none.
        """
        if self._failure is not None:
            raise self._failure
        if self._crew is None:
            raise EngineError('pool must be started and not closed, got a call outside of that')
        return self._crew

    def take_in(self) -> None:
        """Read all messages there are."""
        self._empty(self.crew())

    def look(self, at_least_every_s: float = 0.0) -> None:
        """
        Look after the workers and their figures, and take in who has died.

        :raises WorkerDied: within a second of the death of a worker without which nothing goes on.
        :raises EngineError: when a worker stands still for ``hop_timeout_s``.
        """
        crew, now_s = self.crew(), time.monotonic()
        if now_s - self._looked_s < at_least_every_s:
            return
        self._looked_s = now_s
        self._drain(crew)
        try:
            self._bury(crew, time.monotonic_ns())
            if self.greeted:
                crew.check_moving(time.monotonic_ns())
        except EngineError as error:
            self._failure = error
            raise

    def _bury(self, crew: Crew, now_ns: int) -> None:
        self.losses.end_overdue(crew, now_ns)
        dead = crew.dead()
        if dead:
            self._empty(crew)  # what they said last
            up = set(self.greeted)
            self.greeted.difference_update(dead)
            self.losses.take(crew, dead, up, now_ns)

    def forget(self, stream: Stream) -> None:
        """Drop the results of a stream whose epoch or life has ended."""
        self.results = deque(entry for entry in self.results if entry[0] != stream.index)

    def drop(self, stream: Stream) -> None:
        """Drop everything of a stream that was lost."""
        self.forget(stream)
        self._pressure.forget(stream.name)

    def _empty(self, crew: Crew) -> None:
        for worker, inbox in crew.site.inboxes.items():
            while (got := inbox.receive()) is not None:
                self._take(crew, worker, inbox, *got)

    def _take(self, crew: Crew, worker: int, inbox: Mailbox, header: Header, held: Held) -> None:
        stream = self._streams.at(header.stream)
        if header.kind in (Kind.RESULT, Kind.DONE):
            if stream is not None and header.era == stream.era:
                self._come_out(stream, worker, inbox, header, held)
        elif header.kind == Kind.READY:
            self.greeted.add(worker)
            self.losses.places.came_up(worker)
        elif header.kind == Kind.FAILED:
            crew.words[worker] = inbox.text(header, held)
        elif stream is not None and header.chunk == stream.life:
            if header.kind == Kind.NOT_OPENED:
                stream.refused = f'worker {worker}: {inbox.text(header, held)}'
            # What it says of the opening comes late where it was told to close meanwhile.
            if header.kind == Kind.CLOSED or not stream.closed:
                stream.awaiting.discard(worker)
        held.release()

    def _come_out(
        self, stream: Stream, worker: int, inbox: Mailbox, header: Header, held: Held
    ) -> None:
        grouping = self._layout.grouping
        # Under the clean rule one more pass follows the result.
        if header.kind == Kind.DONE or grouping.passes == grouping.steps:
            stream.in_flight.discard(header.turn)
        if header.kind == Kind.DONE:
            self.freed = True
            return
        now_ns = time.monotonic_ns()
        actions, frames = inbox.parts(header.kind, held)
        self.metrics.hop(worker, POOL, header.bytes, now_ns - header.sent_ns)
        result = ChunkResult(
            stream=stream.name,
            epoch=epoch_of(header.era),
            chunk=header.chunk,
            actions=actions[0].numpy().copy(),
            frames=frames[0].numpy().copy() if header.flags & FRAMES else None,
            kv_rule=grouping.kv_rule,
            observation=header.observation,
            entered_steady_ns=header.created_ns,
            denoised_steady_ns=header.denoised_ns,
            decoded_steady_ns=header.decoded_ns,
            delivered_steady_ns=now_ns,
        )
        self.results.append((stream.index, result))

    def _drain(self, crew: Crew) -> None:
        for ring in crew.site.spans.values():
            for span in ring.drain():
                self.metrics.add(span)
                if self._trace is not None:
                    self._trace.add(span)
        states = crew.site.states
        self.metrics.queue_lengths = [state[lay.QUEUED] for state in states]
        queues = [Queue(s[lay.QUEUED], s[lay.WAITING] - 1) for s in states]
        self._pressure.queues(queues, time.monotonic_ns())
        self.metrics.dropped_tasks = sum(state[lay.DROPPED] for state in states)
        self.metrics.lost_spans = sum(ring.lost for ring in crew.site.spans.values())
