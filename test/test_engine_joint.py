# SPDX-License-Identifier: Apache-2.0
"""Streams that come and go, each placed for itself, beside others that run (E9)."""

from __future__ import annotations

import random
import threading
import time
from collections import Counter
from copy import deepcopy
from dataclasses import replace
from pathlib import Path

import pytest
from engine_cases import SECOND_NS, catch_up, collect, feed, inputs, local_crew, until
from engine_story import Story
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from physis_ros.engine.config import PoolConfig
from physis_ros.engine.cost import BatchCurve, ModelCost
from physis_ros.engine.devices import Device, DevicePool
from physis_ros.engine.door import Door, crowded, limited
from physis_ros.engine.opening import Opening
from physis_ros.engine.overload import ENOUGH
from physis_ros.engine.pool import Pool
from physis_ros.errors import (
    AdmissionRefused,
    DeadlinePassed,
    EngineError,
    ParameterError,
    PlanError,
)

BLOCKS, STEPS = 3, 2
URI = f'synthetic:blocks={BLOCKS},steps={STEPS},window=1,tokens=3,width=8,heads=1'
MEMORY = 1000


def cost(block_s: float = 0.01, kv: int = 10) -> ModelCost:
    """Return what the model costs: 100 bytes a block, 10 a stage, a batch as much as a row."""
    return ModelCost(
        name='synthetic', passes=STEPS, weight_bytes=(100,) * BLOCKS, kv_bytes=kv,
        hidden_bytes=1, latent_bytes=1, mailbox_depth=1,
        curves=(BatchCurve((block_s,) * 8),) * BLOCKS,
    )  # fmt: skip


def door(workers: int, memory: int = MEMORY, block_s: float = 0.01) -> Door:
    devices = tuple(Device(f'worker {i}', memory) for i in range(workers))
    return Door(cost(block_s), DevicePool(devices), headroom=0.0)


class ScatteringDoor(Door):
    """Places every stage anywhere: what it admits must run all the same."""

    def __init__(self, workers: int, seed: int) -> None:
        super().__init__(cost(), DevicePool((Device('all', 10**9),)))
        self._count, self._chance = workers, random.Random(seed)

    @property
    def workers(self) -> int:
        return self._count

    def admit(self, stream: str, slo_s: float, response_s: float = 0.0) -> tuple[int, ...]:
        return tuple(self._chance.randrange(self._count) for _ in range(BLOCKS * STEPS))

    def leave(self, stream: str) -> None:
        """Keep no books."""


@settings(
    max_examples=25, deadline=None, suppress_health_check=[HealthCheck.too_slow], database=None
)
@given(seed=st.integers(0, 2**16), workers=st.integers(1, 3), rows=st.sampled_from([1, 2, 8]))
def test_streams_that_come_and_go_equal_the_oracle(seed: int, workers: int, rows: int) -> None:
    config = PoolConfig(
        URI, workers, max_streams=3, max_batch=rows, in_flight=3, mailbox_depth=1 + seed % 2
    )
    story = Story(config, seed, ScatteringDoor(workers, seed))
    with story.pool as pool:
        pool.start()
        story.open('first')
        for number in range(60):
            story.step()
            if story.chance.random() < 0.1 and len(story.epochs) < 3:
                story.open(f'robot {number}')
            if story.chance.random() < 0.05 and len(story.epochs) > 1:
                story.close(story.chance.choice(sorted(story.epochs)))
        story.finish()
        held = [set(loop._compute.backbone._blocks) for loop in pool._desk.crew().loops]
        needed: list[set[int]] = [set() for _ in held]
        for name in story.epochs:
            grouping = pool._streams.named(name).grouping
            for worker in grouping.used:
                needed[worker] |= set(grouping.blocks_of(worker))
    assert held == needed, 'weights are there while somebody needs them, and no longer'
    assert story.delivered > 0


def test_what_a_worker_is_told_survives_the_way() -> None:
    opening = Opening('two words 3x4', (0, 0, 0, 2, 2, 1, 0))
    assert opening.text() == '0x3,2x2,1x1,0x1 two words 3x4'
    assert Opening.parse(opening.text()) == opening
    with pytest.raises(ParameterError, match='stream name must be shorter'):
        Opening('n' * 5000, (0,)).text()


