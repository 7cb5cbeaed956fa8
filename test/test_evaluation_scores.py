# SPDX-License-Identifier: Apache-2.0
"""Figures from arrays, by hand."""

from __future__ import annotations

import math

import numpy as np
import pytest

from physis_ros.errors import ParameterError
from physis_ros.evaluation.scores import (
    at_times,
    pooled_rate_hz,
    psnr_db,
    rate_hz,
    rounded,
    shrunk,
    spread,
    square_error,
)
from physis_ros.simulation.episode import halved


def test_quantiles_are_samples():
    found = spread(range(1, 101))
    assert (found.p50, found.p95, found.p99, found.max, found.n) == (50, 95, 99, 100, 100)
    assert found.mean == 50.5
    assert spread([7.0]).p99 == 7.0


def test_without_samples_there_is_no_figure():
    empty = spread([])
    assert empty.n == 0
    assert empty.as_dict('mean', 'p50', 'n') == {'mean': None, 'p50': None, 'n': 0}


def test_rates_leave_gaps_out():
    stamps = np.array([0, 10, 20], dtype=np.int64) * 1_000_000
    assert rate_hz(stamps) == 100.0
    assert rate_hz(stamps[:1]) is None
    assert pooled_rate_hz([stamps, stamps + 10**12, stamps[:1]]) == 100.0
    assert pooled_rate_hz([]) is None


def test_values_are_linear_in_between_even_at_system_time():
    base = 1_700_000_000_000_000_000
    known = np.array([base, base + 10], dtype=np.int64)
    wanted = np.array([base - 5, base + 2, base + 10], dtype=np.int64)
    assert at_times(wanted, known, np.array([[0.0], [1.0]])).tolist() == [[0.0], [0.2], [1.0]]


def test_shrinking_is_what_the_model_was_trained_on():
    image = np.random.default_rng(0).integers(0, 256, (8, 8, 3), dtype=np.uint8)
    assert np.array_equal(shrunk(image, 4, 4), halved(image))
    assert np.array_equal(shrunk(image, 8, 8), image)
    with pytest.raises(ParameterError, match='a multiple of 3 x 4'):
        shrunk(image, 3, 4)


def test_psnr_is_that_of_the_mean_error():
    one, other = np.zeros((2, 2, 3), np.uint8), np.full((2, 2, 3), 5, np.uint8)
    assert square_error(one, other) == 25.0
    assert psnr_db([25.0]) == pytest.approx(10 * math.log10(65025 / 25))
    assert psnr_db([0.0, 50.0]) == pytest.approx(10 * math.log10(65025 / 25))
    assert psnr_db([0.0]) == math.inf
    assert psnr_db([]) is None


def test_rounding_keeps_significant_digits():
    assert rounded(0.000123456789) == 0.00012346
    assert rounded(None) is None
    assert rounded(12) == 12
