# SPDX-License-Identifier: Apache-2.0
"""
Runs samples in virtual time, and counts what follows as more of the same.

With jitter no state comes twice, but between two events a pool soon goes on alike. From each event
on one sample is run for it to settle and one to be counted again and again, up to the next event.
Samples are multiples of all periods, or nearly so: beats keep their places.
"""

from __future__ import annotations

from collections.abc import Collection
from math import lcm
from typing import TYPE_CHECKING

import numpy as np

from physis_ros.engine.steady import NEVER, Counts, counts, repeat

if TYPE_CHECKING:
    from physis_ros.engine.virtual import VirtualPool

# How many lengths are looked at, and how far off a period one may be, as a share of it.
_TRIED, _NEAR = 10_000, 0.01


class Sample:
    """
    Two samples from now on; for what is shorter than three nothing is skipped.

    ``next_ns`` is when to look next: before anything of that instant has happened.

    :param least_ns: of one sample.
    """

    def __init__(self, pool: VirtualPool, until_ns: int, least_ns: int) -> None:
        self._pool, self._until_ns = pool, until_ns
        periods = {stream.period_ns for stream in pool.streams.values()} | {pool.sensor_ns or 1}
        self._span_ns = span_ns(periods, least_ns, (until_ns - pool.now_ns) // 3)
        self._before: Counts | None = None
        self.next_ns = pool.now_ns + self._span_ns if self._span_ns else NEVER

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


def span_ns(periods: Collection[int], least_ns: int, most_ns: int) -> int:
    """
    Return the length of a sample; 0 when none fits.

    The least whole number of all periods. Where that is too long, as with 30 Hz and 10 Hz in whole
    nanoseconds, the first number of the longest that is whole to a hundredth for all others.
    """
    stride_ns = lcm(*periods)
    whole_ns = -(-least_ns // stride_ns) * stride_ns
    if whole_ns <= most_ns:
        return whole_ns
    longest_ns = max(periods)
    first = -(-least_ns // longest_ns)
    count = min(_TRIED, most_ns // longest_ns - first + 1)
    spans = longest_ns * np.arange(first, first + max(0, count), dtype=np.int64)
    each = np.array(sorted(periods))
    over = spans[:, None] % each
    near = spans[(np.minimum(over, each - over) <= _NEAR * each).all(axis=1)]
    return int(near[0]) if len(near) else 0
