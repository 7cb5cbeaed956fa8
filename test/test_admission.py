# SPDX-License-Identifier: Apache-2.0
"""Who is let in, who is not and why, and that nobody who runs is touched."""

from __future__ import annotations

import random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from physis_ros.engine.admission import Admission, Admitter
from physis_ros.engine.cost import BatchCurve, ModelCost
from physis_ros.engine.demand import Demand, demand
from physis_ros.engine.devices import Device, DevicePool
from physis_ros.engine.refusal import Refusal
from physis_ros.engine.spread import even_split
from physis_ros.errors import ParameterError


def model(name: str = 'm', weight: int = 10, kv: int = 2, row_s: float = 0.001) -> ModelCost:
    """Two blocks, two passes; a batch costs what its rows cost."""
    curve = BatchCurve.affine(0.0, row_s, 8)
    return ModelCost(name, 2, (weight,) * 2, kv, 0, 0, (curve,) * 2)


def pool(*memory: int, **fields: object) -> DevicePool:
    """Return devices of these sizes."""
    return DevicePool(tuple(Device(f'd{i}', m, **fields) for i, m in enumerate(memory)))  # type: ignore[arg-type]


def ask(name: str = 's', cost: ModelCost | None = None, slo_s: float = 1.0) -> Demand:
    """Return a demand."""
    return demand(name, cost or model(), slo_s)


def refused(door: Admitter, asked: Demand) -> Refusal:
    """Ask, expecting no."""
    answer = door.admit(asked)
    assert isinstance(answer, Refusal)
    return answer


def test_memory_binds_and_one_device_more_would_do() -> None:
    """28 bytes for the first, 8 for each other: 36 bytes carry two."""
    door = Admitter(pool(36))
    assert isinstance(door.admit(ask('a')), Admission)
    assert isinstance(door.admit(ask('b')), Admission)
    answer = refused(door, ask('c'))
    assert (answer.constraint, answer.device, answer.more_devices) == ('memory', 'd0', 1)
    assert answer.slo_s == 0
    assert '2 devices instead of 1 would fit' in str(answer)


def test_time_binds_and_the_loosest_slo_is_named() -> None:
    """Four rows of 100 ms in 500 ms leave 100 ms; with an SLO of 2 s the newcomer fits."""
    slow = model(row_s=0.1)
    door = Admitter(pool(1000))
    assert isinstance(door.admit(ask('a', slow, 0.5)), Admission)
    answer = refused(door, ask('b', slow, 0.5))
    assert (answer.constraint, answer.device, answer.more_devices) == ('time', 'd0', 1)
    assert 2.0 <= answer.slo_s <= 2.0 * 1.03
    again = door.admit(ask('b', slow, answer.slo_s))
    assert isinstance(again, Admission)


@pytest.mark.parametrize('late', [False, True])
def test_a_lost_device_that_is_back_is_as_if_it_had_never_gone(late: bool) -> None:
    """Whether its streams left before it was back, or after; nothing is put there meanwhile."""
    door, other = Admitter(pool(40, 60), 0.1), Admitter(pool(40, 60), 0.1)
    names = [name for name in 'abcdef' if isinstance(door.admit(ask(name)), Admission)]
    for name in names:
        other.admit(ask(name))
    gone = [name for name in names if 1 in door.running[name].devices]
    assert gone
    door.ledger.retire(1)
    assert door.ledger.lost == 1
    assert refused(door, ask('late')).device == 'd0'
    if late:
        door.ledger.restore(1)
    for name in gone:
        door.leave(name)
        other.leave(name)
    if not late:
        placed = door.admit(ask('late'))
        assert isinstance(placed, Refusal) or placed.placement.devices == (0,)
        if isinstance(placed, Admission):
            door.leave('late')
        door.ledger.restore(1)
    assert door.ledger.lost == 0
    for array in ('memory', 'used', 'busy'):
        assert getattr(door.ledger, array) == pytest.approx(getattr(other.ledger, array))
    assert isinstance(door.admit(ask(gone[0])), Admission)


