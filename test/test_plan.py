# SPDX-License-Identifier: Apache-2.0
"""Profiles, plans and their predictions."""

from __future__ import annotations

import json
from dataclasses import replace
from itertools import pairwise
from pathlib import Path

import pytest

from physis_ros.backbones.base import ActionSpec, FrameSpec, KvRule, ModelSpec
from physis_ros.engine.cost import BatchCurve, ModelCost
from physis_ros.engine.devices import Device, DevicePool
from physis_ros.engine.groupings import Grouping, groupings, named
from physis_ros.engine.plan import (
    ROOM,
    Targets,
    choose,
    most_streams,
    pareto,
    plans,
    predict,
    table,
    usually,
)
from physis_ros.engine.profile import (
    FORMAT,
    Link,
    Profile,
    Sizes,
    Timing,
    check,
    load,
    spec_hash,
)
from physis_ros.engine.virtual import S, VirtualPool
from physis_ros.errors import ParameterError, PlanError

SPEC = ModelSpec(
    'tiny', 3, 2, 4, 8, 2, 4, 1, 0, KvRule.SAME_STEP, (5,), (),
    ActionSpec(('a',), 'rad', 4, 1), FrameSpec(1, 1, (0,), ()), 0,
)  # fmt: skip


def _timing(kind: str, batch: int, chunks: int, ms: float) -> Timing:
    return Timing(kind, batch, chunks, ms / 1e3, 2 * ms / 1e3, 10, 1.5 * ms / 1e3)


def profile() -> Profile:
    """Make a profile with round numbers."""
    timings = [
        _timing(kind, batch, chunks, batch * chunks)
        for kind in ('first', 'inner', 'last')
        for batch in (1, 2, 4)
        for chunks in (1, 2)
    ]
    ends = [
        Timing('encode', 1, 1, 0.003, 0.004, 10, 0.0035),
        Timing('decode', 1, 1, 0.005, 0.006, 10, 0.0055),
    ]
    sizes = Sizes((10, 20, 30), 7, 128, 20, 100, 200)
    return Profile(
        'tiny', spec_hash(SPEC), 'cpu', {'torch': '2'}, 2, 3, sizes, (*timings, *ends), 1e-5,
        (Link('cpu', 2e-5, 1e9),),
    )  # fmt: skip


def cost(fixed_s: float = 0.0, row_s: float = 0.004) -> ModelCost:
    """Six blocks, four passes, nothing but time."""
    return ModelCost('m', 4, (10,) * 6, 1, 0, 0, (BatchCurve.affine(fixed_s, row_s, 8),) * 6)


def pool(count: int, memory: int = 1000) -> DevicePool:
    """Return equal devices."""
    return DevicePool(tuple(Device(f'd{i}', memory) for i in range(count)))


def test_a_profile_survives_its_file(tmp_path: Path) -> None:
    """What is read is what was written; one timing a line."""
    path = tmp_path / 'tiny.json'
    profile().save(path)
    assert load(path) == profile()
    lines = [line for line in path.read_text().splitlines() if '"kind"' in line]
    assert len(lines) == len(profile().timings)


def test_costs_take_p99_of_the_full_window() -> None:
    """Batches between the measured ones lie on a line."""
    found = profile().cost()
    assert found.curves[0].times_s == pytest.approx((0.004, 0.008, 0.012, 0.016))
    assert (found.entry_s, found.exit_s, found.weight_bytes) == (0.004, 0.006, (10, 20, 30))
    assert profile().cost('p50').curves[2].times_s == pytest.approx((0.002, 0.004, 0.006, 0.008))


def test_costs_hold_the_time_of_the_engine() -> None:
    """Once a row; the clean rule forbids overlap."""
    found = replace(profile(), task_s=0.0005, crowding=1.1, kv_rule='clean').cost()
    assert found.curves[0].times_s == pytest.approx((0.0045, 0.009, 0.0135, 0.018))
    assert (found.overlaps, found.crowding, found.entry_s) == (False, 1.1, 0.004)


def test_a_profile_cut_short_is_no_profile(tmp_path: Path) -> None:
    """Unless it is asked for to go on with it."""
    path = tmp_path / 'tiny.json'
    begun = replace(profile(), wanted=30)
    begun.save(path)
    assert load(path, partial=True) == begun
    with pytest.raises(PlanError, match='must be whole, got 20 of 30 timings; go on with'):
        load(path)


