# SPDX-License-Identifier: Apache-2.0
"""Whether a quantity grows: the slope over time with its confidence interval."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from scipy import stats

CONFIDENCE = 0.95
BLOCKS = 20


@dataclass(frozen=True)
class Slope:
    """
    How a quantity grew.

    :param per_hour: units of the samples per hour.
    :param low_per_hour: lower end of the 95 % confidence interval; ``high_per_hour`` the upper.
    :param first: mean of the first block; ``last`` of the last.
    :param n: samples.
    """

    per_hour: float
    low_per_hour: float
    high_per_hour: float
    first: float
    last: float
    n: int

    @property
    def level(self) -> bool:
        """Whether the slope cannot be told from zero, or it goes down."""
        return self.low_per_hour <= 0.0


def slope(hours: Sequence[float], values: Sequence[float]) -> Slope:
    """
    Return the mean growth from block to block of 20 blocks of samples (Student's t).

    Memory is a sum of what was taken and given back, so its samples are not independent of each
    other, but what it grows by is: a line through them would take a single page for a trend.

    :raises ValueError: below two samples a block.
    """
    if len(hours) < 2 * BLOCKS:
        raise ValueError(f'samples must be at least {2 * BLOCKS}, got {len(hours)}')
    blocks = np.array_split(np.stack([hours, values]), BLOCKS, axis=1)
    means = np.array([block.mean(axis=1) for block in blocks])
    passed, grown = np.diff(means, axis=0).T
    rates = grown / passed
    found = float(rates.mean())
    error = float(rates.std(ddof=1)) / math.sqrt(len(rates))
    spread = float(stats.t.ppf((1 + CONFIDENCE) / 2, len(rates) - 1)) * error
    return Slope(
        found, found - spread, found + spread, float(means[0, 1]), float(means[-1, 1]), len(hours)
    )
