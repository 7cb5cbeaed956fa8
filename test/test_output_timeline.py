# SPDX-License-Identifier: Apache-2.0
"""The output buffer: played by time, newest first, nothing refused without its reason."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from output_cases import MS, NAMES, chunk

from physis_ros.output.interpolate import Interpolation, through
from physis_ros.output.limits import JointLimit, LimitMode
from physis_ros.output.merge import Merge
from physis_ros.output.timeline import Timeline
from physis_ros.output.verdict import ChunkReject
from physis_ros.session.player import PlayerConfig

LINEAR = (Interpolation.LINEAR,) * 2


def timeline(**changes: Any) -> Timeline:
    changes = {'names': NAMES, 'merge': Merge.REPLACE, 'interpolation': LINEAR, **changes}
    return Timeline(PlayerConfig(**changes).timeline)


def at(line: Timeline, time_ms: float) -> float | None:
    sample = line.at(round(time_ms * MS))
    return None if sample is None else float(sample.position[0])


def test_B1_the_command_at_t_is_the_interpolation_at_t():
    line = timeline()
    assert line.offer(chunk(0, start_ms=100), 90 * MS).accepted
    assert at(line, 99) is None
    assert at(line, 100) == 0.0
    assert at(line, 110) == pytest.approx(0.4)
    assert at(line, 175) == 3.0
    assert at(line, 176) is None


def test_B1_steps_passed_are_skipped_by_their_stamps():
    line = timeline()
    # Steps are meant for 100, 125, 150, 175; at 126 two of them have passed.
    verdict = line.offer(chunk(0, start_ms=100), 126 * MS)
    assert verdict.accepted
    assert verdict.late
    assert verdict.skipped == 2
    assert at(line, 126) == pytest.approx(1.04)
    assert line.offer(chunk(1, start_ms=150), 150 * MS).skipped == 0


def test_B2_replace_starts_at_the_first_future_step_and_keeps_the_old_tail_until_then():
    line = timeline()
    line.offer(chunk(0, start_ms=0), 0)
    verdict = line.offer(chunk(1, start_ms=0, steps=[10, 11, 12, 13]), 30 * MS)
    assert verdict.from_ns == 50 * MS
    assert at(line, 49) == pytest.approx(1.96)
    assert at(line, 50) == pytest.approx(12.0)
    sample = line.at(60 * MS)
    assert sample is not None
    assert sample.chunks == (1,)
    assert sample.velocity[0] == pytest.approx(40.0)


def test_B2_a_late_chunk_is_played_at_once_where_nothing_else_is():
    line = timeline()
    line.offer(chunk(0, start_ms=0, steps=[0, 0]), 0)
    verdict = line.offer(chunk(1, start_ms=0), 60 * MS)
    assert verdict.from_ns == 60 * MS
    assert at(line, 60) == pytest.approx(2.4)


def test_chunks_that_follow_each_other_are_joined_over_the_step_between_them():
    line = timeline(interpolation=(Interpolation.CUBIC,) * 2)
    line.offer(chunk(0, start_ms=0, steps=[0, 1, 2, 3]), 0)
    line.offer(chunk(1, start_ms=100, steps=[4, 5, 6, 7]), 0)
    middle = line.at(87 * MS)
    assert middle is not None
    assert middle.chunks == (0, 1)
    for time_ns in range(0, 175 * MS, MS):
        sample = line.at(time_ns)
        assert sample is not None
        assert sample.position[0] == pytest.approx(time_ns / (25 * MS))
        assert sample.velocity[0] == pytest.approx(40.0)


def test_a_gap_of_more_than_a_step_is_a_gap():
    line = timeline()
    line.offer(chunk(0, start_ms=0), 0)
    line.offer(chunk(1, start_ms=101), 0)
    assert at(line, 75) == 3.0
    assert at(line, 88) is None
    assert at(line, 101) == 0.0


def test_a_seam_that_never_comes_leaves_nothing_behind():
    line = timeline(merge=Merge.BLEND, blend_ns=100 * MS)
    line.offer(chunk(0, start_ms=0, steps=np.zeros(16)), 0)
    line.offer(chunk(1, start_ms=100, steps=np.ones(12)), 10 * MS)  # would take over at 100 ms
    line.offer(chunk(2, start_ms=50, steps=np.zeros(14)), 20 * MS)  # but this one comes before
    assert {at(line, time_ms) for time_ms in range(20, 370)} == {0.0}


@pytest.mark.parametrize('kind', [Interpolation.LINEAR, Interpolation.CUBIC])
def test_B2_blend_has_no_step_at_the_seam_and_ends_on_the_new_chunk(kind):
    line = timeline(merge=Merge.BLEND, blend_ns=50 * MS, interpolation=(kind,) * 2)
    line.offer(chunk(0, start_ms=0, steps=np.linspace(0, 1, 9)), 0)
    verdict = line.offer(chunk(1, start_ms=0, steps=np.linspace(0.5, 2.5, 9)), 80 * MS)
    assert verdict.from_ns == 100 * MS
    before, after = line.at(100 * MS - 1), line.at(100 * MS)
    assert before is not None
    assert after is not None
    assert after.position == pytest.approx(before.position, abs=1e-6)
    assert after.velocity == pytest.approx(before.velocity, abs=1e-6)
    assert at(line, 150) == pytest.approx(0.5 + 150 / 200 * 2.0)
    last, first = line.at(150 * MS - 1), line.at(150 * MS)
    assert last is not None
    assert first is not None
    assert first.velocity == pytest.approx(last.velocity, abs=1e-3)


def test_B3_a_cubic_joint_stays_smooth_even_under_replace():
    kinds = (Interpolation.CUBIC, Interpolation.LINEAR)
    line = timeline(interpolation=kinds)
    line.offer(chunk(0, start_ms=0, steps=np.linspace(0, 1, 9)), 0)
    line.offer(chunk(1, start_ms=0, steps=np.linspace(0.5, 2.5, 9)), 80 * MS)
    before, after = line.at(100 * MS - 1), line.at(100 * MS)
    assert before is not None
    assert after is not None
    jump = np.abs(after.position - before.position)
    assert jump[0] < 1e-6
    assert jump[1] == pytest.approx(1.0, abs=1e-6)
    assert after.velocity[0] == pytest.approx(before.velocity[0], abs=1e-6)
    assert line.at(125 * MS).position == pytest.approx([1.75, 1.75])


def test_C22_a_gripper_opens_and_closes_in_full():
    line = timeline(merge=Merge.BLEND, interpolation=(Interpolation.STEP,) * 2)
    line.offer(chunk(0, start_ms=0, steps=[0, 0, 0, 0, 0]), 0)
    line.offer(chunk(1, start_ms=25, steps=[1, 0, 1, 0]), 10 * MS)
    assert [at(line, t) for t in (24, 25, 49, 50, 74, 75)] == [0, 1, 1, 0, 0, 1]


def test_C10_what_the_new_chunk_does_not_cover_stays():
    line = timeline()
    line.offer(chunk(0, start_ms=0, steps=np.arange(9.0)), 0)
    line.offer(chunk(1, start_ms=50, steps=[2.0, 3.0]), 40 * MS)
    assert at(line, 200) == 8.0
    for time_ms in range(201):
        assert at(line, time_ms) == pytest.approx(time_ms / 25)


def test_C10_a_chunk_of_one_step_that_lies_ahead_stays_too():
    line = timeline()
    line.offer(chunk(0, start_ms=37, steps=[2.0], dt_ms=10), 0)
    line.offer(chunk(1, start_ms=1, steps=[1.0], dt_ms=10), 1 * MS)
    assert [at(line, time_ms) for time_ms in (1, 36, 37, 38)] == [1.0, None, 2.0, None]


def test_C10_the_last_step_of_the_old_tail_is_reached_from_the_new_one():
    line = timeline()
    line.offer(chunk(0, start_ms=35, steps=[0, 1, 2, 3]), 0)
    assert line.offer(chunk(1, start_ms=35, steps=[0, 1, 2]), 65 * MS).from_ns == 85 * MS
    assert at(line, 97.5) == pytest.approx(2.5)
    assert at(line, 110) == 3.0


REFUSALS = {
    ChunkReject.WRONG_WIDTH: chunk(1, names=('shoulder',)),
    ChunkReject.WRONG_NAMES: chunk(1, names=('shoulder', 'wrist')),
    ChunkReject.WRONG_DT: chunk(6, epoch=2, dt_ms=1e12),
    ChunkReject.NON_FINITE: chunk(1, steps=[0.0, float('nan'), 0.0, 0.0]),
    ChunkReject.STALE_EPOCH: chunk(9, epoch=1),
    ChunkReject.DUPLICATE: chunk(5, epoch=2),
    ChunkReject.OUT_OF_ORDER: chunk(4, epoch=2),
    ChunkReject.FUTURE_INPUT: chunk(6, epoch=2, observed_ms=501),
    ChunkReject.FAR_FUTURE: chunk(6, epoch=2, start_ms=2001),
    ChunkReject.ALL_PAST: chunk(6, epoch=2, start_ms=-76),
    ChunkReject.EXPIRED: chunk(6, epoch=2, observed_ms=-1001),
}


@pytest.mark.parametrize('reason', REFUSALS, ids=lambda reason: reason.value)
def test_C28_each_refusal_has_its_reason_and_changes_nothing(reason):
    line = timeline()
    assert line.offer(chunk(5, epoch=2), 0).accepted
    verdict = line.offer(REFUSALS[reason], 0)
    assert verdict.reject is reason
    assert verdict.detail
    assert at(line, 30) == pytest.approx(1.2)
    assert line.epoch == 2
    assert line.offer(chunk(6, epoch=2), 0).accepted


EDGES = [
    chunk(start_ms=-75),
    chunk(start_ms=2000),
    chunk(observed_ms=500),
    chunk(observed_ms=-1000),
    chunk(dt_ms=1000),
    chunk(dt_ms=1.25),
]


@pytest.mark.parametrize('index', range(len(EDGES)))
def test_the_edges_of_refusal_are_let_in(index):
    line = timeline(max_action_age_ns=1000 * MS if index != 1 else 3000 * MS)
    assert line.offer(EDGES[index], 0).accepted


@pytest.mark.parametrize(
    ('dt_ms', 'words'),
    [
        (1e12, 'to 1000 ms (max_action_age), got 1e+12 ms'),
        (1000 + 1e-6, 'got 1000.000001 ms'),
        (1e-6, 'dt must be 1.25 ms (all of it one servo period) to'),
        (1.25 - 1e-6, 'got 1.249999 ms'),
    ],
)
def test_steps_too_close_or_too_far_apart_to_be_played_are_refused(dt_ms, words):
    # Four steps at 200 Hz: at least a fourth of 5 ms apart, or all fall between two ticks.
    line = timeline(max_action_age_ns=1000 * MS, servo_rate_hz=200.0)
    verdict = line.offer(chunk(dt_ms=dt_ms), 0)
    assert verdict.reject is ChunkReject.WRONG_DT
    assert words in verdict.detail
    assert line.epoch == -1


def test_columns_are_taken_by_name():
    line = timeline()
    steps = np.array([[1.0, 2.0], [1.0, 2.0]])
    line.offer(chunk(0, steps=steps, names=('elbow', 'shoulder')), 0)
    assert line.at(0).position.tolist() == [2.0, 1.0]


def test_a_higher_epoch_drops_everything_even_when_its_chunk_is_too_late():
    line = timeline()
    line.offer(chunk(7, epoch=0), 0)
    verdict = line.offer(chunk(0, epoch=1, start_ms=-500), 0)
    assert verdict.reject is ChunkReject.ALL_PAST
    assert verdict.new_epoch
    assert line.at(0) is None
    assert line.offer(chunk(8, epoch=0), 0).reject is ChunkReject.STALE_EPOCH
    assert line.offer(chunk(0, epoch=1), 0).accepted


def test_X23_a_broken_chunk_begins_no_epoch():
    line = timeline()
    line.offer(chunk(0, epoch=0), 0)
    assert not line.offer(chunk(0, epoch=9, steps=[float('inf'), 0, 0, 0]), 0).new_epoch
    assert at(line, 25) == 1.0


def test_B4_positions_beyond_a_limit_are_clamped_or_the_chunk_is_refused():
    limits = (JointLimit(upper=2.5), JointLimit())
    line = timeline(limits=limits)
    verdict = line.offer(chunk(0), 0)
    assert verdict.clamped == 1
    assert line.at(75 * MS).position.tolist() == [2.5, 3.0]
    line = timeline(limits=limits, limit_mode=LimitMode.REJECT)
    assert line.offer(chunk(0), 0).reject is ChunkReject.POSITION_LIMIT


def test_B6_depth_is_bounded_in_time_and_by_age():
    line = timeline(depth_ns=60 * MS)
    line.offer(chunk(0, start_ms=20, steps=np.zeros(16)), 10 * MS)
    assert line.depth_ns(20 * MS) == 50 * MS
    assert at(line, 70) == 0.0
    assert at(line, 71) is None
    line = timeline(max_action_age_ns=100 * MS)
    line.offer(chunk(0, steps=np.zeros(16)), 0)
    assert line.depth_ns(30 * MS) == 70 * MS
    assert line.depth_ns(101 * MS) == 0


def test_where_two_chunks_meet_the_older_input_counts():
    line = timeline()
    line.offer(chunk(0, start_ms=0, observed_ms=-50, joints_ms=-60), 0)
    line.offer(chunk(1, start_ms=100, observed_ms=-10, joints_ms=-5), 0)
    sample = line.at(80 * MS)
    assert sample.observed_ns == -60 * MS
    assert sample.input_stamps_ns == {'camera': -50 * MS, 'joints': -60 * MS}
    assert sample.chunk == 1


OFFERS = st.lists(
    st.tuples(
        st.integers(0, 80),  # ms since the offer before
        st.integers(-60, 80),  # start, ms from now
        st.integers(1, 8),  # steps
        st.sampled_from([10, 25, 40]),  # dt, ms
        st.integers(-3, 3),  # level
    ),
    min_size=1,
    max_size=12,
)


@settings(max_examples=60, deadline=None)
@given(OFFERS)
def test_the_command_is_the_newest_accepted_chunk_that_covers_the_instant(offers):
    line = timeline()
    kinds = line.config.kinds
    accepted = []
    now = 0
    for number, (pause, ahead, count, dt, level) in enumerate(offers):
        for time_ns in range(now * MS, (now + pause) * MS, 7 * MS):
            check(line, accepted, time_ns)
        now += pause
        steps = level + np.sin(np.arange(count) + number)
        offered = chunk(number, now + ahead, steps, dt_ms=dt, observed_ms=now - 20)
        verdict = line.offer(offered, now * MS)
        if verdict.accepted:
            curve = through(offered.start_ns, offered.dt_ns, offered.actions, kinds)
            accepted.append((verdict.from_ns, offered.end_ns, offered.dt_ns, curve))
        else:
            assert verdict.reject is ChunkReject.ALL_PAST
    for time_ns in range(now * MS, (now + 400) * MS, 3 * MS):
        check(line, accepted, time_ns)


def check(line: Timeline, accepted: list[Any], time_ns: int) -> None:
    """Compare with the newest chunk whose played span holds ``time_ns``, looking at them all."""
    sample = line.at(time_ns)
    for index in reversed(range(len(accepted))):
        from_ns, to_ns, dt_ns, curve = accepted[index]
        if from_ns <= time_ns <= to_ns:
            assert sample is not None
            assert sample.position == pytest.approx(curve.at(time_ns)[0], abs=1e-9)
            return
        if time_ns > to_ns and time_ns < to_ns + dt_ns:
            return  # on the way back to an older tail, or to nothing
    if sample is not None:
        assert len(sample.chunks) == 2  # a bridge over one control step
