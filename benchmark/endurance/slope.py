# SPDX-License-Identifier: Apache-2.0
"""Whether a quantity grows or drifts: the slope over time with its confidence interval."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
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

    def level(self, share: float) -> bool:
        """
        Whether it cannot be told from zero, or goes down, and that says something.

        :param share: of the first value; growth of so much an hour must be ruled out, or an
            interval would only have to be wide to pass.
        """
        return self.low_per_hour <= 0.0 and self.high_per_hour <= share * self.first

    def steady(self, share: float) -> bool:
        """Whether a drift of so much of the first value an hour is ruled out, up and down."""
        return max(-self.low_per_hour, self.high_per_hour) <= share * self.first


def growth(hours: Sequence[float], values: Sequence[float]) -> Slope:
    """
    Return the mean growth from block to block of 20 blocks of samples (Student's t).

    Memory is a sum of what was taken and given back, so its samples are not independent of each
    other, but what it grows by is: a line through them would take a single page for a trend.

    :raises ValueError: below two samples a block.
    """
    means = _blocks(hours, values)
    passed, grown = np.diff(means, axis=0).T
    rates = grown / passed
    error = float(rates.std(ddof=1)) / math.sqrt(len(rates))
    return _slope(float(rates.mean()), error, len(rates) - 1, means, len(hours))


def drift(hours: Sequence[float], values: Sequence[float]) -> Slope:
    """
    Return the slope of a line through 20 blocks of samples (least squares, Student's t).

    For what is measured anew each time, such as an age: its blocks are independent of each other.

    :raises ValueError: below two samples a block.
    """
    means = _blocks(hours, values)
    line = stats.linregress(means[:, 0], means[:, 1])
    return _slope(float(line.slope), float(line.stderr), BLOCKS - 2, means, len(hours))


def _blocks(hours: Sequence[float], values: Sequence[float]) -> npt.NDArray[np.float64]:
    """Return mean hour and value of each block [20, 2]."""
    if len(hours) < 2 * BLOCKS:
        raise ValueError(f'samples must be at least {2 * BLOCKS}, got {len(hours)}')
    blocks = np.array_split(np.stack([hours, values]), BLOCKS, axis=1)
    return np.array([block.mean(axis=1) for block in blocks])


def _slope(
    found: float, error: float, freedom: int, means: npt.NDArray[np.float64], n: int
) -> Slope:
    """Return a slope with the interval that its standard error gives."""
    spread = float(stats.t.ppf((1 + CONFIDENCE) / 2, freedom)) * error
    return Slope(found, found - spread, found + spread, float(means[0, 1]), float(means[-1, 1]), n)
