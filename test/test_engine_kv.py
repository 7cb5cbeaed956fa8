# SPDX-License-Identifier: Apache-2.0
"""The KV ring against a plain list of all chunks, and that it allocates nothing (E3)."""

from typing import Any

import pytest
import torch
from engine_cases import spec_of
from hypothesis import given, settings
from hypothesis import strategies as st
from torch.overrides import TorchFunctionMode

from physis_ros.backbones.base import KvRead, ModelSpec
from physis_ros.engine.kv import KvBatch, KvRing
from physis_ros.errors import EngineError


def spec(window: int = 2, sink: int = 1) -> ModelSpec:
    return spec_of(f'synthetic:window={window},sink={sink},tokens=3,width=8,heads=2')


def own(sizes: ModelSpec, chunk: int) -> torch.Tensor:
    return torch.full((1, sizes.tokens, sizes.heads, sizes.head_dim), float(chunk))


def write(ring: KvRing, sizes: ModelSpec, era: int, chunk: int) -> KvRead:
    ring.begin(era, chunk, chunk)
    read = ring.extend(own(sizes, chunk), own(sizes, -chunk))
    ring.finish(chunk)
    return read


def seen(read: KvRead, row: int = 0) -> dict[int, int]:
    """Return chunk -> age of everything visible."""
    found = {}
    for slot in range(read.key.shape[1]):
        if read.valid[row, slot]:
            chunk = int(read.key[row, slot, 0, 0, 0])
            assert (read.key[row, slot] == chunk).all()
            assert (read.value[row, slot] == -chunk).all()
            found[chunk] = int(read.age[row, slot])
    return found


@settings(max_examples=40, deadline=None, database=None)
@given(st.integers(0, 4), st.integers(0, 3), st.integers(1, 20))
def test_a_chunk_sees_sink_and_window(window: int, sink: int, chunks: int) -> None:
    sizes = spec(window, sink)
    ring = KvRing(sizes, 'cpu')
    for chunk in range(chunks):
        visible = {c for c in range(chunk + 1) if c < sink or c >= chunk - window}
        expected = {c: min(chunk - c, window + 1) for c in visible}
        found = seen(write(ring, sizes, 7, chunk))
        # The ring may still hold what the window has just left, never anything else.
        assert found == expected


def test_a_new_era_sees_nothing_of_the_old() -> None:
    sizes = spec()
    ring = KvRing(sizes, 'cpu')
    for chunk in range(4):
        write(ring, sizes, 1, chunk)
    ring.key[:] = float('nan')
    assert ring.ready(2, 0)
    assert not ring.ready(2, 4)
    read = write(ring, sizes, 2, 0)
    assert seen(read) == {0: 0}
    assert torch.isfinite(read.key).all()


def test_order_within_an_era_is_enforced() -> None:
    ring = KvRing(spec(), 'cpu')
    assert [ring.ready(1, chunk) for chunk in (0, 1)] == [True, False]
    with pytest.raises(EngineError, match='must follow turn -1 in its KV ring, got 1'):
        ring.begin(1, 1, 1)


def test_rows_of_a_batch_are_the_rings_themselves() -> None:
    sizes = spec()
    rings = [KvRing(sizes, 'cpu') for _ in range(3)]
    for length, ring in enumerate(rings):
        for chunk in range(length):
            write(ring, sizes, 1, chunk)
        ring.begin(1, length, length)
    key = torch.cat([own(sizes, length) for length in range(3)])
    read = KvBatch(sizes, 4, 'cpu').over(rings).extend(key, -key)
    assert read.key.shape[0] == 3
    assert [seen(read, row) for row in range(3)] == [{0: 0}, {0: 1, 1: 0}, {0: 2, 1: 1, 2: 0}]


class Operations(TorchFunctionMode):
    """Notes the storage of every tensor that an operation returns."""

    def __init__(self) -> None:
        super().__init__()
        self.storages: set[int] = set()

    def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        out = func(*args, **(kwargs or {}))
        if isinstance(out, torch.Tensor):
            self.storages.add(out.untyped_storage().data_ptr())
        return out


def test_steady_state_allocates_nothing() -> None:
    sizes = spec()
    rings = [KvRing(sizes, 'cpu') for _ in range(2)]
    batch = KvBatch(sizes, 2, 'cpu')
    keys = [torch.cat([own(sizes, chunk)] * 2) for chunk in range(12)]

    def run(chunk: int) -> None:
        for ring in rings:
            ring.begin(1, chunk, chunk)
        batch.over(rings).extend(keys[chunk], keys[chunk])
        for ring in rings:
            ring.extend(keys[chunk][:1], keys[chunk][:1])
            ring.finish(chunk)

    own_memory = [*keys]
    for ring in rings:
        own_memory += [ring.key, ring.value, ring.age, ring.valid]
    own_memory += [batch.over(rings).extend(keys[0], keys[0])[i] for i in range(4)]
    with Operations() as seen_in:
        for chunk in range(12):
            run(chunk)
    assert seen_in.storages, 'operations were seen'
    # A tensor made anew, however short its life, has a storage of its own.
    assert seen_in.storages <= {tensor.untyped_storage().data_ptr() for tensor in own_memory}
