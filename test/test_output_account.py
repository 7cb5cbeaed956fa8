# SPDX-License-Identifier: Apache-2.0
"""The account: every figure by hand on a few ticks."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from output_cases import MS, NAMES, PLAIN, chunk, player, tick

from physis_ros.errors import ParameterError
from physis_ros.output.account import Account, AccountConfig, parts
from physis_ros.output.figures import Phase
from physis_ros.output.verdict import ChunkReject, Verdict
from physis_ros.types import ChunkTimes, Command, Play, Reason


def account(**changes: Any) -> Account:
    values = {'period_ns': 5 * MS, 'max_action_age_ns': 500 * MS, 'late_ns': 2 * MS, **changes}
    return Account(AccountConfig(**values))


def played(at_ms: float, number: int = 0, age_ms: float = 100, **changes: Any) -> Command:
    values = {
        'position': np.zeros(2),
        'velocity': np.zeros(2),
        'epoch': 0,
        'input_age_ns': {'camera': round(age_ms * MS)},
        **changes,
    }
    return Command(
        stamp_ns=round(at_ms * MS),
        play=Play.PLAYING,
        reason=Reason.NONE,
        names=NAMES,
        chunk=number,
        age_ns=round(age_ms * MS),
        **values,
    )


def rung(at_ms: float, play: Play, reason: Reason, epoch: int = 0) -> Command:
    value = np.zeros(0 if play is Play.SILENT else 2)
    return Command(round(at_ms * MS), play, reason, NAMES, value, value, epoch=epoch)


def test_due_ticks_and_misses_add_up_by_cause():
    book = account()
    for at_ms in (0, 5, 10):
        book.tick(played(at_ms))
    book.tick(played(15), late_ns=3 * MS)
    book.tick(rung(20, Play.HOLD, Reason.CHUNK_LATE))
    book.tick(rung(25, Play.RAMP, Reason.CHUNK_LATE))
    book.tick(rung(30, Play.SILENT, Reason.NO_CHUNK))
    book.tick(played(35, age_ms=501))
    book.tick(played(55))  # three periods lost
    figures = book.figures()
    assert figures.ticks == 9
    assert figures.due == 12
    expected = {'late': 1, 'chunk_late': 2, 'no_chunk': 1, 'old': 1, 'lost': 3}
    assert figures.misses_by_cause == expected
    assert figures.misses == 8
    assert figures.period_error_us.max == 15_000
    assert figures.tick_late_us.max == 3000


@pytest.mark.parametrize(('gap_ms', 'lost'), [(7.4, 0), (7.5, 1), (12.4, 1), (12.5, 2)])
def test_a_gap_counts_the_nearest_number_of_periods(gap_ms, lost):
    book = account()
    book.tick(played(0))
    book.tick(played(gap_ms))
    assert book.figures().misses_by_cause.get('lost', 0) == lost
    assert book.figures().due == 2 + lost


def test_an_underrun_lasts_until_the_next_played_tick():
    book = account()
    book.tick(played(0))
    book.tick(rung(5, Play.HOLD, Reason.EXPIRED))
    book.tick(rung(10, Play.HOLD, Reason.EXPIRED))
    book.tick(played(15))
    book.tick(rung(20, Play.HOLD, Reason.CHUNK_LATE))
    running = book.figures().underruns
    assert (running.count, running.ticks, running.time_ns) == (2, 3, 10 * MS)
    book.tick(rung(25, Play.RAMP, Reason.CHUNK_LATE))
    book.tick(rung(45, Play.SILENT, Reason.NO_CHUNK))
    book.tick(played(50))
    done = book.figures().underruns
    assert done.by_rung == {'hold': 3, 'ramp': 1, 'silent': 1}
    assert done.by_reason == {'expired': 2, 'chunk_late': 2, 'no_chunk': 1}
    assert (done.time_ns, done.longest_ns) == (40 * MS, 30 * MS)


def test_X5_warm_up_is_outside_the_figures_and_begins_anew_with_each_epoch():
    book = account(settle_ns=10 * MS)
    book.tick(rung(0, Play.SILENT, Reason.NO_CHUNK))
    for at_ms in (5, 10):
        book.tick(played(at_ms))
        assert book.phase is Phase.WARMING
    book.tick(played(15))
    assert book.phase is Phase.ACTIVE
    assert (book.figures().ticks, book.figures().warmup_ticks) == (1, 3)
    book.tick(rung(20, Play.HOLD, Reason.EPOCH))
    book.tick(played(25, epoch=1))
    book.tick(played(35, epoch=1))
    figures = book.figures()
    assert (figures.ticks, figures.warmup_ticks, figures.misses) == (2, 5, 0)


def test_the_epoch_of_a_tick_without_a_chunk_does_not_matter():
    book = account()
    book.tick(played(0))
    book.tick(rung(5, Play.HOLD, Reason.CHUNK_LATE, epoch=-1))
    book.tick(played(10))
    assert book.figures().ticks == 3


def test_inactive_ticks_count_nothing():
    book = account()
    book.tick(played(0))
    book.tick(rung(5, Play.HOLD, Reason.INACTIVE))
    book.tick(rung(5000, Play.SILENT, Reason.INACTIVE))
    assert book.phase is Phase.INACTIVE
    assert (book.figures().ticks, book.figures().due) == (1, 1)


def test_a_paused_clock_is_neither_due_nor_missed():
    book = account()
    book.tick(played(0))
    for _ in range(7):
        book.tick(played(0))
    book.tick(played(5))
    figures = book.figures()
    assert (figures.ticks, figures.due, figures.misses, figures.paused_ticks) == (2, 2, 0, 7)


def test_a_clock_that_goes_back_begins_a_new_window():
    book = account()
    book.tick(played(1000))
    book.tick(rung(1005, Play.HOLD, Reason.EXPIRED))
    book.tick(played(3))
    figures = book.figures()
    assert (figures.window, figures.since_ns, figures.ticks, figures.misses) == (1, 3 * MS, 1, 0)


def test_the_parts_of_an_age_add_up_to_it():
    times = ChunkTimes(0, 3 * MS, 10 * MS, 90 * MS, 92 * MS, 95 * MS)
    split = parts(-2 * MS, times, 120 * MS)
    assert list(split.values()) == [5 * MS, 7 * MS, 80 * MS, 2 * MS, 3 * MS, 25 * MS]
    assert sum(split.values()) == 122 * MS


def test_ages_are_kept_for_each_input_and_split_when_the_chunk_is_known():
    book = account()
    book.chunk(chunk(4, observed_ms=100, publish_ms=180), Verdict(from_ns=0))
    book.tick(played(200, 4, age_ms=100, input_age_ns={'camera': 100 * MS, 'joints': 90 * MS}))
    age = book.figures().age_ms
    assert (age.worst.max, age.inputs['joints'].max) == (100, 90)
    assert (age.engine.max, age.buffer.max, age.receive.max) == (80, 20, 0)


def test_C27_a_step_that_was_taken_over_has_the_age_and_the_parts_of_the_chunk_before():
    made = player(max_action_age_ns=400 * MS, **PLAIN)
    made.offer(chunk(0, 100, np.zeros(16), observed_ms=20, publish_ms=90), 90 * MS)
    second = chunk(1, 200, np.zeros(16), observed_ms=120, joints_ms=130, publish_ms=190)
    taken = replace(second, taken_over=2, taken_over_stamps_ns={'camera': 20 * MS})
    assert made.offer(taken, 190 * MS).accepted
    before, after = tick(made, 245), tick(made, 250)
    assert before.input_age_ns == {'camera': 225 * MS, 'joints': 115 * MS}
    assert (before.age_ns, after.age_ns, after.chunk) == (225 * MS, 130 * MS, 1)
    age = made.account.figures().age_ms
    # Published at 90 and at 190: what was taken over has waited since 90.
    assert (age.buffer.n, age.buffer.max, age.engine.max) == (2, 155, 70)


def test_B6_what_was_taken_over_is_not_played_when_it_is_too_old():
    made = player(max_action_age_ns=200 * MS, **PLAIN)
    chunk_ = chunk(1, 200, np.zeros(16), observed_ms=120, publish_ms=190)
    made.offer(replace(chunk_, taken_over=2, taken_over_stamps_ns={'camera': 20 * MS}), 190 * MS)
    assert made.depth_ns(200 * MS) == 20 * MS
    assert made.depth_ns(250 * MS) == 70 * MS
    plays = [tick(made, at).play for at in (215, 225, 245, 255)]
    assert [play is Play.PLAYING for play in plays] == [True, False, False, True]


def test_chunks_are_counted_by_what_became_of_them():
    book = account()
    for number in range(4):
        taken = chunk(number, observed_ms=number * 100, publish_ms=number * 100 + 60)
        book.chunk(taken, Verdict(skipped=number // 2, clamped=2, from_ns=0))
    book.chunk(chunk(9), Verdict(ChunkReject.ALL_PAST, 'late'))
    book.tick(played(500, 0))
    book.tick(played(505, 3))
    chunks = book.figures().chunks
    assert (chunks.accepted, chunks.late, chunks.superseded) == (4, 2, 2)
    assert (chunks.steps_skipped, chunks.steps_clamped) == (2, 8)
    assert chunks.rejected == {'all_past': 1}
    assert (chunks.interval_ms.n, chunks.interval_ms.max, chunks.response_ms.max) == (3, 100, 60)


def test_C17_a_seam_is_measured_where_the_chunk_changes():
    book = account()
    book.tick(played(0, 0, velocity=np.array([2.0, 0.0])))
    book.tick(played(5, 0, position=np.array([0.01, 0.0]), velocity=np.array([2.0, 0.0])))
    assert book.figures().seam_position.n == 0
    book.tick(played(10, 1, position=np.array([0.02, 0.3]), velocity=np.array([2.0, -1.0])))
    figures = book.figures()
    assert figures.seam_position.n == 1
    # The second joint moved by 0.3; its velocities explain -0.5 * 5 ms of it.
    assert figures.seam_position.max == pytest.approx(0.3025)
    assert figures.seam_velocity.max == pytest.approx(1.0)


def test_X12_memory_is_constant():
    book = account()
    for number in range(2000):
        book.chunk(chunk(number, observed_ms=number), Verdict(from_ns=0))
    assert len(book._arrivals._times) == len(book._arrivals._waiting) == 256


@pytest.mark.parametrize('name', ['period_ns', 'max_action_age_ns', 'late_ns'])
def test_measures_that_mean_nothing_are_refused(name):
    with pytest.raises(ParameterError, match=name):
        account(**{name: 0})