def test_what_would_not_fit_an_empty_pool_is_told_so() -> None:
    """A block of 50 bytes fits no device of 40, however many there are."""
    answer = refused(Admitter(pool(40, 40)), ask(cost=model(weight=50)))
    assert answer.constraint == 'alone:memory'
    assert answer.more_devices == 0
    answer = refused(Admitter(pool(1000)), ask(cost=model(row_s=0.1), slo_s=0.1))
    assert answer.constraint == 'alone:time'


WIDE = ModelCost('w', 2, (10, 10), 2, 100, 0, (BatchCurve((0.001,)),) * 2, mailbox_depth=0)


def test_links_are_named_when_they_bind() -> None:
    """A block on each device of 22 bytes, 200 bytes between them a period, 50 go in a second."""
    door = Admitter(pool(22, 22, link_bytes_per_s=50.0))
    answer = refused(door, ask(cost=WIDE))
    assert (answer.constraint, answer.device, answer.more_devices) == ('alone:link', 'd1', 0)
    assert 'no room on the link' in answer.detail
    assert 4.0 <= answer.slo_s <= 4.0 * 1.03
    again = door.admit(ask(cost=WIDE, slo_s=answer.slo_s))
    assert isinstance(again, Admission)
    assert again.placement.devices == (0, 1)


def test_links_that_others_use_are_named_when_they_bind() -> None:
    """Room for the weights and KV of two; the first leaves 50 of the link's 250 bytes a second."""
    door = Admitter(pool(22, 22, link_bytes_per_s=250.0))
    assert isinstance(door.admit(ask('a', WIDE)), Admission)
    answer = refused(door, ask('b', WIDE))
    assert (answer.constraint, answer.device) == ('link', 'd1')
    assert 4.0 <= answer.slo_s <= 4.0 * 1.03
    assert f'an SLO of {answer.slo_s * 1e3:.1f} ms' in answer.change
    assert isinstance(door.admit(ask('b', WIDE, answer.slo_s)), Admission)
    door.leave('a')
    door.leave('b')
    assert isinstance(door.admit(ask('b', WIDE)), Admission), 'the link is free again'


def test_memory_is_named_where_a_faster_link_would_not_do() -> None:
    """A block and its KV, 14 bytes, fit no device of 13, whatever goes between devices."""
    answer = refused(Admitter(pool(13, 13, link_bytes_per_s=50.0)), ask(cost=WIDE))
    assert answer.constraint == 'alone:memory'


def test_response_is_checked_alone() -> None:
    """Four stages of 1 ms answer in 4 ms."""
    door = Admitter(pool(100))
    answer = refused(door, demand('s', model(), 1.0, response_s=0.003))
    assert (answer.constraint, answer.response_s) == ('response', pytest.approx(0.004))
    assert isinstance(door.admit(demand('s', model(), 1.0, response_s=0.0041)), Admission)


def test_departure_frees_everything() -> None:
    """After all have left the pool is as new."""
    door = Admitter(pool(36, 36))
    names = [f's{i}' for i in range(10)]
    inside = [name for name in names if isinstance(door.admit(ask(name)), Admission)]
    for name in inside:
        door.leave(name)
    assert door.ledger.used.tolist() == [0, 0]
    assert not door.running
    assert [n for n in names if isinstance(door.admit(ask(n)), Admission)] == inside


def test_running_streams_are_never_moved() -> None:
    """Arrivals, refusals and departures leave every other placement as it was."""
    chance, door = random.Random(3), Admitter(pool(60, 50, 80))
    costs = [model('a'), model('b', 6, 3), model('c', 14, 1)]
    for i in range(80):
        before = door.running
        if before and chance.random() < 0.4:
            gone = chance.choice(sorted(before))
            door.leave(gone)
            before.pop(gone)
        else:
            door.admit(ask(f's{i}', chance.choice(costs)), explain=False)
        after = door.running
        assert all(after[name] is before[name] for name in before)
        assert (door.ledger.used <= door.ledger.memory).all()


