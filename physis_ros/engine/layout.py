# SPDX-License-Identifier: Apache-2.0
"""
Where everything lies in the pool's memory.

Both sides compute it from the same model, grouping and configuration, so no offsets travel.
"""

from __future__ import annotations

from dataclasses import dataclass
from itertools import permutations

import torch

from physis_ros.backbones.base import ModelSpec
from physis_ros.engine import spans
from physis_ros.engine.arena import LINE, WORD, Arena, aligned
from physis_ros.engine.bell import Bell
from physis_ros.engine.board import BoardShape
from physis_ros.engine.config import PoolConfig
from physis_ros.engine.grid import Grouping, pipe_depth
from physis_ros.engine.mailbox import Mailbox, Shape
from physis_ros.engine.message import Kind

POOL = -1
SPAN_RECORDS = 8192
# Words of a worker's state line. WAITING: the stage, counted from 1, whose task waits longest.
BEAT, QUEUED, PENDING, DROPPED, TASKS, WAITING = range(6)


@dataclass(frozen=True)
class Layout:
    """
    Offsets and shapes.

    :param spec: sizes of the model.
    :param grouping: who runs what.
    :param config: the pool's.
    :param joint: every stream is placed for itself: any worker may hand on to any other, and
        nobody holds a block before a stream needs it.
    """

    spec: ModelSpec
    grouping: Grouping
    config: PoolConfig
    joint: bool = False

    @property
    def in_flight(self) -> int:
        """Most chunks of any stream in the pipe."""
        return self.in_flight_of(self.grouping.workers)

    def in_flight_of(self, workers: int) -> int:
        """Return the most chunks in the pipe of a stream that uses so many workers."""
        grouping, config = self.grouping, self.config
        depth = pipe_depth(workers, grouping.passes, config.max_batch, grouping.overlaps)
        return config.in_flight or depth if grouping.overlaps else 1

    def blocks_of(self, worker: int) -> frozenset[int]:
        """Return the blocks a worker holds from the start."""
        return frozenset(() if self.joint else self.grouping.blocks_of(worker))

    @property
    def edges(self) -> tuple[tuple[int, int], ...]:
        """All (from, to) pairs with a mailbox; ``POOL`` is the pool."""
        workers = range(self.grouping.workers)
        down = [(POOL, w) for w in workers]
        up = [(w, POOL) for w in workers]
        return (*down, *up, *(permutations(workers, 2) if self.joint else self.grouping.hops))

    def shape(self, edge: tuple[int, int]) -> Shape:
        """Return the size of one mailbox."""
        source, target = edge
        streams = self.config.max_streams
        if source == POOL:
            return Shape((self.in_flight + 2) * streams + 4, {}, text=True)
        if target == POOL:
            depth = (self.in_flight + 2) * streams + 4  # answers have room beside all results
            return Shape(depth, {Kind.RESULT: self._result()}, text=True)
        hidden = ((1, self.spec.tokens, self.spec.width), self.spec.dtype)
        latent = ((1, *self.spec.latent_shape), torch.float32)
        return Shape(self.config.mailbox_depth, {Kind.HIDDEN: [hidden], Kind.LATENT: [latent]})

    def _result(self) -> list[tuple[tuple[int, ...], torch.dtype]]:
        actions, frames = self.spec.actions, self.spec.frames
        image = (len(frames.predicted_steps), frames.height, frames.width, 3)
        return [
            ((1, actions.horizon, len(actions.names)), torch.float32),
            ((1, *image), torch.uint8),
        ]

    @property
    def board(self) -> BoardShape:
        """Size of the notice board."""
        spec, views = self.spec, 1 + self.renewals
        streams = self.config.max_streams
        return BoardShape(streams, self.in_flight, views, spec.inputs, spec.commits)

    @property
    def renewals(self) -> int:
        """
        Newer observations that one chunk may be shown (E11).

        Two for each step: what a step takes at its beginning is then not older than half a step,
        however often the camera looks.
        """
        return 2 * self.spec.steps if self.config.conditioning == 'step' else 0

    @property
    def _regions(self) -> dict[object, int]:
        sizes: dict[object, int] = {'stop': LINE, 'board': self.board.bytes}
        for worker in range(self.grouping.workers):
            sizes['state', worker] = LINE
            sizes['spans', worker] = spans.ring_bytes(SPAN_RECORDS)
        for source, target in self.edges:
            sizes['mailbox', source, target] = self.shape((source, target)).bytes
        return sizes

    def offsets(self) -> dict[object, int]:
        """Return where each region begins, and ``end``."""
        offsets, at = {}, 0
        for name, size in self._regions.items():
            offsets[name] = at
            at += aligned(size)
        return {**offsets, 'end': at}


class Site:
    """
    The pool's memory as one process uses it.

    :param layout: where things lie.
    :param arena: the memory.
    :param me: worker index, or ``POOL``.
    :param bells: every process's doorbell.
    """

    def __init__(self, layout: Layout, arena: Arena, me: int, bells: dict[int, Bell]) -> None:
        at = layout.offsets()
        self.stop = arena.words(at['stop'], 1)
        self.board_offset = at['board']
        workers = range(layout.grouping.workers)
        self.states = [arena.words(at['state', w], LINE // WORD) for w in workers]
        self.spans = {
            w: spans.SpanRing(arena, at['spans', w], SPAN_RECORDS)
            for w in workers
            if me in (w, POOL)
        }
        self.inboxes: dict[int, Mailbox] = {}
        self.outboxes: dict[int, Mailbox] = {}
        for edge in layout.edges:
            source, target = edge
            place = (arena, at['mailbox', source, target], layout.shape(edge))
            if target == me:
                self.inboxes[source] = Mailbox(*place, bells[source])
                # What a worker died over is nobody's any more, and its senders wait for room.
                self.inboxes[source].skip()
            if source == me:
                self.outboxes[target] = Mailbox(*place, bells[target])
