# SPDX-License-Identifier: Apache-2.0
"""Clocks of the ground floor."""

from __future__ import annotations

import time

import pytest

from physis_ros import clock


def test_manual_clock_moves_when_told_and_back_too() -> None:
    manual = clock.ManualClock(5)
    manual.advance(10)
    manual.advance(-3)
    assert manual.now_ns() == 12
    manual.set(1)
    assert manual.now_ns() == 1


def test_an_interrupted_reading_does_not_move_the_offset(monkeypatch: pytest.MonkeyPatch) -> None:
    steady = iter([0, 5_000_000, 5_000_000, 5_000_010, 5_000_020, 9_000_000])
    system = iter([1_000_000_000, 1_005_000_005, 1_005_000_020])
    monkeypatch.setattr(time, 'monotonic_ns', lambda: next(steady))
    monkeypatch.setattr(time, 'time_ns', lambda: next(system))
    assert clock.system_minus_steady_ns(samples=3) == 1_000_000_000
