# SPDX-License-Identifier: Apache-2.0
"""
How far ahead a chunk is planned: the delay the model is told.

The chunk's first action is meant for a whole number of control steps after the observation, late
enough that the chunk is there by then, early enough that nothing is wasted. Pure.
"""

from __future__ import annotations

import math
from collections import deque
from typing import NamedTuple

from physis_ros.errors import ParameterError


class ToldDelay(NamedTuple):
    """
    Control steps between the observation and the first action.

    :param steps: what the model is told.
    :param clamped: the wish lay outside what the model was trained for.
    """

    steps: int
    clamped: bool


def told_delay(
    age_ns: int, response_ns: int, margin_ns: int, dt_ns: int, max_steps: int
) -> ToldDelay:
    """
    Plan the first action for when the chunk will be in the player's hands.

    :param age_ns: of the observation at entry; negative under clock skew.
    :param response_ns: expected time from entry to publishing.
    :param margin_ns: allowed for the hand-over.
    :param max_steps: the most the model was trained for.
    """
    wanted = -(-(age_ns + response_ns + margin_ns) // dt_ns)
    steps = min(max(wanted, 0), max_steps)
    return ToldDelay(steps, steps != wanted)


class ResponseEstimate:
    """
    A running high percentile of the last responses. Single-threaded.

    :param start_ns: the answer before the first response.
    :param size: how many responses are looked back on.
    :param fraction: of them that were no slower than the answer.
    """

    def __init__(self, start_ns: int, size: int = 32, fraction: float = 0.9) -> None:
        if start_ns < 0:
            raise ParameterError('expected_response_ns', '>= 0', start_ns)
        self._start_ns, self._fraction = start_ns, fraction
        self._recent_ns: deque[int] = deque(maxlen=size)

    def add(self, response_ns: int) -> None:
        """Take the next response."""
        self._recent_ns.append(response_ns)

    @property
    def value_ns(self) -> int:
        """The percentile (nearest rank)."""
        if not self._recent_ns:
            return self._start_ns
        ordered = sorted(self._recent_ns)
        return ordered[math.ceil(self._fraction * len(ordered)) - 1]
