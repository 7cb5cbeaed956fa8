# SPDX-License-Identifier: Apache-2.0
"""More is asked than can be done: beats are lost, ages stay what they are (E7)."""

from __future__ import annotations

import pytest
from producer_cases import BASE, MS, Bench

from physis_ros.engine.cost import BatchCurve, ModelCost
from physis_ros.engine.devices import Device, DevicePool
from physis_ros.evaluation.pool.figures import StreamFigures
from physis_ros.evaluation.pool.pool_file import PoolFile
from physis_ros.evaluation.pool.simulate import simulate
from physis_ros.evaluation.pool.trace import Event, Trace

COST = ModelCost('m', 2, (10, 10), 1, 0, 0, (BatchCurve.affine(0.0, 0.01, 8),) * 2)
POOL = PoolFile(DevicePool((Device('d', 1000),)), {'m': COST})
# Two chunks inside, and six times as slow as when it was taken on: 240 ms each, on a beat of 100.
INSIDE, CHUNK_S, BEAT_S, SENSOR_S = 2, 0.24, 0.1, 0.03


def overloaded(seconds: float, skip: bool) -> StreamFigures:
    """Run a stream on a device that is too slow for it from its first second on."""
    events = (Event(0.0, 'open', 'a', 'm', BEAT_S), Event(1.0, 'slow', 'd', factor=6.0))
    trace = Trace(seconds, events, sensor_s=SENSOR_S, settle_s=3.0)
    (stream,) = simulate(POOL, trace, skip).streams
    return stream


@pytest.mark.parametrize('skip', [False, True])
def test_ages_on_a_pool_that_is_too_slow_are_the_same_for_ever(skip: bool) -> None:
    """What waits at the entry takes what is newest then: it is no older after ten minutes."""
    short, long = overloaded(60.0, skip), overloaded(600.0, skip)
    for stream in (short, long):
        assert stream.interval.max_s == pytest.approx(CHUNK_S)
        assert stream.response.max_s == pytest.approx(INSIDE * CHUNK_S)
        assert stream.age.max_s is not None
        assert INSIDE * CHUNK_S <= stream.age.max_s < INSIDE * CHUNK_S + SENSOR_S
    assert long.age.max_s == short.age.max_s
    # 540 s more are 5400 beats and 2250 chunks.
    assert (long.chunks - short.chunks, long.beats_lost - short.beats_lost) == (2250, 3150)


def test_two_streams_that_hold_each_other_up_lose_beats_and_not_their_youth() -> None:
    """Each was promised 40 of 100 ms, which is now 240 ms of work for either."""
    events = (
        Event(0.0, 'open', 'a', 'm', BEAT_S), Event(0.0, 'open', 'b', 'm', BEAT_S),
        Event(1.0, 'slow', 'd', factor=6.0),
    )  # fmt: skip
    ages = []
    for seconds in (60.0, 600.0):
        streams = simulate(POOL, Trace(seconds, events, sensor_s=SENSOR_S, settle_s=5.0)).streams
        assert [stream.fate for stream in streams] == ['ran', 'ran']
        ages.append([stream.age.max_s for stream in streams])
    assert ages[0] == ages[1]
    assert max(ages[1]) < 2 * INSIDE * CHUNK_S + SENSOR_S


def test_a_pool_slower_than_the_beat_is_given_what_is_newest() -> None:
    """A beat each 100 ms, a chunk done each 260 ms, two inside: entries wait, pictures do not."""
    bench = Bench(period_ns=100 * MS)
    for now_ms in range(13_260):
        if now_ms % 25 == 2:
            bench.see(now_ms - 2)
        if now_ms and now_ms % 260 == 0:
            bench.at(now_ms)
            bench.producer.on_result(bench.pipe.finish(now_ms * MS, now_ms * MS))
            bench.producer.turn()
    times = [done.chunk.times for done in bench.got]
    entered_ms = [(at.enter_ns - BASE) / MS for at in times]
    # At once and on the first beat; then one goes in whenever one comes out.
    assert entered_ms == [2, 102, *(260 * n for n in range(1, 49))]
    seen_ms = [(at.enter_ns - at.capture_ns) / MS for at in times]
    # The newest of a camera of 40 Hz whose pictures come 2 ms late, whenever that is.
    assert seen_ms == [2, 2, *([10, 20, 5, 15, 25] * 10)[:48]]
    done_ms = [(at.publish_ns - at.capture_ns) / MS for at in times]
    assert done_ms[2:] == [520 + age for age in seen_ms[2:]]
    counts = bench.producer.status().counts
    assert (counts['entered'], counts['delivered']) == (52, 50)
    # Each beat before the one at 2 + 131 x 100 ms was entered on or lost, and none is made up for.
    assert counts['entered'] + counts['beat_skipped'] == 131
