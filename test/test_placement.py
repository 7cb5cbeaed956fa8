# SPDX-License-Identifier: Apache-2.0
"""Ranks, books, Best-Fit and its discrepancies."""

from __future__ import annotations

import random

import numpy as np
import pytest

from physis_ros.engine import spread
from physis_ros.engine.cost import BatchCurve, ModelCost
from physis_ros.engine.demand import Demand, demand
from physis_ros.engine.devices import Device, DevicePool
from physis_ros.engine.ledger import Ledger
from physis_ros.engine.placement import Order, Placement, Search, homes, keep
from physis_ros.engine.spread import Width, best_width, even_split, fill
from physis_ros.errors import ParameterError, PlanError


def cost(name: str = 'm', **changes: object) -> ModelCost:
    """Two blocks of 10 bytes, two passes, 1 byte of KV a stage, 1 s + 1 s a row."""
    fields: dict[str, object] = {
        'name': name,
        'passes': 2,
        'weight_bytes': (10, 10),
        'kv_bytes': 1,
        'hidden_bytes': 0,
        'latent_bytes': 0,
        'curves': (BatchCurve.affine(1.0, 1.0, 8),) * 2,
        **changes,
    }
    return ModelCost(**fields)  # type: ignore[arg-type]


def pool(*memory: int, **fields: float) -> DevicePool:
    """Return devices of these sizes."""
    return DevicePool(tuple(Device(f'd{i}', m, **fields) for i, m in enumerate(memory)))  # type: ignore[arg-type]


def place(ledger: Ledger, asked: Demand, order: Order = Order.FULLEST) -> Placement:
    """Search and keep."""
    placement = Search(ledger, asked, order).run()
    assert placement is not None
    assert keep(ledger, placement)
    return placement


def test_an_affine_curve_is_cut_where_it_pays() -> None:
    """Up to the limit one batch; beyond, the best pair."""
    assert BatchCurve((2.0, 3.0, 4.0)).table(5).tolist() == [0.0, 2.0, 3.0, 4.0, 6.0, 7.0]
    assert BatchCurve((1.0, 3.0)).table(2).tolist() == [0.0, 1.0, 2.0]


def test_default_ranks_are_blocks_with_all_passes() -> None:
    """One rank for each block; the chain crosses each border once a pass and back."""
    asked = demand('s', cost(hidden_bytes=7, latent_bytes=3, entry_s=0.5, exit_s=0.25), 20.0)
    assert [rank.blocks for rank in asked.ranks] == [(0,), (1,)]
    assert [rank.rows for rank in asked.ranks] == [(2,), (2,)]
    assert [rank.kv_bytes for rank in asked.ranks] == [2, 2]
    assert [rank.extra_s for rank in asked.ranks] == [0.5, 0.25]
    assert asked.crossings == ((0, 1, 14, 28), (1, 0, 3, 12))


def test_owner_must_name_every_stage() -> None:
    """Neither a short list nor a gap in the ranks is taken."""
    with pytest.raises(PlanError, match='must name 4 stages of m, got 3'):
        demand('s', cost(), 1.0, (0, 0, 1))
    with pytest.raises(PlanError, match=r'ranks 0..2 each, got \[0, 2\]'):
        demand('s', cost(), 1.0, (0, 0, 2, 2))
    with pytest.raises(ParameterError, match='slo_s must be > 0, got 0'):
        demand('s', cost(), 0.0)


def test_best_fit_takes_the_fullest_that_still_fits() -> None:
    """24 bytes fit the smallest first; then half of the third goes beside the second."""
    ledger = Ledger(pool(100, 40, 30))
    assert place(ledger, demand('a', cost(), 20.0)).hosts == (2, 2)
    assert place(ledger, demand('b', cost('n'), 20.0)).hosts == (1, 1)
    assert place(ledger, demand('c', cost('o'), 20.0)).hosts == (1, 0)
    assert ledger.used.tolist() == [12, 36, 24]


