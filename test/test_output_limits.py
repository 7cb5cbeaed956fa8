# SPDX-License-Identifier: Apache-2.0
"""Limits of chunks: non-finite never, everything else only when asked for."""

from __future__ import annotations

import numpy as np
import pytest

from physis_ros.errors import ParameterError
from physis_ros.output.limits import JointLimit, LimitMode, Limits
from physis_ros.output.verdict import ChunkReject


@pytest.mark.parametrize('value', [np.nan, np.inf, -np.inf])
def test_A1_a_chunk_with_one_non_finite_value_is_refused_whole(value):
    actions = np.zeros((16, 2))
    actions[7, 1] = value
    assert Limits([JointLimit()] * 2).screen(actions)[2] is ChunkReject.NON_FINITE


def test_C9_limits_are_off_until_given():
    actions = np.array([[1e9, -1e9]])
    same, moved, reject = Limits([JointLimit()] * 2).screen(actions)
    assert same is actions
    assert (moved, reject) == (0, None)


def test_clamping_counts_steps_and_leaves_the_chunk_itself_alone():
    actions = np.array([[0.0, 0.0], [2.0, -2.0], [0.5, 3.0]])
    limits = Limits([JointLimit(-1.0, 1.0), JointLimit(lower=-1.0)])
    inside, moved, reject = limits.screen(actions)
    assert inside.tolist() == [[0.0, 0.0], [1.0, -1.0], [0.5, 3.0]]
    assert (moved, reject) == (1, None)
    assert actions[1].tolist() == [2.0, -2.0]


def test_reject_refuses_only_what_is_beyond():
    limits = Limits([JointLimit(-1.0, 1.0)], LimitMode.REJECT)
    assert limits.screen(np.array([[1.0], [-1.0]]))[2] is None
    assert limits.screen(np.array([[1.0000001]]))[2] is ChunkReject.POSITION_LIMIT


@pytest.mark.parametrize(
    ('limit', 'steps', 'reason'),
    [
        (JointLimit(velocity=10.0), [0.0, 0.25, 0.51], ChunkReject.VELOCITY_LIMIT),
        (JointLimit(acceleration=100.0), [0.0, 0.0, 0.063], ChunkReject.ACCELERATION_LIMIT),
        (JointLimit(jerk=1000.0), [0.0, 0.0, 0.0, 0.016], ChunkReject.JERK_LIMIT),
    ],
)
def test_a_chunk_that_moves_too_fast_is_refused_only_when_wanted(limit, steps, reason):
    actions = np.array(steps)[:, None]
    assert Limits([limit], LimitMode.REJECT).too_fast(actions, 25_000_000) is reason
    assert Limits([limit], LimitMode.REJECT).too_fast(actions * 0.95, 25_000_000) is None
    assert Limits([limit], LimitMode.CLAMP).too_fast(actions, 25_000_000) is None


def test_a_chunk_of_one_step_has_no_motion_to_refuse():
    limits = Limits([JointLimit(velocity=1.0, jerk=1.0)], LimitMode.REJECT)
    assert limits.too_fast(np.array([[99.0]]), 1) is None


@pytest.mark.parametrize(
    'values',
    [
        {'lower': 1.0, 'upper': 1.0},
        {'lower': float('nan')},
        {'upper': float('inf')},
        {'velocity': 0.0},
        {'acceleration': -1.0},
        {'jerk': float('inf')},
    ],
)
def test_limits_that_nothing_can_keep_are_refused(values):
    with pytest.raises(ParameterError, match='must be'):
        JointLimit(**values)
