# SPDX-License-Identifier: Apache-2.0
"""
The committed prefix in the engine: what a chunk is held to, and that nothing else changes.

That any plan equals the oracle with prefixes too is in test_engine_equality: half of its
observations have one.
"""

from __future__ import annotations

import numpy as np
import pytest
import torch
from engine_cases import SECOND_NS, batched, collect, inputs, local_crew

from physis_ros.backbones.base import Decoded, KvRule
from physis_ros.backbones.reach.checkpoint import load_network, shipped_path
from physis_ros.backbones.registry import open_backbone
from physis_ros.engine.config import PoolConfig
from physis_ros.engine.pool import Pool
from physis_ros.engine.serial import SerialEngine
from physis_ros.errors import ObservationError

SMALL = 'synthetic:blocks=2,steps=3,width=8,heads=1'
MODELS = [SMALL, f'{SMALL},kv_rule=clean', 'reach', 'reach:clean']
NUMBERS = (500, 1, 501, 2, 3, 502)


@pytest.fixture(scope='module')
def seen() -> dict[str, torch.Tensor]:
    """Return an observation of the reach model, the same in every test."""
    drawn = np.random.default_rng(5)
    return {
        'frames': torch.from_numpy(drawn.integers(0, 255, (1, 3, 64, 64, 3), dtype=np.uint8)),
        'joints': torch.tensor([[0.4, 1.2, 0.0, 0.0]]),
        'delay': torch.tensor([[0.1]]),
    }


def chunks(uri: str, given: list[dict[str, torch.Tensor]]) -> list[Decoded]:
    """Return what the serial engine makes of observations, one after the other."""
    engine = SerialEngine(open_backbone(uri), seed=4)
    engine.open('robot')
    return [engine.run('robot', one, True) for one in given]


def held(given: dict[str, torch.Tensor], level: float, weights: list[float]) -> dict:
    """Return an observation with all steps of its prefix at ``level``."""
    count = 4 if given['frames'].shape[-2] == 8 else 16
    weight = torch.tensor([weights + [0.0] * (count - len(weights))])
    return {**given, 'prefix': torch.full((1, count, 2), level), 'prefix_weight': weight}


@pytest.mark.parametrize('uri', MODELS)
def test_C13_a_prefix_without_weight_changes_nothing(uri, seen):
    plain = seen if uri.startswith('reach') else batched(inputs(0))
    without, with_none = chunks(uri, [plain] * 2), chunks(uri, [held(plain, 0.7, [])] * 2)
    for one, other in zip(without, with_none, strict=True):
        assert torch.equal(one.actions, other.actions)
        assert torch.equal(one.frames, other.frames)


@pytest.mark.parametrize('uri', ['reach', 'reach:clean'])
def test_C13_frozen_steps_come_out_as_they_were_committed(uri, seen):
    (free,) = chunks(uri, [seen])
    (chunk,) = chunks(uri, [held(seen, 0.9, [1.0, 1.0, 0.5])])
    torch.testing.assert_close(chunk.actions[0, :2], torch.full((2, 2), 0.9), rtol=0, atol=1e-6)
    off = (chunk.actions - 0.9).abs().amax(-1)[0]
    assert 0.0 < off[2] < (free.actions - 0.9).abs().amax(-1)[0, 2]
    assert not torch.equal(chunk.actions[0, 3:], free.actions[0, 3:]), 'the rest was told nothing'


def test_a_weight_is_how_far_actions_are_drawn_and_frames_stay():
    network = load_network(shipped_path(KvRule.SAME_STEP))
    latent = torch.randn(1, network.sizes.latent_numbers)
    actions, weight = torch.full((1, 16, 2), 0.9), torch.full((1, 16), 0.25)
    weight[:, 8:] = 0.0
    drawn = network.codec.drawn(latent, actions, weight)
    mixed = network.codec.actions(drawn)
    free = network.codec.actions(latent)
    expected = 0.75 * free + 0.25 * actions
    torch.testing.assert_close(mixed[:, :8], expected[:, :8], rtol=0, atol=1e-6)
    assert torch.equal(mixed[:, 8:], free[:, 8:])
    video = network.sizes.video_numbers
    assert torch.equal(drawn[:, :video], latent[:, :video])


def test_C20_a_chunk_without_a_prefix_after_one_with_it_is_not_held_to_it():
    """The slots of observations are used again: what is left out is zero, not what was there."""
    config = PoolConfig(SMALL, seed=4, max_streams=1, in_flight=1)
    expected = chunks(SMALL, [batched(inputs(number)) for number in NUMBERS])
    with Pool(config, crew=local_crew(0)) as pool:
        pool.start()
        pool.open_stream('robot')
        for number, wanted in zip(NUMBERS, expected, strict=True):
            pool.enter('robot', inputs(number), SECOND_NS, True)
            (result,) = collect(pool, 1)
            np.testing.assert_allclose(result.actions, wanted.actions[0], rtol=0, atol=1e-5)


def test_a_misshapen_prefix_is_refused():
    with Pool(PoolConfig(SMALL, max_streams=1), crew=local_crew(0)) as pool:
        pool.start()
        pool.open_stream('robot')
        wrong = {**inputs(500), 'prefix': np.zeros((5, 2), np.float32)}
        with pytest.raises(ObservationError, match=r'input prefix must have shape \(4, 2\)'):
            pool.enter('robot', wrong, SECOND_NS, True)
