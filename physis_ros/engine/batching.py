# SPDX-License-Identifier: Apache-2.0
"""
Which ready tasks run next, together (E6). Pure.

Rows of a batch share a block and may differ in stream, chunk and step. The task with the least
time leads; others of its block come along. Nobody waits for company yet to come: tasks at other
blocks catch up while the leader runs on, and then stay in step with it.
"""

from __future__ import annotations

from collections.abc import Iterable

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


def _urgency(task: Task) -> tuple[int, int, int, int]:
    return (task.deadline_ns, task.chunk, task.step, task.stream)
