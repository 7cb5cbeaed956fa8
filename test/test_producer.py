# SPDX-License-Identifier: Apache-2.0
"""
The producer turn by turn, on clocks moved by hand.

The pipe is a row of chunks finished when the test says so, because the expectations are exact
times; the real pool is in ``test_producer_pool.py``.
"""

from __future__ import annotations

import threading
import time
from typing import Any

import numpy as np
import pytest
from producer_cases import BASE, MS, Bench, Pipe, image

from physis_ros.clock import ManualClock
from physis_ros.errors import EngineError, ObservationError, ParameterError, WorkerDied
from physis_ros.observation.align import Intake, Lack
from physis_ros.observation.config import Timeline
from physis_ros.observation.joints import JointReading
from physis_ros.session.collector import Collector, Consumer
from physis_ros.session.delay import ToldDelay
from physis_ros.session.produced import Produced
from physis_ros.session.producer import BUSY_SLICE_S, SLICE_S, Ports, Producer
from physis_ros.session.producer_config import ProducerConfig
from physis_ros.session.producer_status import ProducerState
from physis_ros.types import ChunkTimes


def test_one_chunk_with_exact_times() -> None:
    bench = Bench(expected_response_ns=90 * MS, margin_ns=8 * MS)
    bench.wanted = True
    bench.see(0, way_ms=2)
    # age 2 + response 90 + margin 8 = 100 ms: four steps of 25 ms.
    _, chunk, inputs, deadline, frames = bench.pipe.entered[0]
    assert (chunk, frames) == (0, True)
    assert int(inputs['delay']) == 4
    assert inputs['joints'].tolist() == np.array([1, 2, 0.1, 0.2], np.float32).tolist()
    assert (inputs['frames'] == 7).all()
    assert deadline == 100 * MS  # steady time of the first action
    bench.at(82)
    bench.producer.on_result(bench.pipe.finish(62 * MS, 72 * MS))
    (done,) = bench.got
    assert done.told == ToldDelay(4, False)
    assert done.chunk.times == ChunkTimes(
        BASE, BASE + 2 * MS, BASE + 2 * MS, BASE + 62 * MS, BASE + 72 * MS, BASE + 82 * MS
    )
    assert (done.chunk.stream, done.chunk.epoch, done.chunk.chunk) == ('arm', 0, 0)
    assert done.chunk.start_ns == BASE + 100 * MS
    assert done.chunk.names == ('a', 'b')
    assert done.chunk.input_stamps_ns == {'camera': BASE, 'joints': BASE}
    assert done.chunk.actions.tolist() == [[0.5, 0.5]] * 4
    (frame,) = done.frames
    assert (frame.about_ns, frame.observed_ns) == (BASE + 100 * MS, BASE)
    assert frame.image.shape == (8, 8, 3)
    status = bench.producer.status()
    assert status.expected_response_ns == 80 * MS
    assert status.response_latency_ms.max == pytest.approx(80.0)
    assert status.in_flight == 0


def test_entries_on_the_beat_with_the_newest_frame() -> None:
    bench = Bench()
    for index in range(17):
        bench.see(index * 25)
        while bench.pipe.in_flight.get('arm'):
            bench.producer.on_result(bench.pipe.finish(0, 0))
    starts = [done.chunk.observed_ns - BASE for done in bench.got]
    assert starts == [0, 100 * MS, 200 * MS, 300 * MS, 400 * MS]
    status = bench.producer.status()
    assert status.sensor_hz == pytest.approx(40.0)
    assert status.replan_hz == status.chunk_hz == pytest.approx(10.0)
    assert status.output_interval_ms.n == 4
    assert status.output_interval_ms.max == pytest.approx(100.0)
    assert status.state is ProducerState.RUNNING


def test_C2_the_first_observation_always_enters_and_so_does_one_like_the_last() -> None:
    bench = Bench(period_ns=100 * MS)
    bench.see(0)
    bench.see(100)  # the same picture, the same pose: nothing is filtered
    assert len(bench.pipe.entered) == 2
    for _ in range(2):
        bench.producer.reset()
        bench.see(110 + 10 * len(bench.pipe.entered))  # long before the next beat
    assert [entered[:2] for entered in bench.pipe.entered] == [(0, 0), (0, 1), (1, 0), (2, 0)]


