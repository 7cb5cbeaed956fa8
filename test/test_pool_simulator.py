# SPDX-License-Identifier: Apache-2.0
"""Traces on pools in virtual time."""

from __future__ import annotations

import json
import math
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from pool_cases import count_batches

from physis_ros.engine import stretch
from physis_ros.engine import virtual as virtual_module
from physis_ros.engine.cost import BatchCurve, ModelCost
from physis_ros.engine.devices import Device, DevicePool
from physis_ros.engine.draws import Draws, Jitter
from physis_ros.engine.virtual import S, VirtualPool
from physis_ros.errors import ParameterError, PlanError
from physis_ros.evaluation.pool.figures import StreamFigures, text
from physis_ros.evaluation.pool.pool_file import PoolFile, read_pool
from physis_ros.evaluation.pool.simulate import simulate
from physis_ros.evaluation.pool.trace import Event, Trace, read_trace

COST = ModelCost('m', 2, (10, 10), 1, 0, 0, (BatchCurve.affine(0.0, 0.01, 8),) * 2)


def pool(*memory: int) -> PoolFile:
    """Return devices of these sizes and one model of four stages of 10 ms."""
    return PoolFile(
        DevicePool(tuple(Device(f'd{i}', m) for i, m in enumerate(memory))), {'m': COST}
    )


def opened(name: str, at_s: float = 0.0, slo_s: float = 0.1) -> Event:
    """Return an arrival."""
    return Event(at_s, 'open', name, 'm', slo_s)


def by_name(streams: tuple[StreamFigures, ...]) -> dict[str, StreamFigures]:
    """Return the last life of each stream."""
    return {stream.stream: stream for stream in streams}


def test_a_stream_alone_keeps_its_beat() -> None:
    """40 ms of work each 100 ms: every interval and response exact, use 0.4."""
    outcome = simulate(pool(100), Trace(10.0, (opened('a'),)))
    (stream,) = outcome.streams
    assert (stream.interval.p50_s, stream.interval.max_s) == pytest.approx((0.1, 0.1))
    assert (stream.response.p50_s, stream.age.max_s) == pytest.approx((0.04, 0.04))
    assert (stream.misses, stream.beats_lost, stream.fate) == (0, 0, 'ran')
    assert stream.interval.p999_s is None
    assert outcome.utilisation == pytest.approx((0.4,), abs=0.01)


def test_what_does_not_fit_is_counted() -> None:
    """Time for two streams of 40 ms in 100 ms; the third is refused for time."""
    events = tuple(opened(name) for name in 'abc')
    outcome = simulate(pool(1000), Trace(5.0, events))
    assert (outcome.asked, outcome.refusals) == (3, {'time': 1})
    assert outcome.rejection_rate == pytest.approx(1 / 3)
    assert [stream.misses for stream in outcome.streams] == [0, 0]
    assert 'refused: 1 time (33.3%)' in text(outcome)


def test_departure_makes_room() -> None:
    """The third comes after the first has left."""
    events = (*(opened(n) for n in 'ab'), Event(2.0, 'close', 'a'), opened('c', 2.0))
    outcome = simulate(pool(1000), Trace(5.0, events))
    fates = {stream.stream: stream.fate for stream in outcome.streams}
    assert fates == {'a': 'left', 'b': 'ran', 'c': 'ran'}
    assert outcome.refusals == {}


def test_a_slow_device_costs_beats() -> None:
    """Three times as slow: 20 chunks in 2 s, then one each 120 ms instead of each 100 ms."""
    events = (opened('a'), Event(2.0, 'slow', 'd0', factor=3.0))
    (stream,) = simulate(pool(100), Trace(6.0, events)).streams
    assert stream.beats_lost > 0
    assert stream.chunks in (52, 53)


@pytest.mark.parametrize('skip', [False, True])
def test_nobody_is_taken_on_while_the_pool_is_behind(skip: bool) -> None:
    """Too slow for a while, the door is closed; where there is time again it opens."""
    late = [opened(name, at_s) for name, at_s in (('b', 5.0), ('c', 9.95), ('d', 12.0))]
    events = (
        opened('a'), Event(2.0, 'slow', 'd0', factor=3.0), *late[:2],
        Event(10.0, 'slow', 'd0', factor=1.0), late[2],
    )  # fmt: skip
    outcome = simulate(pool(1000), Trace(20.0, events), skip)
    assert (outcome.asked, outcome.refusals) == (4, {'closed': 2})
    assert [stream.stream for stream in outcome.streams] == ['a', 'd']
    assert by_name(outcome.streams)['d'].beats_lost == 0


