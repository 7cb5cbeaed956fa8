# SPDX-License-Identifier: Apache-2.0
"""
Bringing a stream up on a worker, and away again, beside the streams that run there (E9).

Weights that are not there yet are loaded and KV is allocated in a thread of its own; the loop goes
on meanwhile and takes the finished lane over between two batches.
"""

from __future__ import annotations

import threading
from collections import Counter, deque
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from itertools import groupby

import torch

from physis_ros.backbones.base import Backbone
from physis_ros.engine.lane import Lane
from physis_ros.engine.mailbox import TEXT_BYTES
from physis_ros.engine.memory import MemoryCap
from physis_ros.engine.warm import warm_blocks
from physis_ros.engine.weights import held_bytes
from physis_ros.errors import ParameterError

# Who waits for the interpreter gets it this soon: an opening must not be felt.
SWITCH_S = 2e-4


@dataclass(frozen=True)
class Opening:
    """
    What a worker must know of a stream to carry it.

    :param name: of the stream.
    :param owner: the worker of each stage, in chain order.
    """

    name: str
    owner: tuple[int, ...]

    def text(self) -> str:
        """
        Return it as it travels: runs of stages, then the name.

        :raises ParameterError: when that is longer than a message may be.
        """
        runs = ','.join(f'{who}x{len(list(run))}' for who, run in groupby(self.owner))
        text = f'{runs} {self.name}'
        if len(text.encode()) > TEXT_BYTES:
            raise ParameterError('stream name', 'shorter', self.name)
        return text

    @classmethod
    def parse(cls, text: str) -> Opening:
        """Read what :meth:`text` wrote."""
        runs, _, name = text.partition(' ')
        pairs = (run.split('x') for run in runs.split(','))
        return cls(name, tuple(int(who) for who, count in pairs for _ in range(int(count))))


@dataclass(frozen=True)
class Answer:
    """
    How it went.

    :param stream: the stream's index in the pool.
    :param life: which opening of it this is.
    :param lane: ready to be used; None when it was closed, or could not be opened.
    :param failure: why it could not be opened.
    """

    stream: int
    life: int
    lane: Lane | None
    failure: str = ''


class Opener:
    """
    Works beside a worker's loop, one request after the other.

    Its thread lasts as long as there are any. ``answers`` are the loop's to take.

    :param backbone: the model.
    :param device: where it lives.
    :param held: blocks that are held whoever comes and goes.
    :param ring: wakes the loop.
    :param cap: what may be held.
    """

    def __init__(
        self,
        backbone: Backbone,
        device: str,
        held: Iterable[int],
        ring: Callable[[], None],
        cap: MemoryCap,
    ) -> None:
        self.answers: deque[Answer] = deque()
        self._backbone, self._device, self._ring = backbone, device, ring
        self._users = Counter(held)
        self._cap, self._kv_bytes = cap, 0
        self._lock = threading.Lock()
        self._asked: deque[Callable[[], Answer]] = deque()
        self._at_work = False

    def open(
        self, stream: int, life: int, blocks: Iterable[int], make: Callable[[], Lane]
    ) -> None:
        """
        Ask for a lane.

        :param blocks: whose weights it needs.
        :param make: allocates it.
        """
        self._ask(lambda: self._open(stream, life, tuple(blocks), make))

    def close(self, stream: int, life: int, lane: Lane | None) -> None:
        """Free what a lane held, once its tasks are gone."""
        self._ask(lambda: self._close(stream, life, lane))

    def _ask(self, work: Callable[[], Answer]) -> None:
        with self._lock:
            self._asked.append(work)
            if self._at_work:
                return
            self._at_work = True
        threading.Thread(target=self._run, name='opener', daemon=True).start()

    def _run(self) -> None:
        while True:
            with self._lock:
                if not self._asked:
                    self._at_work = False
                    return
                work = self._asked.popleft()
            self.answers.append(work())
            self._ring()

    def _open(
        self, stream: int, life: int, blocks: tuple[int, ...], make: Callable[[], Lane]
    ) -> Answer:
        try:
            with torch.inference_mode():
                fresh = [block for block in blocks if not self._users[block]]
                self._backbone.hold(fresh)
                warm_blocks(self._backbone, self._device, fresh)
                lane = make()
                held = held_bytes(self._backbone) + self._kv_bytes + lane.bytes
                self._cap.check(held, f'weights and KV with stream {lane.name!r}')
        except Exception as error:  # no memory, no weights: the stream's end, not the worker's
            self._drop_unused(blocks)
            return Answer(stream, life, None, f'{type(error).__name__}: {error}')
        self._users.update(blocks)
        self._kv_bytes += lane.bytes
        return Answer(stream, life, lane)

    def _close(self, stream: int, life: int, lane: Lane | None) -> Answer:
        if lane is not None:
            self._users.subtract(lane.blocks)
            self._kv_bytes -= lane.bytes
            self._drop_unused(lane.blocks)
        return Answer(stream, life, None)

    def _drop_unused(self, blocks: Iterable[int]) -> None:
        self._backbone.drop([block for block in blocks if not self._users[block]])
