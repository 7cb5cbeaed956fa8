# SPDX-License-Identifier: Apache-2.0
"""Weights on disk and names of models: what loads, and what a bad file is called."""

from __future__ import annotations

import json
from dataclasses import asdict, replace
from pathlib import Path

import pytest
import torch
from safetensors import safe_open
from safetensors.torch import load_file, save_file

from physis_ros.backbones.base import KvRule
from physis_ros.backbones.reach.checkpoint import (
    declare_renewal,
    load_network,
    read_header,
    save_weights,
    shipped_path,
)
from physis_ros.backbones.reach.network import ReachNetwork, initialise
from physis_ros.backbones.reach.spec import ReachSizes
from physis_ros.backbones.registry import open_backbone, read_spec
from physis_ros.engine.config import PoolConfig
from physis_ros.engine.pool import Pool
from physis_ros.errors import CheckpointError, ParameterError

SMALL = ReachSizes(width=32, heads=2, blocks=3, components=8, keypoints=4, features=32)
SIZES = json.dumps(asdict(SMALL))


@pytest.fixture
def weights(tmp_path: Path) -> Path:
    network = ReachNetwork(SMALL, KvRule.CLEAN)
    torch.manual_seed(0)
    initialise(network)
    path = tmp_path / 'some.safetensors'
    save_weights(path, network, {'iterations': 7})
    return path


def rewritten(path: Path, **changes: str) -> Path:
    """Write the file again with another header."""
    header = {
        'kind': 'physis reach weights',
        'format': '1',
        'kv_rule': 'clean',
        'sizes': '{}',
        **changes,
    }
    save_file(load_file(path), path, header)
    return path


def test_header_and_network_come_back(weights: Path) -> None:
    header = read_header(weights)
    assert (header.kv_rule, header.sizes) == (KvRule.CLEAN, SMALL)
    assert header.training == {'iterations': 7}
    stored = load_file(weights)
    loaded = load_network(weights).state_dict()
    assert stored.keys() == loaded.keys()
    assert all(torch.equal(stored[name], loaded[name]) for name in stored)


def test_renewal_is_allowed_only_where_it_was_declared(weights: Path) -> None:
    uri, before, tensors = f'reach:{weights}', read_header(weights), load_file(weights)
    assert before.conditioning == read_spec(uri).conditioning == 'entry'
    with pytest.raises(ParameterError, match=r"conditioning must be 'entry' .* not allow renewal"):
        Pool(PoolConfig(uri, 1, conditioning='step'))
    declare_renewal(weights)
    assert read_header(weights) == replace(before, conditioning='step')
    assert read_spec(uri) == load_network(weights).spec == open_backbone(uri).spec
    assert Pool(PoolConfig(uri, 1, conditioning='step')).renewals == 2 * 4
    after = load_file(weights)
    assert tensors.keys() == after.keys()
    assert all(torch.equal(tensors[name], after[name]) for name in tensors)


def test_a_file_from_before_renewal_keeps_what_it_entered_with(weights: Path) -> None:
    assert read_header(rewritten(weights, sizes=SIZES)).conditioning == 'entry'


def test_only_the_blocks_asked_for_are_loaded(weights: Path) -> None:
    assert list(load_network(weights, blocks=frozenset({0, 2})).blocks) == ['0', '2']
    assert list(load_network(weights, blocks=frozenset()).blocks) == []
    with pytest.raises(ParameterError, match='blocks must be below 3'):
        load_network(weights, blocks=frozenset({3}))


def test_registry_opens_a_file_and_reads_its_spec(weights: Path) -> None:
    backbone = open_backbone(f'reach:{weights}')
    assert backbone.spec == read_spec(f'reach:{weights}')
    assert backbone.spec.kv_rule is KvRule.CLEAN
    assert backbone.spec.passes == 5


def test_unknown_name_is_refused_with_the_known_ones() -> None:
    for call in (open_backbone, read_spec):
        with pytest.raises(ParameterError, match=r"'reach:clean'.*got 'reech'"):
            call('reech')


def test_missing_file_is_named_with_what_to_do(tmp_path: Path) -> None:
    with pytest.raises(CheckpointError, match=r'none\.safetensors do not exist.*train-reach'):
        read_spec(f'reach:{tmp_path / "none.safetensors"}')


def test_damaged_file_is_named(weights: Path) -> None:
    weights.write_bytes(weights.read_bytes()[:-100])
    with pytest.raises(CheckpointError, match=r'some\.safetensors are damaged'):
        open_backbone(f'reach:{weights}')


def test_foreign_file_is_refused(tmp_path: Path) -> None:
    path = tmp_path / 'other.safetensors'
    save_file({'weight': torch.zeros(2)}, path)
    with pytest.raises(CheckpointError, match="must be of kind 'physis reach weights', got None"):
        open_backbone(f'reach:{path}')


@pytest.mark.parametrize(
    ('change', 'message'),
    [
        ({'format': '99'}, "format 1, got '99'"),
        ({'sizes': '{"width": 32}'}, 'header that makes no sense'),
        ({'kv_rule': 'dirty'}, 'header that makes no sense'),
        ({'sizes': SIZES, 'conditioning': 'often'}, r"header that makes no sense \(.*'often'"),
    ],
)
def test_header_of_another_kind_is_refused(
    weights: Path, change: dict[str, str], message: str
) -> None:
    with pytest.raises(CheckpointError, match=message):
        read_header(rewritten(weights, **change))


def test_tensors_that_do_not_fit_the_header_are_refused(weights: Path) -> None:
    with safe_open(weights, 'pt') as file:
        header = file.metadata()
    tensors = load_file(weights)
    tensors['blocks.1.up.weight'] = torch.zeros(3, 3)
    save_file(tensors, weights, header)
    with pytest.raises(CheckpointError, match=r'blocks\.1\.up\.weight must be of shape'):
        load_network(weights)
    tensors['blocks.1.up.weight'] = torch.full((96, 32), torch.nan)
    save_file(tensors, weights, header)
    with pytest.raises(CheckpointError, match=r'blocks\.1\.up\.weight must be finite'):
        load_network(weights)


@pytest.mark.parametrize('kv_rule', list(KvRule))
def test_shipped_weights_are_small_and_say_what_they_are(kv_rule: KvRule) -> None:
    path = shipped_path(kv_rule)
    assert path.stat().st_size < 10_000_000
    name = 'reach' if kv_rule is KvRule.SAME_STEP else 'reach:clean'
    assert read_spec(name).kv_rule is kv_rule
    assert read_spec(name).conditioning == ('step' if kv_rule is KvRule.SAME_STEP else 'entry')
    assert open_backbone(name).spec.blocks == 6
