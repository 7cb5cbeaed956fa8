# SPDX-License-Identifier: Apache-2.0
"""The small pieces: noise, messages, board, batching, percentiles, thread budget, conditioning."""

import logging
import math

import numpy as np
import pytest
import torch
from engine_cases import inputs, spec_of
from hypothesis import given, settings
from hypothesis import strategies as st

from physis_ros.engine import threads
from physis_ros.engine.arena import Arena, check_processor
from physis_ros.engine.batching import form_batch, hold_ns
from physis_ros.engine.board import Board, BoardShape, epoch_of, era_of
from physis_ros.engine.message import BYTES, Header, Kind, unpack
from physis_ros.engine.noise import NoiseSource
from physis_ros.engine.pace import Pace
from physis_ros.engine.sketch import Sketch
from physis_ros.engine.spans import SpanRing, ring_bytes
from physis_ros.engine.task import Task
from physis_ros.errors import EngineError, ObservationError, ParameterError

WORD = st.integers(-(2**63), 2**63 - 1)


def test_noise_depends_on_all_it_should_and_nothing_else() -> None:
    base = (3, 'robot', 1, 2, 0)

    def draw(seed: int, *what: object) -> torch.Tensor:
        return NoiseSource(seed, (4, 5)).draw(*what)  # type: ignore[arg-type]

    first = draw(*base)
    assert first.shape == (1, 4, 5)
    assert first.dtype == torch.float32
    source = NoiseSource(3, (4, 5))
    source.draw('other', 0, 0, 0)
    assert torch.equal(source.draw('robot', 1, 2, 0), first)
    for changed in [(4, *base[1:]), (3, 'r', 1, 2, 0), (3, 'robot', 2, 2, 0),
                    (3, 'robot', 1, 3, 0), (3, 'robot', 1, 2, 1)]:  # fmt: skip
        assert not torch.equal(draw(*changed), first)


@settings(max_examples=50, database=None)
@given(st.builds(Header, st.sampled_from(Kind), st.integers(0, 3), st.integers(-1, 99),
                 st.integers(0, 99), st.integers(0, 999), st.integers(0, 2**32 - 1),
                 WORD, WORD, WORD, WORD, WORD, WORD, WORD, WORD, WORD))  # fmt: skip
def test_headers_survive_the_wire(header: Header) -> None:
    buffer = memoryview(bytearray(2 * BYTES))
    header.pack_into(buffer, BYTES)
    assert unpack(buffer, BYTES) == header
    buffer[BYTES] = 9
    with pytest.raises(EngineError, match='message version must be 1, got 9'):
        unpack(buffer, BYTES)


def board(chunks: int = 3, views: int = 1) -> Board:
    shape = BoardShape(2, chunks, views, spec_of('synthetic:').inputs)
    return Board(Arena.create(shape.bytes), 0, shape)


def test_the_board_keeps_the_newest_observations() -> None:
    kept = board(chunks=3)
    versions = [kept.post(1, inputs(number)) for number in range(4)]
    assert versions == [1, 2, 3, 4]
    assert sorted(kept.all_newest(1)) == [2, 3, 4]
    assert kept.all_newest(0) == []
    assert [kept.holds(1, version) for version in versions] == [False, True, True, True]
    for number in (1, 2, 3):
        found = kept.inputs(1, number + 1)
        for name, value in inputs(number).items():
            np.testing.assert_array_equal(found[name][0].numpy(), value)


def test_the_board_keeps_all_that_a_chunk_was_shown() -> None:
    kept = board(chunks=2, views=3)
    first, second = kept.post(0, inputs(0)), kept.post(0, inputs(10))
    newer = [kept.renew(0, first, inputs(number)) for number in (1, 2)]
    assert [kept.newest(0, version) for version in (first, *newer, second)] == [newer[1]] * 3 + [
        second
    ]
    assert sorted(kept.all_newest(0)) == [newer[1], second]
    with pytest.raises(EngineError, match='for one chunk must be at most 2, got one more'):
        kept.renew(0, first, inputs(3))
    shown = zip((first, *newer, second), (0, 1, 2, 10), strict=True)
    for version, number in shown:
        assert kept.holds(0, version)
        np.testing.assert_array_equal(
            kept.inputs(0, version)['joints'][0].numpy(), inputs(number)['joints']
        )
    third = kept.post(0, inputs(20))
    assert [kept.holds(0, version) for version in (first, second, third)] == [False, True, True]


