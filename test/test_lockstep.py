# SPDX-License-Identifier: Apache-2.0
"""Look, think, act, in turns: what needs no tuning, at the price of a robot that waits."""

from __future__ import annotations

from typing import Any

import pytest
from producer_cases import BASE, MS, Bench

from physis_ros.errors import ParameterError
from physis_ros.session.producer_config import Pacing, ProducerConfig
from physis_ros.session.producer_status import ResetReason

DT_NS = 25 * MS
HORIZON = 4


def lockstep(**changes: Any) -> Bench:
    """Return a producer in lock-step."""
    return Bench(pacing=Pacing.LOCKSTEP, margin_ns=10 * MS, **changes)


def finish(bench: Bench, time_ms: float) -> None:
    """Let the chunk in the pipe come out."""
    bench.at(time_ms)
    bench.producer.on_result(bench.pipe.finish((time_ms - 1) * MS, time_ms * MS))


def test_X21_every_chunk_is_from_a_picture_taken_after_the_one_before_was_played() -> None:
    bench = lockstep()
    assert bench.pipe.spec.actions.dt_ns == DT_NS
    assert bench.pipe.spec.actions.horizon == HORIZON
    for time_ms in range(0, 500, 25):
        bench.see(time_ms)
    # However long the model takes and however much room there is: one, told no delay.
    assert len(bench.pipe.entered) == 1
    assert bench.pipe.entered[0][2]['delay'] == 0
    finish(bench, 500)
    (produced,) = bench.got
    # None of its steps has passed: it begins when it can be there.
    assert produced.chunk.start_ns == BASE + 510 * MS
    assert produced.chunk.observed_ns == BASE
    # Its last step is meant for 585 ms: earlier pictures show what is not there any more.
    bench.see(560)
    bench.see(580, turn=True)
    assert len(bench.pipe.entered) == 1
    bench.see(585)
    assert len(bench.pipe.entered) == 2
    finish(bench, 700)
    assert bench.got[1].chunk.start_ns == BASE + 710 * MS
    assert bench.got[1].chunk.observed_ns == BASE + 585 * MS


def test_X21_a_model_slower_than_it_is_made_for_loses_no_steps() -> None:
    bench = lockstep()
    for number in range(3):
        began_ms = 10_000 * number
        bench.see(began_ms)
        finish(bench, began_ms + 9_000)
        chunk = bench.got[-1].chunk
        assert chunk.start_ns - chunk.times.publish_ns == 10 * MS
    assert bench.producer.status().counts['delay_clamped'] == 0
    assert bench.producer.status().counts['beat_skipped'] == 0


def test_X21_a_new_epoch_begins_at_once() -> None:
    bench = lockstep()
    bench.see(0)
    bench.producer.reset(ResetReason.REQUESTED)
    bench.see(25)
    assert [entry[:2] for entry in bench.pipe.entered] == [(0, 0), (1, 0)]
    finish(bench, 60)
    bench.producer.reset(ResetReason.REQUESTED)
    # What the last one was to play is played no more.
    bench.see(65)
    assert len(bench.pipe.entered) == 3


def test_X21_where_nothing_is_committed_nothing_can_be_agreed_with() -> None:
    with pytest.raises(ParameterError, match='rtc_soft_ns must be 0 in lock-step'):
        ProducerConfig(pacing=Pacing.LOCKSTEP, rtc_soft_ns=1)
