# SPDX-License-Identifier: Apache-2.0
"""The summary of a recording whose every figure is known by hand."""

from __future__ import annotations

import json
import math
from pathlib import Path
from typing import Any

import pytest
from bag_cases import ages_ms, at, write_bag

from physis_ros.errors import BagError
from physis_ros.evaluation import topics
from physis_ros.evaluation.bag import Bag
from physis_ros.evaluation.baseline import baseline
from physis_ros.evaluation.recording import read
from physis_ros.evaluation.summary import DEFINITIONS, Evaluation, evaluate

PROMISED = (
    'track_error_m', 'expert_track_error_m', 'hold_track_error_m', 'action_age_ms',
    'response_latency_ms', 'output_interval_ms', 'rates_hz', 'servo_jitter_us',
    'deadline_misses', 'deadline_due', 'underrun_ticks', 'ticks', 'frame_psnr_db',
    'copy_last_psnr_db', 'kv_rule', 'workers', 'stages', 'seed', 'version',
)  # fmt: skip


@pytest.fixture(scope='module')
def evaluation(tmp_path_factory: pytest.TempPathFactory) -> Evaluation:
    path = write_bag(tmp_path_factory.mktemp('bag') / 'run', gap_ms=(600, 620))
    with Bag(path) as bag:
        return evaluate(bag)


@pytest.fixture(scope='module')
def summary(evaluation: Evaluation) -> dict[str, Any]:
    return evaluation.summary


# What the run was, which needs no definition.
UNDEFINED = {
    *('kv_rule', 'workers', 'stages', 'seed', 'episodes', 'chunks', 'version', 'configuration'),
    'definitions',
}


def test_everything_promised_is_there_and_is_json(summary: dict[str, Any]):
    assert set(PROMISED) <= set(summary)
    assert json.loads(json.dumps(summary, allow_nan=False)) == summary
    assert set(summary['definitions']) == set(DEFINITIONS)
    told = {name.partition('.')[0] for name in DEFINITIONS}
    assert set(summary) - told == UNDEFINED


def test_ages_are_those_of_the_played_ticks(summary: dict[str, Any]):
    played = [ms for ms in range(0, 2000, 4) if ages_ms(ms) and not 600 <= ms < 620]
    ages = sorted(ages_ms(ms)[1] for ms in played)
    expected = {
        'n': 470, 'max': 196.0, 'p50': ages[math.ceil(0.5 * 470) - 1],
        'p99': ages[math.ceil(0.99 * 470) - 1],
    }  # fmt: skip
    assert summary['action_age_ms'] == expected


def test_parts_of_the_age_are_told_apart(summary: dict[str, Any]):
    assert summary['action_age_parts_ms'] == {
        'receive': 2.0, 'queue': 8.0, 'engine': 60.0, 'decode': 6.0, 'hand_over': 4.0,
        'buffer': 68.0,
    }  # fmt: skip


def test_latencies_and_intervals_are_never_mixed(summary: dict[str, Any]):
    assert summary['response_latency_ms'] == {'p50': 78.0, 'p99': 78.0, 'max': 78.0, 'n': 19}
    assert summary['engine_latency_ms']['p50'] == 70.0
    assert summary['output_interval_ms'] == {'p50': 100.0, 'p99': 100.0, 'max': 100.0, 'n': 18}


def test_the_four_rates(summary: dict[str, Any]):
    assert summary['rates_hz'] == {'sensor': 40.0, 'replan': 10.0, 'chunk': 10.0, 'servo': 250.0}


def test_due_ticks_misses_and_underruns(summary: dict[str, Any]):
    assert summary['ticks'] == summary['deadline_due'] == 475
    assert summary['warm_up_ticks'] == 25
    assert summary['deadline_misses'] == summary['underrun_ticks'] == 5
    assert summary['misses_by_cause'] == {'chunk_late': 5}
    assert summary['underrun_by_rung'] == {'hold': 5, 'ramp': 0, 'silent': 0}
    assert summary['underrun_by_reason'] == {'chunk_late': 5}
    assert summary['underrun_longest_ms'] == 20.0


def test_jitter_is_the_deviation_from_the_set_period(summary: dict[str, Any]):
    assert summary['servo_jitter_us'] == {'p50': 100.0, 'p99': 100.0, 'max': 100.0, 'n': 474}


def test_the_first_second_is_outside_the_tracking_error(summary: dict[str, Any]):
    assert summary['track_error_m'] == {'mean': 0.04, 'p95': 0.04, 'n': 100}


def test_the_baselines_are_those_of_the_recorded_seed(summary: dict[str, Any]):
    line = baseline(3, 1.99)
    settled = line.time_s >= 1.0
    assert summary['expert_track_error_m']['mean'] == pytest.approx(
        line.expert_m[settled].mean(), rel=1e-4
    )
    assert summary['hold_track_error_m'] == pytest.approx(line.hold_m[settled].mean(), rel=1e-4)
    assert line.expert_m[settled].mean() < 0.01 < line.hold_m[settled].mean()


def test_frames_are_compared_at_the_instant_they_are_about(evaluation: Evaluation):
    # Always 2 levels off; the last observed frame is 4 and 6 frames, so levels, behind.
    assert evaluation.frames.n == 38
    assert evaluation.frames.frame_psnr_db == pytest.approx(10 * math.log10(255**2 / 4))
    copied = 10 * math.log10(255**2 / ((4**2 + 6**2) / 2))
    assert evaluation.frames.copy_last_psnr_db == pytest.approx(copied)
    assert {frame.ahead_ns for frame in evaluation.compared} == {100_000_000, 150_000_000}
    first = evaluation.compared[0]
    assert (first.observed_ns, first.about_ns) == (at(0), at(100))


def test_what_the_run_was_is_told(summary: dict[str, Any]):
    told = {name: summary[name] for name in ('kv_rule', 'workers', 'stages', 'seed')}
    assert told == {'kv_rule': 'same_step', 'workers': 2, 'stages': 24, 'seed': 3}


def test_figures_are_consistent(summary: dict[str, Any]):
    assert summary['checks']
    assert all(summary['checks'].values())


def test_without_a_status_nothing_is_said_about_agreement(summary: dict[str, Any]):
    assert set(summary['live_agrees'].values()) == {None}


def test_a_recording_without_chunks_is_refused(tmp_path: Path):
    from bag_cases import BagMaker

    maker = BagMaker(tmp_path / 'bag')
    maker.put('/text', at(0), 'std_msgs/msg/String', data='x')
    with Bag(maker.write()) as bag, pytest.raises(BagError, match='one topic of physis_ros/msg'):
        topics.find(bag)


def test_episodes_lie_between_the_marks(tmp_path: Path):
    from bag_cases import BagMaker, put_chunk, put_point, put_tick

    maker = BagMaker(tmp_path / 'bag')
    for ms in range(0, 400, 4):
        put_tick(maker, ms)
        put_point(maker, '/arm_node/tip', ms, 0.0, 0.0)
    put_chunk(maker, 0, 0)
    for ms, index in ((50, 0), (150, -1), (170, 1), (300, 2)):
        maker.put('/arm_node/episode', at(ms + 0.5), 'std_msgs/msg/Int32', data=index)
    with Bag(maker.write()) as bag:
        episodes = read(bag, topics.find(bag)).episodes
    spans = [(e.index, e.start_ns - at(0), e.end_ns - at(0)) for e in episodes]
    assert spans == [(0, 48_000_000, 148_000_000), (1, 168_000_000, 300_000_000)]
