# SPDX-License-Identifier: Apache-2.0
"""
The engine's life beside the node: loaded in the background, watched, closed, begun again.

Starting takes seconds and must not keep the node from answering. No ROS here. The owner polls from
one thread; a thread of this module does the waiting.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from enum import Enum

from physis_ros.engine.pool import Pool
from physis_ros.errors import EngineError, PhysisError

CLOSE_S = 2.0


class HostState(Enum):
    """Where the engine is in its life."""

    LOADING = 'loading'
    READY = 'ready'
    FAILED = 'failed'
    CLOSED = 'closed'


class EngineHost:
    """
    One pool with one open stream. ``was_ready`` says whether it ever worked.

    :param make: makes the pool; refuses a bad configuration at once, before anything is started.
    :param stream: to open.
    :param timeout_s: longest time for loading and warming up.
    """

    def __init__(self, make: Callable[[], Pool], stream: str, timeout_s: float) -> None:
        self.pool = make()
        self.stream = stream
        self.failure: PhysisError | None = None
        self.was_ready = False
        self._timeout_s = timeout_s
        self._lock = threading.Lock()
        self._state = HostState.LOADING
        self._thread = threading.Thread(target=self._load, name='engine start', daemon=True)
        self._thread.start()

    @property
    def state(self) -> HostState:
        """The state now."""
        return self._state

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
        self.pool.close()
        # The start may be between two steps, where there is nothing to close yet.
        while self._thread.is_alive() and time.monotonic() < until_s:
            self._thread.join(0.02)
            self.pool.close()

    def _load(self) -> None:
        """Start the pool and open the stream."""
        try:
            self.pool.start(self._timeout_s)
            self.pool.open_stream(self.stream)
        except PhysisError as error:
            self.fail(error)
            return
        except OSError as error:  # no memory, no descriptors, no room for another process
            self.fail(EngineError(f'the engine cannot be started: {error}'))
            return
        with self._lock:
            if self._state is HostState.LOADING:
                self._state, self.was_ready = HostState.READY, True
                return
        self.pool.close()
