# SPDX-License-Identifier: Apache-2.0
"""The moving target: one path per seed, smooth, bounded, and hard to foretell."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from physis_ros.errors import ParameterError
from physis_ros.simulation.randomness import EXPLORATION, FIRST_POSE, WAYPOINT, generator
from physis_ros.simulation.target import CACHED_BLOCKS, Target, TargetConfig

TIMES_NS = np.arange(0, 20_000_000_000, 1_000_000)


@pytest.fixture(scope='module')
def paths() -> np.ndarray:
    """States of several targets over 20 s at 1 ms, [seeds, n, 4]."""
    return np.stack([Target(seed).states(TIMES_NS) for seed in range(8)])


def test_the_path_does_not_depend_on_the_order_of_questions():
    straight, shuffled = Target(5), Target(5)
    times = np.arange(0, (CACHED_BLOCKS + 9) * 1_000_000_000, 70_000_000)
    expected = straight.states(times)
    order = np.random.default_rng(0).permutation(len(times))
    got = np.stack([shuffled.states(times[i : i + 1])[0] for i in order])
    assert np.array_equal(got, expected[order])


def test_single_and_many_questions_agree():
    target = Target(1)
    states = target.states(np.array([0, 1_234_567_891]))
    assert np.array_equal(target.position_m(1_234_567_891), states[1, :2])


def test_seeds_give_different_paths(paths):
    starts = paths[:, 0, :2]
    assert len(np.unique(starts.round(6), axis=0)) == len(starts)


def test_it_stays_in_the_sector_of_the_ring_it_may_use(paths):
    radius = np.hypot(paths[..., 0], paths[..., 1])
    angle = np.arctan2(paths[..., 1], paths[..., 0])
    assert radius.min() > 0.15 and radius.max() < 0.42
    assert np.abs(angle).max() < 1.85


def test_velocity_is_the_slope_of_position(paths):
    slope = np.diff(paths[..., :2], axis=1) / 1e-3
    middle = (paths[:, 1:, 2:] + paths[:, :-1, 2:]) / 2
    assert np.abs(slope - middle).max() < 0.005


def test_speed_and_acceleration_are_bounded_and_used(paths):
    speed = np.hypot(paths[..., 2], paths[..., 3])
    assert speed.max() < 0.951
    assert np.quantile(speed, 0.99) > 0.8
    assert 0.35 < speed.mean() < 0.5
    # 3.5 m/s^2 of its own and the turn around the shoulder, v^2 / r.
    acceleration = np.diff(paths[..., 2:], axis=1) / 1e-3
    assert np.hypot(acceleration[..., 0], acceleration[..., 1]).max() < 3.5 + 0.95**2 / 0.17


@pytest.mark.parametrize(('age_ms', 'least_m', 'most_m'), [(120, 0.012, 0.024), (400, 0.09, 0.19)])
def test_an_old_observation_is_worth_less(paths, age_ms, least_m, most_m):
    now, then = paths[:, age_ms:, :2], paths[:, :-age_ms]
    error = now - (then[..., :2] + then[..., 2:] * age_ms * 1e-3)
    assert least_m < np.sqrt((error**2).sum(axis=-1).mean()) < most_m


def test_memory_is_bounded_and_the_past_can_be_asked_again():
    target = Target(2)
    first = target.position_m(500_000_000)
    target.position_m(100_000_000_000)
    assert len(target._blocks) <= CACHED_BLOCKS
    assert np.array_equal(target.position_m(500_000_000), first)


def test_times_before_the_start_are_refused():
    with pytest.raises(ParameterError, match='time_ns must be 0 or greater, got -1'):
        Target(0).position_m(-1)


@pytest.mark.parametrize(
    ('field', 'value'),
    [
        ('radius_m', (0.4, 0.2)),
        ('radius_m', (0.0, 0.2)),
        ('angle_rad', (0.0, float('inf'))),
        ('hold_s', (-1.0, 1.0)),
        ('speed_m_s', 0.0),
        ('acceleration_m_s2', float('nan')),
    ],
)
def test_impossible_motion_is_refused_by_name(field, value):
    with pytest.raises(ParameterError, match=f'^{field} must be'):
        replace(TargetConfig(), **{field: value})


def test_purposes_share_no_numbers():
    keys = [
        (seed, purpose, index)
        for seed in (0, 1, 2**32, 2**32 + 1)
        for purpose in (WAYPOINT, FIRST_POSE, EXPLORATION)
        for index in (0, 1, 2)
    ]
    draws = {generator(*key).random() for key in keys}
    assert len(draws) == len(keys)
