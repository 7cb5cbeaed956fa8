# SPDX-License-Identifier: Apache-2.0
"""Traces in virtual time of which samples stand for the rest."""

from __future__ import annotations

from dataclasses import replace

import pytest
from pool_cases import count_batches

from physis_ros.engine.cost import BatchCurve, ModelCost
from physis_ros.engine.devices import Device, DevicePool
from physis_ros.engine.sample import span_ns
from physis_ros.evaluation.pool.figures import text
from physis_ros.evaluation.pool.pool_file import PoolFile
from physis_ros.evaluation.pool.simulate import simulate
from physis_ros.evaluation.pool.trace import Event, Trace

COST = ModelCost('m', 2, (10, 10), 1, 0, 0, (BatchCurve.affine(0.002, 0.008, 8),) * 2)
POOL = PoolFile(DevicePool((Device('d0', 100), Device('d1', 100))), {'m': COST})
OPENED = tuple(Event(0.0, 'open', f's{i}', 'm', 0.2) for i in range(3))


def test_samples_stand_for_the_rest() -> None:
    """Half of a trace is run: counts are the same, quantiles near, and the rest is said."""
    whole = Trace(480.0, (*OPENED, Event(240.0, 'close', 's0')), 1, jitter=0.1, settle_s=1.0)
    ran, sampled = simulate(POOL, whole), simulate(POOL, replace(whole, sample_s=60.0))
    assert (ran.sampled_share, sampled.sampled_share) == (0.0, 0.5)
    assert 'counted from samples' in text(sampled) and 'counted from' not in text(ran)
    assert sampled.utilisation == pytest.approx(ran.utilisation, rel=0.01)
    for one, other in zip(sampled.streams, ran.streams, strict=True):
        assert (one.stream, one.fate) == (other.stream, other.fate)
        assert abs(one.chunks - other.chunks) <= 1
        for name in ('interval', 'response', 'age'):
            mine, full = getattr(one, name), getattr(other, name)
            assert mine.p50_s == pytest.approx(full.p50_s, rel=0.01)
            assert mine.p99_s == pytest.approx(full.p99_s, rel=0.05)


def test_a_sample_is_exact_where_all_is_alike() -> None:
    """Without jitter one period stands for all."""
    whole = Trace(100.0, OPENED)
    ran, sampled = simulate(POOL, whole, skip=False), simulate(POOL, replace(whole, sample_s=5.0))
    assert sampled.sampled_share == 0.9
    assert replace(sampled, sampled_share=0.0, sample_s=0.0) == ran


def test_a_day_takes_no_more_work_than_an_hour(monkeypatch: pytest.MonkeyPatch) -> None:
    """What is run depends on events and the length of samples, not on how long a trace lasts."""
    formed = count_batches(monkeypatch)
    hour = Trace(3600.0, OPENED, 1, jitter=0.1, sample_s=8.0)
    simulate(POOL, hour)
    formed.append(0)
    streams = simulate(POOL, replace(hour, duration_s=86_400.0)).streams
    assert 0 < formed[0] == formed[1]
    assert [stream.chunks for stream in streams] == pytest.approx([432_000] * 3, abs=2)


def test_what_was_not_run_tells_nothing_of_the_rarest() -> None:
    """The p99.9 needs a thousand outputs that were run, however many they stand for."""
    short, long = (
        simulate(POOL, Trace(3600.0, OPENED, 1, jitter=0.1, sample_s=sample_s)).streams[0]
        for sample_s in (80.0, 120.0)
    )
    assert short.interval.n == pytest.approx(18_000, abs=2)
    assert short.interval.p999_s is None
    assert long.interval.p999_s is not None


def test_samples_are_whole_periods_and_short_stretches_are_run() -> None:
    """Two periods of 0.3 s and 0.4 s and frames of 0.25 s come together every 6 s."""
    events = tuple(Event(0.0, 'open', f's{i}', 'm', slo_s) for i, slo_s in enumerate((0.3, 0.4)))
    trace = Trace(60.0, events, sensor_s=0.25, sample_s=1.0)
    assert simulate(POOL, trace).sampled_share == 0.8
    short = simulate(POOL, replace(trace, duration_s=17.0))
    assert short.sampled_share == 0.0
    assert 'nothing counted from samples, all was run: between no two events' in text(short)
    assert 'counted from samples' not in text(simulate(POOL, replace(trace, sample_s=0.0)))


def test_periods_without_a_common_multiple_are_sampled_too() -> None:
    """Frames at 30 Hz, streams at 3 and 10 Hz: in whole nanoseconds they hardly ever meet."""
    events = tuple(Event(0.0, 'open', f's{i}', 'm', slo_s) for i, slo_s in enumerate((1 / 3, 0.1)))
    trace = Trace(600.0, events, 1, jitter=0.1, sensor_s=1 / 30, sample_s=10.0)
    outcome = simulate(POOL, trace)
    assert outcome.sampled_share == pytest.approx(52 * 11 / 600)
    assert [stream.chunks for stream in outcome.streams] == pytest.approx([1800, 6000], abs=2)


def test_a_sample_is_the_first_length_that_is_whole_for_all() -> None:
    """Exactly where that fits; else whole ones of the longest, to a hundredth of the others."""
    assert span_ns({30, 40, 25}, 100, 600) == 600
    assert span_ns({30, 40, 25}, 100, 599) == 0
    assert span_ns({1, 7}, 100, 1000) == 105
    assert span_ns({33_333_333, 100_000_000}, 150_000_000, 10**10) == 200_000_000
    assert span_ns({1000, 101_003}, 1, 303_009) == 101_003
    assert span_ns({1000, 101_030}, 1, 10**7) == 101_030 * 33
    assert span_ns({1000, 101_030}, 1, 10**6) == 0
