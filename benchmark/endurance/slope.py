# SPDX-License-Identifier: Apache-2.0
"""Whether a quantity grows: the slope over time with its confidence interval."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from scipy import stats

CONFIDENCE = 0.95
# Samples follow each other; means of this many blocks are taken for independent.
BLOCKS = 20


@dataclass(frozen=True)
class Slope:
    """
    A straight line through samples.

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
    Fit a line to the means of 20 blocks of the samples (least squares, Student's t).

    :raises ValueError: below two samples a block.
    """
    if len(hours) < 2 * BLOCKS:
        raise ValueError(f'samples must be at least {2 * BLOCKS}, got {len(hours)}')
    blocks = np.array_split(np.stack([hours, values]), BLOCKS, axis=1)
    means = np.array([block.mean(axis=1) for block in blocks])
    if np.ptp(means[:, 1]) == 0.0:
        level = float(means[0, 1])
        return Slope(0.0, 0.0, 0.0, level, level, len(hours))
    fit = stats.linregress(means[:, 0], means[:, 1])
    spread = float(stats.t.ppf((1 + CONFIDENCE) / 2, BLOCKS - 2) * fit.stderr)
    found = float(fit.slope)
    return Slope(
        found, found - spread, found + spread, float(means[0, 1]), float(means[-1, 1]), len(hours)
    )
