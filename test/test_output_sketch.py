# SPDX-License-Identifier: Apache-2.0
"""Percentiles in constant memory: their accuracy, their absence, their merging."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from physis_ros.output.sketch import RELATIVE_ACCURACY, Quantiles, Sketch

FRACTIONS = (0.5, 0.9, 0.99, 0.999)


def filled(values: np.ndarray) -> Sketch:
    sketch = Sketch()
    for value in values:
        sketch.add(float(value))
    return sketch


def test_Q9_nothing_measured_gives_nothing():
    assert Sketch().figures() == Quantiles()
    assert Sketch().quantile(0.5) is None


@settings(max_examples=60, deadline=None)
@given(st.lists(st.floats(1e-3, 1e5), min_size=1, max_size=300))
def test_quantiles_are_within_the_promised_accuracy(values):
    sketch = filled(np.array(values))
    for fraction in FRACTIONS:
        exact = np.quantile(values, fraction, method='lower')
        assert sketch.quantile(fraction) == pytest.approx(exact, rel=RELATIVE_ACCURACY * 1.001)
    assert sketch.figures().max == max(values)
    assert sketch.figures().n == len(values)


def test_p999_needs_a_thousand_values():
    assert filled(np.arange(1, 1000)).figures().p999 is None
    assert filled(np.arange(1, 1001)).figures().p999 == pytest.approx(999, rel=0.006)


def test_merged_sketches_equal_one_of_all_values():
    values = np.random.default_rng(0).lognormal(3, 1, 4000)
    parts = [filled(values[:1500]), filled(values[1500:])]
    parts[0].merge(parts[1])
    merged, whole = parts[0].figures(), filled(values).figures()
    assert (merged.n, merged.max) == (whole.n, whole.max)
    for name in ('p50', 'p90', 'p99', 'p999'):
        assert getattr(merged, name) == getattr(whole, name)


def test_X12_memory_does_not_grow_with_the_values():
    sketch = filled(np.random.default_rng(1).lognormal(0, 8, 20_000))
    assert len(sketch._sketch._store.bins) <= 2048


def test_one_absurd_value_does_not_spoil_the_others():
    sketch = filled(np.r_[np.full(999, 5.0), 1e30])
    figures = sketch.figures()
    assert figures.p50 == pytest.approx(5.0, rel=0.005)
    assert figures.max == 1e30