def test_full_pipe_makes_the_entry_wait_and_then_take_what_is_newest_then() -> None:
    bench = Bench()
    for index in range(8):
        bench.see(index * 25)
    assert len(bench.pipe.entered) == 2  # at 0 and 100
    for index in range(8, 10):
        bench.see(index * 25)
    assert bench.producer.turn() == BUSY_SLICE_S
    assert len(bench.pipe.entered) == 2
    bench.at(235)
    bench.producer.on_result(bench.pipe.finish(0, 0))
    bench.producer.turn()
    assert len(bench.pipe.entered) == 3
    assert bench.producer._pending[2].observation.stamp_ns == BASE + 225 * MS


def test_told_delay_grows_with_the_age_of_the_camera_and_is_clamped() -> None:
    bench = Bench(expected_response_ns=90 * MS, margin_ns=8 * MS)
    bench.see(0, way_ms=202)
    assert int(bench.pipe.entered[0][2]['delay']) == 12
    assert bench.producer.status().counts['delay_clamped'] == 0
    bench.see(100, way_ms=450)
    assert int(bench.pipe.entered[1][2]['delay']) == 20
    status = bench.producer.status()
    assert status.counts['delay_clamped'] == 1
    assert status.told_delay == ToldDelay(20, True)


def test_stream_time_at_twice_the_speed() -> None:
    bench = Bench()
    bench.see(0)
    bench.clock.set(BASE + 202 * MS)
    bench.steady.set(102 * MS)
    bench.producer.on_result(bench.pipe.finish(52 * MS, 77 * MS))
    times = bench.got[0].chunk.times
    assert (times.enter_ns - BASE, times.publish_ns - BASE) == (2 * MS, 202 * MS)
    assert (times.denoised_ns - BASE, times.decoded_ns - BASE) == (102 * MS, 152 * MS)


@pytest.mark.parametrize('clock_first', [True, False])
def test_T7_time_that_goes_back_makes_one_epoch_however_it_shows(clock_first: bool) -> None:
    bench = Bench()
    for index in range(4):
        bench.see(1000 + index * 25)
    if clock_first:
        bench.at(0)
        bench.producer.turn()
    # Stamps of the new time, under the old clock or under the new one.
    bench.producer.frame(BASE, bench.clock.now_ns(), image())
    bench.at(2)
    bench.producer.turn()
    bench.see(25)
    bench.see(125)
    assert [epoch for epoch, *_ in bench.pipe.entered] == [0, 1, 1]
    # A second time is another event.
    bench.at(-500)
    bench.producer.turn()
    assert bench.producer.status().epoch == 2


def test_reset_delivers_nothing_of_the_older_epoch_and_begins_at_once() -> None:
    bench = Bench()
    bench.see(0)
    old = bench.pipe.finish(10 * MS, 20 * MS)
    bench.see(25)
    assert bench.producer.reset() == 1
    bench.producer.on_result(old)
    assert bench.got == []
    bench.producer.turn()
    assert [(entry[0], entry[1]) for entry in bench.pipe.entered] == [(0, 0), (1, 0)]
    bench.producer.on_result(bench.pipe.finish(30 * MS, 40 * MS))
    assert [(done.chunk.epoch, done.chunk.chunk) for done in bench.got] == [(1, 0)]
    counts = bench.producer.status().counts
    assert (counts['old_epoch'], counts['reset_requested']) == (1, 1)
    assert (counts['entered'], counts['delivered'], counts['dropped']) == (2, 1, 1)


def test_T19_a_backward_clock_begins_a_new_epoch_and_forgets_what_was_seen() -> None:
    """T7, T8: a looped bag."""
    bench = Bench()
    bench.see(400)
    old = bench.pipe.finish(0, 0)
    bench.at(100)
    bench.producer.turn()
    status = bench.producer.status()
    assert (status.epoch, status.counts['reset_clock_jump']) == (1, 1)
    assert status.lack is Lack.NO_FRAME
    assert status.state is ProducerState.WAITING
    bench.producer.on_result(old)
    bench.see(125)
    bench.producer.on_result(bench.pipe.finish(0, 0))
    assert [done.chunk.times.capture_ns - BASE for done in bench.got] == [125 * MS]
    assert bench.got[0].chunk.epoch == 1


