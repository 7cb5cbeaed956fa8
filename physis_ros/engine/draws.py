# SPDX-License-Identifier: Apache-2.0
"""Factors on the times of a device's batches, drawn many at once, in the order of its batches."""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np

_AT_ONCE = 4096


@dataclass(frozen=True)
class Jitter:
    """
    How much the time of a batch varies.

    :param spread: standard deviation of the logarithm of its factor.
    """

    seed: int
    spread: float


@dataclass(eq=False)
class Draws:
    """
    The sequence of one device.

    Its n-th batch has the same factor whatever the other devices do, and whoever looks ahead
    takes nothing from anybody.
    """

    jitter: Jitter
    device: int
    _factors: list[float] = field(default_factory=list)
    _at: int = 0

    def __post_init__(self) -> None:
        """Begin the sequence."""
        self._chance = np.random.default_rng((self.jitter.seed, self.device))

    def ahead(self, count: int) -> list[float]:
        """Return the factors of the next batches; they stay the next ones until passed."""
        end = self._at + count
        if end > len(self._factors):
            normal = self._chance.standard_normal(max(_AT_ONCE, count))
            more: list[float] = np.exp(self.jitter.spread * normal).tolist()
            self._factors = self._factors[self._at :] + more
            self._at, end = 0, count
        return self._factors[self._at : end]

    def passed(self, count: int) -> None:
        """Go on by so many batches."""
        self._at += count