def test_a_refusal_names_what_binds_and_leaves_nothing() -> None:
    config = PoolConfig(URI, 1, max_streams=9, max_batch=8)
    with Pool(config, crew=local_crew(0), door=door(1, memory=430)) as pool:
        pool.start()
        pool.open_stream('a', slo_s=1.0)
        assert pool.workers_of('a') == (0,)
        assert pool.what_if(2, 1.0)[0] == '', '300 of weights, 60 of KV each: two fit'
        second = pool.what_if(2, 1.0)[1]
        pool.open_stream('b', slo_s=1.0)
        with pytest.raises(AdmissionRefused, match="stream 'c' refused: memory on worker 0") as no:
            pool.open_stream('c', slo_s=1.0)
        assert second == str(no.value).replace("'c'", "'what if 2'")
        assert '2 devices instead of 1 would fit' in second
        assert pool.health()['streams'] == ['a', 'b']
        pool.close_stream('a')
        pool.open_stream('c', slo_s=1.0)
        pool.enter('c', inputs(0), time.monotonic_ns() + SECOND_NS, False)
        assert collect(pool, 1)[0].stream == 'c'


def test_time_is_admitted_batch_by_batch() -> None:
    config = PoolConfig(URI, 1, max_streams=9, max_batch=8)
    with Pool(config, crew=local_crew(0), door=door(1, memory=10**6, block_s=0.1)) as pool:
        pool.start()
        with pytest.raises(ParameterError, match='slo_s must be > 0, got 0'):
            pool.open_stream('a')
        with pytest.raises(AdmissionRefused, match=r'alone:time on worker 0.*an SLO of 30\d'):
            pool.open_stream('a', slo_s=0.25)
        with pytest.raises(
            AdmissionRefused, match=r'response on worker 0: alone it answers in 60'
        ):
            pool.open_stream('a', slo_s=0.31, response_s=0.5)
        for name in 'abcd':
            pool.open_stream(name, slo_s=0.31)  # eight rows of each block in one batch
        with pytest.raises(AdmissionRefused, match="stream 'e' refused: time on worker 0"):
            pool.open_stream('e', slo_s=0.31)


def test_weights_are_counted_once_for_a_device() -> None:
    config = PoolConfig(URI, 2, max_streams=9, max_batch=8)
    with Pool(config, crew=local_crew(0), door=door(2, memory=430)) as pool:
        pool.start()
        carried: Counter[int] = Counter()
        for name in 'abcdefghi':
            try:
                pool.open_stream(name, slo_s=1.0)
            except AdmissionRefused:
                break
            carried.update(pool.workers_of(name))
        # 860 bytes less one or two copies of 300 leave room for 9 or 4 streams of 60.
        assert sum(carried.values()) >= 4
        assert len(pool.health()['streams']) >= 4


