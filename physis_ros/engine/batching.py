# SPDX-License-Identifier: Apache-2.0
"""
Which ready tasks run next, together (E6). Pure.

Rows of a batch share a block and may differ in stream, chunk and step. The task with the least
time leads; others of its block come along. Tasks at other blocks catch up while the leader runs
on, and then stay in step with it. For company that has yet to arrive a batch waits only when told
to, when nothing else could run, and never on any member's slack.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence

from physis_ros.engine.task import Task


def form_batch(ready: Iterable[Task], limit: int) -> list[Task]:
    """
    Return the next batch, earliest deadline first; empty when nothing is ready.

    :param limit: the largest batch; 1 switches batching off.
    """
    order = sorted(ready, key=_urgency)
    if limit == 1 or len(order) < 2:
        return order[:1]
    block = order[0].block
    return [task for task in order if task.block == block][:limit]


def hold_ns(
    batch: Sequence[Task],
    ready: int,
    limit: int,
    patience_ns: int,
    now_ns: int,
    left_to_run_ns: Callable[[Task], int],
) -> int:
    """
    Return how long a batch may wait for company before it must run; 0: run now.

    :param ready: tasks that could run now, the batch's own included.
    :param limit: the largest batch.
    :param patience_ns: longest wait, from when the batch's longest waiting member came.
    :param left_to_run_ns: expected time from a task's start to the end of its chunk.
    """
    if patience_ns <= 0 or not batch or len(batch) >= limit or ready > len(batch):
        return 0
    came_ns = min(task.queued_ns for task in batch)
    slack_ns = min(task.deadline_ns - now_ns - left_to_run_ns(task) for task in batch)
    return max(0, min(came_ns + patience_ns - now_ns, slack_ns))


def _urgency(task: Task) -> tuple[int, int, int, int]:
    return (task.deadline_ns, task.chunk, task.step, task.stream)