def test_a_lost_device_ends_its_streams_only() -> None:
    """Its stream begins anew where there is room; the other does not notice."""
    events = (opened('a'), opened('b'), opened('c'), opened('d'), Event(2.0, 'lose', 'd0'))
    outcome = simulate(pool(1000, 1000), Trace(5.0, events))
    lives = [(stream.stream, stream.fate) for stream in outcome.streams]
    assert sorted(outcome.lost) == sorted(name for name, fate in lives if fate == 'lost')
    kept = [stream for stream in outcome.streams if stream.fate == 'ran']
    assert len(kept) == 2
    assert all(stream.misses == 0 for stream in kept)
    assert outcome.refusals == {'time': 2}
    assert outcome.asked == 4 + len(outcome.lost)


def test_no_more_is_refused_than_was_asked() -> None:
    """The only device is lost: every stream asks again, and none is taken."""
    events = (opened('a'), opened('b'), Event(2.0, 'lose', 'd0'))
    outcome = simulate(pool(1000), Trace(5.0, events))
    assert (outcome.asked, sum(outcome.refusals.values())) == (4, 2)
    assert outcome.rejection_rate == pytest.approx(0.5)


def test_the_seed_decides_everything() -> None:
    """Same seed, same figures; another seed, others."""
    events = (opened('a'), opened('b', 0.3))
    runs = [simulate(pool(1000), Trace(5.0, events, seed, jitter=0.2)) for seed in (1, 1, 2)]
    assert runs[0] == runs[1]
    assert runs[0] != runs[2]


def test_observations_age_between_frames() -> None:
    """The observation is up to one sensor interval older than the entry."""
    (stream,) = simulate(pool(100), Trace(10.0, (opened('a'),), sensor_s=0.03)).streams
    assert stream.age.max_s is not None
    assert 0.04 <= stream.age.max_s <= 0.07


def files(
    tmp_path: Path, pool_change: dict[str, Any], trace_change: dict[str, Any]
) -> tuple[Path, Path]:
    """Write a pool and a trace file."""
    model = {
        'blocks': 2, 'passes': 2, 'block_bytes': 10, 'kv_bytes': 1, 'hidden_bytes': 0,
        'latent_bytes': 0, 'times_s': [0.01, 0.02],
    }  # fmt: skip
    devices = [{'name': 'd', 'memory_gb': 1.0, 'count': 2}]
    arrivals = {'model': 'm', 'slo_s': 0.1, 'per_s': 1.0, 'life_s': 2.0}
    pool_path, trace_path = tmp_path / 'pool.json', tmp_path / 'trace.json'
    pool_path.write_text(json.dumps({'devices': devices, 'models': {'m': model}, **pool_change}))
    events = [{'at_s': 0.0, 'open': 'a', 'model': 'm', 'slo_s': 0.1}, {'at_s': 1, 'slow': 'd0'}]
    trace = {'duration_s': 20, 'events': events, 'arrivals': [arrivals], **trace_change}
    trace_path.write_text(json.dumps(trace))
    return pool_path, trace_path


def test_files_are_read(tmp_path: Path) -> None:
    """Counted devices, drawn arrivals, all in order of time."""
    pool_path, trace_path = files(tmp_path, {}, {})
    found = read_pool(pool_path)
    assert [device.name for device in found.pool.devices] == ['d0', 'd1']
    trace = read_trace(trace_path, found)
    assert [event.at_s for event in trace.events] == sorted(event.at_s for event in trace.events)
    assert simulate(found, trace).asked > 5


DEVICE = {'name': 'd', 'memory_gb': 1}
MODEL = {
    'blocks': 2, 'passes': 2, 'block_bytes': 10, 'kv_bytes': 1, 'hidden_bytes': 0,
    'latent_bytes': 0, 'times_s': [0.01],
}  # fmt: skip
COMING = {'model': 'm', 'slo_s': 1, 'per_s': 1, 'life_s': 1}
OPEN = {'at_s': 0, 'open': 'a', 'model': 'm', 'slo_s': 1}