def test_weights_count_once_for_each_device_and_block() -> None:
    """A second stream pays for its KV only, and its rows join the batches."""
    ledger = Ledger(pool(100))
    place(ledger, demand('a', cost(), 20.0))
    assert (ledger.used[0], ledger.busy[0]) == (24, pytest.approx(6 / 20))
    second = place(ledger, demand('b', cost(), 20.0))
    assert second.new_bytes == 0
    assert (ledger.used[0], ledger.busy[0]) == (28, pytest.approx(10 / 20))


def test_other_periods_share_weights_but_no_batches() -> None:
    """The same model at another SLO forms batches of its own."""
    ledger = Ledger(pool(100))
    place(ledger, demand('a', cost(), 20.0))
    place(ledger, demand('b', cost(), 40.0))
    assert ledger.used[0] == 28
    assert ledger.busy[0] == pytest.approx(6 / 20 + 6 / 40)


def test_time_binds_where_memory_does_not() -> None:
    """3 s of batches for each block, 5 s with a second stream, in periods of 4.9 s."""
    ledger = Ledger(pool(100, 100))
    placement = place(ledger, demand('a', cost(), 4.9))
    assert placement.hosts == (0, 1)
    assert Search(ledger, demand('b', cost(), 4.9)).run() is None
    assert ledger.busy.tolist() == pytest.approx([3 / 4.9, 3 / 4.9])


def test_a_faster_device_is_busy_for_less() -> None:
    """Speed divides every time."""
    ledger = Ledger(pool(100, speed=2.0))
    place(ledger, demand('a', cost(), 20.0))
    assert ledger.busy[0] == pytest.approx(3 / 20)


def test_one_departure_finds_what_greed_misses() -> None:
    """Block 0 fits both, greed puts it on the fuller; then block 1 fits neither."""
    model = cost(weight_bytes=(10, 20), passes=1)
    ledger = Ledger(pool(31, 40))
    place(
        ledger,
        demand('x', cost('x', weight_bytes=(8,), curves=(BatchCurve((0.1,)),), passes=1), 20.0),
    )
    asked = demand('a', model, 20.0)
    assert ledger.used.tolist() == [9, 0]
    assert Search(ledger, asked, Order.FULLEST).run(0) is not None
    tight = Ledger(pool(12, 21, 11))
    assert Search(tight, asked, Order.FULLEST).run(1) is not None


def test_links_bind() -> None:
    """14 bytes in 20 s need 0.7 byte/s each way; a slower link keeps the ranks together."""
    model = cost(hidden_bytes=7, mailbox_depth=0)
    wide, narrow = (pool(13, 13, link_bytes_per_s=rate) for rate in (0.7, 0.69))
    assert Search(Ledger(wide), demand('a', model, 20.0)).run() is not None
    assert Search(Ledger(narrow), demand('a', model, 20.0)).run() is None
    joined = Search(Ledger(pool(26, 26, link_bytes_per_s=0.1)), demand('a', model, 20.0)).run()
    assert joined is not None
    assert joined.hosts == (0, 0)


def test_buffers_are_needed_between_devices_only() -> None:
    """Four slots of 2 bytes at the receiver of the hidden state, four of 1 for the latent."""
    model = cost(hidden_bytes=2, latent_bytes=1)
    ledger = Ledger(pool(16, 20))
    placement = place(ledger, demand('a', model, 20.0), Order.COPIES)
    assert sorted(placement.hosts) == [0, 1]
    assert ledger.used.sum() == 24 + 8 + 4
    together = Ledger(pool(24))
    place(together, demand('a', model, 20.0))
    assert together.used[0] == 24


def test_hops_count_every_change_of_device() -> None:
    """Two passes over two devices: there, back, there."""
    placement = Placement(demand('s', cost(), 20.0), (0, 1), 0.0)
    assert placement.hops == 3
    assert placement.devices == (0, 1)


