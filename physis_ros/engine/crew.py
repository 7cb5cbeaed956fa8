# SPDX-License-Identifier: Apache-2.0
"""
The worker processes of one pool and the memory they share: started together, ended together.

Knows nothing of streams and chunks. Whatever goes wrong while starting, nothing stays behind.
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
        self.layout = layout
        self._processes: list[WorkerProcess] = []
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
                self._spawn(worker, registry)
        except BaseException:
            self.close()
            raise
        watched = tuple(process.pidfd for process in self._processes)
        self._waiter = Waiter(self._bells[POOL], watched)

    def _spawn(self, worker: int, registry: str) -> None:
        given: dict[str, Any] = describe(worker, self.layout, registry, self._arena, self._bells)
        given.update(lifeline=self._lifeline[0], parent=os.getpid())
        bells = tuple(bell.fd for bell in self._bells.values())
        inherited = (self._arena.fd, self._lifeline[0], *bells)
        count = self.layout.config.threads_per_worker
        self._processes.append(WorkerProcess(worker, given, inherited, count))

    @property
    def pids(self) -> tuple[int, ...]:
        """The workers' process ids."""
        return tuple(process.pid for process in self._processes)

    def wait(self, timeout_s: float) -> None:
        """Wait for a message or the end of a worker."""
        self._waiter.wait(timeout_s)

    def ring(self, workers: Iterable[int] | None = None) -> None:
        """Wake some workers; all when not told which."""
        for worker in range(self.layout.grouping.workers) if workers is None else workers:
            self._bells[worker].ring()

    @property
    def complete(self) -> bool:
        """Whether all workers live."""
        return all(process.exitcode is None for process in self._processes)

    def check_alive(self) -> None:
        """
        Look for dead workers.

        :raises WorkerDied: for the first one found, with what it said.
        """
        for process in self._processes:
            code = process.exitcode
            if code is not None:
                words = self.words.get(process.worker) or process.last_words()
                raise WorkerDied(process.worker, code, words)

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
        for process in self._processes:
            process.end(until_s - time.monotonic())
        os.close(self._lifeline[0])
        self._lifeline = (-1, -1)
        for bell in self._bells.values():
            bell.close()
        self._arena.close()