@pytest.mark.parametrize(
    ('pool_change', 'trace_change', 'message'),
    [
        ({'device': []}, {}, 'JSON object of'),
        ({'devices': {}}, {}, 'devices must be a list, got'),
        ({'devices': [1]}, {}, r'devices\[0\] must be a JSON object, got 1'),
        ({'devices': []}, {}, 'devices must be at least one'),
        ({'devices': [{'name': 'd'}]}, {}, r'devices\[0\]\.memory_gb must be a number >= 0'),
        ({'devices': [{**DEVICE, 'sped': 2}]}, {}, r'devices\[0\] must be of'),
        ({'devices': [{**DEVICE, 'speed': 'x'}]}, {}, r'devices\[0\]\.speed must be a number'),
        ({'devices': [{**DEVICE, 'speed': 0}]}, {}, r'd\.speed must be > 0, got 0'),
        ({'devices': [{**DEVICE, 'hop_s': -1}]}, {}, r'\]\.hop_s must be a number >= 0, got -1'),
        ({'devices': [{**DEVICE, 'count': 0}]}, {}, 'count must be a whole number >= 1, got 0'),
        ({'devices': [DEVICE, DEVICE]}, {}, 'device names must be different'),
        ({'models': {}}, {}, 'models must be at least one'),
        ({'models': {'m': {'blocks': 2}}}, {}, r'models\.m\.times_s must be a list of numbers'),
        ({'models': {'m': {'profile': 'no.json'}}}, {}, 'cannot be read'),
        (
            {'devices': [{**DEVICE, 'memory_gb': 1e300}]},
            {},
            'memory_gb must be at most 1e',
        ),
        (
            {'devices': [{**DEVICE, 'speed': 10**400}]},
            {},
            'speed must be at most 1e.09',
        ),
        ({'devices': [{**DEVICE, 'hop_s': math.nan}]}, {}, 'hop_s must be .*, got nan'),
        (
            {'devices': [{**DEVICE, 'count': 1e9}]},
            {},
            'count must be at most 4096, got',
        ),
        ({'models': {'m': {**MODEL, 'blocks': 1e9}}}, {}, 'm.blocks must be at most 10000, got'),
        (
            {'models': {'m': {**MODEL, 'times_s': [1e300]}}},
            {},
            'times_s.0. must be at most 1e',
        ),
        (
            {'models': {'m': {**MODEL, 'kv_bytes': 1e300}}},
            {},
            'kv_bytes must be at most 1e',
        ),
        ({'max_batch': 1e9}, {}, 'max_batch must be at most 1024, got 1000000000.0'),
        ({'headroom': 1}, {}, 'headroom must be at least 0 and below 1'),
        ({'max_batch': 1.5}, {}, 'max_batch must be a whole number >= 1, got 1.5'),
        ({'hop_s': -1}, {}, 'hop_s must be a number >= 0, got -1'),
        ({}, {'duration_s': 0, 'events': []}, 'duration_s must be > 0'),
        ({}, {'duration_s': None}, 'duration_s must be a number >= 0, got None'),
        ({}, {'jitter': '1'}, "jitter must be a number >= 0, got '1'"),
        ({}, {'events': [{'at_s': 0, 'lose': 'x'}]}, 'device must be one of'),
        ({}, {'events': [{'at_s': 0, 'slow': 'd0', 'factor': 0}]}, 'factor must be > 0'),
        ({}, {'events': [{**OPEN, 'model': 'n'}]}, r"model must be one of \['m'\], got 'n'"),
        ({}, {'events': [{**OPEN, 'slo_s': 0}]}, 'slo_s must be > 0, got 0'),
        ({}, {'events': [{'at_s': 0, 'open': 'a', 'model': 'm'}]}, r'slo_s must be a number'),
        ({}, {'events': [OPEN, {**OPEN, 'at_s': 1}]}, "name that is not open, got 'a'"),
        ({}, {'events': [{'at_s': 0, 'close': 'a'}]}, "a stream opened before, got 'a'"),
        ({}, {'events': [{**OPEN, 'at_s': 21}]}, 'at_s must be within duration_s, 20'),
        ({}, {'events': [{'at_s': 0}]}, "one of .'open'"),
        ({}, {'events': [{**OPEN, 'lose': 'd0'}]}, "one of .'open'"),
        ({}, {'arrivals': [{'model': 'm', 'slo_s': 1, 'per_s': 0, 'life_s': 1}]}, 'per_s must be'),
        ({}, {'arrivals': [{**COMING, 'per_s': 1e6}]}, r'\[0\]\.per_s must be at most 50000, for'),
        ({}, {'duration_s': 1e300}, 'duration_s must be at most 1e.09, got'),
        ({}, {'arrivals': [{'model': 'm', 'slo': 1}]}, r'arrivals\[0\] must be of'),
    ],
)
def test_bad_files_are_refused_before_anything_runs(
    tmp_path: Path, pool_change: dict[str, Any], trace_change: dict[str, Any], message: str
) -> None:
    """Naming the entry."""
    pool_path, trace_path = files(tmp_path, pool_change, trace_change)
    with pytest.raises((ParameterError, PlanError), match=message):
        read_trace(trace_path, read_pool(pool_path))