def test_release_leaves_the_books_as_they_were() -> None:
    """Whatever comes in whatever order and goes in another leaves nothing behind."""
    chance = random.Random(5)
    models = [cost(f'm{i}', hidden_bytes=i, latent_bytes=1, entry_s=0.1) for i in range(3)]
    ledger, running = Ledger(pool(90, 70, 120, 60)), []
    for i in range(60):
        asked = demand(f's{i}', models[i % 3], chance.choice((20.0, 30.0)))
        placement = Search(ledger, asked, chance.choice(list(Order))).run()
        if placement is not None:
            assert keep(ledger, placement)
            running.append(placement)
        if running and chance.random() < 0.4:
            gone = running.pop(chance.randrange(len(running)))
            ledger.release(gone.demand, gone.hosts)
        assert (ledger.used <= ledger.memory).all()
        assert (ledger.busy <= 1 + 1e-9).all()
    afresh = Ledger(ledger.pool)
    for placement in running:
        assert keep(afresh, placement)
    np.testing.assert_array_equal(ledger.used, afresh.used)
    np.testing.assert_allclose(ledger.busy, afresh.busy)
    for placement in running:
        ledger.release(placement.demand, placement.hosts)
    assert ledger.used.tolist() == [0, 0, 0, 0]
    np.testing.assert_allclose(ledger.busy, 0, atol=1e-12)


def test_search_leaves_the_books_alone() -> None:
    """Found or not, nothing is written before it is kept."""
    ledger = Ledger(pool(30, 30))
    place(ledger, demand('a', cost(), 20.0))
    before = (ledger.used.copy(), ledger.busy.copy())
    assert Search(ledger, demand('b', cost('heavy', weight_bytes=(25, 25)), 20.0)).run() is None
    assert Search(ledger, demand('c', cost('n'), 20.0)).run() is not None
    np.testing.assert_array_equal(ledger.used, before[0])
    np.testing.assert_array_equal(ledger.busy, before[1])


def test_spreading_saves_copies_of_weights() -> None:
    """22 bytes of memory: filled one by one, each pair of devices holds all weights anew."""
    heavy = cost(kv_bytes=1, passes=1)
    four = pool(14, 14, 14, 14)
    asked = demand('s', heavy, 1000.0)
    assert len(even_split(four, [asked] * 4)) == 2
    assert fill(four, asked, Width(2, False, 0)) == 8
    assert best_width(four, asked).streams == 8


def test_filling_a_pool_in_thought_ends(monkeypatch: pytest.MonkeyPatch) -> None:
    """However much room there is: the narrowest of those that carry enough is taken."""
    monkeypatch.setattr(spread, 'ENOUGH', 3)
    four = pool(14, 14, 14, 14)
    asked = demand('s', cost(kv_bytes=1, passes=1), 1000.0)
    assert fill(four, asked, Width(2, False, 0)) == 3
    assert best_width(four, asked) == Width(1, False, 3)


def test_even_split_gives_whole_devices() -> None:
    """24 bytes need two devices of 13 each: three groups in seven devices."""
    split = even_split(pool(*[13] * 7), [demand(f's{i}', cost(), 20.0) for i in range(5)])
    assert [placement.devices for placement in split] == [(0, 1), (2, 3), (4, 5)]


def test_homes_are_balanced_and_in_order() -> None:
    """Five ranks over two devices."""
    asked = demand('s', cost(weight_bytes=(1,) * 5, curves=(BatchCurve((1.0,)),) * 5), 20.0)
    assert homes(asked, [3, 7]) == [3, 3, 3, 7, 7]


def test_bad_devices_are_refused() -> None:
    """With the device and the size in the message."""
    with pytest.raises(ParameterError, match=r'd0\.speed must be > 0, got 0'):
        pool(10, speed=0.0)
    with pytest.raises(ParameterError, match='devices must be at least one'):
        DevicePool(())
