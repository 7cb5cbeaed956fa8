# SPDX-License-Identifier: Apache-2.0
"""
Times for a recording, which readers sort by: they go on when the system clock is set back.

Pure; the clocks are arguments.
"""

from __future__ import annotations

# What the clock is disciplined by, and what it reads apart, is less.
LEAST_NS = 1_000_000


class LogTime:
    """
    System time that runs on.

    :param now_ns: of the system.
    :param offset_ns: system minus steady time.
    """

    def __init__(self, now_ns: int, offset_ns: int) -> None:
        self._now_ns, self._offset_ns = now_ns, offset_ns
        self._lead_ns = self._back_ns = 0

    def look(self, now_ns: int, offset_ns: int) -> None:
        """Note what the clocks show."""
        back_ns = self._offset_ns - offset_ns
        if back_ns > LEAST_NS:
            self._back_ns = back_ns
            self._lead_ns += back_ns
        self._now_ns, self._offset_ns = now_ns, offset_ns

    @property
    def now_ns(self) -> int:
        """The time of the last look."""
        return self._now_ns + self._lead_ns

    def of(self, received_ns: int) -> int:
        """Return the time of what came lately, by the system clock of then."""
        # From ahead of now: it had come before the clock was set.
        before = self._back_ns > 0 and received_ns - self._now_ns > self._back_ns // 2
        return received_ns + self._lead_ns - (self._back_ns if before else 0)
