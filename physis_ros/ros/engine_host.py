# SPDX-License-Identifier: Apache-2.0
"""
The engine's life beside the node: loaded in the background, watched, closed, begun again.

Starting takes seconds, and so may opening and closing streams; none of it must keep the node from
answering. No ROS here. The owner polls from one thread; a thread of this module does the waiting.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from concurrent.futures import Future
from queue import SimpleQueue
from typing import Any, TypeVar

from physis_ros.engine.pool import Pool
from physis_ros.errors import EngineError, PhysisError
from physis_ros.ros.host_state import HostState
from physis_ros.session.collector import Collector

# Workers that come up meanwhile end with this process.
CLOSE_S = 1.0
T = TypeVar('T')


class EngineHost:
    """
    One pool and the collector of its chunks. ``was_ready`` says whether it ever worked.

    :param make: makes the pool; refuses a bad configuration at once, before anything is started.
    :param timeout_s: longest time for loading and warming up.
    """

    def __init__(self, make: Callable[[], Pool], timeout_s: float) -> None:
        self.pool = make()
        self.collector = Collector(self.pool)
        self.failure: PhysisError | None = None
        self.was_ready = False
        self._timeout_s = timeout_s
        self._lock = threading.Lock()
        self._state = HostState.LOADING
        self._jobs: SimpleQueue[tuple[Future[Any], Callable[[Pool], Any]] | None] = SimpleQueue()
        self._thread = threading.Thread(target=self._run, name='engine', daemon=True)
        self._thread.start()

    @property
    def state(self) -> HostState:
        """The state now."""
        return self._state

    def submit(self, job: Callable[[Pool], T]) -> Future[T]:
        """
        Have something done with the pool that may take long, after all that was asked for before.

        :returns: what it gives or raises; cancelled when the engine ends before its turn.
        """
        future: Future[T] = Future()
        if self._state is HostState.CLOSED:
            future.cancel()
        else:
            self._jobs.put((future, job))
        return future

    def check(self) -> PhysisError | None:
        """Look at the workers; return what is wrong, None while all is well."""
        if self._state is HostState.READY:
            try:
                self.pool.health()
            except PhysisError as error:
                self.fail(error)
        return self.failure

    def fail(self, error: PhysisError) -> None:
        """Note that the engine is gone."""
        with self._lock:
            if self._state is not HostState.CLOSED:
                self._state, self.failure = HostState.FAILED, error

    def close(self) -> None:
        """End the workers, at whatever point they are; about a second at most."""
        with self._lock:
            self._state = HostState.CLOSED
        until_s = time.monotonic() + CLOSE_S
        self._jobs.put(None)
        self.collector.stop()
        self.pool.close()
        # The start may be between two steps, where there is nothing to close yet.
        while self._thread.is_alive() and time.monotonic() < until_s:
            self._thread.join(0.02)
            self.pool.close()

    def _run(self) -> None:
        """Start the pool, then do what is asked for, until the end."""
        self._load()
        while (asked := self._jobs.get()) is not None:
            future, job = asked
            if self._state is not HostState.READY:
                future.cancel()
            elif future.set_running_or_notify_cancel():
                _do(future, job, self.pool)

    def _load(self) -> None:
        """Start the pool."""
        try:
            self.pool.start(self._timeout_s)
        except PhysisError as error:
            self.fail(error)
            return
        except OSError as error:  # no memory, no descriptors, no room for another process
            self.fail(EngineError(f'the engine cannot be started: {error}'))
            return
        with self._lock:
            if self._state is HostState.LOADING:
                self._state, self.was_ready = HostState.READY, True
                self.collector.start()
                return
        self.pool.close()


def _do(future: Future[T], job: Callable[[Pool], T], pool: Pool) -> None:
    """Do a job and keep what it gives; its own error is for whoever asked."""
    try:
        future.set_result(job(pool))
    except Exception as error:
        future.set_exception(error)