def test_a_misfit_observation_changes_nothing() -> None:
    kept = board()
    kept.post(0, inputs(1))
    with pytest.raises(ObservationError, match=r'joints must have shape \(4,\), got \(3,\)'):
        kept.post(0, {**inputs(2), 'joints': np.zeros(3, np.float32)})
    with pytest.raises(ObservationError, match=r'inputs must be .* got'):
        kept.post(0, {'joints': np.zeros(4, np.float32)})
    assert kept.all_newest(0) == [1]
    np.testing.assert_array_equal(kept.inputs(0, 1)['joints'][0].numpy(), inputs(1)['joints'])


def test_eras_grow_with_life_and_epoch() -> None:
    assert era_of(2, 0) > era_of(1, 99) > era_of(1, 98)
    assert epoch_of(era_of(7, 41)) == 41


def task(deadline_ns: int, block: int, stream: int = 0, chunk: int = 0, step: int = 0) -> Task:
    return Task(stream, 0, chunk, chunk, step, block, deadline_ns, False, False, 0, 0, 0)


def batch(ready: list[Task], limit: int, now_ns: int = 0, row_ns: float = 0.0) -> list[Task]:
    """Ten stages are left to everybody; a batch takes ``row_ns`` for each row."""
    return form_batch(ready, limit, now_ns, lambda task: 10, lambda rows: rows * row_ns)


def test_the_earliest_deadline_leads_and_its_block_comes_along() -> None:
    late, lead, mate, other = task(30, 1), task(10, 1), task(20, 1, step=2), task(15, 0)
    assert batch([late, other, mate, lead], 8) == [lead, mate, late]
    assert batch([late, other, mate, lead], 2) == [lead, mate]
    assert batch([late, other, mate, lead], 1) == [lead]
    assert batch([], 1) == batch([], 8) == []


def test_a_batch_grows_only_while_every_member_stays_on_time() -> None:
    lead, second, third = task(1000, 1), task(2000, 1), task(3000, 1)
    ready = [third, second, lead]
    assert batch(ready, 8, row_ns=30) == [lead, second, third], '3 x 30 x 10 stages: 900'
    assert batch(ready, 8, row_ns=40) == [lead, second], 'with a third: 1200, the leader is late'
    assert batch(ready, 8, row_ns=60) == [lead]
    assert batch(ready, 8, row_ns=110) == [lead, second], 'the leader is lost: the second rules'
    assert batch(ready, 8, now_ns=950, row_ns=30) == [lead, second, third], '1050 left'
    assert batch(ready, 8, row_ns=400) == [lead, second, third], 'all late: nobody loses'


def test_at_equal_deadlines_the_older_chunk_leads() -> None:
    young, old = task(10, 0, chunk=3), task(10, 0, chunk=2)
    assert batch([young, old], 1) == [old]


def test_between_streams_it_does_not_matter_who_began_first() -> None:
    first, second = task(10, 0, stream=0, chunk=900), task(10, 0, stream=1, chunk=2)
    assert batch([second, first], 1) == [first]
    first.turn, second.turn = 2, 900
    assert batch([second, first], 1) == [first]


