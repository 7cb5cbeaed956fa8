# SPDX-License-Identifier: Apache-2.0
"""
Percentiles in constant memory.

A thin face on DDSketch (Masson, Rim and Lee, VLDB 2019): quantiles within 0.5 % of the value,
mergeable, at most 2048 bins a sign, which is 9 decades.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

from ddsketch.ddsketch import LogCollapsingLowestDenseDDSketch

RELATIVE_ACCURACY = 0.005
ENOUGH_FOR_P999 = 1000
# One absurd value must not push the bins of all others together.
GREATEST = 1e7


@dataclass(frozen=True)
class Quantiles:
    """
    A distribution in a few figures; all None when nothing was measured.

    :param n: how many values; ``p999`` is None below 1000 of them.
    """

    n: int = 0
    p50: float | None = None
    p90: float | None = None
    p99: float | None = None
    p999: float | None = None
    max: float | None = None
    mean: float | None = None


class Sketch:
    """A distribution being measured. Single-threaded."""

    __slots__ = ('_sketch', 'largest')

    def __init__(self) -> None:
        self._sketch = LogCollapsingLowestDenseDDSketch(relative_accuracy=RELATIVE_ACCURACY)
        self.largest = -math.inf

    @property
    def n(self) -> int:
        """How many values it has seen."""
        return int(self._sketch.count)

    def add(self, value: float) -> None:
        """Take one finite value; one beyond 1e7 counts as 1e7 in the quantiles."""
        self._sketch.add(min(max(value, -GREATEST), GREATEST))
        if value > self.largest:
            self.largest = value

    def merge(self, other: Sketch) -> None:
        """Take everything that ``other`` has seen."""
        self._sketch.merge(other._sketch)
        self.largest = max(self.largest, other.largest)

    def quantile(self, fraction: float) -> float | None:
        """Return the value below which ``fraction`` of the values lie; None when empty."""
        value = self._sketch.get_quantile_value(fraction)
        return None if value is None else min(float(value), self.largest)

    def figures(self) -> Quantiles:
        """Return the figures to publish."""
        if not self.n:
            return Quantiles()
        return Quantiles(
            n=self.n,
            p50=self.quantile(0.5),
            p90=self.quantile(0.9),
            p99=self.quantile(0.99),
            p999=self.quantile(0.999) if self.n >= ENOUGH_FOR_P999 else None,
            max=self.largest,
            mean=float(self._sketch.avg),
        )
