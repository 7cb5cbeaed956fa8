# SPDX-License-Identifier: Apache-2.0
"""From the parameters of the model node to its pool."""

from __future__ import annotations

from pathlib import Path

import pytest

pytest.importorskip('rclpy')

from physis_ros.backbones.synthetic import synthetic_spec
from physis_ros.commands import local
from physis_ros.engine.profile import Link, Profile, Sizes, Timing, spec_hash
from physis_ros.errors import ParameterError, PlanError
from physis_ros.ros import make_pool
from physis_ros.ros.wam_config import WamConfig

MODEL = 'synthetic:blocks=2,steps=2,tokens=4,width=8,heads=2,window=1'


def test_every_device_must_be_the_one_that_was_profiled(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Not only that of the first worker."""
    names = {'cpu': 'abacus', 'cuda:0': 'loom'}
    monkeypatch.setattr(make_pool, 'device_name', names.__getitem__)
    kinds = ('first', 'last', 'encode', 'decode')
    spec, path = synthetic_spec(MODEL), tmp_path / 'profile.json'
    Profile(
        spec.name, spec_hash(spec), 'abacus', local.versions(), 2, 2, Sizes((1, 1), 1, 1, 1, 1, 1),
        tuple(Timing(kind, 1, 1, 1e-3, 1e-3, 2, 1e-3) for kind in kinds), 0.0,
        (Link('cpu', 0.0, 1e9), Link('cuda', 0.0, 1e9)),
    ).save(path)  # fmt: skip
    config = WamConfig(model=MODEL, workers=2, devices=('cpu', 'cpu'), profile=str(path))
    make_pool.make_pool(config)
    mixed = WamConfig(model=MODEL, workers=2, devices=('cpu', 'cuda:0'), profile=str(path))
    with pytest.raises(PlanError, match="must be of device 'loom', got 'abacus'"):
        make_pool.make_pool(mixed)


def test_stages_are_run_where_they_are_assigned() -> None:
    """As a plan without a name says it."""
    pool = make_pool.make_pool(WamConfig(model=MODEL, workers=2, assignment=(0, 1, 1, 0)))
    assert pool.grouping.owner == (0, 1, 1, 0)
    with pytest.raises(PlanError, match='assignment must name 4 stages, got 3'):
        make_pool.make_pool(WamConfig(model=MODEL, workers=2, assignment=(0, 1, 1)))
    with pytest.raises(ParameterError, match='workers must be 2 as assigned, got 3'):
        make_pool.make_pool(WamConfig(model=MODEL, workers=3, assignment=(0, 1, 1, 0)))
