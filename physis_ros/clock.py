# SPDX-License-Identifier: Apache-2.0
"""
Clocks: the only place where this package asks what time it is.

Everything that needs "now" takes a :class:`Clock`, so that tests, replay and the robot run the
same code. Times are integer nanoseconds. The ROS clock lives in ``ros/``, at the rim.
"""

from __future__ import annotations

import time
from typing import Protocol


class Clock(Protocol):
    """Something that tells the time in integer nanoseconds."""

    def now_ns(self) -> int:
        """Return the present time [ns]; only differences mean anything for a steady clock."""


class SteadyClock:
    """``CLOCK_MONOTONIC``: never jumps, the same in every process of one machine."""

    def now_ns(self) -> int:
        """Return nanoseconds since an unspecified start."""
        return time.monotonic_ns()


class ManualClock:
    """
    A clock that moves only when told: tests and replay.

    :param start_ns: the first time it shows.
    """

    def __init__(self, start_ns: int = 0) -> None:
        self._now_ns = start_ns

    def now_ns(self) -> int:
        """Return the time last set."""
        return self._now_ns

    def advance(self, duration_ns: int) -> None:
        """Move by ``duration_ns``; negative moves back, as a looped bag does."""
        self._now_ns += duration_ns

    def set(self, now_ns: int) -> None:
        """Show ``now_ns`` from here on."""
        self._now_ns = now_ns


# A stream clock that gains this much on the steady clock at once was set, or its bag wound on.
STEP_NS = 1_000_000_000


class ClockSteps:
    """
    Tells when a stream clock was set ahead: it gained a second or more on the steady clock.

    A process that did not run for a while loses on both clocks alike, which is no step. Steps
    back need no second clock. Pure: fed live and from recordings.
    """

    def __init__(self) -> None:
        self._last: tuple[int, int] | None = None

    def ahead_ns(self, now_ns: int, steady_ns: int) -> int:
        """Return by how much the clock was set ahead since the last call [ns]; 0 when not."""
        last, self._last = self._last, (now_ns, steady_ns)
        if last is None:
            return 0
        gained_ns = (now_ns - last[0]) - (steady_ns - last[1])
        return gained_ns if gained_ns >= STEP_NS else 0


def system_minus_steady_ns(samples: int = 9) -> int:
    """
    Return system time minus steady time [ns].

    The tightest of several readings: whoever is interrupted between two clocks takes the pause
    for a difference between them.
    """
    best_ns, offset_ns = None, 0
    for _ in range(samples):
        before_ns, system_ns, after_ns = time.monotonic_ns(), time.time_ns(), time.monotonic_ns()
        if best_ns is None or after_ns - before_ns < best_ns:
            best_ns, offset_ns = after_ns - before_ns, system_ns - (before_ns + after_ns) // 2
    return offset_ns
