# SPDX-License-Identifier: Apache-2.0
"""Single workers looked at closely: renewal at steps (E11), full hops (E5), dead tasks."""

from __future__ import annotations

import time
from pathlib import Path

import pytest
import torch
from engine_cases import (
    SECOND_NS,
    LocalCrew,
    batched,
    inputs,
    local_crew,
    spec_of,
)

from physis_ros.backbones.registry import open_backbone
from physis_ros.engine.compute import Compute, Row
from physis_ros.engine.config import PoolConfig
from physis_ros.engine.kv import KvRing
from physis_ros.engine.noise import NoiseSource
from physis_ros.engine.pool import Pool
from physis_ros.errors import DeadlinePassed, EngineError, ParameterError

URI = 'synthetic:blocks=2,steps=3,width=8,heads=1,conditioning=step'


class IdleCrew(LocalCrew):
    """Turns nobody by itself."""

    def dead(self) -> tuple[int, ...]:
        """Everyone seems fine, but only greets and opens."""
        return ()

    def check_moving(self, now_ns: int) -> None:
        """Standing still is what these tests do."""

    def turn(self, worker: int = 0) -> None:
        with torch.inference_mode():
            self.loops[worker].turn()


def opened(config: PoolConfig) -> tuple[Pool, IdleCrew]:
    """Return a pool with the stream ``robot`` open, and its crew."""
    crews = []

    class Crew(IdleCrew):
        def __init__(self, *args: object) -> None:
            super().__init__(*args)
            crews.append(self)

        def dead(self) -> tuple[int, ...]:
            for worker in range(len(self.loops)) if self.opening else ():
                self.turn(worker)
            return ()

        opening = True

    pool = Pool(config, crew=Crew)
    pool.start()
    pool.open_stream('robot')
    crews[0].opening = False
    return pool, crews[0]


def by_hand(observed: list[int], epoch: int = 0) -> torch.Tensor:
    """Return the actions of chunk 0 when each step takes its own observation."""
    model, spec = open_backbone(URI), spec_of(URI)
    compute, noise = Compute(model, 'cpu'), NoiseSource(0, spec.latent_shape)
    state = None
    with torch.inference_mode():
        for step, number in enumerate(observed):
            row = Row(step, state, model.encode(batched(inputs(number))),
                      noise.draw('robot', epoch, 0, step))  # fmt: skip
            for block in range(2):
                ring = KvRing(spec, 'cpu')
                ring.begin(0, 0, 0)
                (state,) = compute.run(block, [row], ring)
                row = Row(step, state)
        return model.decode(state, batched(inputs(observed[-1])), False).actions[0]


def test_conditioning_is_renewed_at_every_step() -> None:
    pool, crew = opened(PoolConfig(URI, 1, conditioning='step', max_streams=1))
    with pool:
        pool.enter('robot', inputs(0), 0, False)
        crew.turn()  # step 0 begins with the observation it entered with
        pool.observe('robot', 0, inputs(1))
        crew.turn()
        crew.turn()  # step 1 begins with the next one
        pool.observe('robot', 0, inputs(2))
        last = pool.observe('robot', 0, inputs(3))
        for _ in range(3):
            crew.turn()
        result = pool.next_result(0.0)
        assert pool.observe('robot', 0, inputs(4)) is None, 'it is out'
    assert result is not None
    assert result.observation == last
    torch.testing.assert_close(
        torch.from_numpy(result.actions), by_hand([0, 1, 3]), rtol=0, atol=1e-5
    )


def test_each_chunk_takes_what_it_was_shown() -> None:
    pool, crew = opened(PoolConfig(URI, 1, conditioning='step', max_streams=1, in_flight=2))
    with pool:
        for number in (0, 10):
            assert pool.enter('robot', inputs(number), number, False) == number // 10
        shown = [pool.observe('robot', chunk, inputs(1 + 8 * chunk)) for chunk in (0, 1)]
        for _ in range(12):
            crew.turn()
        results = [pool.next_result(0.0) for _ in range(2)]
    assert [result.observation for result in results] == shown
    torch.testing.assert_close(
        torch.from_numpy(results[0].actions), by_hand([1, 1, 1]), rtol=0, atol=1e-5
    )


def test_what_is_in_use_is_not_written_over() -> None:
    pool, crew = opened(PoolConfig(URI, 1, conditioning='step', max_streams=1, in_flight=2))
    with pool:
        pool.enter('robot', inputs(0), 0, False)
        crew.turn()
        assert pool.renewals == 2 * 3
        versions = [pool.observe('robot', 0, inputs(number)) for number in range(1, 7)]
        with pytest.raises(EngineError, match='for one chunk must be at most 6, got one more; '
                           'nothing may be written over while it is in use'):  # fmt: skip
            pool.observe('robot', 0, inputs(7))
        pool.enter('robot', inputs(8), 1, False)
        assert pool.observe('robot', 1, inputs(9)) is not None, 'the other chunk has its own'
        for _ in range(5):
            crew.turn()
        result = pool.next_result(0.0)
    assert result is not None
    assert result.observation == versions[-1]
    torch.testing.assert_close(
        torch.from_numpy(result.actions), by_hand([0, 6, 6]), rtol=0, atol=1e-5
    )