def mixed(jitter: float) -> tuple[PoolFile, Trace]:
    """Return two models on uneven devices: streams come and go, one device slows, one is lost."""
    curve, other = BatchCurve.affine(0.003, 0.007, 8), BatchCurve((0.0041, 0.0057))
    models = {
        'm': ModelCost('m', 2, (10, 10), 1, 30, 10, (curve, other), 0.001, 0.0005),
        'n': ModelCost('n', 3, (10,) * 3, 1, 30, 10, (other,) * 3),
    }
    devices = tuple(Device(f'd{i}', 70, 1.0 + 0.3 * i, 1e4) for i in range(3))
    file = PoolFile(DevicePool(devices, 0.0002), models, 4)
    events = [
        Event(0.1 * i, 'open', f's{i}', 'mn'[i % 2], (0.2, 0.3, 0.5)[i % 3]) for i in range(8)
    ]
    events += [
        Event(20.0, 'close', 's1'), Event(30.0, 'slow', 'd0', factor=3.0),
        Event(60.0, 'slow', 'd0', factor=1.0), Event(80.0, 'lose', 'd1'),
    ]  # fmt: skip
    trace = Trace(200.0, tuple(events), sensor_s=0.05, settle_s=1.0, jitter=jitter)
    return file, trace


def test_what_repeats_itself_is_skipped_exactly() -> None:
    """
    Whatever happens, skipped or run out, the figures are the same to the last digit.

    Streams of two periods on uneven devices with hops, one too slow for a while, one lost.
    """
    file, trace = mixed(jitter=0.0)
    skipped, ran = simulate(file, trace), simulate(file, trace, skip=False)
    assert skipped == ran
    assert {stream.fate for stream in ran.streams} == {'ran', 'left', 'lost'}
    assert any(stream.beats_lost or stream.misses for stream in ran.streams)


@pytest.mark.parametrize('skip', [False, True])
def test_equal_deadlines_are_settled_alike_for_ever(skip: bool) -> None:
    """The younger stream is faster and overtakes in chunks: the order of the two stays."""
    virtual = VirtualPool(pool(100).pool, 1)
    model = ModelCost('m', 1, (1,), 1, 0, 0, (BatchCurve.affine(0.0, 0.002, 8),))
    slow = virtual.open('slow', model, (0,), 0.03, 2, 0.1)
    virtual.run(round(0.6 * S), skip)
    fast = virtual.open('fast', model, (0,), 0.02, 2, 0.1)
    virtual.run(100 * S, skip)
    assert set(np.subtract(*slow.table().T[[4, 2]])) == {2_000_000}, 'is served at once'
    assert set(np.subtract(*fast.table().T[[4, 2]])) == {2_000_000, 4_000_000}


