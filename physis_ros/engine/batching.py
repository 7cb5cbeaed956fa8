# SPDX-License-Identifier: Apache-2.0
"""
Which ready tasks run next, together (E6). Pure.

Rows of a batch share a block and may differ in stream, chunk and step. The task with the least
time leads; others of its block come along, as many as leave every member on time that would be on
time without them. Tasks at other blocks catch up while the leader runs on, and then stay in step
with it. For company that has yet to arrive a batch waits only when told to, when nothing else
could run, and never on any member's slack.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from operator import attrgetter

from physis_ros.engine.task import Task

# Turns count from each stream's own beginning: between streams they say nothing.
_URGENCY = attrgetter('deadline_ns', 'stream', 'turn', 'step')

StagesLeft = Callable[[Task], int]
BatchTime = Callable[[int], float]


def form_batch(
    ready: Sequence[Task],
    limit: int,
    now_ns: int,
    stages_left: StagesLeft,
    batch_ns: BatchTime,
) -> list[Task]:
    """
    Return the next batch, earliest deadline first; empty when nothing is ready.

    :param limit: the largest batch; 1 switches batching off.
    :param stages_left: stages from a task's start to the end of its chunk.
    :param batch_ns: expected time of a batch of so many rows.
    """
    if len(ready) < 2:
        return list(ready)
    order = sorted(ready, key=_URGENCY)
    if limit == 1:
        return order[:1]
    block, alone_ns = order[0].block, batch_ns(1)
    batch: list[Task] = []
    allowed_ns = float('inf')
    for task in order:
        if task.block != block:
            continue
        if batch and (len(batch) == limit or batch_ns(len(batch) + 1) > allowed_ns):
            break
        batch.append(task)
        stage_ns = (task.deadline_ns - now_ns) / stages_left(task)
        # Whoever is late even alone holds nobody back.
        if stage_ns >= alone_ns:
            allowed_ns = min(allowed_ns, stage_ns)
    return batch


def hold_ns(
    batch: Sequence[Task],
    ready: int,
    limit: int,
    patience_ns: int,
    now_ns: int,
    stages_left: StagesLeft,
    batch_ns: BatchTime,
) -> int:
    """
    Return how long a batch may wait for company before it must run; 0: run now.

    :param ready: tasks that could run now, the batch's own included.
    :param limit: the largest batch.
    :param patience_ns: longest wait, from when the batch's longest waiting member came.
    :param stages_left: and
    :param batch_ns: as for :func:`form_batch`.
    """
    if patience_ns <= 0 or not batch or len(batch) >= limit or ready > len(batch):
        return 0
    came_ns = min(task.queued_ns for task in batch)
    stage_ns = batch_ns(len(batch))
    slack_ns = min(task.deadline_ns - now_ns - stages_left(task) * stage_ns for task in batch)
    return max(0, int(min(came_ns + patience_ns - now_ns, slack_ns)))