def test_a_new_epoch_is_shown_nothing_of_the_old_one() -> None:
    pool, crew = opened(PoolConfig(URI, 1, conditioning='step', max_streams=1))
    with pool:
        pool.enter('robot', inputs(3), 0, False)
        crew.turn()
        old = pool.observe('robot', 0, inputs(4))
        assert pool.reset('robot') == 1
        assert pool.observe('robot', 0, inputs(5)) is None, 'nothing is in flight'
        assert pool.enter('robot', inputs(6), 0, False) == 0
        for _ in range(8):
            crew.turn()
        result = pool.next_result(0.0)
    assert result is not None
    assert (result.epoch, result.chunk) == (1, 0)
    assert result.observation > old, 'no version is given twice'
    torch.testing.assert_close(
        torch.from_numpy(result.actions), by_hand([6, 6, 6], epoch=1), rtol=0, atol=1e-5
    )


def test_renewal_that_weights_do_not_allow_is_refused() -> None:
    with pytest.raises(ParameterError, match="conditioning must be 'entry'"):
        Pool(PoolConfig('synthetic:', 1, conditioning='step'))


def test_at_entry_conditioning_stays() -> None:
    pool, crew = opened(PoolConfig(URI, 1, max_streams=1))
    with pool:
        with pytest.raises(EngineError, match="needs conditioning 'step'"):
            pool.observe('robot', 0, inputs(1))
        pool.enter('robot', inputs(5), 0, False)
        for _ in range(6):
            crew.turn()
        result = pool.next_result(0.0)
    assert result is not None
    assert result.observation == 1
    torch.testing.assert_close(
        torch.from_numpy(result.actions), by_hand([5, 5, 5]), rtol=0, atol=1e-5
    )


def test_a_hop_that_stays_full_is_named() -> None:
    config = PoolConfig(URI, 2, mailbox_depth=1, in_flight=4, hop_timeout_s=0.05, max_streams=1)
    pool, crew = opened(config)
    with pool:
        for number in range(2):
            pool.enter('robot', inputs(number), time.monotonic_ns() + SECOND_NS, False)
            for _ in range(3):
                crew.turn(0)
        time.sleep(0.06)
        with pytest.raises(DeadlinePassed, match='hop from worker 0 to worker 1 must take'):
            crew.turn(0)


def test_a_full_hop_does_not_stop_its_worker() -> None:
    config = PoolConfig(URI, 2, mailbox_depth=1, in_flight=4, max_streams=1)
    pool, crew = opened(config)
    with pool:
        for number in range(4):
            pool.enter('robot', inputs(number), time.monotonic_ns() + SECOND_NS, False)
            for _ in range(4):
                crew.turn(0)
        assert pool.health()['queued'] == [0, 0], 'all four went through worker 0'
        for _ in range(20):
            crew.turn(1)
            crew.turn(0)
        assert [pool.next_result(0.0).chunk for _ in range(4)] == [0, 1, 2, 3]


def test_dead_tasks_are_dropped_wherever_they_are() -> None:
    config = PoolConfig(URI, 2, mailbox_depth=1, in_flight=4, max_streams=1)
    pool, crew = opened(config)
    with pool:
        for number in range(3):
            pool.enter('robot', inputs(number), time.monotonic_ns() + SECOND_NS, False)
        for _ in range(7):
            crew.turn(0)  # one in the mailbox, one waits before it, one is half way
        assert pool.reset('robot') == 1
        for worker in (0, 1, 0, 1):
            crew.turn(worker)
        assert pool.next_result(0.0) is None
        assert pool.health()['queued'] == [0, 0]
        assert pool.health()['dropped'] >= 2
        assert pool.ready('robot')
        assert pool.enter('robot', inputs(0), 0, False) == 0


def test_a_batch_waits_for_company_and_goes_without_it() -> None:
    config = PoolConfig(URI, 1, max_batch=2, in_flight=2, batch_wait_us=2e5, max_streams=1)
    pool, crew = opened(config)
    with pool:
        far_ns = time.monotonic_ns() + 60 * SECOND_NS
        pool.enter('robot', inputs(0), far_ns, False)
        crew.turn()
        assert pool.health()['queued'] == [1]
        assert not pool.chunk_spans('robot', 0), 'it waits'
        time.sleep(0.21)
        crew.turn()
        assert [span.batch for span in pool.chunk_spans('robot', 0)] == [1], 'nobody came'
        pool.reset('robot')
        pool.enter('robot', inputs(0), time.monotonic_ns(), False)
        crew.turn()
        assert len(pool.chunk_spans('robot', 0)) == 1, 'no slack, no wait'


def test_a_trace_that_cannot_be_written_is_refused(tmp_path: Path) -> None:
    config = PoolConfig(URI, 1, trace=tmp_path / 'nowhere' / 'trace.json')
    with pytest.raises(ParameterError, match='trace must be a file that can be written'):
        Pool(config, crew=local_crew(0)).start()
