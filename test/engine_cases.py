# SPDX-License-Identifier: Apache-2.0
"""What the engine tests share: inputs by number, the oracle, a crew without processes."""

from __future__ import annotations

import random
import time
from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np
import torch

from physis_ros.backbones.base import ModelSpec
from physis_ros.backbones.registry import open_backbone, read_spec
from physis_ros.engine.arena import Arena
from physis_ros.engine.bell import Bell, Waiter
from physis_ros.engine.board import Board
from physis_ros.engine.cost import BatchCurve, ModelCost
from physis_ros.engine.crew import Crew
from physis_ros.engine.devices import Device, DevicePool
from physis_ros.engine.door import Door
from physis_ros.engine.layout import POOL, Layout, Site
from physis_ros.engine.loop import WorkerLoop
from physis_ros.engine.mailbox import Mailbox
from physis_ros.engine.message import Kind
from physis_ros.engine.pool import Pool
from physis_ros.engine.result import ChunkResult
from physis_ros.engine.serial import SerialEngine
from physis_ros.errors import WorkerDied

SECOND_NS = 1_000_000_000


def inputs(number: int) -> dict[str, Any]:
    """Return the synthetic model's inputs, one for each number; from 500 on with a prefix."""
    drawn = np.random.default_rng(number)
    made = {
        'frames': drawn.integers(0, 255, (1, 8, 8, 3), dtype=np.uint8),
        'joints': drawn.normal(size=4).astype(np.float32),
        'delay': np.int64(number % 20),
    }
    if number >= 500:
        made['prefix'] = drawn.normal(size=(4, 2)).astype(np.float32)
        made['prefix_weight'] = drawn.random(4).astype(np.float32)
    return made


def witnessed(number: int) -> dict[str, Any]:
    """Return what really happened, different for every number, as a commit takes it."""
    drawn = np.random.default_rng(10_000 + number)
    return {**inputs(number), 'actions': drawn.normal(size=(4, 2)).astype(np.float32)}


def batched(values: dict[str, Any]) -> dict[str, torch.Tensor]:
    """Return inputs with a batch axis of one, as the serial engine takes them."""
    return {name: torch.from_numpy(np.asarray(value))[None] for name, value in values.items()}


class Oracle:
    """The serial engine on the same model; chunks are computed as they are asked for."""

    def __init__(self, uri: str, seed: int = 0, override: bool = False) -> None:
        self._engine = SerialEngine(open_backbone(uri), seed, override_kv_rule=override)

    def open(self, stream: str) -> None:
        self._engine.open(stream)

    def close(self, stream: str) -> None:
        self._engine.close(stream)

    def reset(self, stream: str) -> int:
        return self._engine.reset(stream)

    def commit(self, stream: str, chunk: int, number: int) -> None:
        self._engine.commit(stream, chunk, batched(witnessed(number)))

    def run(self, stream: str, number: int, *later: int) -> tuple[np.ndarray, np.ndarray]:
        """
        Return actions and frames of the stream's next chunk.

        :param later: what each step after the first takes; none: what that took.
        """
        shown = {n: batched(inputs(n)) for n in {number, *later}}
        if later:
            decoded = self._engine.run_renewed(stream, [shown[n] for n in (number, *later)], True)
        else:
            decoded = self._engine.run(stream, shown[number], True)
        assert decoded.frames is not None
        return decoded.actions[0].numpy(), decoded.frames[0].numpy()


def assert_same(result: ChunkResult, expected: tuple[np.ndarray, np.ndarray]) -> None:
    """Within rounding; a pixel may fall to the other side of one."""
    actions, frames = expected
    np.testing.assert_allclose(result.actions, actions, rtol=0, atol=1e-5)
    assert result.frames is not None
    assert np.abs(result.frames.astype(int) - frames).max() <= 1


class Killed(Exception):
    """Whose worker died in the middle of something."""


