# SPDX-License-Identifier: Apache-2.0
"""How much of its time each worker computes, between two looks. Pure."""

from __future__ import annotations

import math
from collections.abc import Mapping


class BusyShare:
    """Turns times that only grow into shares. Single-threaded."""

    def __init__(self) -> None:
        self._looked_ns = 0
        self._busy_ns: dict[int, int] = {}

    def since(self, now_ns: int, busy_ns: Mapping[int, int], workers: int) -> tuple[float, ...]:
        """
        Return the share of each worker since the last look, in 0..1; NaN where nothing is known.

        :param now_ns: steady clock.
        :param busy_ns: of each worker so far; less than at the last look when it is a new one.
        """
        passed_ns, before = now_ns - self._looked_ns, self._busy_ns
        self._looked_ns = now_ns
        self._busy_ns = {worker: busy_ns.get(worker, 0) for worker in range(workers)}
        return tuple(
            _share(spent_ns - before.get(worker, spent_ns + 1), passed_ns)
            for worker, spent_ns in self._busy_ns.items()
        )


def _share(spent_ns: int, passed_ns: int) -> float:
    """Return a share; NaN when the time went back or none has passed."""
    if spent_ns < 0 or passed_ns <= 0:
        return math.nan
    return min(spent_ns / passed_ns, 1.0)
