# SPDX-License-Identifier: Apache-2.0
"""
The pool: streams go in at one end, finished chunks come out at the other.

It admits, accounts and delivers; the computing happens in its workers, never here. Threads:
``start``, ``open_stream``, ``close_stream``, ``ready``, ``enter``, ``observe``, ``reset`` and
``close`` belong to one owner thread, ``next_result`` to one collector thread, which may be the
same. A lock makes any other mix safe, not fast.
"""

from __future__ import annotations

import threading
import time
from collections import deque
from collections.abc import Callable, Mapping
from types import TracebackType
from typing import Any

import numpy.typing as npt

from physis_ros.backbones.base import ModelSpec
from physis_ros.engine import layout as lay
from physis_ros.engine import threads
from physis_ros.engine.board import CLOSED, epoch_of
from physis_ros.engine.config import PoolConfig
from physis_ros.engine.crew import Crew
from physis_ros.engine.grid import Grouping, assign, group
from physis_ros.engine.layout import POOL, Layout
from physis_ros.engine.mailbox import Held, Mailbox
from physis_ros.engine.message import Header, Kind
from physis_ros.engine.metrics import Metrics
from physis_ros.engine.models import REGISTRY, registry
from physis_ros.engine.result import ChunkResult
from physis_ros.engine.spans import Span
from physis_ros.engine.streams import Stream, StreamTable
from physis_ros.engine.trace import Trace
from physis_ros.errors import DeadlinePassed, EngineError, ParameterError

_CHECK_S = 0.2
_ANSWER_S = 30.0
_UNCOLLECTED = 64


