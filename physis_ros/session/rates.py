# SPDX-License-Identifier: Apache-2.0
"""How often something happened lately, in stream time. Constant memory."""

from __future__ import annotations

from collections import deque


class RateMeter:
    """
    Events over a sliding window. Single-threaded.

    :param window_ns: what counts as lately.
    :param size: most events kept; above ``size`` events in a window the rate is that of the last.
    """

    def __init__(self, window_ns: int = 2_000_000_000, size: int = 1024) -> None:
        self._window_ns = window_ns
        self._events_ns: deque[int] = deque(maxlen=size)

    def add(self, now_ns: int) -> None:
        """Note an event."""
        self._events_ns.append(now_ns)

    def clear(self) -> None:
        """Forget all events (clock jump)."""
        self._events_ns.clear()

    def hz(self, now_ns: int) -> float:
        """Return events per second of stream time; 0 below two events in the window."""
        while self._events_ns and self._events_ns[0] < now_ns - self._window_ns:
            self._events_ns.popleft()
        if len(self._events_ns) < 2:
            return 0.0
        span_ns = self._events_ns[-1] - self._events_ns[0]
        return (len(self._events_ns) - 1) * 1e9 / span_ns if span_ns > 0 else 0.0