@pytest.mark.parametrize('seed', range(8))
def test_never_fewer_than_the_even_split(seed: int) -> None:
    """Decided together or one after the other, for one model on a pool of equals."""
    chance = random.Random(seed)
    cost = model('m', chance.randint(1, 30), chance.randint(1, 9), chance.uniform(0.01, 0.2))
    devices = pool(*[chance.randint(30, 90)] * chance.randint(2, 6))
    demands = [ask(f's{i}', cost) for i in range(12)]
    even = len(even_split(devices, demands))
    together = Admitter(devices).admit_all(demands, explain=False)
    assert sum(isinstance(answer, Admission) for answer in together) >= even
    door = Admitter(devices)
    for asked in demands:
        door.admit(asked, explain=False)
    assert len(door.running) >= even


@settings(max_examples=40, deadline=None, database=None)
@given(
    sizes=st.lists(
        st.tuples(
            st.integers(1, 4),  # blocks
            st.integers(1, 3),  # passes
            st.integers(1, 30),  # bytes of a block
            st.integers(1, 9),  # bytes of KV
            st.integers(0, 3),  # bytes of hidden state
            st.floats(0.0, 0.1),  # fixed time of a batch
            st.floats(0.005, 0.15),  # time of a row
        ),
        min_size=2,
        max_size=4,
    ),
    memory=st.lists(st.integers(40, 120), min_size=2, max_size=6),
    order=st.lists(st.integers(0, 3), min_size=1, max_size=10),
)
def test_mixes_decided_together_are_never_fewer_than_the_even_split(
    sizes: list[tuple[int, int, int, int, int, float, float]], memory: list[int], order: list[int]
) -> None:
    """Of any models, on any devices."""
    models = [
        ModelCost(
            f'm{i}', passes, (weight,) * blocks, kv, hidden, 0,
            (BatchCurve.affine(fixed_s, row_s, 8),) * blocks,
        )
        for i, (blocks, passes, weight, kv, hidden, fixed_s, row_s) in enumerate(sizes)
    ]  # fmt: skip
    devices = pool(*memory)
    demands = [ask(f's{i}', models[n % len(models)]) for i, n in enumerate(order)]
    answers = Admitter(devices).admit_all(demands, explain=False)
    taken = sum(isinstance(answer, Admission) for answer in answers)
    assert taken >= len(even_split(devices, demands))


def test_a_place_that_was_left_is_taken_again() -> None:
    """Whoever comes after one of its kind has left fits exactly where that one was."""
    door, costs = Admitter(pool(60, 50, 80)), [model('a'), model('b', 6, 3)]
    filled = (door.admit(ask(f's{n}', costs[n % 2]), explain=False) for n in range(99))
    assert any(isinstance(answer, Refusal) for answer in filled)
    for gone, newcomer in (('s1', 'x'), ('s2', 'y')):
        place = door.running[gone].hosts
        kind = door.running[gone].demand.model
        door.leave(gone)
        assert isinstance(door.admit(ask(newcomer, kind)), Admission)
        assert door.running[newcomer].hosts == place


def test_together_beats_one_after_the_other() -> None:
    """A greedy big one first would keep two small ones out."""
    big, small = model('big', 20, 5), model('small', 4, 1)
    demands = [ask('big', big), *[ask(f's{i}', small) for i in range(8)]]
    answers = Admitter(pool(62)).admit_all(demands, explain=False)
    assert sum(isinstance(answer, Admission) for answer in answers) == 8
    assert isinstance(answers[0], Refusal)


def test_names_are_checked() -> None:
    """Twice the same name, or one that is not there."""
    door = Admitter(pool(100))
    door.admit(ask('a'))
    with pytest.raises(ParameterError, match="stream must be a name not in use, got 'a'"):
        door.admit(ask('a'))
    with pytest.raises(ParameterError, match=r"one of \['a'\], got 'b'"):
        door.leave('b')