class LocalCrew(Crew):
    """
    The workers' real loops over the real shared memory, in this process, turned in random order.

    Every order in which worker processes could get the processor can happen here, by seed, and
    each can die between two turns, or over a message, as :meth:`die` says.
    """

    seed = 0

    def __init__(self, layout: Layout, registry: str) -> None:
        self.layout, self.words = layout, {}
        self._processes = {}
        self.killed: set[int] = set()
        self._looked_ns = self._awake_ns = 0
        self._order = random.Random(self.seed)
        self._arena = Arena.create(layout.offsets()['end'])
        workers = range(layout.grouping.workers)
        self._bells = {owner: Bell.create() for owner in (POOL, *workers)}
        self.site = Site(layout, self._arena, POOL, self._bells)
        self.board = Board(self._arena, self.site.board_offset, layout.board)
        self._loops: dict[int, WorkerLoop] = {}
        for worker in workers:
            self.fill(worker)

    @property
    def loops(self) -> list[WorkerLoop]:
        """Of the workers that live, by their places."""
        return [self._loops[worker] for worker in sorted(self._loops)]

    @property
    def pids(self) -> tuple[int, ...]:
        return ()

    def dead(self) -> tuple[int, ...]:
        """Let somebody work; the pool calls this whenever it looks."""
        self.turn()
        return tuple(sorted(self.killed))

    def death_of(self, worker: int) -> WorkerDied:
        return WorkerDied(worker, -9, self.words.pop(worker, ''))

    def vacate(self, worker: int) -> None:
        self.killed.discard(worker)
        self._quiet(worker)

    def fill(self, worker: int) -> None:
        layout, bells = self.layout, self._bells
        site = Site(layout, self._arena, worker, bells)
        board = Board(self._arena, site.board_offset, layout.board)
        model = open_backbone(layout.config.model, 'cpu', layout.blocks_of(worker))
        self._loops[worker] = WorkerLoop(worker, layout, site, board, model, Waiter(bells[worker]))
        self._loops[worker].say(Kind.READY)

    def die(self, worker: int, sent: int | None = None) -> None:
        """
        Have a worker die.

        :param sent: so many messages later, with the next one written and not sent; None: now.
        """
        if sent is None:
            self._end(worker)
            return
        left = [sent]

        def die_over_it(box: Mailbox, *message: object) -> None:
            left[0] -= 1
            if left[0] < 0:
                raise Killed(worker)
            Mailbox._publish(box, *message)

        for box in self._loops[worker]._site.outboxes.values():
            box._publish = partial(die_over_it, box)

    def kill(self, worker: int, words: str) -> None:
        self.words[worker] = words
        self._end(worker)

    def _end(self, worker: int) -> None:
        if self._loops.pop(worker, None) is not None:
            self.killed.add(worker)

    def turn(self) -> None:
        if not self._loops:
            return
        with torch.inference_mode():
            try:
                self._order.choice(self.loops).turn()
            except Killed as killed:
                self._end(killed.args[0])

    def wait(self, timeout_s: float) -> None:
        self.turn()

    def close(self) -> None:
        for bell in self._bells.values():
            bell.close()
        self._arena.close()


def local_crew(seed: int) -> type[LocalCrew]:
    """Return a crew whose workers are turned in the order of a seed."""
    return type('SeededCrew', (LocalCrew,), {'seed': seed})


def apart(spec: ModelSpec, workers: int) -> Door:
    """Return a door that carries each stream whole, each on a worker of its own."""
    cost = ModelCost(
        name=spec.name, passes=spec.passes, weight_bytes=(100,) * spec.blocks, kv_bytes=10,
        hidden_bytes=9, latent_bytes=9, mailbox_depth=1,
        curves=(BatchCurve((0.001,) * 8),) * spec.blocks,
    )  # fmt: skip
    memory = spec.blocks * (100 + 10 * spec.passes)
    devices = tuple(
        Device(f'worker {i}', memory, node=str(i), uplink_bytes_per_s=1.0) for i in range(workers)
    )
    return Door(cost, DevicePool(devices), headroom=0.0)


def collect(pool: Pool, count: int, timeout_s: float = 30.0) -> list[ChunkResult]:
    """Return the next ``count`` results."""
    results: list[ChunkResult] = []
    until_s = time.monotonic() + timeout_s
    while len(results) < count:
        assert time.monotonic() < until_s, f'{len(results)} of {count} results'
        result = pool.next_result(1.0)
        if result is not None:
            results.append(result)
    return results


def feed(pool: Pool, stream: str, numbers: range, timeout_s: float = 30.0) -> list[ChunkResult]:
    """Enter inputs by number as fast as the pool takes them; return all results in order."""
    results: list[ChunkResult] = []
    waiting = list(numbers)
    until_s = time.monotonic() + timeout_s
    while len(results) < len(numbers):
        assert time.monotonic() < until_s, f'{len(results)} of {len(numbers)} results'
        if waiting and pool.ready(stream):
            deadline_ns = time.monotonic_ns() + SECOND_NS
            pool.enter(stream, inputs(waiting.pop(0)), deadline_ns, True)
        result = pool.next_result(0.0 if waiting else 1.0)
        if result is not None:
            results.append(result)
    return results


def until(pool: Pool, done: Callable[[], bool], what: str, timeout_s: float = 30.0) -> None:
    """Let a pool go on until something has happened; results that come meanwhile are dropped."""
    until_s = time.monotonic() + timeout_s
    while not done():
        assert time.monotonic() < until_s, f'never came: {what}; {pool.overload=}'
        pool.next_result(0.01)


def catch_up(pool: Pool) -> None:
    """Wait until a pool that was asked for all it can do takes streams on again."""
    until(pool, lambda: pool.overload is None, 'the end of the overload')


def spec_of(uri: str) -> Any:
    """Return a model's sizes."""
    return read_spec(uri)
