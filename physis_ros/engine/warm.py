# SPDX-License-Identifier: Apache-2.0
"""The first run of each part of a model, before it matters: caches fill, kernels are chosen."""

from __future__ import annotations

from collections.abc import Iterable

import torch

from physis_ros.backbones.base import PREFIX, PREFIX_WEIGHT, Backbone
from physis_ros.engine.kv import KvRing


def warm_shared(backbone: Backbone, device: str) -> None:
    """Encode, enter each pass, leave each step and decode, on zeros."""
    spec = backbone.spec
    inputs = {
        i.name: torch.zeros((1, *i.shape), dtype=i.dtype, device=device) for i in spec.inputs
    }
    noise = torch.zeros((1, *spec.latent_shape), device=device)
    with torch.inference_mode():
        conditioning = backbone.encode(inputs)
        for number in range(spec.passes):
            step = torch.tensor([number], device=device)
            hidden = backbone.enter(noise if number else None, conditioning, noise, step)
            if number < spec.steps:
                backbone.leave(hidden, step)
        if spec.takes_prefix:
            backbone.constrain(noise, inputs[PREFIX], inputs[PREFIX_WEIGHT])
        backbone.decode(noise, inputs, True)


def warm_blocks(backbone: Backbone, device: str, blocks: Iterable[int]) -> None:
    """Run some blocks once, on zeros."""
    spec = backbone.spec
    hidden = torch.zeros((1, spec.tokens, spec.width), dtype=spec.dtype, device=device)
    ring, step = KvRing(spec, device), torch.zeros(1, dtype=torch.int64, device=device)
    with torch.inference_mode():
        ring.begin(0, 0, 0)
        for block in blocks:
            backbone.block(block, hidden, step, ring)
