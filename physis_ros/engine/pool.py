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
from collections.abc import Mapping
from types import TracebackType
from typing import Any

import numpy.typing as npt

from physis_ros.backbones.base import ModelSpec
from physis_ros.engine import threads
from physis_ros.engine.config import PoolConfig
from physis_ros.engine.crew import Crew
from physis_ros.engine.desk import CHECK_S, Desk
from physis_ros.engine.door import Door
from physis_ros.engine.layout import Layout
from physis_ros.engine.members import Members
from physis_ros.engine.message import COMMIT, FRAMES, Header, Kind
from physis_ros.engine.metrics import Metrics
from physis_ros.engine.models import REGISTRY, registry
from physis_ros.engine.overload import Overload, Pressure
from physis_ros.engine.places import PATIENCE_S, Vacancy
from physis_ros.engine.result import ChunkResult
from physis_ros.engine.spans import Span
from physis_ros.engine.streams import Stream, StreamTable
from physis_ros.errors import EngineError, WorkerDied

_UNCOLLECTED = 64


class Pool:
    """
    Workers around one model.

    :param config: what to start.
    :param models: module that knows the model; see :mod:`physis_ros.engine.models`.
    :param crew: how workers are started.
    :param door: admits streams and places each for itself; None: every stream is carried as the
        configuration groups it, as long as there is a place.
    :raises ParameterError: or
    :raises PlanError: when the configuration does not fit the model. Nothing is started yet.
    """

    def __init__(
        self,
        config: PoolConfig,
        models: str = REGISTRY,
        crew: type[Crew] = Crew,
        door: Door | None = None,
    ) -> None:
        self.config = config
        self.spec: ModelSpec = registry(models).read_spec(config.model)
        self.grouping = config.group(self.spec) if door is None else door.group(self.spec, config)
        self.layout = Layout(self.spec, self.grouping, config, door is not None)
        self._pressure = Pressure(self.spec.blocks, config.max_batch)
        self._models, self._hire = models, crew
        self._lock = threading.RLock()
        self._streams = StreamTable(config.max_streams)
        self._desk = Desk(self.layout, self._streams, self._pressure)
        self._members = Members(
            self.layout, self._streams, self._desk, self._pressure, self._lock, door
        )
        self._started = False

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
        return self._desk.pids

    @property
    def metrics(self) -> Metrics:
        """What is known of the running pool; a new one may be put in its place."""
        return self._desk.metrics

    @metrics.setter
    def metrics(self, metrics: Metrics) -> None:
        self._desk.metrics = metrics

    def start(self, timeout_s: float = PATIENCE_S) -> None:
        """
        Start the workers, load and warm up the model.

        :param timeout_s: longest time for all to come up, and later for one that takes the place
            of another.
        :raises WorkerDied: with the worker's own words; everything is closed again then.
        :raises DeadlinePassed: likewise, when it takes longer than ``timeout_s``.
        """
        if self._started:
            raise EngineError('pool must be started once, got a second start')
        self._started = True
        workers, config = self.grouping.workers, self.config
        threads.warn_when_over(workers, config.threads_per_worker, threads.cores())
        desk = self._desk
        try:
            desk.open(self._hire(self.layout, self._models), timeout_s)
            everyone = set(range(workers))
            self._members.until(
                lambda: desk.greeted == everyone, timeout_s, 'start of the workers'
            )
        except BaseException:
            self.close()
            raise

    def open_stream(self, name: str, slo_s: float = 0.0, response_s: float = 0.0) -> None:
        """
        Open a stream: its workers load what they lack and allocate its KV. Other streams go on.

        :param slo_s: longest interval between its chunks; a pool with a door asks for it.
        :param response_s: longest time from entry to output when alone; 0: any.
        :raises AdmissionRefused: when it is not taken on, saying why and what would fit.
        :raises EngineError: when the name is taken, no place is left, or a worker cannot carry
            it within ``open_timeout_s``; nothing of it stays then.
        """
        self._members.open(name, slo_s, response_s)

    def close_stream(self, name: str) -> None:
        """
        End a stream: its tasks die wherever they are, its KV is freed. Other streams go on.

        One that was lost has ended already; it is only not known as lost any more.
        """
        self._members.close(name)

    def workers_of(self, name: str) -> tuple[int, ...]:
        """Return the workers that carry a stream."""
        with self._lock:
            return self._streams.named(name).grouping.used

    def others(self, name: str) -> list[str]:
        """Return the streams that are open beside this one."""
        with self._lock:
            return [other for other in self._streams.names() if other != name]

    def what_if(self, count: int, slo_s: float, response_s: float = 0.0) -> list[str]:
        """
        Tell what would be answered to so many more streams; nothing changes.

        :returns: for each an empty text when it were taken on, else why not.
        """
        return self._members.what_if(count, slo_s, response_s)

    @property
    def lost(self) -> dict[str, WorkerDied]:
        """
        Streams that ended with a worker that carried them, which their own calls raise too.

        They stay so until they are opened again or closed.
        """
        return self._streams.lost

    @property
    def vacancies(self) -> dict[int, Vacancy]:
        """Places of workers that have ended; where a new one is up it is not one any more."""
        return dict(self._desk.losses.places.vacant)

    @property
    def replaced(self) -> int:
        """Workers that have taken the place of another."""
        return self._desk.losses.places.filled

    @property
    def overload(self) -> Overload | None:
        """Where the pool is stuck, when more is asked of it than it can do."""
        return self._members.overload

    def ready(self, name: str) -> bool:
        """Tell whether a chunk that entered now would find its way free."""
        with self._lock:
            # A chunk may wait for this answer: looking after the workers can wait.
            self._desk.take_in()
            self._desk.look(CHECK_S)
            stream = self._streams.named(name)
            entry = self._desk.crew().site.outboxes[stream.grouping.owner[0]]
            free = len(stream.in_flight) < stream.most
            if free and entry.has_room() and len(self._desk.results) < _UNCOLLECTED:
                self._pressure.free(name, time.monotonic_ns())
                return True
            self._pressure.held(name, time.monotonic_ns())
            return False

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
            stream = self._streams.named(name)
            version = self._desk.crew().board.post(stream.index, inputs)
            chunk = stream.enter(version)
            header = Header(
                Kind.ENTER, FRAMES * decode_frames, chunk=chunk,
                deadline_ns=deadline_steady_ns, observation=version,
            )  # fmt: skip
            self._send_in(stream, header)
            return chunk

    def commit(self, name: str, chunk: int, inputs: Mapping[str, npt.NDArray[Any]]) -> None:
        """
        Replace the history that a chunk predicted by what was really observed and executed (E13).

        It takes its turn among the stream's chunks: those that entered before it do not see it,
        those after it do, whatever the plan. It costs about as much as a chunk.

        :param chunk: of this epoch, still in the window of the newest one, or a sink chunk.
        :param inputs: what its chunk was given, and the model's ``commits``.
        :raises EngineError: when the model replaces no history, the chunk is not there any more,
            or the stream is not :meth:`ready`.
        :raises ObservationError: when the inputs do not fit.
        """
        with self._lock:
            stream = self._streams.named(name)
            stream.check_commit(chunk, self.spec)
            if not self.ready(name):
                raise EngineError(f"stream '{name}' must be ready before a commit, and is not")
            version = self._desk.crew().board.post(stream.index, inputs, commit=True)
            deadline_ns = time.monotonic_ns()  # before chunks: those after it wait for it
            header = Header(
                Kind.COMMIT, COMMIT, chunk=chunk, deadline_ns=deadline_ns, observation=version
            )
            self._send_in(stream, header)

    @property
    def renewals(self) -> int:
        """Newer observations that a chunk in flight may be shown; 0 unless conditioning: step."""
        return self.layout.renewals

    def observe(self, name: str, chunk: int, inputs: Mapping[str, npt.NDArray[Any]]) -> int | None:
        """
        Show a newer observation to a chunk in flight, for its next step (E11); does not wait.

        Each chunk is shown its own: inputs may depend on what it is for, as a told delay does.

        :returns: its version, which results name; None when the chunk is out already.
        :raises EngineError: without ``conditioning: step``, or when :attr:`renewals` are used up.
        :raises ObservationError: when the inputs do not fit.
        """
        if not self.renewals:
            raise EngineError("observe needs conditioning 'step', got 'entry'")
        with self._lock:
            crew, stream = self._desk.crew(), self._streams.named(name)
            version = stream.observation_of(chunk)
            return None if version is None else crew.board.renew(stream.index, version, inputs)

    def reset(self, name: str) -> int:
        """Begin the stream's next epoch at once and return it; nothing older comes out."""
        with self._lock:
            crew, stream = self._desk.crew(), self._streams.named(name)
            epoch = stream.restart()
            crew.board.set_era(stream.index, stream.era)
            self._desk.forget(stream)
            self._pressure.forget(name)
            crew.ring()
            return epoch

    def next_result(self, timeout_s: float) -> ChunkResult | None:
        """
        Return the next finished chunk; None when none came in time.

        Under the clean rule a stream becomes ready some time after its chunk came out; that
        returns None at once, so that the next one can enter.

        :raises StreamLost: within a second of the death of a worker, once for each stream that it
            carried, when others go on. Nothing of a lost stream comes out any more.
        :raises WorkerDied: likewise, when none goes on: the pool has ended.
        :raises EngineError: when a worker stands still for ``hop_timeout_s``.
        """
        until_s = time.monotonic() + timeout_s
        while True:
            with self._lock:
                self._desk.take_in()
                if not self._desk.results:
                    self._desk.look()
                if self._streams.untold:
                    raise self._streams.untold.popleft()
                if self._desk.results:
                    return self._desk.results.popleft()[1]
                if self._desk.freed:
                    self._desk.freed = False
                    return None
                crew = self._desk.crew()
            left_s = until_s - time.monotonic()
            if left_s <= 0:
                return None
            crew.wait(min(left_s, CHECK_S))

    def chunk_spans(self, name: str, chunk: int) -> list[Span]:
        """Return what happened to a chunk of the current epoch, in order of start."""
        with self._lock:
            self._desk.look()
            return self.metrics.of_chunk(self._streams.named(name).era, chunk)

    def health(self) -> dict[str, object]:
        """
        Look at the workers.

        :raises WorkerDied: or
        :raises EngineError: as :meth:`next_result`.
        """
        with self._lock:
            self._desk.take_in()
            self._desk.look()
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
            crew = self._desk.close()
            if crew is not None:
                crew.close()

    # Inside; all under the lock.

    def _send_in(self, stream: Stream, header: Header) -> None:
        """Let a chunk or a commit take the stream's next turn."""
        crew, now_ns = self._desk.crew(), time.monotonic_ns()
        entry = stream.grouping.owner[0]
        crew.site.outboxes[entry].send(
            header._replace(
                stream=stream.index, era=stream.era, turn=stream.next_turn, created_ns=now_ns,
                sent_ns=now_ns,
            )
        )  # fmt: skip
        # Those that begin a later step may encode the observation while they wait.
        crew.ring(worker for worker in stream.grouping.entries if worker != entry)
        stream.in_flight.add(stream.next_turn)
        stream.next_turn += 1
        self._pressure.entered(stream.name, now_ns)
