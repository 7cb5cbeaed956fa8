# SPDX-License-Identifier: Apache-2.0
"""
The worker processes of one pool and the memory they share: started together, ended together.

One that dies alone leaves its place to a new one, which finds memory, mailboxes and doorbells as
the others have them. Knows nothing of streams and chunks. Whatever goes wrong while starting,
nothing stays behind.
"""

from __future__ import annotations

import os
import time
from collections.abc import Iterable
from typing import Any

from physis_ros.engine import layout as lay
from physis_ros.engine.arena import Arena
from physis_ros.engine.bell import Bell, Waiter
from physis_ros.engine.board import Board
from physis_ros.engine.launch import WorkerProcess
from physis_ros.engine.layout import POOL, Layout, Site
from physis_ros.engine.message import Header, Kind
from physis_ros.engine.work import describe
from physis_ros.errors import EngineError, WorkerDied

_END_S = 1.0
_ASLEEP_NS = 1_000_000_000


class Crew:
    """
    Processes, memory and doorbells.

    :param layout: of the memory.
    :param registry: module that opens the model.
    """

    def __init__(self, layout: Layout, registry: str) -> None:
        self.layout, self._registry = layout, registry
        self._processes: dict[int, WorkerProcess] = {}
        self.words: dict[int, str] = {}
        self._looked_ns = self._awake_ns = 0
        workers = range(layout.grouping.workers)
        self._arena = Arena.create(layout.offsets()['end'])
        self._bells = {owner: Bell.create() for owner in (POOL, *workers)}
        self._lifeline = os.pipe()
        try:
            self.site = Site(layout, self._arena, POOL, self._bells)
            self.board = Board(self._arena, self.site.board_offset, layout.board)
            for worker in workers:
                self._spawn(worker)
        except BaseException:
            self.close()
            raise
        self._watch()

    def _spawn(self, worker: int) -> None:
        given: dict[str, Any] = describe(
            worker, self.layout, self._registry, self._arena, self._bells
        )
        given.update(lifeline=self._lifeline[0], parent=os.getpid())
        bells = tuple(bell.fd for bell in self._bells.values())
        inherited = (self._arena.fd, self._lifeline[0], *bells)
        count = self.layout.config.threads_per_worker
        self._processes[worker] = WorkerProcess(worker, given, inherited, count)

    def _watch(self) -> None:
        # A new one each time: another thread may be waiting on the old one.
        watched = tuple(process.pidfd for process in self._processes.values())
        self._waiter = Waiter(self._bells[POOL], watched)

    @property
    def pids(self) -> tuple[int, ...]:
        """The workers' process ids, by their places; 0 where there is none."""
        pids = {worker: process.pid for worker, process in self._processes.items()}
        return tuple(pids.get(worker, 0) for worker in range(self.layout.grouping.workers))

    def wait(self, timeout_s: float) -> None:
        """Wait for a message or the end of a worker."""
        self._waiter.wait(timeout_s)

    def ring(self, workers: Iterable[int] | None = None) -> None:
        """Wake some workers; all when not told which."""
        for worker in range(self.layout.grouping.workers) if workers is None else workers:
            self._bells[worker].ring()

    def tell(self, workers: Iterable[int], header: Header, text: str = '') -> None:
        """
        Leave a message for each of some workers.

        :raises EngineError: when one has no room for it; those before it have theirs.
        """
        for worker in workers:
            if not self.site.outboxes[worker].send_text(header, text):
                what = Kind(header.kind).name
                raise EngineError(f'worker {worker} must take {what}, got a full mailbox')

    def dead(self) -> tuple[int, ...]:
        """Return the workers that have ended and whose places were not vacated yet."""
        return tuple(w for w, process in self._processes.items() if process.exitcode is not None)

    def death_of(self, worker: int) -> WorkerDied:
        """Tell how a worker ended, with what it said."""
        process = self._processes[worker]
        words = self.words.pop(worker, '') or process.last_words()
        return WorkerDied(worker, process.exitcode, words)

    def vacate(self, worker: int) -> None:
        """Free what is left of a dead worker, which does nothing any more."""
        self._processes.pop(worker).end(0.0)
        self._quiet(worker)
        self._watch()

    def _quiet(self, worker: int) -> None:
        state = self.site.states[worker]
        for word in (lay.BEAT, lay.QUEUED, lay.PENDING, lay.WAITING):
            state[word] = 0

    def fill(self, worker: int) -> None:
        """
        Start a new worker in a place that was vacated.

        :raises OSError: when the machine has no room for another process.
        """
        self._spawn(worker)
        self._watch()

    def kill(self, worker: int, words: str) -> None:
        """End a worker at once; ``words`` are its last ones."""
        self.words[worker] = words
        self._processes[worker].kill()

    def check_moving(self, now_ns: int) -> None:
        """
        Look for workers that stand still; only after they began to run.

        :raises EngineError: naming the worker.
        """
        limit_ns = int(self.layout.config.hop_timeout_s * 1e9)
        # After we were stopped or away ourselves, their silence proves nothing.
        if now_ns - self._looked_ns > _ASLEEP_NS:
            self._awake_ns = now_ns
        self._looked_ns = now_ns
        for worker, state in enumerate(self.site.states):
            still_ns = now_ns - max(state[lay.BEAT], self._awake_ns)
            if state[lay.BEAT] and still_ns > limit_ns:
                raise EngineError(
                    f'worker {worker} must turn within hop_timeout_s, got none in '
                    f'{still_ns / 1e9:.1f} s; it is stopped, starved, or a stage takes this long'
                )

    def close(self) -> None:
        """End all processes within about a second and free everything; again is harmless."""
        if self._lifeline[1] < 0:
            return
        if hasattr(self, 'site'):
            self.site.stop[0] = 1
        self.ring()
        # Workers that are still loading do not look at the flag: the lifeline ends them.
        os.close(self._lifeline[1])
        until_s = time.monotonic() + _END_S
        for process in self._processes.values():
            process.end(until_s - time.monotonic())
        os.close(self._lifeline[0])
        self._lifeline = (-1, -1)
        for bell in self._bells.values():
            bell.close()
        self._arena.close()