def test_a_batch_waits_within_patience_and_the_least_slack() -> None:
    first, second = task(1000, 1), task(900, 1, stream=1)
    first.queued_ns, second.queued_ns = 100, 120

    def hold(now_ns: int, patience_ns: int = 50, ready: int = 2, limit: int = 4) -> int:
        held = [first, second]
        return hold_ns(
            held, ready, limit, patience_ns, now_ns,
            lambda t: 14 + t.stream, lambda rows: 25 * rows,
        )

    assert hold(130) == 20, 'what is left of 50 since the first one came'
    assert hold(145, patience_ns=500) == 5, 'second: 900 - 145 - 750'
    assert hold(130, patience_ns=500) == 20, 'slack of the second, 900 - 130 - 750'
    assert hold(160, patience_ns=500) == 0, 'no slack left'
    assert hold(150) == 0, 'patience is at its end'
    assert hold(130, patience_ns=0) == 0, 'switched off'
    assert hold(130, limit=2) == 0, 'full'
    assert hold(130, ready=3) == 0, 'another block could run meanwhile'
    assert hold_ns([], 0, 4, 50, 130, lambda t: 0, lambda rows: 0.0) == 0


def test_the_pace_is_learned_and_told_for_sizes_that_never_ran() -> None:
    pace = Pace()
    assert pace.batch_ns(4) == 0.0
    pace.learn(2, 100)
    assert [pace.batch_ns(rows) for rows in (1, 2, 4)] == [100.0, 100.0, 200.0]
    pace.learn(2, 200)
    assert pace.batch_ns(2) == 105.0
    pace.learn(4, 150)
    assert [pace.batch_ns(rows) for rows in (3, 8)] == [150.0, 300.0]


@settings(max_examples=40, database=None)
@given(st.lists(st.integers(1, 10**10), min_size=1, max_size=300))
def test_percentiles_are_within_a_bucket(values: list[int]) -> None:
    whole, left, right = Sketch(), Sketch(), Sketch()
    for index, value in enumerate(values):
        whole.add(value)
        (left if index % 2 else right).add(value)
    left.merge(right)
    ordered = sorted(values)
    for percent in (1, 50, 99, 100):
        true = ordered[max(1, math.ceil(len(values) * percent / 100)) - 1]
        assert whole.percentile_ns(percent) == pytest.approx(true, rel=0.011)
        assert left.percentile_ns(percent) == whole.percentile_ns(percent)
    assert (whole.count, whole.max_ns) == (len(values), max(values))


def test_a_sketch_of_nothing_says_nan() -> None:
    assert math.isnan(Sketch().percentile_ns(50))
    assert math.isnan(Sketch().mean_ns)


def test_spans_are_lost_but_counted_when_nobody_reads() -> None:
    arena = Arena.create(ring_bytes(4))
    writer, reader = SpanRing(arena, 0, 4), SpanRing(arena, 0, 4)
    for chunk in range(6):
        writer.write(1, 2, 3, 4, 5, 6, 7, 8, chunk, 10, 11, 12, 13, 14)
    spans = reader.drain()
    assert [span.chunk for span in spans] == [0, 1, 2, 3]
    assert spans[0] == (1, 2, 3, 4, 5, 6, 7, 8, 0, 10, 11, 12, 13, 14)
    assert reader.lost == 2
    writer.write(1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14)
    assert [span.chunk for span in reader.drain()] == [9]


def test_more_threads_than_cores_are_warned_about(caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.WARNING):
        assert not threads.warn_when_over(2, 1, 2)
        assert caplog.text == ''
        assert threads.warn_when_over(2, 2, 2)
    assert '2 workers x 2 threads share 2 cores' in caplog.text


def test_workers_are_told_to_wait_passively() -> None:
    env = threads.environment({'HOME': '/', 'OMP_NUM_THREADS': '64'}, 1)
    assert env['OMP_WAIT_POLICY'] == 'PASSIVE'
    assert env['OMP_NUM_THREADS'] == '1'
    assert env['HOME'] == '/'


def test_a_processor_that_reorders_stores_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    check_processor('x86_64')
    check_processor('AMD64')
    monkeypatch.setattr('platform.machine', lambda: 'aarch64')
    with pytest.raises(ParameterError, match=r"processor must be x86-64, .* got 'aarch64'"):
        Arena.create(64)

