# SPDX-License-Identifier: Apache-2.0
"""A dead worker is an event, not the end (E16), whatever moment a seed hits; in one process."""

from __future__ import annotations

import random
import threading
import time
from typing import Any

import pytest
from engine_cases import LocalCrew, feed, local_crew, until
from engine_story import Story
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from physis_ros.engine.config import PoolConfig
from physis_ros.engine.cost import BatchCurve, ModelCost
from physis_ros.engine.devices import Device, DevicePool
from physis_ros.engine.door import Door
from physis_ros.engine.places import MOST
from physis_ros.engine.pool import Pool
from physis_ros.errors import StreamLost

BLOCKS, STEPS, WORKERS = 3, 2, 4
URI = f'synthetic:blocks={BLOCKS},steps={STEPS},window=1,tokens=3,width=8,heads=1'
COST = ModelCost(
    name='synthetic', passes=STEPS, weight_bytes=(100,) * BLOCKS, kv_bytes=10, hidden_bytes=1,
    latent_bytes=1, mailbox_depth=1, curves=(BatchCurve((0.01,) * 8),) * BLOCKS,
)  # fmt: skip


class NarrowDoor(Door):
    """Scatters the stages of each stream over one or two of the workers there are."""

    def __init__(self, workers: int, seed: int) -> None:
        super().__init__(COST, DevicePool((Device('all', 10**9),)))
        self._there, self._count = set(range(workers)), workers
        self._chance = random.Random(seed)

    @property
    def workers(self) -> int:
        return self._count

    def admit(self, stream: str, slo_s: float, response_s: float = 0.0) -> tuple[int, ...]:
        count = min(self._chance.randint(1, 2), len(self._there))
        some = self._chance.sample(sorted(self._there), count)
        return tuple(self._chance.choice(some) for _ in range(BLOCKS * STEPS))

    def leave(self, stream: str) -> None:
        """Keep no books."""

    def retire(self, worker: int) -> None:
        self._there.remove(worker)

    def restore(self, worker: int) -> None:
        assert worker not in self._there
        self._there.add(worker)


class Mourning(Story):
    """A story in which workers die: who is lost by that is told once, and nobody else."""

    def __init__(self, config: PoolConfig, seed: int) -> None:
        super().__init__(config, seed, NarrowDoor(config.workers, seed))
        self.doomed: set[str] = set()
        self.losses = 0

    @property
    def crew(self) -> LocalCrew:
        crew = self.pool._desk.crew()
        assert isinstance(crew, LocalCrew)
        return crew

    def kill(self, sent: int | None) -> None:
        """Have a worker die that one open stream at least does without."""
        streams = [self.pool._streams.named(name) for name in self.epochs]
        spared = [w for w in range(self.pool.config.workers)
                  if any(w not in s.grouping.used for s in streams)]  # fmt: skip
        if spared and not self.pool.vacancies:
            worker = self.chance.choice(spared)
            self.doomed |= {s.name for s in streams if worker in s.grouping.used}
            self.crew.die(worker, sent)

    def step(self) -> None:
        try:
            super().step()
        except StreamLost as lost:
            self.lose(lost)

    def lose(self, lost: StreamLost) -> None:
        """Take in that a stream was lost, by whatever call."""
        assert lost.stream in self.doomed
        if lost.stream in self.epochs:
            self.losses += 1
            self.oracle.close(lost.stream)
            del self.epochs[lost.stream]
            self._forget(lost.stream)

    def settle(self) -> None:
        """Take what comes until all who were lost have been told, and every place is filled."""
        until_s = time.monotonic() + 20
        while self.crew.killed or self.pool.vacancies or self.pool._streams.untold:
            assert time.monotonic() < until_s, (self.pool.vacancies, self.pool.lost)
            self.step()
        assert set(self.pool.lost) == self.doomed


