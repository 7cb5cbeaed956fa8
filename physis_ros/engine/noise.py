# SPDX-License-Identifier: Apache-2.0
"""
Noise that depends on what it is for, and on nothing else (E2).

Drawn on the processor whatever the device, so every plan, batch and worker count sees the same.
"""

from __future__ import annotations

import hashlib

import torch
from torch import Tensor


class NoiseSource:
    """
    Noise of one pool. Not thread-safe: one generator, seeded anew for every draw.

    :param seed: the pool's seed.
    :param shape: shape of the latent.
    """

    def __init__(self, seed: int, shape: tuple[int, ...]) -> None:
        self._seed, self._shape = seed, shape
        self._generator = torch.Generator()

    def draw(self, stream: str, epoch: int, chunk: int, step: int) -> Tensor:
        """Return float32 standard normal noise [1, *shape]."""
        text = f'{self._seed}/{stream}/{epoch}/{chunk}/{step}'.encode()
        digest = hashlib.blake2b(text, digest_size=8).digest()
        self._generator.manual_seed(int.from_bytes(digest, 'little', signed=True))
        return torch.randn((1, *self._shape), generator=self._generator)
