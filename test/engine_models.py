# SPDX-License-Identifier: Apache-2.0
"""A model registry whose models fail on purpose, as a worker process meets them."""

from __future__ import annotations

import os
import sys
from collections.abc import Collection

from physis_ros.backbones.base import Backbone, ModelSpec
from physis_ros.backbones.synthetic import SyntheticBackbone, open_synthetic, synthetic_spec
from physis_ros.errors import CheckpointError


def read_spec(uri: str) -> ModelSpec:
    return synthetic_spec(_plain(uri))


def open_backbone(uri: str, device: str, blocks: frozenset[int] | None) -> Backbone:
    """Fail as the URI's first word says, in the worker that owns block 1."""
    how = uri.partition('+')[0]
    if how != 'tripping' and blocks is not None and 1 not in blocks:
        model = open_synthetic(_plain(uri), device, blocks)
        return _Barren(model) if how == 'missing' else model
    if how == 'missing':
        raise CheckpointError('weights of block 1 are missing')
    if how == 'chatty':
        print('no such device: left hand', file=sys.stderr, flush=True)
        os._exit(3)
    model = open_synthetic(_plain(uri), device, blocks)
    kinds = {'stumbling': _Stumbling, 'tripping': _Tripping}
    return kinds[how](model) if how in kinds else model


def _plain(uri: str) -> str:
    return uri.partition('+')[2]


class _Barren(SyntheticBackbone):
    """Has no block 1 to give when a stream needs it."""

    def __init__(self, model: SyntheticBackbone) -> None:
        self.__dict__.update(model.__dict__)

    def hold(self, blocks: Collection[int]) -> None:
        if 1 in blocks:
            raise CheckpointError('weights of block 1 are missing')
        super().hold(blocks)


class _Stumbling(SyntheticBackbone):
    """Decodes once for the warm-up, then no more."""

    def __init__(self, model: SyntheticBackbone) -> None:
        self.__dict__.update(model.__dict__)
        self._decoded = 0

    def decode(self, *args, **kwargs):  # type: ignore[no-untyped-def]
        self._decoded += 1
        if self._decoded > 1:
            raise ValueError('cannot decode this')
        return super().decode(*args, **kwargs)


class _Tripping(SyntheticBackbone):
    """Decodes anything but what it was told a delay of 19 for."""

    def __init__(self, model: SyntheticBackbone) -> None:
        self.__dict__.update(model.__dict__)

    def decode(self, latent, inputs, frames):  # type: ignore[no-untyped-def]
        if int(inputs['delay'][0]) == 19:
            raise ValueError('cannot decode this')
        return super().decode(latent, inputs, frames)
