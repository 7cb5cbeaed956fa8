# SPDX-License-Identifier: Apache-2.0
"""
When more is asked of a pool than it can do, and where it is stuck. Pure; time is an argument.

Two queues tell it. The one at the entry: entries are paced and mailboxes bounded, so too much work
shows as chunks that are due and find the pipe full, one after the other. And those inside, where a
pipe is deep: more tasks stay before a worker than one batch of it takes, and more than before any
of its neighbours behind it, while chunk after chunk comes in.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple

# So many entries of a stream in a row had to wait, or one waits this long. Likewise so many of
# every stream came in while a queue stood this long.
HELD_IN_A_ROW = 4
LONGEST_WAIT_NS = 1_000_000_000
# What one entry that had to wait counts for, and one that waited so long that a beat was lost:
# after that the pipe is free for a while, though it does not keep up. One that did not wait takes
# one off; at nothing it is over.
_WAITED, _LOST, ENOUGH = 2, 6, 2 * HELD_IN_A_ROW
_SHARE = 0.2
# Tasks on average, below which nobody waits.
_NONE = 0.5


class Queue(NamedTuple):
    """
    What one worker says of its queue.

    :param waiting: tasks there, those of its next batch included.
    :param stage: place in the chain of the one that waits longest behind others; -1: none does.
    """

    waiting: int
    stage: int


@dataclass(frozen=True)
class Overload:
    """
    The pool is asked for more than it can do.

    :param worker: the one that holds the others up; -1 when no worker has a queue, because
        chunks wait outside, at the entry.
    :param step: and
    :param block: the stage before which they wait.
    :param waiting: tasks before it, on average.
    :param since_steady_ns: when the first of them was held back.
    :param streams: whose chunks are held back at the entry.
    """

    worker: int
    step: int
    block: int
    waiting: float
    since_steady_ns: int
    streams: tuple[str, ...]

    def text(self, now_ns: int) -> str:
        """Say it in one line."""
        parts = []
        if self.streams:
            parts.append(f'chunks of {", ".join(self.streams)} wait for a full pipe')
        place = f'step {self.step} block {self.block} with {self.waiting:.1f} tasks waiting'
        if self.worker < 0:
            parts.append(f'no worker has a queue, the entry is behind, at {place}')
        else:
            parts.append(f'worker {self.worker} is behind, at {place}')
        lasts_s = (now_ns - self.since_steady_ns) / 1e9
        change = 'choose a longer period, fewer streams or more workers'
        return f'overloaded for {lasts_s:.1f} s: {"; ".join((*parts, change))}'


@dataclass
class _Entries:
    """Entries of one stream, and those of them that found the pipe full."""

    due_ns: int = 0
    since_ns: int = 0
    idle_ns: int = 0
    last_ns: int = 0
    wait_ns: int = 0
    interval_ns: int = 0
    behind: bool = False
    score: int = 0

    def free(self, now_ns: int) -> None:
        self.wait_ns += now_ns - self.due_ns if self.due_ns else 0
        self.due_ns = 0

    def enter(self, now_ns: int) -> None:
        self.free(now_ns)
        # One comes out at the very instant at which the next is due: nobody waits.
        lost = 2 * self.wait_ns >= self.interval_ns > 0
        cost = (_LOST if lost else _WAITED) if self.wait_ns else -1
        self.score = min(max(self.score + cost, 0), ENOUGH)
        self.behind = self.score == ENOUGH or (self.behind and self.score > 0)
        self.since_ns = self.since_ns if self.score else 0
        self.interval_ns = now_ns - self.last_ns if self.last_ns else 0
        self.last_ns, self.wait_ns, self.idle_ns = now_ns, 0, 0

    def over(self, now_ns: int) -> bool:
        waits_long = self.due_ns > 0 and now_ns - self.due_ns > LONGEST_WAIT_NS
        return self.behind or waits_long

    def state(self, now_ns: int) -> tuple[Any, ...]:
        times = (_age(at_ns, now_ns) for at_ns in (self.due_ns, self.idle_ns))
        spans = now_ns - self.last_ns if self.last_ns else -1, self.wait_ns, self.interval_ns
        return self.behind, self.score, *spans, *times


@dataclass
class _Standing:
    """A queue that stands, and how many chunks of each stream have come in since."""

    since_ns: int
    entered: Counter[str] = field(default_factory=Counter)

    def lasts(self, streams: Collection[str], now_ns: int) -> bool:
        # A queue of one burst is gone before the next one comes, however long the period is.
        often = all(self.entered[name] >= HELD_IN_A_ROW for name in streams)
        return bool(streams) and often and now_ns - self.since_ns > LONGEST_WAIT_NS

    def state(self, now_ns: int) -> tuple[Any, ...]:
        counts = sorted((name, min(n, HELD_IN_A_ROW)) for name, n in self.entered.items())
        return _age(self.since_ns, now_ns), *counts


@dataclass
class Pressure:
    """
    Watches entries and queues. Not thread-safe.

    :param blocks: of the model, to name a stage.
    :param batch: most tasks that a worker takes at once.
    """

    blocks: int
    batch: int = 1
    _entries: dict[str, _Entries] = field(default_factory=dict)
    _behind: dict[int, list[int]] = field(default_factory=dict)
    _queues: dict[int, float] = field(default_factory=dict)
    _stages: dict[int, int] = field(default_factory=dict)
    _standing: dict[int, _Standing] = field(default_factory=dict)

    def follow(self, hops: Iterable[tuple[int, int]]) -> None:
        """Note the (from, to) pairs of workers that hand on to each other."""
        self._behind = {}
        for source, target in hops:
            self._behind.setdefault(source, []).append(target)

    def held(self, stream: str, now_ns: int) -> None:
        """Note that a chunk is due and cannot enter."""
        entries = self._entries.setdefault(stream, _Entries())
        entries.due_ns = entries.due_ns or now_ns
        entries.since_ns = entries.since_ns or now_ns

    def free(self, stream: str, now_ns: int) -> None:
        """Note that a chunk that is due could enter now; whether it does is another matter."""
        entries = self._entries.get(stream)
        if entries is not None:
            entries.free(now_ns)

    def entered(self, stream: str, now_ns: int) -> None:
        """Note that a chunk has entered."""
        self._entries.setdefault(stream, _Entries()).enter(now_ns)
        for standing in self._standing.values():
            standing.entered[stream] += 1

    def forget(self, stream: str) -> None:
        """Forget a stream: it was closed, or has begun anew."""
        self._entries.pop(stream, None)
        for standing in self._standing.values():
            del standing.entered[stream]

    def idle(self, streams: Collection[str], now_ns: int) -> None:
        """Note who has nothing in the pipe; who stays so for long has nothing to wait for."""
        for name, entries in list(self._entries.items()):
            entries.idle_ns = (entries.idle_ns or now_ns) if name in streams else 0
            if entries.idle_ns and now_ns - entries.idle_ns > LONGEST_WAIT_NS:
                self.forget(name)

    def queues(self, found: Sequence[Queue], now_ns: int) -> None:
        """Note how long the workers' queues are now."""
        # Virtual time asks at each entry, of each device: what is not the case costs little.
        queues, stages, standing, batch = self._queues, self._stages, self._standing, self.batch
        for worker, (waiting, stage) in enumerate(found):
            mean = queues.get(worker, 0.0)
            mean = queues[worker] = mean + _SHARE * (waiting - mean)
            if mean < _NONE:
                stages.pop(worker, None)
            elif stage >= 0:
                stages[worker] = stage
            if waiting <= batch or waiting <= self._longest_behind(worker, found):
                standing.pop(worker, None)
            elif worker not in standing:
                standing[worker] = _Standing(now_ns)

    def look(self, now_ns: int) -> Overload | None:
        """Judge."""
        over = {name: found for name, found in self._entries.items() if found.over(now_ns)}
        lasting = {w: s for w, s in self._standing.items() if s.lasts(self._entries, now_ns)}
        if not over and not lasting:
            return None
        since_ns = min(
            [found.since_ns for found in over.values()] + [s.since_ns for s in lasting.values()]
        )
        worker = max(lasting or self._stages, key=self._ahead, default=-1)
        step, block = divmod(self._stages.get(worker, 0), self.blocks)
        waiting = self._queues[worker] if worker >= 0 else len(over)
        return Overload(worker, step, block, waiting, since_ns, tuple(sorted(over)))

    def state(self, now_ns: int) -> tuple[Any, ...]:
        """Return all that later judgements may depend on, as seen from now."""
        return (
            tuple(sorted((name, *e.state(now_ns)) for name, e in self._entries.items())),
            tuple(sorted((worker, *s.state(now_ns)) for worker, s in self._standing.items())),
        )

    def shift(self, now_ns: int, span_ns: int) -> None:
        """Take the place of the same state so much later; what has lasted goes on."""
        for held in self._entries.values():
            for name in ('due_ns', 'since_ns', 'idle_ns'):
                setattr(held, name, _later(getattr(held, name), now_ns, span_ns))
            held.last_ns += span_ns if held.last_ns else 0
        for standing in self._standing.values():
            standing.since_ns = _later(standing.since_ns, now_ns, span_ns)

    def _longest_behind(self, worker: int, found: Sequence[Queue]) -> int:
        behind = (found[target].waiting for target in self._behind.get(worker, ()))
        return max(behind, default=0)

    def _ahead(self, worker: int) -> float:
        """Return by how much a worker's queue is longer than the longest behind it."""
        behind = (self._queues.get(target, 0.0) for target in self._behind.get(worker, ()))
        return self._queues[worker] - max(behind, default=0.0)


def _age(at_ns: int, now_ns: int) -> int:
    """Return how long something has lasted, as far as that matters; -1: it is not."""
    return min(now_ns - at_ns, LONGEST_WAIT_NS + 1) if at_ns else -1


def _later(at_ns: int, now_ns: int, span_ns: int) -> int:
    return at_ns + span_ns if at_ns and now_ns - at_ns <= LONGEST_WAIT_NS else at_ns
