# SPDX-License-Identifier: Apache-2.0
"""
Real-time chunking in the session: the producer knows by time what the player will play.

docs/merging.md says what d, s and H of the paper are here; the rules between them are refused
where they cannot hold.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from output_cases import MS, NAMES, chunk
from producer_cases import BASE, Bench

from physis_ros.backbones.synthetic import synthetic_spec
from physis_ros.errors import ParameterError
from physis_ros.output.interpolate import Interpolation
from physis_ros.output.merge import Merge
from physis_ros.output.timeline import Timeline
from physis_ros.session.commitment import Commitment
from physis_ros.session.player_config import PlayerConfig
from physis_ros.session.producer_config import ProducerConfig

# The synthetic model's chunk: 4 steps of 25 ms.
SPEC = synthetic_spec('synthetic:')
RTC: dict[str, Any] = {'period_ns': 50 * MS, 'rtc_frozen_ns': 25 * MS, 'rtc_soft_ns': 25 * MS}


def commitment(**changes: Any) -> Commitment:
    return Commitment(ProducerConfig(**{**RTC, **changes}), SPEC, NAMES)


def test_C27_a_chunk_agrees_with_what_is_left_of_the_one_before():
    made = commitment()
    made.published(chunk(0, start_ms=100, steps=[0.0, 1.0, 2.0, 3.0], publish_ms=90))
    prefix = made.prefix(150 * MS)
    assert prefix.actions.tolist() == [[2.0, 2.0], [3.0, 3.0], [0.0, 0.0], [0.0, 0.0]]
    assert prefix.frozen == 1
    closeness = 1 / 2  # d = 1 and d + soft = 2: (2 - 1) / (2 - 1 + 1)
    soft = closeness * np.expm1(closeness) / np.expm1(1.0)
    np.testing.assert_allclose(prefix.weights, [1.0, soft, 0.0, 0.0], rtol=1e-12)


def test_C27_steps_between_those_of_the_chunk_before_are_interpolated():
    made = commitment()
    made.published(chunk(0, start_ms=100, steps=[0.0, 1.0, 2.0, 3.0], publish_ms=90))
    assert made.prefix(135 * MS).actions[:2, 0].tolist() == pytest.approx([1.4, 2.4])


@pytest.mark.parametrize(
    ('changes', 'words'),
    [
        ({'rtc_frozen_ns': 50 * MS}, 'rtc_frozen_ns must be below period_ns = 50000000'),
        ({'period_ns': 90 * MS}, 'must be at most 10000000, the horizon less the period'),
        ({'period_ns': 200 * MS}, 'must be at most -100000000'),
        ({'rtc_soft_ns': -1}, 'rtc_soft_ns must be >= 0'),
    ],
)
def test_C27_what_cannot_be_kept_is_refused(changes, words):
    with pytest.raises(ParameterError, match=words):
        commitment(**changes)


def test_nothing_is_committed_before_the_first_chunk_or_in_a_new_epoch():
    made = commitment()
    assert made.prefix(0) is None
    made.published(chunk(0, start_ms=100, publish_ms=90))
    made.clear()
    assert made.prefix(150 * MS) is None


def test_a_model_that_answers_after_three_seconds_is_held_to_its_prefix_too():
    made = commitment()
    times = {'observed_ms': 1000, 'publish_ms': 4000}
    made.published(chunk(0, start_ms=7000, steps=[0.0, 1.0, 2.0, 3.0], **times))
    prefix = made.prefix(7050 * MS)
    assert prefix is not None
    assert prefix.frozen == 1
    assert prefix.actions[:2, 0].tolist() == [2.0, 3.0]


def test_a_frozen_step_is_as_old_as_what_it_was_and_a_drawn_one_is_the_chunks_own():
    made = commitment()
    made.published(chunk(0, start_ms=100, observed_ms=10, publish_ms=90))
    first = made.prefix(150 * MS)
    assert (first.taken, first.stamps_ns) == (2, {'camera': 10 * MS})
    second = replace(
        chunk(1, start_ms=150, observed_ms=60, publish_ms=140),
        taken_over=first.taken,
        taken_over_stamps_ns=first.stamps_ns,
    )
    made.published(second, first.frozen)
    assert made.prefix(160 * MS).stamps_ns == {'camera': 10 * MS}
    # From here on nothing is chunk 0's own any more: what fades is not counted for ever.
    assert made.prefix(175 * MS).stamps_ns == {'camera': 60 * MS}


def test_off_by_default():
    made = Commitment(ProducerConfig(), SPEC, NAMES)
    made.published(chunk(0, start_ms=100, publish_ms=90))
    assert made.prefix(150 * MS) is None


def test_C20_over_many_chunks_with_drift_the_prefix_is_what_the_player_plays():
    bench = Bench(expected_response_ns=20 * MS, margin_ns=5 * MS, **RTC)
    config = PlayerConfig(
        ('a', 'b'), merge=Merge.REPLACE, interpolation=(Interpolation.LINEAR,) * 2
    )
    played, at_ms, checked = Timeline(config.timeline), 0.0, 0
    for number in range(12):
        response_ms = 18 + 2 * number % 26  # up to 17 ms late, then early again
        bench.see(at_ms)
        inputs = bench.pipe.entered[-1][2]
        start_ns = BASE + round(at_ms * MS) + int(inputs['delay']) * 25 * MS
        for step in np.flatnonzero(inputs.get('prefix_weight', np.zeros(4))):
            sample = played.at(start_ns + int(step) * 25 * MS)
            np.testing.assert_allclose(inputs['prefix'][step], sample.position, rtol=1e-6)
            checked += 1
        bench.at(at_ms + 2 + response_ms)
        bench.producer.on_result(bench.pipe.finish(0, 0))
        made = bench.got[-1].chunk
        assert made.chunk == number
        played.offer(made, made.times.publish_ns)
        at_ms += 50
    assert checked >= 11
    assert bench.producer.status().counts['rtc_prefix'] == 11


def after_one_chunk() -> Bench:
    """Return a bench whose first chunk is out."""
    bench = Bench(expected_response_ns=30 * MS, **RTC)
    bench.see(0)
    bench.at(40)
    bench.producer.on_result(bench.pipe.finish(0, 0))
    return bench


def test_while_another_chunk_is_on_its_way_nothing_is_known():
    bench = after_one_chunk()
    bench.see(50)
    bench.see(100)
    known = ['prefix' in entered[2] for entered in bench.pipe.entered]
    assert known == [False, True, False]


def test_a_reset_forgets_what_was_committed():
    bench = after_one_chunk()
    bench.producer.reset()
    bench.see(50)
    assert 'prefix' not in bench.pipe.entered[-1][2]