@settings(
    max_examples=10, deadline=None, suppress_health_check=[HealthCheck.too_slow], database=None
)
@given(seed=st.integers(0, 2**16), rows=st.sampled_from([1, 2, 8]))
def test_streams_beside_a_dead_worker_equal_the_oracle_to_the_end(seed: int, rows: int) -> None:
    config = PoolConfig(
        URI, WORKERS, max_streams=4, max_batch=rows, in_flight=3, mailbox_depth=1 + seed % 2
    )
    story = Mourning(config, seed)
    with story.pool as pool:
        pool.start()
        for name in 'abcd':
            story.open_at_last(name)
        for _ in range(MOST):  # so often a place is filled again, whichever is hit
            for _ in range(10):
                story.step()
            story.kill(story.chance.choice([None, 0, 1, 3]))
            for _ in range(20):
                story.step()
            # What was to die over its next message may have sent none.
            for worker in [w for w, loop in story.crew._loops.items() if dying(loop)]:
                story.crew.die(worker)
            story.settle()
            for name in sorted(pool.lost):
                with pytest.raises(StreamLost, match=f"stream '{name}' was lost: worker . ended"):
                    pool.ready(name)
                story.open_at_last(name)
            story.doomed.clear()
        story.quiet()
        assert pool.lost == {}
        open_streams = [pool._streams.named(name) for name in story.epochs]
        for worker, loop in story.crew._loops.items():
            carried = {s.index for s in open_streams if worker in s.grouping.used}
            assert set(loop._lanes) == carried, 'nothing of a lost stream is held'
            assert not loop._tasks
            blocks = {b for s in open_streams for b in s.grouping.blocks_of(worker)}
            assert set(loop._compute.backbone._blocks) == blocks
    assert story.delivered > 0


def dying(loop: Any) -> bool:
    """Tell whether a worker is to die over a message."""
    return any('_publish' in vars(box) for box in loop._site.outboxes.values())


def test_a_stream_is_lost_on_all_its_workers_even_while_it_opens() -> None:
    class Both(NarrowDoor):
        def admit(self, stream: str, slo_s: float, response_s: float = 0.0) -> tuple[int, ...]:
            pair = (0, 1) if stream == 'wide' else (2, 2)
            return tuple(pair[stage % 2] for stage in range(BLOCKS * STEPS))

    config = PoolConfig(URI, 3, max_streams=2)
    with Pool(config, crew=local_crew(1), door=Both(3, 0)) as pool:
        pool.start()
        pool.open_stream('beside', slo_s=1.0)
        crew = pool._desk.crew()
        loop = crew.loops[0]
        make, go = loop._opener._open, threading.Event()
        loop._opener._open = lambda *given: go.wait(20) and make(*given)
        threading.Timer(0.2, lambda: crew.die(1)).start()
        threading.Timer(0.4, go.set).start()
        with pytest.raises(StreamLost, match="'wide' was lost: worker 1 ended"):
            pool.open_stream('wide', slo_s=1.0)
        assert pool.lost == {}, 'who opened it knows'
        assert not loop._lanes
        assert loop._compute.backbone._blocks == {}
        assert pool.next_result(0.0) is None
        loop._opener._open = make
        until(pool, lambda: not pool.vacancies, 'a new worker')
        pool.open_stream('wide', slo_s=1.0)
        assert [r.stream for r in feed(pool, 'wide', range(3))] == ['wide'] * 3


def test_closing_ends_beside_a_death() -> None:
    """A worker that dies while it is to free a stream is not waited for."""

    class Both(NarrowDoor):
        def admit(self, stream: str, slo_s: float, response_s: float = 0.0) -> tuple[int, ...]:
            return ((0, 1) if stream == 'wide' else (2, 2)) * (BLOCKS * STEPS // 2)

    config = PoolConfig(URI, 3, max_streams=2)
    with Pool(config, crew=local_crew(1), door=Both(3, 0)) as pool:
        pool.start()
        for name in ('beside', 'wide'):
            pool.open_stream(name, slo_s=1.0)
        crew = pool._desk.crew()
        crew.die(1, 0)
        pool.close_stream('wide')
        assert pool.lost == {}
        assert pool.health()['streams'] == ['beside']
        assert not crew.loops[0]._lanes
        until(pool, lambda: pool.replaced == 1, 'a new worker')
