# SPDX-License-Identifier: Apache-2.0
"""The committed prefix: which steps are frozen, which are matched, which are free."""

from __future__ import annotations

import math

import numpy as np
import pytest
from output_cases import MS, NAMES, chunk

from physis_ros.errors import ParameterError
from physis_ros.output.interpolate import Interpolation
from physis_ros.output.merge import Merge
from physis_ros.output.prefix import Horizon, committed, soft_mask
from physis_ros.output.timeline import Timeline
from physis_ros.session.player import PlayerConfig


def timeline() -> Timeline:
    config = PlayerConfig(NAMES, merge=Merge.REPLACE, interpolation=(Interpolation.LINEAR,) * 2)
    made = Timeline(config.timeline)
    made.offer(chunk(0, start_ms=0, steps=np.arange(16.0)), 0)
    return made


def test_C20_steps_played_before_the_chunk_is_ready_are_frozen_by_their_stamps():
    prefix = committed(timeline(), Horizon(100 * MS, 25 * MS, 16), ready_ns=160 * MS)
    # Steps at 100, 125 and 150 are played before 160; the old chunk ends with the step at 375.
    assert prefix.frozen == 3
    assert prefix.actions[:12, 0].tolist() == list(range(4, 16))
    assert prefix.actions[12:].tolist() == [[0.0, 0.0]] * 4
    assert prefix.weights[:3].tolist() == [1.0, 1.0, 1.0]
    assert (np.diff(prefix.weights[2:12]) < 0).all()
    assert prefix.weights[12:].tolist() == [0.0] * 4


def test_a_step_at_the_very_instant_is_not_frozen():
    assert committed(timeline(), Horizon(100 * MS, 25 * MS, 16), 150 * MS).frozen == 2
    assert committed(timeline(), Horizon(100 * MS, 25 * MS, 16), 50 * MS).frozen == 0


def test_the_last_steps_are_left_to_the_model():
    prefix = committed(timeline(), Horizon(100 * MS, 25 * MS, 16, free=8), 160 * MS)
    assert np.flatnonzero(prefix.weights).tolist() == list(range(8))


def test_an_empty_timeline_commits_to_nothing():
    config = PlayerConfig(NAMES)
    prefix = committed(Timeline(config.timeline), Horizon(0, 25 * MS, 4), 50 * MS)
    assert prefix.frozen == 0
    assert prefix.weights.tolist() == [0.0] * 4


def test_C27_the_soft_mask_is_that_of_the_paper():
    # The example in the authors' get_prefix_weights: start=2, end=6, total=10.
    closeness = np.array([1, 1, 4 / 5, 3 / 5, 2 / 5, 1 / 5, 0, 0, 0, 0])
    expected = closeness * (np.exp(closeness) - 1) / (math.e - 1)
    np.testing.assert_allclose(soft_mask(steps=10, frozen=2, matched=6), expected, rtol=1e-12)


@pytest.mark.parametrize('values', [(0, 0, 4, 0), (0, 1, 0, 0), (0, 1, 4, 5), (0, 1, 4, -1)])
def test_horizons_that_mean_nothing_are_refused(values):
    with pytest.raises(ParameterError, match='must be'):
        Horizon(*values)
