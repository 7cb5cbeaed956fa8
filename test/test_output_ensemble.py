# SPDX-License-Identifier: Apache-2.0
"""The ensemble: a weighted mean of all chunks that cover an instant, without steps."""

from __future__ import annotations

import math

import numpy as np
import pytest
from output_cases import MS, NAMES, chunk

from physis_ros.output.interpolate import Interpolation, Kinds, through
from physis_ros.output.merge import Merge, MergeConfig, Voice, weights
from physis_ros.output.timeline import Timeline
from physis_ros.session.player import PlayerConfig


def timeline(decay: float = 0.5, kind: Interpolation = Interpolation.LINEAR) -> Timeline:
    config = PlayerConfig(
        NAMES,
        merge=Merge.ENSEMBLE,
        blend_ns=40 * MS,
        ensemble_decay=decay,
        interpolation=(kind,) * 2,
        max_action_age_ns=300 * MS,
    )
    return Timeline(config.timeline)


def test_weights_fall_with_the_place_of_a_chunk_and_sum_to_one():
    curve = through(0, 25 * MS, np.zeros((2, 1)), Kinds.of([Interpolation.LINEAR]))
    voices = [Voice(place, 0, 1000 * MS, curve) for place in (4, 5, 6)]
    share, change = weights(voices, 500 * MS, MergeConfig(Merge.ENSEMBLE, 100 * MS, 0.5))
    expected = np.exp([0.0, -0.5, -1.0])
    assert share == pytest.approx(list(expected / expected.sum()))
    assert change == [0.0, 0.0, 0.0]


def test_the_command_is_the_weighted_mean_of_the_chunks():
    line = timeline()
    line.offer(chunk(0, steps=np.zeros(9)), 0)
    line.offer(chunk(1, steps=np.ones(9)), 0)
    sample = line.at(100 * MS)
    assert sample.position[0] == pytest.approx(math.exp(-0.5) / (1 + math.exp(-0.5)))
    assert sample.velocity[0] == pytest.approx(0.0, abs=1e-9)
    assert sample.chunks == (0, 1)
    assert sample.chunk == 1


def test_chunks_come_and_go_without_a_step_and_velocity_is_the_derivative():
    line = timeline(kind=Interpolation.CUBIC)
    for number in range(6):
        level = number % 2
        start = number * 50
        steps = level + np.sin(np.arange(9) / 3)
        line.offer(chunk(number, start, steps, observed_ms=start), start * MS)
        previous = None
        for time_ns in range(start * MS, (start + 50) * MS, MS // 2):
            sample = line.at(time_ns)
            if previous is not None and time_ns > (start + 1) * MS:
                slope = (sample.position - previous.position) / 5e-4
                mean = (sample.velocity + previous.velocity) / 2
                assert slope == pytest.approx(mean, abs=0.05)
            previous = sample


def test_the_oldest_input_of_all_voices_counts_and_stale_voices_fall_silent():
    line = timeline()
    line.offer(chunk(0, steps=np.zeros(16), observed_ms=-100), 0)
    line.offer(chunk(1, steps=np.ones(16), observed_ms=-20), 0)
    assert line.at(100 * MS).observed_ns == -100 * MS
    assert line.at(200 * MS).chunks == (0, 1)
    late = line.at(201 * MS)
    assert late.chunks == (1,)
    assert late.observed_ns == -20 * MS
    assert late.position[0] == 1.0
    # The first voice faded before it fell silent.
    assert line.at(200 * MS).position[0] == pytest.approx(1.0)


def test_a_gripper_follows_the_newest_chunk_alone():
    line = timeline(kind=Interpolation.STEP)
    line.offer(chunk(0, steps=[0, 0, 0, 0]), 0)
    line.offer(chunk(1, steps=[1, 1, 1, 1]), 0)
    assert line.at(30 * MS).position[0] == 1.0
