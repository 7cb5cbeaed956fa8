# SPDX-License-Identifier: Apache-2.0
"""Percentiles of durations in constant memory: counts in buckets 2 % apart."""

from __future__ import annotations

import math

import numpy as np

_GROWTH = math.log(1.02)
_BUCKETS = 1400  # 1 ns to 1000 s


class Sketch:
    """Counts durations [ns] and tells their percentiles within 1 %."""

    def __init__(self) -> None:
        self._counts = np.zeros(_BUCKETS, dtype=np.int64)
        self.count, self.total_ns, self.max_ns = 0, 0, 0

    def add(self, duration_ns: int) -> None:
        """Count one; negative counts as 0."""
        duration_ns = max(0, duration_ns)
        index = int(math.log(duration_ns) / _GROWTH) + 1 if duration_ns > 0 else 0
        self._counts[min(index, _BUCKETS - 1)] += 1
        self.count += 1
        self.total_ns += duration_ns
        self.max_ns = max(self.max_ns, duration_ns)

    def merge(self, other: Sketch) -> None:
        """Take the other's counts in."""
        self._counts += other._counts
        self.count += other.count
        self.total_ns += other.total_ns
        self.max_ns = max(self.max_ns, other.max_ns)

    def percentile_ns(self, percent: float) -> float:
        """Return the duration that ``percent`` of all do not exceed; nan before the first."""
        if not self.count:
            return math.nan
        rank = max(1, math.ceil(self.count * percent / 100))
        index = int(np.searchsorted(np.cumsum(self._counts), rank))
        return min(math.exp((index - 0.5) * _GROWTH), float(self.max_ns)) if index else 0.0

    @property
    def mean_ns(self) -> float:
        """The mean; nan before the first."""
        return self.total_ns / self.count if self.count else math.nan