def test_T19_a_result_that_comes_after_the_jump_is_not_delivered() -> None:
    bench = Bench()
    bench.see(400)
    bench.at(100)
    bench.producer.on_result(bench.pipe.finish(0, 0))
    assert bench.got == []
    assert bench.producer.status().epoch == 1


def test_T6_a_clock_stepping_back_a_little_is_no_jump() -> None:
    bench = Bench()
    bench.see(400)
    bench.at(393)
    bench.producer.turn()
    assert bench.producer.status().epoch == 0


def test_stamps_going_back_begin_a_new_epoch_and_are_taken() -> None:
    bench = Bench(max_age_ns=10_000 * MS)
    bench.see(3000)
    bench.at(3025)
    assert bench.producer.frame(BASE + 100 * MS, BASE + 3025 * MS, image()) is Intake.TAKEN
    status = bench.producer.status()
    assert (status.epoch, status.counts['reset_stamp_regressed']) == (1, 1)
    assert status.missing_joints == ('a', 'b')


def test_pause_lets_nothing_in_and_going_on_begins_an_epoch() -> None:
    bench = Bench()
    bench.see(0)
    bench.producer.pause(True)
    bench.see(100)
    bench.producer.on_result(bench.pipe.finish(0, 0))
    assert len(bench.got) == len(bench.pipe.entered) == 1
    assert bench.producer.status().state is ProducerState.PAUSED
    bench.see(125)
    bench.producer.pause(False)
    bench.producer.turn()
    assert [entry[0] for entry in bench.pipe.entered] == [0, 1]
    assert bench.producer.status().counts['reset_resumed'] == 1
    bench.producer.pause(False)
    assert bench.producer.status().epoch == 1


def test_T9_a_stopped_clock_is_neither_entry_nor_failure() -> None:
    bench = Bench()
    bench.see(0)
    for _ in range(50):
        assert bench.producer.turn() == SLICE_S
    assert len(bench.pipe.entered) == 1


def test_why_there_is_nothing_is_said() -> None:
    bench = Bench()
    assert bench.producer.status().lack is Lack.NO_FRAME
    bench.at(2)
    bench.producer.frame(BASE, BASE + 2 * MS, image())
    bench.producer.turn()
    status = bench.producer.status()
    assert (status.lack, status.missing_joints) == (Lack.NO_JOINTS, ('a', 'b'))
    assert status.counts['no_joints'] == 1
    bench.producer.joints(JointReading(BASE, BASE + 2 * MS, ['b', 'a'], [2.0, 1.0]))
    bench.producer.turn()
    assert bench.pipe.entered[0][2]['joints'].tolist() == [1, 2, 0, 0]
    bench.at(1500)
    assert bench.producer.status().lack is Lack.STALE_FRAME


def test_T16_skewed_stamps_never_make_negative_times() -> None:
    """Stamps ahead of the clock: counted, and the times stay in order."""
    bench = Bench()
    bench.see(200, way_ms=-100)
    bench.at(150)
    bench.producer.on_result(bench.pipe.finish(120 * MS, 110 * MS))
    times = bench.got[0].chunk.times
    ordered = list(vars(times).values())
    assert ordered == sorted(ordered)
    assert times.capture_ns == times.receive_ns == BASE + 100 * MS
    status = bench.producer.status()
    assert status.counts['future_stamp'] == 2
    assert status.skew_ns == {'camera': -100 * MS, 'joints': -100 * MS}


def test_T4_receive_timeline() -> None:
    bench = Bench(timeline=Timeline.RECEIVE)
    bench.at(50)
    bench.producer.joints(JointReading(1, BASE + 50 * MS, ['a', 'b'], [1.0, 2.0]))
    bench.producer.frame(1, BASE + 50 * MS, image())
    bench.producer.turn()
    bench.producer.on_result(bench.pipe.finish(0, 0))
    assert bench.got[0].chunk.observed_ns == BASE + 50 * MS


def test_chunks_carry_the_robots_names() -> None:
    bench = Bench(aliases={'panda_joint1': 'a'})
    bench.producer.joints(JointReading(BASE, BASE, ['panda_joint1', 'b'], [1.0, 2.0]))
    bench.producer.frame(BASE, BASE, image())
    bench.producer.turn()
    bench.producer.on_result(bench.pipe.finish(0, 0))
    assert bench.got[0].chunk.names == ('panda_joint1', 'b')


