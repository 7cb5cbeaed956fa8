# SPDX-License-Identifier: Apache-2.0
"""How long to train, and with what learning rate at which part of it."""

from __future__ import annotations

import math
from dataclasses import dataclass

from physis_ros.errors import ParameterError


@dataclass(frozen=True)
class Budget:
    """
    When training ends: at whichever limit comes first.

    :param seconds: of training, earlier runs included; None: no limit.
    :param iterations: optimiser steps; None: no limit.
    """

    seconds: float | None = None
    iterations: int | None = None

    def __post_init__(self) -> None:
        """Refuse an endless or an empty run."""
        if self.seconds is None and self.iterations is None:
            raise ParameterError('minutes', 'given when iterations are not', None)
        for name in ('seconds', 'iterations'):
            value = getattr(self, name)
            if value is not None and value <= 0:
                raise ParameterError(name, 'greater than 0', value)

    def part(self, seconds: float, iteration: int) -> float:
        """Return how much of the budget is used up, 0 to 1."""
        by_time = 0.0 if self.seconds is None else seconds / self.seconds
        by_count = 0.0 if self.iterations is None else iteration / self.iterations
        return min(1.0, max(by_time, by_count))


@dataclass(frozen=True)
class LearningRate:
    """
    Warm-up by iterations, then a cosine over the budget.

    :param peak: highest rate.
    :param floor: lowest rate, at the end, as a part of ``peak``.
    :param warmup: iterations until the peak.
    """

    peak: float = 1.0e-3
    floor: float = 0.02
    warmup: int = 200

    def at(self, part: float, iteration: int) -> float:
        """Return the rate when that part of the budget is used up."""
        cosine = (1 + math.cos(math.pi * part)) / 2
        warm = min(1.0, (iteration + 1) / self.warmup)
        return self.peak * warm * (self.floor + (1 - self.floor) * cosine)
