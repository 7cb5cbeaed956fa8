# SPDX-License-Identifier: Apache-2.0
"""
How many bytes of weights a model has, block by block, counted in what it really loaded.

A worker loads the blocks of its stages and, whatever they are, the parts around them (entry, exit,
encoding, decoding); so blocks and these shared parts are counted apart.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import Any, NamedTuple

from torch import Tensor, nn

from physis_ros.backbones.base import Backbone

Open = Callable[[frozenset[int]], Backbone]


class Weights(NamedTuple):
    """
    Bytes of weights.

    :param blocks: of each block.
    :param shared: of what every worker holds.
    """

    blocks: tuple[int, ...]
    shared: int


def weigh(open_blocks: Open, blocks: int) -> Weights:
    """
    Load the model with no block and with each block alone, and count.

    :param open_blocks: loads the model with some of its blocks.
    """
    shared = held_bytes(open_blocks(frozenset()))
    alone = (held_bytes(open_blocks(frozenset({block}))) for block in range(blocks))
    return Weights(tuple(size - shared for size in alone), shared)


def held_bytes(thing: object) -> int:
    """Return the bytes of all tensors that an object holds, each memory counted once."""
    storages = {t.untyped_storage().data_ptr(): t.untyped_storage().nbytes() for t in _held(thing)}
    return sum(storages.values())


def _held(thing: Any) -> Iterator[Tensor]:
    if isinstance(thing, Tensor):
        yield thing
    elif isinstance(thing, nn.Module):
        yield from thing.parameters()
        yield from thing.buffers()
    elif isinstance(thing, Mapping):
        for value in thing.values():
            yield from _held(value)
    elif isinstance(thing, (list, tuple)):
        for value in thing:
            yield from _held(value)
    elif type(thing).__module__.startswith('physis_ros.'):
        yield from _held(getattr(thing, '__dict__', {}))