class Pool:
    """
    Workers around one model.

    :param config: what to start.
    :param models: module that knows the model; see :mod:`physis_ros.engine.models`.
    :param crew: how workers are started.
    :raises ParameterError: or
    :raises PlanError: when the configuration does not fit the model. Nothing is started yet.
    """

    def __init__(
        self, config: PoolConfig, models: str = REGISTRY, crew: type[Crew] = Crew
    ) -> None:
        self.config = config
        self.spec: ModelSpec = registry(models).read_spec(config.model)
        self.grouping: Grouping = _grouping(config, self.spec)
        self.layout = Layout(self.spec, self.grouping, config)
        self.metrics = Metrics()
        self._models, self._hire = models, crew
        self._lock = threading.RLock()
        self._streams = StreamTable(config.max_streams)
        self._results: deque[tuple[int, ChunkResult]] = deque()
        self._crew: Crew | None = None
        self._trace: Trace | None = None
        self._failure: EngineError | None = None
        self._greeted: set[int] = set()
        self._freed = False
        self._looked_s = 0.0

    def __enter__(self) -> Pool:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close()

    @property
    def pids(self) -> tuple[int, ...]:
        """The workers' process ids; empty when not running."""
        return self._crew.pids if self._crew else ()

    def start(self, timeout_s: float = 60.0) -> None:
        """
        Start the workers, load and warm up the model.

        :raises WorkerDied: with the worker's own words; everything is closed again then.
        :raises DeadlinePassed: likewise, when it takes longer than ``timeout_s``.
        """
        if self._crew is not None:
            raise EngineError('pool must be started once, got a second start')
        workers, config = self.grouping.workers, self.config
        threads.warn_when_over(workers, config.threads_per_worker, threads.cores())
        if config.trace is not None:
            self._trace = Trace(config.trace, workers, self.spec.blocks)
        try:
            self._crew = self._hire(self.layout, self._models)
            everyone = set(range(workers))
            self._until(lambda: self._greeted == everyone, timeout_s, 'start of the workers')
        except BaseException:
            self.close()
            raise

    def open_stream(self, name: str) -> None:
        """
        Open a stream: every worker allocates its KV. Other streams go on.

        :raises EngineError: when the name is taken or the pool is full.
        """
        with self._lock:
            crew = self._running()
            stream = self._streams.add(name)
            crew.board.set_era(stream.index, stream.era)
            self._tell(stream, Kind.OPEN, name)
        self._until(lambda: not stream.awaiting, _ANSWER_S, f"opening of stream '{name}'")

    def close_stream(self, name: str) -> None:
        """End a stream: its tasks die wherever they are, its KV is freed. Other streams go on."""
        with self._lock:
            crew = self._running()
            stream = self._streams.named(name)
            crew.board.set_era(stream.index, CLOSED)
            self._forget_results(stream)
            self._tell(stream, Kind.CLOSE)
        self._until(lambda: not stream.awaiting, _ANSWER_S, f"closing of stream '{name}'")
        with self._lock:
            self._streams.remove(stream)

    def ready(self, name: str) -> bool:
        """Tell whether a chunk that entered now would find its way free."""
        with self._lock:
            # A chunk may wait for this answer: looking after the workers can wait.
            self._empty(self._running())
            if time.monotonic() - self._looked_s > _CHECK_S:
                self._look()
            stream = self._streams.named(name)
            entry = self._running().site.outboxes[self.grouping.owner[0]]
            free = len(stream.in_flight) < self.layout.in_flight
            return free and entry.has_room() and len(self._results) < _UNCOLLECTED

    def enter(
        self,
        name: str,
        inputs: Mapping[str, npt.NDArray[Any]],
        deadline_steady_ns: int,
        decode_frames: bool,
    ) -> int:
        """
        Let the stream's next chunk in; does not wait.

        :param inputs: one array for each input of the spec, without a batch axis.
        :param deadline_steady_ns: when it should be out; the earliest goes first.
        :returns: its number within the epoch.
        :raises EngineError: when not :meth:`ready`.
        :raises ObservationError: when the inputs do not fit; nothing entered then.
        """
        with self._lock:
            if not self.ready(name):
                raise EngineError(
                    f"stream '{name}' must be ready before a chunk enters, got "
                    f'{len(self._streams.named(name).in_flight)} chunks in flight'
                )
            crew, stream = self._running(), self._streams.named(name)
            version = crew.board.post(stream.index, inputs)
            now_ns = time.monotonic_ns()
            header = Header(
                Kind.ENTER, int(decode_frames), stream.index, era=stream.era,
                chunk=stream.next_chunk, deadline_ns=deadline_steady_ns, observation=version,
                created_ns=now_ns, sent_ns=now_ns,
            )  # fmt: skip
            crew.site.outboxes[self.grouping.owner[0]].send(header)
            stream.in_flight.add(stream.next_chunk)
            stream.next_chunk += 1
            return stream.next_chunk - 1

    def observe(self, name: str, inputs: Mapping[str, npt.NDArray[Any]]) -> int:
        """
        Show a newer observation to chunks in flight (``conditioning: step``); does not wait.

        :returns: its version, which results name.
        """
        if self.config.conditioning != 'step':
            raise EngineError("observe needs conditioning 'step', got 'entry'")
        with self._lock:
            return self._running().board.post(self._streams.named(name).index, inputs)

    def reset(self, name: str) -> int:
        """Begin the stream's next epoch at once and return it; nothing older comes out."""
        with self._lock:
            crew, stream = self._running(), self._streams.named(name)
            epoch = stream.restart()
            crew.board.set_era(stream.index, stream.era)
            self._forget_results(stream)
            crew.ring()
            return epoch

    def next_result(self, timeout_s: float) -> ChunkResult | None:
        """
        Return the next finished chunk; None when none came in time.

        Under the clean rule a stream becomes ready some time after its chunk came out; that
        returns None at once, so that the next one can enter.

        :raises WorkerDied: within a second of a worker's death.
        :raises EngineError: when a worker stands still for ``hop_timeout_s``.
        """
        until_s = time.monotonic() + timeout_s
        while True:
            with self._lock:
                self._empty(self._running())
                if not self._results:
                    self._look()
                if self._results:
                    return self._results.popleft()[1]
                if self._freed:
                    self._freed = False
                    return None
                crew = self._running()
            left_s = until_s - time.monotonic()
            if left_s <= 0:
                return None
            crew.wait(min(left_s, _CHECK_S))

    def chunk_spans(self, name: str, chunk: int) -> list[Span]:
        """Return what happened to a chunk of the current epoch, in order of start."""
        with self._lock:
            self._drain()
            return self.metrics.of_chunk(self._streams.named(name).era, chunk)

    def health(self) -> dict[str, object]:
        """
        Look at the workers.

        :raises WorkerDied: or
        :raises EngineError: as :meth:`next_result`.
        """
        with self._lock:
            self._pump()
            self._drain()
            return {
                'workers': self.grouping.workers,
                'streams': self._streams.names(),
                'queued': list(self.metrics.queue_lengths),
                'dropped': self.metrics.dropped_tasks,
                'spans_lost': self.metrics.lost_spans,
            }

    def close(self) -> None:
        """End everything; takes a second at most and is harmless when repeated."""
        with self._lock:
            crew, self._crew = self._crew, None
            if crew is not None:
                self._drain(crew)
                crew.close()
            if self._trace is not None:
                self._trace.close()
                self._trace = None
            self._results.clear()

    # Inside; all under the lock.

    def _running(self) -> Crew:
        if self._failure is not None:
            raise self._failure
        if self._crew is None:
            raise EngineError('pool must be started and not closed, got a call outside of that')
        return self._crew

    def _tell(self, stream: Stream, kind: Kind, text: str = '') -> None:
        crew = self._running()
        stream.awaiting = set(range(self.grouping.workers))
        for worker in stream.awaiting:
            if not crew.site.outboxes[worker].send_text(Header(kind, stream=stream.index), text):
                raise EngineError(f'worker {worker} must take {kind.name}, got a full mailbox')

    def _until(self, done: Callable[[], bool], timeout_s: float, what: str) -> None:
        until_s = time.monotonic() + timeout_s
        while True:
            with self._lock:
                self._pump()
                if done():
                    return
            if time.monotonic() > until_s:
                raise DeadlinePassed(f'{what} must take at most {timeout_s:g} s, and did not')
            time.sleep(0.002)

    def _pump(self) -> None:
        self._empty(self._running())
        self._look()

    def _look(self) -> None:
        crew = self._running()
        self._looked_s = time.monotonic()
        self._drain()
        try:
            if not crew.complete:
                self._empty(crew)  # what the dead one said last
            crew.check_alive()
            if self._greeted:
                crew.check_moving(time.monotonic_ns())
        except EngineError as error:
            self._failure = error
            raise

    def _empty(self, crew: Crew) -> None:
        for worker, inbox in crew.site.inboxes.items():
            while (got := inbox.receive()) is not None:
                self._take(worker, inbox, *got)

    def _take(self, worker: int, inbox: Mailbox, header: Header, held: Held) -> None:
        stream = self._streams.at(header.stream)
        if header.kind == Kind.RESULT:
            if stream is not None and header.era == stream.era:
                self._deliver(stream, worker, inbox, header, held)
        elif header.kind == Kind.DONE:
            if stream is not None and header.era == stream.era:
                stream.in_flight.discard(header.chunk)
                self._freed = True
        elif header.kind == Kind.READY:
            self._greeted.add(worker)
        elif header.kind == Kind.FAILED:
            self._running().words[worker] = inbox.text(header, held)
        elif stream is not None:
            stream.awaiting.discard(worker)
        held.release()

    def _deliver(
        self, stream: Stream, worker: int, inbox: Mailbox, header: Header, held: Held
    ) -> None:
        now_ns = time.monotonic_ns()
        actions, frames = inbox.parts(header.kind, held)
        if self.grouping.passes == self.grouping.steps:
            stream.in_flight.discard(header.chunk)
        self.metrics.hop(worker, POOL, header.bytes, now_ns - header.sent_ns)
        result = ChunkResult(
            stream=stream.name,
            epoch=epoch_of(header.era),
            chunk=header.chunk,
            actions=actions[0].numpy().copy(),
            frames=frames[0].numpy().copy() if header.flags & 1 else None,
            kv_rule=self.grouping.kv_rule,
            observation=header.observation,
            entered_steady_ns=header.created_ns,
            denoised_steady_ns=header.denoised_ns,
            decoded_steady_ns=header.decoded_ns,
            delivered_steady_ns=now_ns,
        )
        self._results.append((stream.index, result))

    def _forget_results(self, stream: Stream) -> None:
        kept = [entry for entry in self._results if entry[0] != stream.index]
        self._results = deque(kept)

    def _drain(self, crew: Crew | None = None) -> None:
        crew = crew or self._running()
        for ring in crew.site.spans.values():
            for span in ring.drain():
                self.metrics.add(span)
                if self._trace is not None:
                    self._trace.add(span)
        states = crew.site.states
        self.metrics.queue_lengths = [state[lay.QUEUED] for state in states]
        self.metrics.dropped_tasks = sum(state[lay.DROPPED] for state in states)
        self.metrics.lost_spans = sum(ring.lost for ring in crew.site.spans.values())


def _grouping(config: PoolConfig, spec: ModelSpec) -> Grouping:
    if config.conditioning == 'step' and spec.conditioning != 'step':
        raise ParameterError(
            'conditioning', f"'entry' for {spec.name}, whose weights do not allow renewal", 'step'
        )
    if not config.assignment:
        return group(spec, config.grouping, config.workers, config.override_kv_rule)
    found = assign(spec, config.assignment, config.override_kv_rule)
    if found.workers != config.workers:
        raise ParameterError('workers', f'{found.workers} as assigned', config.workers)
    return found
