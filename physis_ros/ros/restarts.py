# SPDX-License-Identifier: Apache-2.0
"""
Whether an engine that failed shall be loaded again. Pure; time is an argument, on any clock.

A worker may die by bad luck; one that dies again and again, or that refuses its configuration,
will not be better the next time. Deaths are forgotten once the stream has run long enough.
"""

from __future__ import annotations

from physis_ros.errors import PhysisError, WorkerDied, is_configuration

MOST = 3
FORGET_NS = 300_000_000_000


class Restarts:
    """
    The restarts of one engine. Single-threaded.

    :param allowed: whether the user wants any.
    """

    def __init__(self, allowed: bool) -> None:
        self._allowed = allowed
        self._running_ns: int | None = None
        self.count = 0

    def may(self, failure: PhysisError, was_ready: bool) -> bool:
        """
        Tell whether loading again may help.

        :param was_ready: whether the engine that failed had come up.
        """
        if not self._allowed or not isinstance(failure, WorkerDied):
            return False
        if not was_ready and is_configuration(failure):
            return False
        by_signal = failure.exitcode is not None and failure.exitcode < 0
        return (by_signal or was_ready) and self.count < MOST

    def again(self) -> None:
        """Note that the engine is loaded again."""
        self.count, self._running_ns = self.count + 1, None

    def look(self, running: bool, now_ns: int) -> None:
        """Note whether the stream runs; after five minutes without a break all is forgotten."""
        if not running:
            self._running_ns = None
        elif self._running_ns is None:
            self._running_ns = now_ns
        elif now_ns - self._running_ns >= FORGET_NS:
            self.count = 0

    def forget(self) -> None:
        """Begin anew."""
        self.count, self._running_ns = 0, None
