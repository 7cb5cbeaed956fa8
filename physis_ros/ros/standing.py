# SPDX-License-Identifier: Apache-2.0
"""
What is the matter for longer than a moment, for the log. Pure; time is an argument, steady clock.

Whoever looks at a terminal sees no diagnostics: why a robot does not move must stand there too,
but neither each passing trouble nor the same one all the time.
"""

from __future__ import annotations

from physis_ros.ros.diagnostics import Condition, Level

PATIENCE_NS = 3_000_000_000
REPEAT_NS = 10_000_000_000


class Standing:
    """Decides when a condition is worth a line."""

    def __init__(self) -> None:
        self._name, self._since_ns = '', 0
        # The trouble that was said last, and when; empty when that is over, and said to be.
        self._said, self._said_ns = '', 0

    def look(self, condition: Condition, now_ns: int) -> Condition | None:
        """
        Return what is to be said now: trouble that stands, or that all is well again.

        :param condition: how it is, whenever that is known.
        """
        if condition.name != self._name:
            self._name, self._since_ns = condition.name, now_ns
        if now_ns - self._since_ns < PATIENCE_NS:
            return None
        if condition.level is Level.OK:
            was, self._said = self._said, ''
            return condition if was else None
        if condition.name == self._said and now_ns - self._said_ns < REPEAT_NS:
            return None
        self._said, self._said_ns = condition.name, now_ns
        return condition
