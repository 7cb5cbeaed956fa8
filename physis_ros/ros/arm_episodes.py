# SPDX-License-Identifier: Apache-2.0
"""
The schedule of episodes: which one runs, and when it ends. Pure; times are arguments.

Waiting -> resetting -> running -> resetting -> ... -> done. Resetting lasts until everyone who
must start afresh has answered, so that no command of the last episode acts in the next.
"""

from __future__ import annotations

from enum import Enum

NONE = -1


class Phase(Enum):
    """Where the schedule is."""

    WAITING = 'waiting'
    RESETTING = 'resetting'
    RUNNING = 'running'
    DONE = 'done'


class Episodes:
    """
    Counts episodes.

    :param count: how many; 0 means one without an end.
    :param length_ns: of each.
    """

    def __init__(self, count: int, length_ns: int) -> None:
        self._count, self._length_ns = count, length_ns
        self._index, self._end_ns = NONE, 0
        self.phase = Phase.WAITING

    @property
    def index(self) -> int:
        """The episode being prepared or run, from 0."""
        return self._index

    @property
    def announced(self) -> int:
        """What others are told: the running episode, -1 when none runs, the count when done."""
        if self.phase is Phase.DONE:
            return self._count
        return self._index if self.phase is Phase.RUNNING else NONE

    def prepare(self) -> None:
        """Begin to reset for the next episode."""
        self._index += 1
        self.phase = Phase.RESETTING

    def begin(self, now_ns: int) -> None:
        """Run the prepared episode from now on."""
        self.phase = Phase.RUNNING
        self._end_ns = now_ns + self._length_ns

    def ended(self, now_ns: int) -> bool:
        """Whether the running episode is over; moves on to done after the last one."""
        if self.phase is not Phase.RUNNING or not self._count or now_ns < self._end_ns:
            return False
        if self._index + 1 >= self._count:
            self.phase = Phase.DONE
        return True