def test_wrong_images_are_refused_before_anything_is_taken() -> None:
    bench = Bench()
    with pytest.raises(ObservationError, match=r'aspect must be 8:8 .* got 16x8'):
        bench.producer.frame(BASE, BASE, np.zeros((8, 16, 3), np.uint8))
    assert 'frame' not in bench.producer.status().counts


def test_failure_of_the_pool_ends_the_stream_with_its_cause() -> None:
    bench = Bench()
    bench.collector.attach('arm', Consumer(bench.producer.on_result, bench.producer._fail))
    bench.pipe.failure = WorkerDied(1, -9)
    bench.collector.start()
    _until(lambda: bench.producer.failure is not None)
    status = bench.producer.status()
    assert status.state is ProducerState.FAILED
    assert status.failure == 'worker 1 ended with exit code -9'
    bench.see(0)
    assert bench.pipe.entered == []
    assert bench.collector.stop()


def test_a_chunk_of_values_that_are_no_numbers_goes_nowhere_and_ends_its_epoch() -> None:
    bench = Bench()
    bench.see(0)
    result = bench.pipe.finish(0, 0)
    result.actions[1, 0] = np.nan
    bench.producer.on_result(result)
    status = bench.producer.status()
    counts = status.counts
    assert bench.got == []
    assert (status.epoch, counts['non_finite'], counts['reset_non_finite']) == (1, 1, 1)
    assert status.state is ProducerState.RUNNING
    bench.see(100)
    bench.producer.on_result(bench.pipe.finish(0, 0))
    assert [one.chunk.epoch for one in bench.got] == [1]


def test_failure_to_deliver_ends_this_stream_only() -> None:
    bench = Bench()
    calls: list[Produced] = []
    other = Producer(bench.pipe, 'other', ProducerConfig(), bench.clock, calls.append)

    def broken(_: Produced) -> None:
        raise RuntimeError('publisher is gone')

    bench.producer._ports = Ports(broken, steady=bench.steady)
    bench.see(0)
    bench.producer.on_result(bench.pipe.finish(0, 0))
    assert "stream 'arm' ended by RuntimeError('publisher is gone')" in str(bench.producer.failure)
    assert other.failure is None


@pytest.mark.parametrize(
    ('changes', 'error', 'message'),
    [
        ({'period_ns': 0}, ParameterError, 'period_ns must be >= 1, got 0'),
        ({'margin_ns': -1}, ParameterError, 'margin_ns must be >= 0, got -1'),
        ({'joint_names': ('a',)}, ParameterError, r'input joints of synthetic must be of shape'),
        ({'aliases': {'x': 'c'}}, ParameterError, 'aliases must be'),
        ({'joint_tolerance_ns': -1}, ParameterError, 'joint_tolerance_ns must be >= 0'),
    ],
)
def test_impossible_configurations_are_refused(
    changes: dict[str, Any], error: type[Exception], message: str
) -> None:
    with pytest.raises(error, match=message):
        Bench(**changes)


def test_collector_sends_each_stream_its_own_and_drops_the_rest() -> None:
    pipe = Pipe(ManualClock(0))
    pipe.depth = 9
    for stream in ('one', 'two', 'gone'):
        pipe.enter(stream, {}, 0, False)
        pipe.results.append(pipe.finish(0, 0, stream))
    collector, got = Collector(pipe, wait_s=0.01), {'one': [], 'two': []}  # type: ignore[var-annotated]
    done = threading.Event()
    for stream, chunks in got.items():
        collector.attach(stream, Consumer(chunks.append, lambda _: done.set()))
    with pytest.raises(EngineError, match="'one' has a consumer already"):
        collector.attach('one', Consumer(print, print))
    collector.start()
    _until(lambda: not pipe.results)
    assert [[result.stream for result in chunks] for chunks in got.values()] == [['one'], ['two']]
    pipe.failure = WorkerDied(0, 1)
    assert done.wait(5)
    late: list[EngineError] = []
    collector.attach('late', Consumer(print, late.append))
    assert [str(error) for error in late] == ['worker 0 ended with exit code 1']
    assert collector.stop()


def _until(condition: Any, timeout_s: float = 5.0) -> None:
    end = time.monotonic() + timeout_s
    while not condition():
        assert time.monotonic() < end, 'condition did not come true'
        time.sleep(0.005)