def test_a_worker_without_memory_refuses_the_stream_not_the_pool(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv('PYTHONPATH', str(Path(__file__).parent))

    config = PoolConfig(f'missing+{URI}', 1, max_streams=2)
    devices = DevicePool((Device('worker 0', 10**9),))
    with Pool(config, 'engine_models', door=Door(cost(), devices)) as pool:
        pool.start(180.0)
        with pytest.raises(EngineError, match=r"'a' cannot be opened: worker 0: .*are missing"):
            pool.open_stream('a', slo_s=1.0)
        assert pool.health()['streams'] == []
        assert pool.what_if(1, 1.0) == ['']


def test_admission_closes_while_the_pool_is_behind() -> None:
    uri = f'{URI},stage_ms=4'
    config = PoolConfig(uri, 2, 'stage', max_streams=2, in_flight=2)
    with Pool(config, door=door(2, memory=10**6)) as pool:
        pool.start(180.0)
        pool.open_stream('robot', slo_s=1.0)
        assert pool.overload is None
        entered = 0
        until_s = time.monotonic() + 20
        while pool.overload is None and time.monotonic() < until_s:
            if pool.ready('robot'):
                pool.enter('robot', inputs(0), time.monotonic_ns() + SECOND_NS, False)
                entered += 1
            pool.next_result(0.001)
        overload = pool.overload
        assert overload is not None
        assert entered >= 4
        assert overload.streams == ('robot',)
        with pytest.raises(
            AdmissionRefused, match=r"'late' refused: closed: overloaded for .* step"
        ):
            pool.open_stream('late', slo_s=1.0)
        for _ in range(ENOUGH):
            until(pool, lambda: not pool._streams.named('robot').in_flight, 'an empty pipe')
            pool.enter('robot', inputs(0), time.monotonic_ns() + SECOND_NS, False)
        assert pool.overload is None, 'chunk after chunk found its way free'
        pool.open_stream('late', slo_s=1.0)


def test_what_if_changes_nothing() -> None:
    asked = door(2, memory=500)
    asked.admit('a', 1.0)
    asked.leave('a')
    before = deepcopy(asked._admitter._vacated)
    first = asked.what_if(9, 1.0)
    assert '' in first
    assert first[-1]
    assert asked.what_if(9, 1.0) == first
    assert asked._admitter._vacated == before
    assert asked._admitter.running == {}


def test_clean_weights_stay_on_one_worker_and_within_their_period() -> None:
    clean = replace(cost(0.1), overlaps=False)
    devices = DevicePool(tuple(Device(f'worker {i}', MEMORY) for i in range(2)))
    careful = Door(clean, devices, headroom=0.0)
    # Six stages of 0.1 s, one chunk after the other.
    assert len(set(careful.admit('a', 0.61))) == 1
    assert len(set(careful.admit('b', 0.61))) == 1
    with pytest.raises(AdmissionRefused, match='refused: time'):
        careful.admit('c', 0.61)
    with pytest.raises(AdmissionRefused, match=r'alone:time on worker 0: busy for 1\.0'):
        Door(clean, devices, headroom=0.0).admit('d', 0.59)


def test_a_narrower_place_is_taken_when_it_answers_in_time() -> None:
    far = tuple(
        Device(f'worker {i}', 430, link_bytes_per_s=10.0, node=str(i), uplink_bytes_per_s=10.0)
        for i in range(2)
    )
    near = Door(cost(0.001), DevicePool(far), headroom=0.0)
    assert len(set(near.admit('a', 9.0, response_s=0.01))) == 1


def test_admission_and_an_overridden_rule_do_not_go_together() -> None:
    config = PoolConfig(f'{URI},kv_rule=clean', 1, override_kv_rule=True)
    clean = replace(cost(), passes=STEPS + 1, overlaps=False)
    devices = DevicePool((Device('worker 0', MEMORY),))
    with pytest.raises(PlanError, match='cannot be used with override_kv_rule'):
        Pool(config, door=Door(clean, devices))


def test_a_stream_closed_while_it_opens_leaves_nothing() -> None:
    """The opening takes longer than anybody waits; its late answer is nobody's."""
    config = PoolConfig(URI, 1, max_streams=1, open_timeout_s=0.2)
    with Pool(config, crew=local_crew(0), door=door(1)) as pool:
        pool.start()
        loop = pool._desk.crew().loops[0]
        make, go = loop._opener._open, threading.Event()

        def slowly(*args: object) -> object:
            go.wait(10)
            return make(*args)

        loop._opener._open = slowly
        threading.Timer(0.3, go.set).start()
        with pytest.raises(DeadlinePassed, match=r"opening of 'a' must take at most 0.2 s"):
            pool.open_stream('a', slo_s=1.0)
        assert pool.health()['streams'] == []
        assert not loop._lanes
        assert loop._compute.backbone._blocks == {}
        loop._opener._open = make
        pool.open_stream('b', slo_s=1.0)
        pool.enter('b', inputs(0), time.monotonic_ns() + SECOND_NS, False)
        assert collect(pool, 1)[0].stream == 'b'


def test_a_worker_that_is_stuck_over_one_stream_carries_the_others() -> None:
    """Its place stays taken until the worker has let go of it; then all is as if it never came."""
    config = PoolConfig(URI, 1, max_streams=2, hop_timeout_s=2.0)
    with Pool(config, crew=local_crew(0), door=door(1)) as pool:
        pool.start()
        pool.open_stream('a', slo_s=1.0)
        loop = pool._desk.crew().loops[0]
        make, go = loop._opener._open, threading.Event()
        loop._opener._open = lambda *given: go.wait(20) and make(*given)
        patience_s, pool._members._patience_s = pool._members._patience_s, 0.1
        with pytest.raises(DeadlinePassed, match=r"opening of 'b' must take at most 0.1 s"):
            pool.open_stream('b', slo_s=1.0)
        assert pool.others('b') == ['a']
        feed(pool, 'a', range(3))
        with pytest.raises(EngineError, match="'b' is still being closed"):
            pool.open_stream('b', slo_s=1.0)
        with pytest.raises(EngineError, match=r"got 'c' beside \['a', 'b'\]"):
            pool.open_stream('c', slo_s=1.0)
        go.set()
        pool._members._patience_s = patience_s
        until(pool, lambda: not pool._streams.leaver('b').awaiting, 'word of the worker')
        loop._opener._open = make
        catch_up(pool)  # three chunks at once are all that it can do
        assert pool.what_if(1, 1.0) == ['']
        pool.open_stream('b', slo_s=1.0)
        feed(pool, 'b', range(3))
        assert set(loop._lanes) == {0, 1}


def test_costs_are_told_as_the_pool_will_run_them() -> None:
    curve = BatchCurve((1.0, 1.5, 2.0))
    plain = ModelCost('m', 1, (1,), 1, 1, 1, (curve,), 0.5, 0.25, crowding=2.0)
    assert limited(plain, 2).curves[0].times_s == (1.0, 1.5)
    slow = crowded(plain)
    assert slow.curves[0].times_s == (2.0, 3.0, 4.0)
    assert (slow.entry_s, slow.exit_s, slow.crowding) == (1.0, 0.5, 1.0)
