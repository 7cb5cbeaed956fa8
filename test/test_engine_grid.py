# SPDX-License-Identifier: Apache-2.0
"""Who runs which stage, and what is refused."""

import pytest
from engine_cases import spec_of

from physis_ros.engine.config import PoolConfig
from physis_ros.engine.grid import Stage, assign, group
from physis_ros.engine.pool import Pool
from physis_ros.errors import ParameterError, PlanError

SPEC = spec_of('synthetic:blocks=3,steps=2')
CLEAN = spec_of('synthetic:blocks=3,steps=2,kv_rule=clean')


@pytest.mark.parametrize(
    ('scheme', 'workers', 'owner'),
    [
        ('stage', 2, (0, 0, 0, 1, 1, 1)),
        ('stage', 4, (0, 0, 1, 2, 2, 3)),
        ('stage', 6, (0, 1, 2, 3, 4, 5)),
        ('step', 2, (0, 0, 0, 1, 1, 1)),
        ('block', 2, (0, 0, 1, 0, 0, 1)),
        ('block', 3, (0, 1, 2, 0, 1, 2)),
        ('serial', 1, (0, 0, 0, 0, 0, 0)),
    ],
)
def test_named_schemes(scheme: str, workers: int, owner: tuple[int, ...]) -> None:
    assert group(SPEC, scheme, workers).owner == owner


def test_runs_differ_by_one_stage_at_most() -> None:
    spec = spec_of('synthetic:blocks=6,steps=4')
    for workers in range(1, 25):
        owner = group(spec, 'stage', workers).owner
        sizes = [owner.count(worker) for worker in range(workers)]
        assert list(owner) == sorted(owner)
        assert max(sizes) - min(sizes) <= 1


def test_what_a_worker_needs() -> None:
    grouping = group(SPEC, 'block', 2)
    assert grouping.stages_of(1) == (Stage(0, 2), Stage(1, 2))
    assert grouping.blocks_of(0) == (0, 1)
    assert grouping.hops == ((0, 1), (1, 0))


@pytest.mark.parametrize(
    ('scheme', 'most'), [('stage', 6), ('step', 2), ('block', 3), ('serial', 1)]
)
def test_too_many_workers_are_refused(scheme: str, most: int) -> None:
    group(SPEC, scheme, most)
    with pytest.raises(PlanError, match=f'workers must be <= {most} .* got {most + 1}'):
        group(SPEC, scheme, most + 1)


def test_clean_weights_are_not_split_along_their_passes() -> None:
    assert group(CLEAN, 'block', 3).passes == 3
    assert group(CLEAN, 'stage', 1).kv_rule == 'clean'
    for scheme in ('stage', 'step'):
        with pytest.raises(PlanError, match='declares clean KV'):
            group(CLEAN, scheme, 2)
    overridden = group(CLEAN, 'stage', 2, override_kv_rule=True)
    assert (overridden.kv_rule, overridden.passes, overridden.overlaps) == ('override', 2, True)


def test_explicit_assignments_are_checked() -> None:
    assert assign(SPEC, [0, 1, 0, 1, 0, 1]).workers == 2
    with pytest.raises(PlanError, match='must name 6 stages, got 2'):
        assign(SPEC, [0, 1])
    with pytest.raises(PlanError, match=r'must use workers 0..2 each, got \[0, 2\]'):
        assign(SPEC, [0, 0, 0, 2, 2, 2])


@pytest.mark.parametrize(
    ('name', 'value'),
    [
        ('workers', 0),
        ('threads_per_worker', 0),
        ('mailbox_depth', 0),
        ('max_streams', 0),
        ('max_batch', 0),
        ('in_flight', -1),
        ('hop_timeout_s', 0.0),
        ('grouping', 'diagonal'),
        ('conditioning', 'never'),
        ('devices', ('cpu',)),
    ],
)
def test_bad_parameters_are_named(name: str, value: object) -> None:
    with pytest.raises(ParameterError, match=f'{name} must be'):
        PoolConfig('synthetic:', **{name: value})  # type: ignore[arg-type]


def test_a_pool_that_cannot_be_is_refused_before_anything_starts() -> None:
    with pytest.raises(PlanError, match='workers must be <= 6'):
        Pool(PoolConfig('synthetic:blocks=3,steps=2', workers=7))
    with pytest.raises(ParameterError, match='do not allow renewal'):
        Pool(PoolConfig('synthetic:', conditioning='step'))
    with pytest.raises(ParameterError, match=r"of keys .* got 'layers'"):
        Pool(PoolConfig('synthetic:layers=3'))
