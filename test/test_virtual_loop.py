# SPDX-License-Identifier: Apache-2.0
"""The whole path in virtual time: the same every time, and seams that chunks agree on."""

from __future__ import annotations

from itertools import pairwise

import numpy as np
import pytest
from output_cases import MS, NAMES, chunk

pytest.importorskip('mujoco')

from physis_ros.backbones.registry import open_backbone
from physis_ros.clock import ManualClock
from physis_ros.evaluation.serial_pool import SerialPool
from physis_ros.evaluation.smoothness import smoothness
from physis_ros.evaluation.virtual_loop import BEGIN_NS, Tick, Trip, VirtualLoop
from physis_ros.output.merge import Merge
from physis_ros.session.delay import ToldDelay
from physis_ros.session.player import Player
from physis_ros.session.player_config import PlayerConfig
from physis_ros.session.produced import Produced
from physis_ros.session.producer_config import ProducerConfig
from physis_ros.types import Command, Play, Reason


class Sink(Player):
    def wants(self, now_ns: int) -> bool:
        return True


def trip(rtc_frozen_ns: int = 0, rtc_soft_ns: int = 0, in_flight: int = 1) -> Trip:
    """Drive for most of a second; a chunk takes 60 ms, three at once take 180."""
    clock = ManualClock()
    response_ns = 60 * MS * in_flight
    pool = SerialPool(open_backbone('reach'), clock, lambda: response_ns, in_flight)
    player = Sink(PlayerConfig(NAMES, merge=Merge.REPLACE))
    player.activate(BEGIN_NS)
    config = ProducerConfig(
        expected_response_ns=response_ns, rtc_frozen_ns=rtc_frozen_ns, rtc_soft_ns=rtc_soft_ns
    )
    return VirtualLoop(pool, clock, config, player, seed=3).run(0.8)


@pytest.fixture(scope='module')
def plain() -> Trip:
    return trip()


def test_the_same_trip_twice_is_the_same_to_the_last_bit(plain: Trip):
    first, second = plain, trip()
    assert len(first.chunks) == 8
    for one, other in zip(first.chunks, second.chunks, strict=True):
        assert one.chunk.times == other.chunk.times
        assert np.array_equal(one.chunk.actions, other.chunk.actions)
    assert [tick.error_m for tick in first.ticks] == [tick.error_m for tick in second.ticks]
    assert not any(done.chunk.taken_over for done in first.chunks)


def test_C17_chunks_that_are_held_to_a_prefix_agree_at_the_seam(plain: Trip):
    made = trip(25 * MS, 50 * MS)
    free, held = smoothness(plain, 0.3), smoothness(made, 0.3)
    assert free.gap_mrad > 1.0
    assert held.gap_mrad < 1e-3
    assert held.jerk < free.jerk
    # Half of the steps that are played of a chunk are as old as the chunk before.
    assert held.age_ms == pytest.approx(free.age_ms + 50, abs=5)
    for before, after in pairwise(done.chunk for done in made.chunks):
        assert after.taken_over == 3
        assert after.taken_over_stamps_ns == before.input_stamps_ns


def test_in_a_pipe_with_several_chunks_nothing_is_committed():
    chunks = trip(25 * MS, 50 * MS, in_flight=3).chunks
    assert chunks
    assert not any(done.chunk.taken_over for done in chunks)


def produced(number: int, start_ms: float, steps: list[float]) -> Produced:
    made = chunk(number, start_ms, steps, observed_ms=start_ms - 50)
    return Produced(made, (), ToldDelay(2, False))


def ticks(numbers: list[int], positions: list[float]) -> list[Tick]:
    """Return ticks 5 ms apart at rest, each at a position of a chunk; error 2 mm."""
    made = []
    for k, (number, value) in enumerate(zip(numbers, positions, strict=True)):
        at = np.full(2, value)
        command = Command(
            k * 5 * MS, Play.PLAYING, Reason.NONE, NAMES, at, np.zeros(2), 0, number, 50 * MS
        )
        made.append(Tick(command, at * 2, 0.002))
    return made


def test_figures_of_a_trip_by_hand():
    made = Trip(
        ticks([0, 0, 0, 0, 1, 1, 1, 1], [0, 0, 0, 0, 0.3, 0.3, 0.3, 0.3]),
        [produced(0, 0, [0.0, 0.0]), produced(1, 20, [0.2, 0.2 + 0.025])],
    )
    figures = smoothness(made, 0.0)
    assert figures.track_mm == pytest.approx(2.0)
    assert figures.gap_mrad == pytest.approx(200.0)
    assert figures.gap_rad_s == pytest.approx(1.0)
    assert figures.jump_mrad == pytest.approx(300.0)
    assert figures.jump_rad_s == 0.0
    # Third differences of a step of both joints: 1, -2, 1 among five of them.
    step = np.sqrt(2) * 0.3 / 0.005**3
    assert figures.jerk == pytest.approx(step * np.sqrt(6 / 5))
    assert figures.jerk_arm == pytest.approx(2 * figures.jerk)
    assert figures.underrun_percent == 0.0
    assert figures.age_ms == pytest.approx(50.0)
