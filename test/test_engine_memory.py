# SPDX-License-Identifier: Apache-2.0
"""The cap on what an engine takes of its devices, in real worker processes."""

from __future__ import annotations

import pytest
from engine_cases import SECOND_NS, inputs

from physis_ros.engine.config import PoolConfig
from physis_ros.engine.kv import KvRing
from physis_ros.engine.models import REGISTRY, registry
from physis_ros.engine.pool import Pool
from physis_ros.engine.weights import held_bytes
from physis_ros.errors import EngineError, ParameterError

URI = 'synthetic:blocks=2,steps=2,window=2'
MB = 1e6


def weights_bytes() -> int:
    """Return what the model's weights take."""
    models = registry(REGISTRY)
    return held_bytes(models.open_backbone(URI, 'cpu', frozenset({0, 1})))


def stream_bytes() -> int:
    """Return what the KV of one stream takes."""
    spec = registry(REGISTRY).read_spec(URI)
    return KvRing(spec, 'cpu').bytes * spec.blocks * spec.steps


def test_X5_weights_beyond_the_cap_end_the_start_with_what_is_needed() -> None:
    cap_mb = (weights_bytes() - 1) / MB
    pool = Pool(PoolConfig(URI, 1, memory_mb=cap_mb))
    with pool, pytest.raises(EngineError, match=r'memory_mb must be .* of weights'):
        pool.start()


def test_X5_a_stream_beyond_the_cap_is_refused_and_the_others_go_on() -> None:
    cap_mb = (weights_bytes() + 2 * stream_bytes() - 1) / MB
    with Pool(PoolConfig(URI, 1, memory_mb=cap_mb)) as pool:
        pool.start()
        pool.open_stream('a')
        with pytest.raises(EngineError, match=r"memory_mb must be .* KV with stream 'b'"):
            pool.open_stream('b')
        chunk = pool.enter('a', inputs(0), SECOND_NS, False)
        result = pool.next_result(10.0)
        assert result is not None
        assert (result.stream, result.chunk) == ('a', chunk)
        # What one has left another may take.
        pool.close_stream('a')
        pool.open_stream('b')


@pytest.mark.parametrize(
    ('devices', 'shares'),
    [((), [50, 50]), (('cpu', 'cuda:0'), [100, 100]), (('cuda:1', 'cuda:1'), [50, 50])],
)
def test_X5_workers_share_the_cap_of_their_device(
    devices: tuple[str, ...], shares: list[int]
) -> None:
    config = PoolConfig(URI, 2, devices=devices, memory_mb=100 / MB)
    assert [config.memory_bytes(worker) for worker in (0, 1)] == shares
    assert PoolConfig(URI, 2).memory_bytes(0) == 0
    with pytest.raises(ParameterError, match='memory_mb must be >= 0'):
        PoolConfig(URI, memory_mb=-1.0)
