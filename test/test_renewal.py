# SPDX-License-Identifier: Apache-2.0
"""
Newer observations for chunks in the pipe (E11): who is shown what, and what is accounted for.

On clocks moved by hand, with chunks finished by the test, because the expectations are exact
times; real workers in ``test_producer_pool.py``, single steps in ``test_engine_loop.py``.
"""

from __future__ import annotations

import numpy as np
import pytest
from producer_cases import BASE, MS, Bench, image

from physis_ros.backbones.base import KvRule
from physis_ros.backbones.reach.spec import ReachSizes, model_spec
from physis_ros.observation.joints import JointReading
from physis_ros.session.inputs import InputBuilder
from physis_ros.session.renewal import may_show
from physis_ros.types import ChunkTimes, Observation


def delays(bench: Bench) -> list[tuple[int, int]]:
    """Return which chunks were shown something, and what they were told of its delay."""
    return [(chunk, int(inputs['delay'])) for _, chunk, inputs in bench.pipe.shown]


def test_a_chunk_is_shown_newer_frames_and_told_so_much_less() -> None:
    bench = Bench(renewals=8, expected_response_ns=90 * MS, margin_ns=8 * MS)
    for index in range(4):
        bench.see(index * 25)
    assert [int(inputs['delay']) for _, _, inputs, *_ in bench.pipe.entered] == [4]
    assert delays(bench) == [(0, 3), (0, 2), (0, 1)]
    assert bench.producer.status().counts['renewed'] == 3
    bench.producer.turn()
    assert len(bench.pipe.shown) == 3, 'nothing is shown twice'


def test_chunks_meant_for_other_instants_are_told_other_delays() -> None:
    bench = Bench(renewals=8, expected_response_ns=190 * MS, margin_ns=8 * MS)
    for index in range(6):
        bench.see(index * 25)
    assert [chunk for _, chunk, *_ in bench.pipe.entered] == [0, 1]
    # Meant for 200 and 300 ms; the frame of 100 ms is the first of chunk 1, news to chunk 0.
    assert delays(bench) == [(0, 7), (0, 6), (0, 5), (0, 4), (0, 3), (1, 7)]


def test_the_account_is_that_of_the_observation_used_last() -> None:
    bench = Bench(renewals=8, expected_response_ns=90 * MS, margin_ns=8 * MS)
    bench.wanted = True
    for index in range(4):
        bench.see(index * 25)
    bench.at(82)
    # Shown 25, 50 and 75 ms as 101, 102, 103; its last step had begun before the last came.
    bench.producer.on_result(bench.pipe.finish(70 * MS, 76 * MS, observation=102))
    (done,) = bench.got
    assert done.chunk.input_stamps_ns == {'camera': BASE + 50 * MS, 'joints': BASE + 50 * MS}
    assert done.chunk.times == ChunkTimes(
        BASE + 50 * MS, BASE + 52 * MS, BASE + 52 * MS, BASE + 70 * MS, BASE + 76 * MS,
        BASE + 82 * MS,
    )  # fmt: skip
    assert done.chunk.start_ns == BASE + 100 * MS, 'it stays meant for what it was planned for'
    assert done.frames[0].about_ns == BASE + 100 * MS
    assert done.frames[0].observed_ns == BASE + 50 * MS
    status = bench.producer.status()
    assert status.response_latency_ms.max == pytest.approx(30.0), 'from 52 to 82 ms'
    assert status.expected_response_ns == 80 * MS, 'plans go by the whole way, from 2 to 82 ms'


def test_a_chunk_that_used_none_of_them_is_as_old_as_it_entered() -> None:
    bench = Bench(renewals=8)
    for index in range(3):
        bench.see(index * 25)
    bench.at(82)
    bench.producer.on_result(bench.pipe.finish(70 * MS, 76 * MS, observation=1))
    (done,) = bench.got
    assert done.chunk.observed_ns == BASE
    assert (done.chunk.times.receive_ns, done.chunk.times.enter_ns) == (BASE + 2 * MS,) * 2


def test_nothing_is_shown_that_is_newer_than_the_first_action() -> None:
    bench = Bench(renewals=8, expected_response_ns=40 * MS, margin_ns=0)
    for index in range(6):
        bench.see(index * 25)
        bench.pipe.depth = 1
    # Meant for 50 ms, and late: what the camera saw then is the last that it can use.
    assert delays(bench) == [(0, 1), (0, 0)]


def test_nothing_is_shown_without_renewal_nor_to_another_epoch() -> None:
    bench = Bench()
    for index in range(4):
        bench.see(index * 25)
    assert bench.pipe.shown == []
    bench = Bench(renewals=8)
    bench.see(0)
    bench.see(25)
    bench.producer.reset()
    bench.see(50)
    bench.see(75)
    assert [(epoch, chunk) for epoch, chunk, _ in bench.pipe.shown] == [(0, 0), (1, 0)]
    assert len(bench.pipe.entered) == 2


def test_a_frame_waits_for_its_joints_here_too() -> None:
    bench = Bench(renewals=8, joint_tolerance_ns=5 * MS)
    bench.see(0)
    bench.at(27)
    bench.producer.frame(BASE + 25 * MS, bench.clock.now_ns(), image())
    bench.producer.turn()
    assert bench.pipe.shown == []
    reading = JointReading(BASE + 25 * MS, bench.clock.now_ns(), ['a', 'b'], [3.0, 4.0], [0.0] * 2)
    bench.producer.joints(reading)
    bench.producer.turn()
    ((_, chunk, inputs),) = bench.pipe.shown
    assert chunk == 0
    assert inputs['joints'][:2].tolist() == [3.0, 4.0]


def test_a_fast_camera_does_not_use_up_what_a_chunk_may_be_shown() -> None:
    bench = Bench(renewals=4, expected_response_ns=80 * MS, margin_ns=0)
    shown = []
    for index in range(17):
        before = len(bench.pipe.shown)
        bench.see(index * 5)
        shown += [index * 5] * (len(bench.pipe.shown) - before)
    assert shown == [5, 20, 40, 60], 'one at once, then a quarter of the response apart'
    assert next(inside for inside in range(90) if may_show(2, 4, inside, 80)) == 40
    assert not may_show(4, 4, 1000, 80)


def test_a_model_in_seconds_is_told_the_very_delay() -> None:
    spec = model_spec(ReachSizes(), KvRule.SAME_STEP)
    frames = np.zeros((3, 64, 64, 3), np.uint8)
    seen = Observation(0, 0, frames, (0, 0, 0), np.zeros(2), np.zeros(2), 0)
    told = InputBuilder(spec, 2).build(seen, 3.4)['delay']
    assert told.tolist() == [np.float32(0.085)]