def test_foreign_and_old_profiles_are_refused() -> None:
    """Each with what differs."""
    check(profile(), SPEC, 'cpu', {'torch': '2'})
    with pytest.raises(PlanError, match="of model 'other', got 'tiny'"):
        check(profile(), replace(SPEC, name='other'))
    with pytest.raises(PlanError, match='present sizes of tiny'):
        check(profile(), replace(SPEC, window=2))
    with pytest.raises(PlanError, match="of device 'cuda', got 'cpu'"):
        check(profile(), SPEC, 'cuda')
    with pytest.raises(PlanError, match='measured with torch 3, got 2'):
        check(profile(), SPEC, 'cpu', {'torch': '3'})


@pytest.mark.parametrize(
    ('change', 'message'),
    [
        ({'format': 0}, f'must have format {FORMAT}, got 0'),
        ({'timings': [{'kind': 'first'}]}, 'is damaged'),
        ({'blocks': 4}, 'for 4 blocks, got 3'),
    ],
)
def test_damaged_profiles_are_refused(
    tmp_path: Path, change: dict[str, object], message: str
) -> None:
    """With the file and the reason."""
    path = tmp_path / 'tiny.json'
    profile().save(path)
    path.write_text(json.dumps({**json.loads(path.read_text()), **change}))
    with pytest.raises(PlanError, match=message):
        load(path)
    for text in ('{', '', '[' * 100_000):
        path.write_text(text)
        with pytest.raises(PlanError, match='cannot be read'):
            load(path)


def test_named_schemes_are_groupings() -> None:
    """Each with the owners its name promises."""
    names = {g.scheme for g in groupings(cost(), 24)}
    assert names == {'serial', 'step', 'block', 'stage', 'mixed'}
    assert Grouping('step', 2, 1).owner(cost()) == (0,) * 12 + (1,) * 12
    assert Grouping('block', 1, 3).owner(cost()) == (0, 0, 1, 1, 2, 2) * 4
    assert Grouping('stage', 4, 6).owner(cost()) == tuple(range(24))
    assert Grouping('stage', 0, 0, 5).owner(cost())[:6] == (0, 0, 0, 0, 0, 1)


def test_named_schemes_fit_the_devices() -> None:
    """As many groups as there are devices; without overlap no pass is cut from another."""
    found = [(g.scheme, g.groups, batch) for g, batch in named(cost(), 8)]
    assert found == [('serial', 1, 1), ('step', 4, 1), ('block', 6, 4), ('stage', 8, 1)]
    clean = replace(cost(), overlaps=False)
    assert [(g.scheme, g.groups, batch) for g, batch in named(clean, 8)] == [
        ('serial', 1, 1), ('block', 6, 1),
    ]  # fmt: skip
    assert {g.steps for g in groupings(clean, 8)} == {1}


def test_chunks_that_do_not_overlap_take_turns() -> None:
    """Two devices, one chunk in the pipe: the period is the response."""
    clean = replace(cost(), overlaps=False)
    (plan,) = plans(clean, pool(2), Targets(max_batch=1), [Grouping('block', 1, 2)])
    assert (plan.period_s, plan.response_s) == pytest.approx((0.096, 0.096))


def test_every_device_that_enters_a_step_encodes() -> None:
    """6 ms of it: once on one device, on both when steps are cut, once when blocks are."""
    model = replace(cost(), entry_s=0.006)
    for grouping, period_s in (
        (Grouping('serial', 1, 1), 0.102), (Grouping('step', 2, 1), 0.054),
    ):  # fmt: skip
        plan = predict(model, pool(2), Targets(max_batch=1), grouping, 1)
        assert plan is not None
        assert plan.period_s == pytest.approx(period_s)


def test_whoever_waits_encodes_ahead() -> None:
    """A chunk waits for the first encoding only; the second takes time of its device as ever."""
    model = replace(cost(), entry_s=0.006)
    for slo_s in (0.0, 0.2):
        targets = Targets(max_batch=1, slo_s=slo_s)
        plan = predict(model, pool(2), targets, Grouping('step', 2, 1), 1)
        assert plan is not None
        assert (plan.response_s, plan.usual_response_s) == pytest.approx((0.102, 0.102))
        assert (plan.period_s, plan.device_s) == pytest.approx((0.054, 0.108), rel=0.01)


