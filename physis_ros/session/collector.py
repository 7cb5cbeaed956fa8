# SPDX-License-Identifier: Apache-2.0
"""
One thread for each pool that takes finished chunks and hands each to its stream's consumer.

Several producers may share one pool and one collector. Consumers are called in the collector's
thread and must be quick; one that fails keeps its failure to itself.
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import NamedTuple

from physis_ros.errors import EngineError, StreamLost
from physis_ros.session.pool_port import ChunkResult, PoolPort


class Consumer(NamedTuple):
    """
    Where a stream's chunks go.

    :param result: called with each of them.
    :param failure: called once when the stream was lost, or the pool is gone.
    """

    result: Callable[[ChunkResult], None]
    failure: Callable[[EngineError], None]


class Collector:
    """
    Dispatches a pool's results by stream. Thread-safe.

    :param pool: the pool; nobody else may call its ``next_result`` while this runs.
    :param wait_s: longest single wait for a result; bounds how long :meth:`stop` takes.
    """

    def __init__(self, pool: PoolPort, wait_s: float = 0.1) -> None:
        self._pool, self._wait_s = pool, wait_s
        self._lock = threading.Lock()
        self._consumers: dict[str, Consumer] = {}
        self._stopping = threading.Event()
        self._thread: threading.Thread | None = None
        self._failure: EngineError | None = None

    @property
    def failure(self) -> EngineError | None:
        """Why the pool is gone; None while it lives."""
        return self._failure

    def attach(self, stream: str, consumer: Consumer) -> None:
        """
        Send a stream's chunks to a consumer; tells it at once when the pool is gone already.

        :raises EngineError: when the stream has one.
        """
        with self._lock:
            if stream in self._consumers:
                raise EngineError(f"stream '{stream}' has a consumer already")
            self._consumers[stream] = consumer
            failure = self._failure
        if failure is not None:
            consumer.failure(failure)

    def detach(self, stream: str) -> None:
        """Send a stream's chunks nowhere; a call under way may still end."""
        with self._lock:
            self._consumers.pop(stream, None)

    def start(self) -> None:
        """Begin collecting; does nothing when it has begun."""
        if self._thread is None:
            self._thread = threading.Thread(target=self._run, name='collector', daemon=True)
            self._thread.start()

    def stop(self, timeout_s: float = 1.0) -> bool:
        """
        End collecting; must not be called from a consumer.

        :returns: whether the thread has ended within ``timeout_s``.
        """
        self._stopping.set()
        if self._thread is None:
            return True
        self._thread.join(timeout_s)
        return not self._thread.is_alive()

    def _run(self) -> None:
        while not self._stopping.is_set():
            try:
                result = self._pool.next_result(self._wait_s)
            except StreamLost as lost:
                self._lose(lost)
                continue
            except EngineError as error:
                self._fail(error)
                return
            if result is not None:
                self._dispatch(result)

    def _dispatch(self, result: ChunkResult) -> None:
        """Hand a chunk on; that of a stream to which nobody listens any more is dropped."""
        with self._lock:
            consumer = self._consumers.get(result.stream)
        if consumer is not None:
            consumer.result(result)

    def _lose(self, lost: StreamLost) -> None:
        """Tell a stream's consumer that it was lost; the others go on."""
        with self._lock:
            consumer = self._consumers.get(lost.stream)
        if consumer is not None:
            consumer.failure(lost)

    def _fail(self, error: EngineError) -> None:
        with self._lock:
            self._failure = error
            consumers = list(self._consumers.values())
        for consumer in consumers:
            consumer.failure(error)
