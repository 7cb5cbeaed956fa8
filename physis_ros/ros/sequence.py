# SPDX-License-Identifier: Apache-2.0
"""
What of a topic never came, by the numbers that its publisher gives to its messages.

The middleware tells of messages that were lost on their way, but not of those that it dropped
because newer ones came before anybody took them.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable
from typing import Any


class Sequence:
    """Counts messages that never came; while there is one publisher, as numbers bear no name."""

    def __init__(self) -> None:
        self.lost = 0
        self._alone = True
        self._next: int | None = None

    def publishers(self, count: int) -> None:
        """Note that a publisher came or went; the first one's messages may be here before this."""
        if count != 1 or not self._alone:
            self._next = None
        self._alone = count <= 1

    def came(self, info: Any) -> int:
        """
        Note a message; return how many before it never came.

        :param info: what the middleware says of it; without a number nothing can be told.
        """
        number = info['publication_sequence_number']
        if not self._alone or number is None:
            return 0
        missing = 0 if self._next is None else max(number - self._next, 0)
        self._next = number + 1
        self.lost += missing
        return missing


def informed(callback: Callable[[Any], None], note: Callable[[Any], object]) -> Any:
    """
    Return a callback for a subscription that also notes the information about each message.

    rclpy looks at the signature whether a callback wants it; its events executor (7.1.6) then
    gives both in one tuple, the others as two arguments.
    """

    def take(*taken: Any) -> None:
        message, info = taken[0] if len(taken) == 1 else taken
        note(info)
        callback(message)

    take.__signature__ = inspect.signature(lambda message, info: None)  # type: ignore[attr-defined]
    return take
