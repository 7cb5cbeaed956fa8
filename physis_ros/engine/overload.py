# SPDX-License-Identifier: Apache-2.0
"""
When more is asked of a pool than it can do, and where it is stuck. Pure; time is an argument.

Entries are paced and mailboxes bounded, so nothing grows: too much work shows as chunks that are
due and find the pipe full, one after the other, and as a queue in front of one worker that is
longer than those of the workers behind it.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

# So many entries of a stream in a row had to wait, or one waits this long.
HELD_IN_A_ROW = 4
LONGEST_WAIT_NS = 1_000_000_000
_SHARE = 0.2


class Queue(NamedTuple):
    """
    What one worker says of its queue.

    :param waiting: tasks there.
    :param stage: place in the chain of the one that waits longest; -1 when none does.
    """

    waiting: int
    stage: int


@dataclass(frozen=True)
class Overload:
    """
    The pool is asked for more than it can do.

    :param worker: the one that holds the others up.
    :param step: and
    :param block: the stage that waits longest there.
    :param waiting: tasks before it, on average.
    :param since_steady_ns: when the first of the chunks was held back.
    :param streams: whose chunks are held back.
    """

    worker: int
    step: int
    block: int
    waiting: float
    since_steady_ns: int
    streams: tuple[str, ...]

    def text(self, now_ns: int) -> str:
        """Say it in one line."""
        return (
            f'overloaded for {(now_ns - self.since_steady_ns) / 1e9:.1f} s: chunks of '
            f'{", ".join(self.streams)} wait for a full pipe; worker {self.worker} is behind, at '
            f'step {self.step} block {self.block} with {self.waiting:.1f} tasks waiting; choose a '
            f'longer period, fewer streams or more workers'
        )


@dataclass
class _Waits:
    """Entries of one stream that found the pipe full."""

    due_ns: int = 0
    since_ns: int = 0
    in_a_row: int = 0
    waited: bool = False
    idle_ns: int = 0

    def over(self, now_ns: int) -> bool:
        waits_long = self.due_ns > 0 and now_ns - self.due_ns > LONGEST_WAIT_NS
        return self.in_a_row >= HELD_IN_A_ROW or waits_long


@dataclass
class Pressure:
    """
    Watches entries and queues. Not thread-safe.

    :param blocks: of the model, to name a stage.
    """

    blocks: int
    _waits: dict[str, _Waits] = field(default_factory=dict)
    _queues: dict[int, float] = field(default_factory=dict)
    _stages: dict[int, int] = field(default_factory=dict)

    def held(self, stream: str, now_ns: int) -> None:
        """Note that a chunk is due and cannot enter."""
        waits = self._waits.setdefault(stream, _Waits())
        waits.due_ns = waits.due_ns or now_ns
        waits.since_ns = waits.since_ns or now_ns
        waits.waited = True

    def free(self, stream: str) -> None:
        """Note that a chunk that is due could enter now; whether it does is another matter."""
        waits = self._waits.get(stream)
        if waits is not None:
            waits.due_ns = 0

    def entered(self, stream: str) -> None:
        """Note that a chunk has entered."""
        waits = self._waits.get(stream)
        if waits is None:
            return
        if waits.waited:
            waits.due_ns, waits.waited, waits.in_a_row = 0, False, waits.in_a_row + 1
        else:
            del self._waits[stream]

    def forget(self, stream: str) -> None:
        """Forget a stream: it was closed, or has begun anew."""
        self._waits.pop(stream, None)

    def idle(self, streams: Collection[str], now_ns: int) -> None:
        """Note who has nothing in the pipe; who stays so for long has nothing to wait for."""
        for name, waits in list(self._waits.items()):
            waits.idle_ns = (waits.idle_ns or now_ns) if name in streams else 0
            if waits.idle_ns and now_ns - waits.idle_ns > LONGEST_WAIT_NS:
                del self._waits[name]

    def queues(self, found: Sequence[Queue]) -> None:
        """Note how long the workers' queues are now."""
        for worker, queue in enumerate(found):
            mean = self._queues.get(worker, 0.0)
            self._queues[worker] = mean + _SHARE * (queue.waiting - mean)
            if queue.stage >= 0:
                self._stages[worker] = queue.stage

    def look(self, now_ns: int, hops: Collection[tuple[int, int]]) -> Overload | None:
        """
        Judge.

        :param hops: the (from, to) pairs of workers that hand on to each other.
        """
        over = {name: waits for name, waits in self._waits.items() if waits.over(now_ns)}
        if not over or not self._queues:
            return None
        worker = max(self._queues, key=lambda w: self._ahead_of(w, hops))
        step, block = divmod(self._stages.get(worker, 0), self.blocks)
        since_ns = min(waits.since_ns for waits in over.values())
        return Overload(worker, step, block, self._queues[worker], since_ns, tuple(sorted(over)))

    def _ahead_of(self, worker: int, hops: Collection[tuple[int, int]]) -> float:
        """Return by how much a worker's queue is longer than the longest behind it."""
        after = (self._queues.get(target, 0.0) for source, target in hops if source == worker)
        behind = max(after, default=0.0)
        return self._queues[worker] - behind
