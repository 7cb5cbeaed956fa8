# SPDX-License-Identifier: Apache-2.0
"""
The places of a pool's workers that are empty, and whether a new worker is worth a try. Pure.

A worker may die by bad luck; one that dies again and again, or that refuses to start, will not be
better the next time. Time is an argument, on the steady clock.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

from physis_ros.errors import WorkerDied

# So many times a place is filled again within so long.
MOST = 3
FORGET_NS = 300_000_000_000
# Longest time for a worker to come up, where nobody says otherwise.
PATIENCE_S = 60.0


@dataclass(frozen=True)
class Vacancy:
    """
    The place of a worker that has ended.

    :param died: how it ended.
    :param since_ns: when that was noticed, steady.
    :param filling: whether a new worker is being started there; else it stays empty.
    """

    died: WorkerDied
    since_ns: int
    filling: bool

    def __str__(self) -> str:
        """Say it in one line."""
        after = 'a new one is being started' if self.filling else 'its place stays empty'
        return f'{self.died}; {after}'


class Places:
    """
    Books of deaths.

    ``vacant`` are the empty places; ``filled`` counts the new workers that came up, which they may
    take ``patience_s`` for.
    """

    def __init__(self) -> None:
        self.vacant: dict[int, Vacancy] = {}
        self.filled = 0
        self.patience_s = PATIENCE_S
        self._deaths: dict[int, list[int]] = {}

    def died(self, died: WorkerDied, was_up: bool, now_ns: int) -> bool:
        """
        Note the end of a worker, and tell whether its place shall be filled again.

        :param was_up: whether it had come up.
        """
        before = self._deaths.get(died.worker, [])
        deaths = [at_ns for at_ns in before if now_ns - at_ns < FORGET_NS] + [now_ns]
        self._deaths[died.worker] = deaths
        by_signal = died.exitcode is not None and died.exitcode < 0
        again = (was_up or by_signal) and len(deaths) <= MOST
        self.vacant[died.worker] = Vacancy(died, now_ns, again)
        return again

    def came_up(self, worker: int) -> None:
        """Note that a worker is up, the first one of its place or a new one."""
        self.filled += self.vacant.pop(worker, None) is not None

    def give_up(self, worker: int) -> None:
        """Note that no new worker can be started."""
        self.vacant[worker] = replace(self.vacant[worker], filling=False)

    def overdue(self, now_ns: int) -> list[int]:
        """Return the places whose new worker takes too long to come up."""
        return [
            worker
            for worker, vacancy in self.vacant.items()
            if vacancy.filling and now_ns - vacancy.since_ns > self.patience_s * 1e9
        ]
