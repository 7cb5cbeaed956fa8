# SPDX-License-Identifier: Apache-2.0
"""
A worker's loop: receive, choose a batch, run it, hand it on.

It waits for nothing but its doorbell: a task runs when its state has come and its predecessor is
done (E1), and a full mailbox ahead only fills the worker's own short list of messages to send.
"""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Sequence
from functools import partial

import torch
from torch import Tensor

from physis_ros.backbones.base import Backbone
from physis_ros.engine import layout as lay
from physis_ros.engine.batching import form_batch, hold_ns
from physis_ros.engine.bell import Waiter
from physis_ros.engine.board import Board
from physis_ros.engine.compute import Compute, Row
from physis_ros.engine.grid import place
from physis_ros.engine.kv import KvBatch, KvRing, KvShelf
from physis_ros.engine.lane import Lane
from physis_ros.engine.layout import POOL, Layout, Site
from physis_ros.engine.mailbox import Held
from physis_ros.engine.memory import MemoryCap
from physis_ros.engine.message import Header, Kind
from physis_ros.engine.noise import NoiseSource
from physis_ros.engine.opening import Opener, Opening
from physis_ros.engine.pace import Pace
from physis_ros.engine.step_ends import StepEnds
from physis_ros.engine.task import FROM_POOL, LOCAL, Task
from physis_ros.errors import DeadlinePassed, EngineError

_IDLE_S = 0.1
_BLOCKED_S = 0.002


