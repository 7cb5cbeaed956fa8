# SPDX-License-Identifier: Apache-2.0
"""The pure rules behind the producer: beats, told delay, rates, clocks, inputs."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from physis_ros.backbones.base import ActionSpec, FrameSpec, InputSpec, KvRule, ModelSpec
from physis_ros.errors import ParameterError
from physis_ros.session.delay import ResponseEstimate, ToldDelay, told_delay
from physis_ros.session.inputs import InputBuilder
from physis_ros.session.pacing import IntervalEstimate, Newest, Pacer
from physis_ros.session.produced import Instant, stream_time
from physis_ros.session.rates import RateMeter
from physis_ros.types import Observation

MS = 1_000_000


def entries(frames_ms: list[float], period_ms: int, interval_ms: int, end_ms: int) -> list[int]:
    """Run a pacer millisecond by millisecond; return when chunks entered [ms]."""
    pacer, newest, entered = Pacer(period_ms * MS), None, []
    for now in range(end_ms):
        if now in frames_ms:
            newest = Newest(now * MS - 3 * MS, now * MS)
        if newest is not None and pacer.wait_ns(now * MS, newest, interval_ms * MS) == 0:
            pacer.entered(now * MS, newest.stamp_ns)
            entered.append(now)
    return entered


def test_one_entry_on_each_beat_with_a_regular_camera() -> None:
    assert entries(list(range(10, 500, 25)), 100, 25, 500) == [10, 110, 210, 310, 410]


def test_frame_half_an_interval_before_the_beat_is_taken() -> None:
    assert entries([0, 75, 88, 100, 125], 100, 25, 130) == [0, 88]
    assert entries([0, 75, 87, 100, 125], 100, 25, 130) == [0, 100]


def test_without_a_fresh_frame_the_newest_unused_enters_one_interval_later() -> None:
    assert entries([0, 25, 50], 100, 25, 300) == [0, 125]


def test_no_frame_is_used_twice() -> None:
    assert entries([0], 100, 25, 500) == [0]
    assert entries([0, 350], 100, 25, 500) == [0, 350]


def test_lost_beats_do_not_pile_up() -> None:
    pacer = Pacer(100 * MS)
    pacer.entered(0, 0)
    pacer.entered(730 * MS, 700 * MS)  # beats at 100 .. 600 are lost, 700 is late by 30
    assert pacer.beat_ns == 800 * MS
    assert pacer.skipped == 6
    pacer.entered(860 * MS, 850 * MS)  # late by more than half: the next one would be too near
    assert pacer.beat_ns == 1000 * MS
    assert pacer.skipped == 7


def test_reset_lets_the_next_frame_in_at_once() -> None:
    pacer = Pacer(100 * MS)
    pacer.entered(0, 5)
    assert pacer.wait_ns(1, Newest(5, 1), 0) is None
    pacer.reset()
    assert pacer.wait_ns(1, Newest(5, 1), 0) == 0
    assert pacer.wait_ns(1, None, 0) is None


@settings(max_examples=40, deadline=None)
@given(st.lists(st.integers(1, 120), min_size=1, max_size=60), st.integers(1, 90))
def test_spacing_is_at_least_half_a_period(gaps: list[int], interval: int) -> None:
    frames = list(np.cumsum(gaps))
    entered = entries([int(f) for f in frames], 100, interval, int(frames[-1]) + 200)
    distances = np.diff(entered)
    assert (distances >= 50 - interval // 2 - 1).all()
    assert len(entered) <= len(set(frames))


def test_interval_is_the_median_difference() -> None:
    interval = IntervalEstimate(3)
    assert interval.value_ns == 0
    for stamp in (0, 25, 50, 200, 225):
        interval.add(stamp)
    assert interval.value_ns == 25
    interval.add(100)  # backwards: no difference
    interval.add(140)
    assert interval.value_ns == 40


@pytest.mark.parametrize(
    ('age', 'response', 'margin', 'told'),
    [
        (0, 0, 0, (0, False)),
        (3, 97, 0, (4, False)),
        (3, 97, 1, (5, False)),
        (400, 90, 10, (20, False)),
        (400, 90, 11, (20, True)),
        (-200, 100, 0, (0, True)),
    ],
)
def test_told_delay_covers_age_response_and_margin(
    age: int, response: int, margin: int, told: tuple[int, bool]
) -> None:
    assert told_delay(age * MS, response * MS, margin * MS, 25 * MS, 20) == ToldDelay(*told)


def test_response_estimate_is_a_running_high_percentile() -> None:
    estimate = ResponseEstimate(150, size=10)
    assert estimate.value_ns == 150
    for value in range(1, 11):
        estimate.add(value)
    assert estimate.value_ns == 9
    for _ in range(10):
        estimate.add(4)
    assert estimate.value_ns == 4


def test_rate_over_the_window() -> None:
    rate = RateMeter(window_ns=1000 * MS)
    assert rate.hz(0) == 0.0
    for index in range(101):
        rate.add(index * 25 * MS)
    assert rate.hz(2500 * MS) == 40.0
    assert rate.hz(3600 * MS) == 0.0


def test_stream_time_follows_a_faster_clock() -> None:
    before, after = Instant(1000, 50), Instant(1400, 250)  # stream time at twice the speed
    assert [stream_time(steady, before, after) for steady in (50, 150, 250)] == [1000, 1200, 1400]
    assert stream_time(60, before, Instant(1400, 50)) == 1400


def spec(**changes: object) -> ModelSpec:
    inputs = (
        InputSpec('frames', (2, 4, 4, 3), torch.uint8),
        InputSpec('joints', (4,), torch.float32),
        InputSpec('delay', (1,), torch.float32),
    )
    base = ModelSpec(
        name='tiny', blocks=1, steps=1, tokens=1, width=4, heads=1, head_dim=4, window=1, sink=0,
        kv_rule=KvRule.SAME_STEP, latent_shape=(1, 4), inputs=inputs,
        actions=ActionSpec(('shoulder', 'elbow'), 'rad', 3, 25 * MS),
        frames=FrameSpec(4, 4, (-25 * MS, 0), (0,)), max_delay_steps=20,
    )  # fmt: skip
    return replace(base, **changes)  # type: ignore[arg-type]


def observation() -> Observation:
    frames = np.arange(96, dtype=np.uint8).reshape(2, 4, 4, 3)
    return Observation(50, 60, frames, (25, 50), np.array([1.0, 2.0]), np.array([3.0, 4.0]), 50)


def test_inputs_by_the_names_of_the_spec() -> None:
    inputs = InputBuilder(spec(), 2).build(observation(), 3)
    assert list(inputs) == ['frames', 'joints', 'delay']
    assert inputs['joints'].tolist() == [1, 2, 3, 4]
    assert inputs['joints'].dtype == inputs['delay'].dtype == np.float32
    assert inputs['delay'].tolist() == [np.float32(0.075)]
    np.testing.assert_array_equal(inputs['frames'], observation().frames)
    only = spec(inputs=(InputSpec('joints', (4,), torch.float64),))
    assert list(InputBuilder(only, 2).build(observation(), 0)) == ['joints']
    whole = InputBuilder(spec(inputs=(InputSpec('delay', (), torch.int64),)), 2)
    delay = whole.build(observation(), 3)['delay']
    assert (delay.shape, delay.dtype.name, int(delay)) == ((), 'int64', 3)


@pytest.mark.parametrize(
    ('wanted', 'message'),
    [
        (InputSpec('lidar', (3,), torch.float32), "one of .*'frames'.* got 'lidar'"),
        (InputSpec('joints', (6,), torch.float32), r'of shape \[4\].* got \[6\]'),
        (InputSpec('frames', (3, 4, 4, 3), torch.uint8), r'of shape \[2, 4, 4, 3\]'),
        (InputSpec('delay', (1,), torch.uint8), "one of .* got 'torch.uint8'"),
    ],
)
def test_I9_a_model_that_wants_something_else_is_refused(wanted: InputSpec, message: str) -> None:
    """Expected and got are in the message."""
    with pytest.raises(ParameterError, match=message):
        InputBuilder(spec(inputs=(wanted,)), 2)
