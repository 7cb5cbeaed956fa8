# SPDX-License-Identifier: Apache-2.0
"""How long a batch takes on one worker, learned while it runs; what slack is reckoned with."""

from __future__ import annotations

from bisect import bisect_left

_SHARE = 0.05


class Pace:
    """
    A running mean of the time of one block's batch, by its number of rows. Single-threaded.

    Sizes that have not run yet are told from those that have: a larger batch is taken to cost as
    many times more as it has more rows, a smaller one to cost the same.
    """

    def __init__(self) -> None:
        self._mean_ns: dict[int, float] = {}
        self._sizes: list[int] = []

    def learn(self, rows: int, spent_ns: int) -> None:
        """Take the time of a batch."""
        before_ns = self._mean_ns.get(rows)
        if before_ns is None:
            self._mean_ns[rows] = float(spent_ns)
            self._sizes = sorted(self._mean_ns)
            return
        self._mean_ns[rows] = before_ns + _SHARE * (spent_ns - before_ns)

    def batch_ns(self, rows: int) -> float:
        """Return the expected time of a batch; 0 before anything has run."""
        known_ns = self._mean_ns.get(rows)
        if known_ns is not None or not self._sizes:
            return known_ns or 0.0
        place = bisect_left(self._sizes, rows)
        if place < len(self._sizes):
            return self._mean_ns[self._sizes[place]]
        largest = self._sizes[-1]
        return self._mean_ns[largest] * rows / largest
