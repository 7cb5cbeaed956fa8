# SPDX-License-Identifier: Apache-2.0
"""
When the servo ticks, and what else is done in between.

On the steady clock: callbacks run until shortly before the tick, then its command is worked out,
and the thread sleeps to the instant at which it only has to be sent. Under simulated time: each
step of /clock brings all ticks that have become due, in order.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator

from rclpy.executors import Executor

from physis_ros.ros import realtime

# No callback is begun this close before preparing for a tick: the longest usual one takes as long.
GUARD_NS = 400_000
# Longest wait for a simulated clock that stands still, before the flag is looked at again.
LOOK_S = 0.02
# A step of /clock beyond this many ticks is a jump: only its last tick is made.
MOST_TICKS = 250
COLLECT_NS = 1_000_000_000


class _Rubbish:
    """What has become garbage since it was frozen: taken away now and then, between ticks."""

    def __init__(self) -> None:
        self._collected_ns = time.monotonic_ns()

    def collect(self, now_ns: int) -> None:
        """Take it away, when it is time."""
        if now_ns - self._collected_ns > COLLECT_NS:
            self._collected_ns = now_ns
            realtime.collect_garbage()


class SteadyTicks:
    """
    Ticks on an even grid of the steady clock. A tick that was slept through is lost, not made up.

    :param period_ns: of the grid.
    :param prepare: called ahead of each tick with the steady instant of it.
    """

    def __init__(self, period_ns: int, prepare: Callable[[int], None]) -> None:
        self._period_ns, self._prepare = period_ns, prepare
        # What preparing takes lately, so that it is done in time and not too early.
        self._ahead_ns = 0

    def run(
        self,
        executor: Executor,
        over: Callable[[], bool],
        tick: Callable[[int], None],
        idle: Callable[[], None],
    ) -> None:
        """
        Call ``tick`` with each scheduled steady instant until it is over.

        :param over: asked before each tick, and after what was served before it.
        :param idle: called after each tick, for what can wait.
        """
        due_ns = time.monotonic_ns() + self._period_ns
        rubbish = _Rubbish()
        while not over():
            self._serve(executor, due_ns - GUARD_NS - self._ahead_ns)
            if over():
                break
            self._make_ready(due_ns)
            realtime.sleep_until(due_ns)
            tick(due_ns)
            idle()
            now_ns = time.monotonic_ns()
            rubbish.collect(now_ns)
            due_ns += self._period_ns
            if now_ns > due_ns:
                due_ns += (now_ns - due_ns) // self._period_ns * self._period_ns

    def _make_ready(self, due_ns: int) -> None:
        """Prepare for a tick; remember the longest time that this took, less and less."""
        began_ns = time.monotonic_ns()
        self._prepare(due_ns)
        took_ns = time.monotonic_ns() - began_ns
        longest_ns = max(took_ns, self._ahead_ns - self._ahead_ns // 64)
        self._ahead_ns = min(longest_ns, self._period_ns // 2)

    def _serve(self, executor: Executor, until_ns: int) -> None:
        """Run callbacks until an instant; one even when it has passed, or none ever would."""
        executor.spin_once(timeout_sec=0)
        while (left_ns := until_ns - time.monotonic_ns()) > 0:
            executor.spin_once(timeout_sec=left_ns * 1e-9)


class SimulatedTicks:
    """
    Ticks on an even grid of a simulated clock.

    :param period_ns: of the grid.
    :param now_ns: the simulated clock; 0 means that it has not begun.
    """

    def __init__(self, period_ns: int, now_ns: Callable[[], int]) -> None:
        self._period_ns, self._now_ns = period_ns, now_ns
        self._done_ns: int | None = None

    def run(
        self,
        executor: Executor,
        over: Callable[[], bool],
        tick: Callable[[int], None],
        idle: Callable[[], None],
    ) -> None:
        """Call ``tick`` with each due simulated instant until it is over."""
        rubbish = _Rubbish()
        while not over():
            executor.spin_once(timeout_sec=LOOK_S)
            if over():
                break
            for due_ns in self.due(self._now_ns()):
                tick(due_ns)
            idle()
            rubbish.collect(time.monotonic_ns())

    def due(self, now_ns: int) -> Iterator[int]:
        """Yield the instants of the grid that have become due, once each, in order."""
        newest_ns = now_ns // self._period_ns * self._period_ns
        done_ns = self._done_ns
        if newest_ns <= 0 or newest_ns == done_ns:
            return
        self._done_ns = newest_ns
        jumped = done_ns is None or not 0 < newest_ns - done_ns <= MOST_TICKS * self._period_ns
        first_ns = newest_ns if jumped or done_ns is None else done_ns + self._period_ns
        yield from range(first_ns, newest_ns + 1, self._period_ns)