def test_encoding_ahead_is_skipped_exactly() -> None:
    """Streams that enter steps on three devices: skipped or run out, to the last digit."""
    model = replace(cost(0.001, 0.001), entry_s=0.004, exit_s=0.001, deliver_s=5e-4, turn_s=3e-4)

    def ran(skip: bool) -> tuple[list[list[list[int]]], list[int], int]:
        virtual = VirtualPool(replace(pool(3), hop_s=2e-4), 4)
        hosts = [[stage * 3 // 24 for stage in range(24)], [stage // 3 % 3 for stage in range(24)]]
        streams = [
            virtual.open(f's{i}', model, host, 0.04 * (i + 1), 2, 0.1, phase_s=0.001 * i)
            for i, host in enumerate(hosts)
        ]
        virtual.run(4 * S, skip)
        busy = [device.busy_ns for device in virtual.devices]
        return [s.table().tolist() for s in streams], busy, sum(len(s.laps) for s in streams)

    skipped, whole = ran(True), ran(False)
    assert skipped[:2] == whole[:2]
    assert (skipped[2], whole[2]) == (2, 0)


def test_a_result_goes_out_before_the_next_chunk_comes_in() -> None:
    """One chunk in flight: the period is its response and what the pool needs in between."""
    model = replace(cost(), deliver_s=0.002, turn_s=0.003)
    hops = replace(pool(1), hop_s=0.001)
    plan = predict(model, hops, Targets(max_batch=1), Grouping('serial', 1, 1), 1)
    assert plan is not None
    assert (plan.period_s, plan.response_s) == pytest.approx((0.102, 0.099))


def test_the_usual_response_is_that_of_most_chunks() -> None:
    """Rows come together in turns: the longest is more than the median. Deadlines part none."""
    model = replace(cost(0.002, 0.002), entry_s=0.006)
    target = Targets(max_batch=4, slo_s=0.07)
    plan = predict(model, pool(1), target, Grouping('serial', 1, 1), 4)
    assert plan is not None
    assert 0.102 < plan.usual_response_s < plan.response_s < plan.allowed_s


def test_usually_is_the_median_of_chunks_with_a_little_room() -> None:
    """What each piece adds to a chunk, flat out and one each 1.15 periods, or at the SLO."""
    model, targets = replace(cost(0.002, 0.002), entry_s=0.006), Targets(max_batch=4)
    plan = predict(model, pool(1), targets, Grouping('serial', 1, 1), 4)
    assert plan is not None
    found = usually(model, pool(1), targets, plan)
    assert found.period_s == plan.period_s
    assert found.pace_s == pytest.approx(ROOM * plan.period_s)
    calm = predict(model, pool(1), replace(targets, slo_s=found.pace_s), plan.grouping, 4)
    assert calm is not None
    assert found.response_s == calm.usual_response_s < plan.response_s
    slow = usually(model, pool(1), replace(targets, slo_s=1.0), plan)
    assert (slow.pace_s, slow.response_s) == pytest.approx((1.0, 0.102))


def test_a_chunk_hops_in_and_out() -> None:
    """From pool to worker and back, 1 ms each: nothing overlaps with one chunk in flight."""
    plan = predict(
        cost(), replace(pool(1), hop_s=0.001), Targets(max_batch=1), Grouping('serial', 1, 1), 1
    )
    assert plan is not None
    assert plan.period_s == pytest.approx(0.098)


def test_neighbours_slow_each_other_down() -> None:
    """Only when both compute, and only on one machine."""
    crowded = replace(cost(), crowding=1.25)
    alone = predict(crowded, pool(2), Targets(max_batch=1), Grouping('serial', 1, 1), 1)
    both = predict(crowded, pool(2), Targets(max_batch=1), Grouping('step', 2, 1), 1)
    assert alone is not None and both is not None
    assert (alone.period_s, both.period_s) == pytest.approx((0.096, 0.060))
    devices = tuple(Device(f'd{i}', 1000, node=f'n{i}') for i in range(2))
    apart = predict(crowded, DevicePool(devices), Targets(max_batch=1),
                    Grouping('step', 2, 1), 1)  # fmt: skip
    assert apart is not None
    assert apart.period_s == pytest.approx(0.048)


@pytest.mark.parametrize(('workers', 'period_ms'), [(1, 96), (2, 48), (4, 24), (8, 12)])
def test_virtual_pipeline_reaches_its_bound(workers: int, period_ms: int) -> None:
    """24 stages of 4 ms in balanced runs: the period is a worker's share, the response all."""
    virtual = VirtualPool(pool(workers), 1)
    hosts = [stage * workers // 24 for stage in range(24)]
    stream = virtual.open('s', cost(), hosts, 1e-3, workers, 1.0)
    virtual.run(2 * S)
    outs = stream.outputs[2 * workers :]
    assert {b.out_ns - a.out_ns for a, b in pairwise(outs)} == {period_ms * 1_000_000}
    assert {out.out_ns - out.enter_ns for out in outs} == {96_000_000}


def test_virtual_batches_share_what_is_fixed() -> None:
    """One device, four passes in a batch: 6 blocks x (2 + 4 x 1) ms a chunk, not 6 x 4 x 3 ms."""
    virtual = VirtualPool(pool(1), 8)
    stream = virtual.open('s', cost(0.002, 0.001), (0,) * 24, 1e-3, 4, 1.0)
    virtual.run(2 * S)
    outs = [out.out_ns for out in stream.outputs]
    assert (outs[-1] - outs[-11]) / 10 == pytest.approx(36e6, rel=0.02)


def test_plans_predict_what_runs() -> None:
    """Period and response of every named scheme without batching."""
    named = [Grouping('serial', 1, 1), Grouping('step', 4, 1), Grouping('stage', 4, 6)]
    found = plans(cost(), pool(24), Targets(max_batch=1), named)
    figures = {plan.grouping.scheme: (plan.period_s, plan.response_s) for plan in found}
    assert figures['serial'] == pytest.approx((0.096, 0.096))
    assert figures['stage'] == pytest.approx((0.004, 0.096))
    step = next(plan for plan in found if plan.grouping.scheme == 'step')
    assert (step.period_s, step.device_s) == pytest.approx((0.024, 0.096))
    assert step.worst_age_s == pytest.approx(0.024 + 0.096)
    assert step.on_time_cost_s == pytest.approx(4 * 0.024)


def test_pareto_keeps_no_beaten_plan() -> None:
    """Fewer devices or a shorter period; the table marks the choice."""
    found = plans(cost(), pool(4), Targets(max_batch=1))
    best = pareto(found)
    assert [(len(p.devices), round(p.period_s * 1e3)) for p in best] == [
        (4, 24), (3, 32), (2, 48), (1, 96),
    ]  # fmt: skip
    chosen = choose(found, Targets(max_batch=1))
    assert len(chosen.devices) == 4
    assert table(best, chosen).count('*') == 1


def test_the_objective_decides() -> None:
    """Within 60 ms: the youngest action wants four devices, the cheapest output two."""
    targets = Targets(slo_s=0.06, max_batch=1)
    found = plans(cost(), pool(4), targets)
    assert len(choose(found, targets, 'fleet').devices) == 2
    with pytest.raises(PlanError, match='no plan meets an SLO of 10 ms; the nearest'):
        choose(found, Targets(slo_s=0.01))
    with pytest.raises(ParameterError, match='objective'):
        choose(found, targets, 'cheapest')


def test_a_fleet_is_as_large_as_time_and_memory_allow() -> None:
    """96 ms of work for each chunk, on two devices, without gain from batches."""
    for slo_s, most in ((0.01, 1), (0.1, 2), (0.3, 6), (0.5, 10)):
        targets = Targets(slo_s=slo_s, max_batch=1)
        assert most_streams(cost(), pool(2), targets) == most
    # Room for the weights and the 24 bytes of three streams on one device.
    assert most_streams(cost(), pool(1, 60 + 3 * 24), Targets(slo_s=10.0, max_batch=1)) == 3


def test_what_does_not_fit_is_refused_before_anything_starts() -> None:
    """Memory for half of the weights."""
    with pytest.raises(PlanError, match='1 streams of m need at least'):
        plans(cost(), pool(2, 20), Targets())
    with pytest.raises(ParameterError, match='slo_s must be >= 0'):
        Targets(slo_s=-1.0)
