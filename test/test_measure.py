# SPDX-License-Identifier: Apache-2.0
"""Measuring a model: what is measured, what is counted."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from itertools import count

import pytest

from physis_ros.backbones.synthetic import open_synthetic, synthetic_spec
from physis_ros.engine.handover import Handover
from physis_ros.engine.measure import Effort, Round, begin_profile, measure_profile, rounds, timing
from physis_ros.engine.profile import Profile
from physis_ros.engine.sweep import Sweeper
from physis_ros.engine.weights import Weights, held_bytes, weigh
from physis_ros.errors import ParameterError

MODEL = 'synthetic:blocks=3,steps=2,tokens=4,width=8,heads=2,window=1'
BLOCK_BYTES = 4 * (8 * 24 + 8 * 8 + 8 * 32 + 32 * 8)
EFFORT = Effort((1, 2), 2)
HANDOVER = Handover(task_s=1e-5, hop_s=2e-5, deliver_s=3e-5, turn_s=4e-5, crowding=1.1)


def begun(model: str = MODEL) -> Profile:
    """Return a profile without timings."""
    return begin_profile(synthetic_spec(model), Weights((1, 2, 3), 4), HANDOVER, effort=EFFORT)


def test_weights_are_counted_in_the_model() -> None:
    """Four matrices a block; the rest is what every worker holds."""
    found = weigh(lambda blocks: open_synthetic(MODEL, 'cpu', blocks), 3)
    assert found.blocks == (BLOCK_BYTES,) * 3
    assert found.shared + 3 * BLOCK_BYTES == held_bytes(open_synthetic(MODEL))


def test_a_profile_holds_every_kind_batch_and_length() -> None:
    """With the sizes of the spec, and as many samples as sweeps times blocks of the kind."""
    found = measure_profile(open_synthetic(MODEL), begun(), effort=EFFORT)
    assert found.complete
    assert {(t.kind, t.batch, t.kv_chunks) for t in found.timings} == {
        *((kind, batch, chunks) for kind in ('first', 'inner', 'last')
          for batch in (1, 2) for chunks in (1, 2)),
        ('encode', 1, 1), ('decode', 1, 1),
    }  # fmt: skip
    assert {t.samples for t in found.timings} == {2}
    window_bytes = 2 * 2 * 4 * 8 * 4
    assert (found.sizes.kv, found.sizes.hidden, found.sizes.latent) == (window_bytes, 128, 64)
    assert Handover(*(getattr(found, name) for name in vars(HANDOVER))) == HANDOVER
    assert found.cost().curves[0].limit == 2


def test_timings_are_of_the_sweeps_that_count(monkeypatch: pytest.MonkeyPatch) -> None:
    """Whatever is run takes a second longer than what was run before it; three sweeps warm up."""
    seconds = count()

    def took(sweeper: Sweeper, once: Callable[[], object]) -> float:
        once()
        return float(next(seconds))

    monkeypatch.setattr(Sweeper, '_seconds', took)
    effort, spec = Effort((1,), 3), synthetic_spec(MODEL)
    empty = begin_profile(spec, Weights((1, 2, 3), 4), HANDOVER, effort=effort)
    found = measure_profile(open_synthetic(MODEL), empty, effort=effort)
    # Inner blocks of the fourth to sixth sweep over three: 10, 13, 16 s. A chunk needs two of
    # them, so the third tells nothing of a whole one. Before each end there is a sweep.
    assert [(t.kind, t.kv_chunks, t.p50_s, t.chunk_s) for t in found.timings] == [
        ('first', 1, 12, 10.5), ('inner', 1, 13, 11.5), ('last', 1, 14, 12.5),
        ('first', 2, 30, 28.5), ('inner', 2, 31, 29.5), ('last', 2, 32, 30.5),
        ('encode', 1, 71, 71), ('decode', 1, 75, 75),
    ]  # fmt: skip
    assert [t.p99_s - t.p50_s for t in found.timings[:6]] == pytest.approx([2.94] * 6)
    assert {t.samples for t in found.timings} == {3}
    assert found.complete


def test_a_chunk_takes_the_sum_of_its_means() -> None:
    """The median over chunks: an outlier spoils one of them, skew counts; a rest is no chunk."""
    round_, spec = Round(1, 1), synthetic_spec(MODEL)
    assert [round_.times(spec, kind) for kind in ('first', 'inner', 'encode')] == [2, 2, 1]
    assert Round(1, 1).times(synthetic_spec('synthetic:blocks=6,steps=4'), 'inner') == 16
    found = timing('inner', round_, [1.0, 3.0, 1.0, 2.0, 1.0, 99.0, 500.0], each=2)
    assert (found.p50_s, found.chunk_s, found.samples) == (2.0, 2.0, 7)
    assert timing('inner', round_, [1.0, 3.0], each=16).chunk_s == 2.0


def test_clean_passes_share_their_window() -> None:
    """Three passes, one ring: each stage counts a third of it."""
    clean = begun(MODEL + ',kv_rule=clean')
    assert (clean.kv_rule, clean.sizes.kv) == ('clean', begun().sizes.kv // 3)


def test_measuring_goes_on_where_it_ended() -> None:
    """What is known is kept to the last digit; each round is told."""
    whole = measure_profile(open_synthetic(MODEL), begun(), effort=EFFORT)
    cut = replace(whole, timings=whole.timings[:6])
    told: list[int] = []
    again = measure_profile(
        open_synthetic(MODEL), cut, effort=EFFORT,
        progress=lambda profile: told.append(len(profile.timings)),
    )  # fmt: skip
    assert again.timings[:6] == whole.timings[:6]
    assert again.complete
    assert told == [6, 6, 9, 12, 14]
    assert len(rounds(synthetic_spec(MODEL), EFFORT)) == 5


def test_a_curve_needs_a_batch_of_one() -> None:
    """And batches in order."""
    for batches in ((), (2, 4), (1, 4, 2)):
        with pytest.raises(ParameterError, match='batches must be ascending from 1'):
            Effort(batches)
