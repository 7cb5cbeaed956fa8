# SPDX-License-Identifier: Apache-2.0
"""
Runs samples in virtual time, and counts what follows as more of the same.

With jitter no state comes twice, but between two events a pool soon goes on alike. From each event
on one sample is run for it to settle and one to be counted again and again, up to the next event.
Samples are multiples of all periods: beats keep their places.
"""

from __future__ import annotations

from math import lcm
from typing import TYPE_CHECKING

from physis_ros.engine.steady import NEVER, Counts, counts, repeat

if TYPE_CHECKING:
    from physis_ros.engine.virtual import VirtualPool


class Sample:
    """
    Two samples from now on; for what is shorter nothing is skipped.

    ``next_ns`` is when to look next: before anything of that instant has happened.

    :param least_ns: of one sample.
    """

    def __init__(self, pool: VirtualPool, until_ns: int, least_ns: int) -> None:
        self._pool, self._until_ns = pool, until_ns
        stride_ns = lcm(*(s.period_ns for s in pool.streams.values()), pool.sensor_ns or 1)
        self._span_ns = -(-least_ns // stride_ns) * stride_ns
        self._before: Counts | None = None
        fits = pool.now_ns + 3 * self._span_ns <= until_ns
        self.next_ns = pool.now_ns + self._span_ns if fits else NEVER

    def look(self) -> None:
        """Begin the sample that counts; at its end, skip what it stands for."""
        now_ns, pool = self.next_ns, self._pool
        pool.settle(now_ns)
        if self._before is None:
            self._before = counts(pool)
            self.next_ns += self._span_ns
            return
        times = (self._until_ns - now_ns) // self._span_ns
        repeat(pool, now_ns, self._span_ns, times, self._before)
        pool.sampled_ns += times * self._span_ns
        self.next_ns = NEVER
