# SPDX-License-Identifier: Apache-2.0
"""
When a chunk enters the pipe (E7): pure policy on stream time.

Beats come every period; a chunk enters on its beat with the newest observation. Nothing queues: a
late pipe or a stall loses beats, never piles them up. Knows no threads, no pool, no model.
"""

from __future__ import annotations

from collections import deque
from statistics import median_low
from typing import NamedTuple

from physis_ros.errors import ParameterError


class Newest(NamedTuple):
    """The newest frame: when it was taken and when it came."""

    stamp_ns: int
    receive_ns: int


class Pacer:
    """
    Beats and the frames used on them. Single-threaded.

    :param period_ns: promised interval between chunks, > 0.
    """

    def __init__(self, period_ns: int) -> None:
        if period_ns < 1:
            raise ParameterError('period_ns', '>= 1', period_ns)
        self.period_ns = period_ns
        self._beat_ns: int | None = None
        self._used_ns: int | None = None
        self.skipped = 0

    @property
    def beat_ns(self) -> int | None:
        """The beat waited for; None until the first entry."""
        return self._beat_ns

    def wait_ns(self, now_ns: int, newest: Newest | None, interval_ns: int) -> int | None:
        """
        Say when to enter.

        The first frame that comes at or after the beat less half a camera interval is used; when
        none has come one camera interval after the beat, the newest unused one is.

        :param interval_ns: camera interval; 0 when not known yet.
        :returns: 0 to enter now, else how long to wait unless a frame comes before; None when
            nothing can be done before a new frame comes.
        """
        if newest is None or newest.stamp_ns == self._used_ns:
            return None
        if self._beat_ns is None:
            return 0
        opens_ns = self._beat_ns - interval_ns // 2
        if now_ns < opens_ns:
            return opens_ns - now_ns
        if newest.receive_ns >= opens_ns:
            return 0
        return max(0, self._beat_ns + interval_ns - now_ns)

    def entered(self, now_ns: int, stamp_ns: int) -> None:
        """
        Note an entry and move to the next beat, at least half a period ahead.

        :param stamp_ns: capture time of the frame used; it is not used again.
        """
        beat_ns = now_ns if self._beat_ns is None else self._beat_ns
        late_ns = now_ns - beat_ns
        lost = max(0, (late_ns + self.period_ns // 2) // self.period_ns)
        self.skipped += lost
        self._beat_ns = beat_ns + (lost + 1) * self.period_ns
        self._used_ns = stamp_ns

    def reset(self) -> None:
        """Start over: the next frame enters at once (new epoch, resumed)."""
        self._beat_ns = self._used_ns = None


class IntervalEstimate:
    """
    The camera's interval: the median of the last differences of stamps. Single-threaded.

    :param size: how many differences.
    """

    def __init__(self, size: int = 9) -> None:
        self._differences_ns: deque[int] = deque(maxlen=size)
        self._last_ns: int | None = None

    def add(self, stamp_ns: int) -> None:
        """Take the next frame's stamp."""
        if self._last_ns is not None and stamp_ns > self._last_ns:
            self._differences_ns.append(stamp_ns - self._last_ns)
        self._last_ns = stamp_ns

    @property
    def value_ns(self) -> int:
        """The interval, 0 before two frames have come."""
        return median_low(self._differences_ns) if self._differences_ns else 0