def test_skipping_leaves_out_most_of_the_work() -> None:
    """A day of one stream: what was run is the first few of 864,000 chunks."""
    virtual = VirtualPool(pool(100).pool, 8)
    stream = virtual.open('a', COST, (0,) * 4, 0.1, 3, 0.2)
    virtual.run(86_400 * S, skip=True)
    assert len(stream.outputs) < 100
    outs = stream.table()
    assert len(outs) == 864_000
    assert outs[:, 0].tolist() == list(range(864_000))
    assert set(np.diff(outs[:, -1])) == {S // 10}
    # The last instant begins one more stage.
    assert virtual.devices[0].busy_ns == 864_000 * 40_000_000 + 10_000_000


def test_stages_that_follow_undisturbed_are_run_at_once_exactly(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """With jitter, looking ahead changes no figure, and brings together fewer batches."""
    calls = count_batches(monkeypatch)
    file, trace = mixed(jitter=0.1)
    ahead = simulate(file, trace)
    calls.append(0)
    monkeypatch.setattr(stretch, 'reach', lambda *_: 1)
    assert simulate(file, trace) == ahead
    assert calls[0] < 0.7 * calls[1]
    assert any(stream.beats_lost or stream.misses for stream in ahead.streams)


def test_a_stream_alone_with_jitter_needs_an_event_a_visit_not_a_stage(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Forty stages on one device: once it has learnt to look so far ahead, one batch a chunk."""
    formed: list[int] = []
    form_batch = virtual_module.form_batch

    def counted(ready: list[Any], *arguments: Any) -> list[Any]:
        formed.append(ready[0].at)
        return form_batch(ready, *arguments)

    monkeypatch.setattr(virtual_module, 'form_batch', counted)
    cost = ModelCost('m', 4, (1,) * 10, 0, 0, 0, (BatchCurve.affine(0.0, 0.001, 8),) * 10)
    virtual = VirtualPool(pool(100).pool, 8, jitter=Jitter(1, 0.1))
    stream = virtual.open('a', cost, (0,) * 40, 0.1, 3, 0.4)
    virtual.run(100 * S)
    chunks = len(stream.outputs)
    assert chunks == 1000
    assert virtual.devices[0].batches == 40 * chunks + 1
    assert len(formed) < chunks + 10


def test_draws_are_the_same_however_far_one_looks_ahead() -> None:
    """And another device, or another seed, has others."""
    steps, leaps = Draws(Jitter(3, 0.2), 0), Draws(Jitter(3, 0.2), 0)
    one_by_one = []
    for _ in range(9000):
        one_by_one += steps.ahead(1)
        steps.passed(1)
    taken: list[float] = []
    while len(taken) < 9000:
        seen = leaps.ahead(700)
        taken += seen[:300]
        leaps.passed(300)
    assert taken[:9000] == one_by_one
    assert np.std(np.log(one_by_one)) == pytest.approx(0.2, rel=0.05)
    assert Draws(Jitter(3, 0.2), 1).ahead(5) != one_by_one[:5]
    assert Draws(Jitter(4, 0.2), 0).ahead(5) != one_by_one[:5]


# Two passes through two blocks; a batch takes 10 ms, whoever is in it.
SHARED = ModelCost('m', 2, (1, 1), 0, 0, 0, (BatchCurve.affine(0.01, 0.0, 8),) * 2)
MS = S // 1000


@pytest.mark.parametrize(
    ('wait_ms', 'allowed_s', 'later_ms', 'out_ms'),
    [
        (0, 0.2, 3, (40, 60)),
        (5, 0.2, 3, (43, 43)),  # full when the other comes
        (5, 0.2, 8, (45, 70)),  # too late: both wait in vain, at their first and their last step
        (5, 0.041, 3, (41, 66)),  # no longer than leaves the first on time
    ],
)
def test_a_batch_waits_for_company_as_that_of_a_worker(
    wait_ms: int, allowed_s: float, later_ms: int, out_ms: tuple[int, int]
) -> None:
    virtual = VirtualPool(pool(100).pool, 2, batch_wait_ns=wait_ms * MS)
    first = virtual.open('a', SHARED, (0,) * 4, 0.5, 1, allowed_s)
    second = virtual.open('b', SHARED, (0,) * 4, 0.5, 1, 0.2, later_ms / 1e3)
    virtual.run(S // 4)
    assert tuple(s.outputs[0].out_ns // MS for s in (first, second)) == out_ms


def test_waiting_repeats_itself_exactly() -> None:
    file, trace = mixed(jitter=0.0)
    file = replace(file, batch_wait_s=0.004)
    skipped, ran = simulate(file, trace), simulate(file, trace, skip=False)
    assert skipped == ran
    assert ran != simulate(replace(file, batch_wait_s=0.0), trace)
