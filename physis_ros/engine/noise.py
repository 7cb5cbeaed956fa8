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


class NoiseAhead:
    """
    Noise of one stream on one worker; what comes next is drawn while there is nothing to run.

    :param stream: its name.
    """

    def __init__(self, stream: str) -> None:
        self._stream = stream
        # For each step one draw, kept or used up, and the (epoch, chunk) it is for.
        self._drawn: dict[int, tuple[tuple[int, int], Tensor]] = {}
        self._next: dict[int, tuple[int, int]] = {}

    def draw(self, source: NoiseSource, epoch: int, chunk: int, step: int) -> Tensor:
        """Return the noise of a step, as the source would."""
        which = (epoch, chunk)
        if step not in self._drawn or self._drawn[step][0] != which:
            self._drawn[step] = which, source.draw(self._stream, epoch, chunk, step)
        self._next[step] = epoch, chunk + 1
        return self._drawn[step][1]

    def look_ahead(self, source: NoiseSource) -> bool:
        """Draw for the chunks after those that were here; tell whether there was something."""
        wanted, self._next = self._next, {}
        for step, which in wanted.items():
            self._drawn[step] = which, source.draw(self._stream, *which, step)
        return bool(wanted)