class WorkerLoop:
    """
    The life of one worker after loading. One thread.

    :param me: the worker's index.
    :param layout: of the pool's memory.
    :param site: that memory, as this worker uses it.
    :param board: the notice board.
    :param backbone: the model, with this worker's blocks.
    :param waiter: on this worker's doorbell.
    """

    def __init__(
        self, me: int, layout: Layout, site: Site, board: Board, backbone: Backbone, waiter: Waiter
    ) -> None:
        config = layout.config
        self._me, self._layout, self._site, self._board = me, layout, site, board
        self._grouping, self._spec, self._waiter = layout.grouping, layout.spec, waiter
        self._device, cap = config.device(me), MemoryCap(config, me)
        self._compute = Compute(backbone, self._device)
        self._kv = KvBatch(self._spec, config.max_batch, self._device)
        shared = self._device == 'cpu' and not layout.joint
        self._shelf = KvShelf(self._spec, config.max_streams) if shared else None
        self._limit, self._hop_timeout_ns = config.max_batch, int(config.hop_timeout_s * 1e9)
        self._lanes: dict[int, Lane] = {}
        noise = NoiseSource(config.seed, self._spec.latent_shape)
        renew = config.conditioning == 'step'
        self._ends = StepEnds(self._compute, board, self._lanes, noise, renew)
        # Where company for a batch may come from outside; nowhere else is waiting worth it.
        self._arrivals: frozenset[int] = frozenset()
        # Openings (stream, life) under way, and those of them that were closed meanwhile.
        self._opening: set[tuple[int, int]] = set()
        self._unwanted: set[tuple[int, int]] = set()
        self._opener = Opener(backbone, self._device, layout.blocks_of(me), waiter.ring, cap)
        self._tasks: list[Task] = []
        self._pending: dict[int, deque[tuple[Header, tuple[Tensor, ...]]]] = {
            target: deque() for target in site.outboxes
        }
        self._blocked = 0
        self._inboxes = list(site.inboxes.items())
        self._state, self._spans = site.states[me], site.spans[me]
        self._model_ns = self._overhead_ns = self._hold_ns = 0
        self._patience_ns = int(config.batch_wait_us * 1e3)
        self._pace = Pace()

    def run(self) -> None:
        """
        Work until told to stop.

        :raises EngineError: when a hop stays full too long or the model fails.
        """
        with torch.inference_mode():
            while not self._site.stop[0]:
                if not self.turn():
                    self._waiter.wait(self._rest_s())

    def _rest_s(self) -> float:
        longest_s = _BLOCKED_S if self._state[lay.PENDING] else _IDLE_S
        return min(longest_s, self._hold_ns / 1e9) if self._hold_ns else longest_s

    def say(self, kind: Kind, stream: int = -1, life: int = 0, text: str = '') -> None:
        """Tell the pool something that is not a result."""
        header = Header(kind, stream=stream, chunk=life)
        if not self._site.outboxes[POOL].send_text(header, text):
            raise EngineError(f'worker {self._me} could not report {kind.name} to the pool')

    def turn(self) -> bool:
        """Do what can be done now, at most one batch; return whether more may be to do."""
        start_ns = self._state[lay.BEAT] = time.monotonic_ns()
        self._model_ns = self._hold_ns = 0
        came = self._receive(start_ns)
        if self._opener.answers:
            self._settle()
        batch = self._choose(start_ns) if self._tasks else ()
        if batch:
            self._run(batch)
        self._flush()
        self._state[lay.QUEUED] = len(self._tasks)
        if not batch:
            return came or self._ends.look_ahead()
        self._overhead_ns = (time.monotonic_ns() - start_ns - self._model_ns) // len(batch)
        return bool(self._tasks) or any(inbox.has_mail() for _, inbox in self._inboxes)

    # What comes in.

    def _receive(self, now_ns: int) -> bool:
        came = False
        for source, inbox in self._inboxes:
            while (got := inbox.receive()) is not None:
                came = True
                header, held = got
                if source == POOL:
                    self._command(header, inbox.text(header, held), now_ns)
                    held.release()
                else:
                    self._arrive(header, inbox.parts(header.kind, held)[0], held, source, now_ns)
        return came

    def _command(self, header: Header, text: str, now_ns: int) -> None:
        if header.kind in (Kind.ENTER, Kind.COMMIT):
            self._queue(Task.of(header, now_ns, FROM_POOL))
        elif header.kind == Kind.OPEN:
            self._open(header.stream, header.chunk, Opening.parse(text))
        elif header.kind == Kind.CLOSE:
            self._close(header.stream, header.chunk)
        else:
            raise EngineError(f'worker {self._me} cannot obey message kind {header.kind}')

    def _open(self, stream: int, life: int, opening: Opening) -> None:
        config, me, keep = self._layout.config, self._me, self._layout.board.slots
        grouping = place(self._spec, opening.owner, config.workers, config.override_kv_rule)
        bank = None if self._shelf is None else partial(self._shelf.bank, stream)
        self._opening.add((stream, life))
        self._opener.open(
            stream, life, grouping.blocks_of(me),
            lambda: Lane(opening.name, self._spec, grouping, me, self._device, keep, bank),
        )  # fmt: skip

    def _close(self, stream: int, life: int) -> None:
        if (stream, life) in self._opening:
            self._unwanted.add((stream, life))
            return
        self._opener.close(stream, life, self._lanes.pop(stream, None))

    def _settle(self) -> None:
        """Take over what was opened or closed beside the loop."""
        while self._opener.answers:
            answer = self._opener.answers.popleft()
            which = (answer.stream, answer.life)
            self._opening.discard(which)
            if which in self._unwanted:
                self._unwanted.discard(which)
                self._opener.close(*which, answer.lane)
            elif answer.lane is not None:
                self._lanes[answer.stream] = answer.lane
                self.say(Kind.OPENED, *which)
            elif answer.failure:
                self.say(Kind.NOT_OPENED, *which, answer.failure)
            else:
                self.say(Kind.CLOSED, *which)
        self._arrivals = frozenset(b for lane in self._lanes.values() for b in lane.arrivals)

    def _arrive(self, header: Header, state: Tensor, held: Held, source: int, now_ns: int) -> None:
        task = Task.of(header, now_ns, source)
        task.held, task.state = held, state
        if self._device != 'cpu':
            # Received is what lies on the device.
            task.state, task.queued_ns = state.to(self._device), time.monotonic_ns()
        self._queue(task)

    def _queue(self, task: Task) -> None:
        lane = self._lanes.get(task.stream)
        if lane is None:
            self._drop(task)
            return
        task.ring = lane.ring(task.step, task.block)
        self._tasks.append(task)

    # What may run.

    def _choose(self, now_ns: int) -> Sequence[Task]:
        ready = self._ready()
        if len(ready) < 2 and not self._patience_ns:
            self._state[lay.WAITING] = 0
            return ready
        self._state[lay.WAITING] = _longest(ready, self._spec.blocks)
        slack = (now_ns, self._stages_left, self._pace.batch_ns)
        batch = form_batch(ready, self._limit, *slack)
        if self._patience_ns and batch and batch[0].block in self._arrivals:
            held = (batch, len(ready), self._limit, self._patience_ns)
            self._hold_ns = hold_ns(*held, *slack)
        return () if self._hold_ns else batch

    def _stages_left(self, task: Task) -> int:
        blocks = self._spec.blocks
        return (self._grouping.passes - task.step) * blocks - task.block

    def _ready(self) -> list[Task]:
        era, ready, dead = self._board.era, [], []
        for task in self._tasks:
            if task.era != era(task.stream):
                dead.append(task)
            elif task.ring is not None and task.ring.ready(task.era, task.turn):
                ready.append(task)
        for task in dead:
            self._tasks.remove(task)
            self._drop(task)
        return ready

    def _drop(self, task: Task) -> None:
        task.release()
        self._state[lay.DROPPED] += 1

    # What is done.

    def _run(self, batch: Sequence[Task]) -> None:
        if len(batch) > 1:
            # The steps of a stream lie side by side in memory: in this order nothing is gathered.
            batch = sorted(batch, key=_place)
        rings = [task.ring for task in batch if task.ring is not None]
        for task, ring in zip(batch, rings, strict=True):
            ring.begin(task.era, task.turn, task.chunk, task.commit)
            self._tasks.remove(task)
        rows = self._rows(batch)
        started_ns = time.monotonic_ns()
        outs = self._compute.run(batch[0].block, rows, self._kv.over(rings))
        ended_ns = time.monotonic_ns()
        self._model_ns += ended_ns - started_ns
        self._pace.learn(len(batch), ended_ns - started_ns)
        for task, ring, out in zip(batch, rings, outs, strict=True):
            self._record(task, task.block, len(batch), started_ns, ended_ns)
            self._finish(task, ring)
            self._hand_on(task, out, ended_ns)
        self._state[lay.TASKS] += len(batch)

    def _rows(self, batch: Sequence[Task]) -> list[Row]:
        if batch[0].block:
            return [Row(task.step, task.state) for task in batch]
        before_ns = self._ends.spent_ns
        rows = self._ends.rows(batch)
        self._model_ns += self._ends.spent_ns - before_ns
        return rows

    def _finish(self, task: Task, ring: KvRing) -> None:
        if self._grouping.per_pass_kv or task.step == self._grouping.passes - 1:
            ring.finish(task.turn)

    # What goes on.

    def _hand_on(self, task: Task, out: Tensor | None, now_ns: int) -> None:
        last_block = task.block == self._spec.blocks - 1
        clean = last_block and task.step == self._spec.steps - 1
        if clean and out is not None and not task.commit:
            self._deliver(task, out, now_ns)
        if last_block and task.step == self._grouping.passes - 1:
            task.release()
            if task.commit or self._grouping.passes > self._spec.steps:
                self._post(POOL, task.header(Kind.DONE, now_ns, 0), ())
            return
        if out is None:
            raise EngineError(f'{self._spec.name} left nothing after pass {task.step}')
        if task.lies_in(out):
            out = out.clone()
        task.release()
        self._advance(task, out, last_block, now_ns)

    def _advance(self, task: Task, out: Tensor, last_block: bool, now_ns: int) -> None:
        task.step, task.block = (task.step + 1, 0) if last_block else (task.step, task.block + 1)
        target = self._lanes[task.stream].grouping.owner_of(task.step, task.block)
        if target == self._me:
            task.state, task.source, task.queued_ns = out, LOCAL, now_ns
            task.bytes = task.sent_ns = 0
            self._queue(task)
            return
        kind = Kind.LATENT if last_block else Kind.HIDDEN
        size = out.numel() * out.element_size()
        self._post(target, task.header(kind, now_ns, size), (out,))

    def _deliver(self, task: Task, latent: Tensor, now_ns: int) -> None:
        task.denoised_ns = now_ns
        decoded = self._ends.decode(task, latent)
        task.decoded_ns = time.monotonic_ns()
        self._model_ns += task.decoded_ns - now_ns
        task.queued_ns, task.source, task.sent_ns, task.bytes = now_ns, LOCAL, 0, 0
        self._record(task, self._spec.blocks, 1, now_ns, task.decoded_ns)
        parts = tuple(part for part in decoded if part is not None)
        size = sum(part.numel() * part.element_size() for part in parts)
        task.frames = decoded.frames is not None
        self._post(POOL, task.header(Kind.RESULT, task.decoded_ns, size), parts)

    def _post(self, target: int, header: Header, parts: tuple[Tensor, ...]) -> None:
        if header.era != self._board.era(header.stream):
            self._state[lay.DROPPED] += 1
            return
        waiting = self._pending[target]
        if waiting or not self._site.outboxes[target].send(header, parts):
            waiting.append((header, parts))
            self._blocked += 1

    def _flush(self) -> None:
        if not self._blocked:
            return
        blocked = 0
        for target, waiting in self._pending.items():
            if waiting:
                self._flush_one(target, waiting)
                blocked += len(waiting)
        self._state[lay.PENDING] = self._blocked = blocked

    def _flush_one(self, target: int, waiting: deque[tuple[Header, tuple[Tensor, ...]]]) -> None:
        now_ns = time.monotonic_ns()
        while waiting:
            header, parts = waiting[0]
            alive = header.era == self._board.era(header.stream)
            if alive and not self._site.outboxes[target].send(header, parts):
                waited_ns = now_ns - header.sent_ns
                if waited_ns > self._hop_timeout_ns:
                    raise DeadlinePassed(_full(self._me, target, waited_ns))
                return
            waiting.popleft()

    def _record(self, task: Task, block: int, rows: int, started_ns: int, ended_ns: int) -> None:
        self._spans.write(
            self._me, task.source, rows, task.stream, task.step, block, task.bytes, task.era,
            task.chunk, task.sent_ns, task.queued_ns, started_ns, ended_ns, self._overhead_ns,
        )  # fmt: skip


def _longest(ready: Sequence[Task], blocks: int) -> int:
    """Return the stage, from 1, of the task that has waited longest behind others; 0: none."""
    if len(ready) < 2:
        return 0
    oldest = min(ready, key=_since)
    return 1 + oldest.step * blocks + oldest.block


def _since(task: Task) -> int:
    return task.queued_ns


def _place(task: Task) -> tuple[int, int]:
    return (task.stream, task.step)


def _full(source: int, target: int, waited_ns: int) -> str:
    name = 'the pool' if target == POOL else f'worker {target}'
    return (
        f'hop from worker {source} to {name} must take a message within hop_timeout_s, '
        f'got none in {waited_ns / 1e9:.1f} s'
    )
