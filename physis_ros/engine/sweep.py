# SPDX-License-Identifier: Apache-2.0
"""
Runs the stages of a model as a worker does, one block after the other, with a stop watch.

In sweeps over all blocks, not one piece again and again: that would find its weights in a nearer
cache than any worker ever does. Encoding and decoding, too, have a sweep before them.
"""

from __future__ import annotations

import time
from collections.abc import Callable

import torch
from torch import Tensor

from physis_ros.backbones.base import Backbone, ModelSpec
from physis_ros.engine.compute import Compute, Row
from physis_ros.engine.kv import KvBank, KvBatch, KvRing
from physis_ros.engine.noise import NoiseSource

_WARM = 3
# Observations in turn: each lies somewhere else, as on the notice board.
_SEEN = 8


class Sweeper:
    """
    Rows and rings to run stages on; the numbers in them do not matter, their shapes do.

    :param backbone: the model with all its blocks.
    :param device: torch device it lives on.
    :param most: rows of the largest batch.
    """

    def __init__(self, backbone: Backbone, device: str, most: int) -> None:
        self._spec, self._device = backbone.spec, device
        self._compute = Compute(backbone, device)
        self._batch = KvBatch(self._spec, most, device)
        streams = -(-most // self._spec.passes)
        self._rings = [self._chain(streams) for _ in range(self._spec.blocks)]
        self._inputs = [self._observation() for _ in range(_SEEN)]
        self._noise = NoiseSource(0, self._spec.latent_shape)
        self._conditioning = backbone.encode(self._inputs[0])
        self._latent = self._noise.draw('', 0, 0, 0).to(device)
        drawn = torch.Generator().manual_seed(0)
        self._hidden = torch.randn((1, self._spec.tokens, self._spec.width), generator=drawn).to(
            device, self._spec.dtype
        )

    def sweep(self, batch: int, kv_chunks: int, samples: int) -> dict[str, list[float]]:
        """Return seconds by kind: all blocks in order, ``samples`` times over."""
        self._fill(batch, kv_chunks - 1)
        found: dict[str, list[float]] = {kind: [] for kind in kinds(self._spec)}
        for number in range(_WARM + samples):
            for block in range(self._spec.blocks):
                spent_s = self._stage(block, batch, kv_chunks - 1, number)
                if number >= _WARM:
                    found[kind_of(self._spec, block)].append(spent_s)
        return found

    def ends(self, samples: int) -> dict[str, list[float]]:
        """Return seconds of encoding and of decoding with frames, a sweep between the two."""
        self._fill(1, 0)
        found: dict[str, list[float]] = {'encode': [], 'decode': []}
        for number in range(_WARM + samples):
            for kind, call in self._calls(self._inputs[number % _SEEN]).items():
                for block in range(self._spec.blocks):
                    self._stage(block, 1, 0, number)
                spent_s = self._seconds(call)
                if number >= _WARM:
                    found[kind].append(spent_s)
        return found

    def _calls(self, seen: dict[str, Tensor]) -> dict[str, Callable[[], object]]:
        compute, latent = self._compute, self._latent
        return {
            'encode': lambda: compute.backbone.encode(seen),
            'decode': lambda: compute.decode(latent, seen, True),
        }

    def _observation(self) -> dict[str, Tensor]:
        return {
            spec.name: torch.zeros((1, *spec.shape), dtype=spec.dtype, device=self._device)
            for spec in self._spec.inputs
        }

    def _chain(self, streams: int) -> list[KvRing]:
        """Return a block's rings, side by side as the streams' lanes are."""
        passes = self._spec.passes
        # One shelf for all streams on a processor, a bank for each elsewhere.
        shared = streams if self._device == 'cpu' else 1
        banks = [
            KvBank(self._spec, shared * passes, self._device) for _ in range(streams // shared)
        ]
        return [KvRing(self._spec, self._device, bank, row)
                for bank in banks for row in range(shared * passes)]  # fmt: skip

    def _fill(self, batch: int, chunks: int) -> None:
        for rings in self._rings:
            for ring in rings[: self._chosen(batch)]:
                _fill(ring, chunks)

    def _chosen(self, batch: int) -> int:
        """Return how many rings a batch is chosen from: those of as many streams as it needs."""
        return -(-batch // self._spec.passes) * self._spec.passes

    def _stage(self, block: int, batch: int, chunk: int, number: int) -> float:
        # Chunks that enter on a beat are evenly spread over the passes, and go on together.
        among = self._chosen(batch)
        places = sorted((number + index * among // batch) % among for index in range(batch))
        rings = [self._rings[block][place] for place in places]

        def once() -> None:
            for ring in rings:
                ring.begin(0, chunk, chunk)
            rows = [self._row(block, place % self._spec.passes, number) for place in places]
            self._compute.run(block, rows, self._batch.over(rings))

        return self._seconds(once)

    def _row(self, block: int, step: int, number: int) -> Row:
        if block:
            return Row(step, self._hidden)
        noise = self._noise.draw('', 0, number, step).to(self._device)
        return Row(step, self._latent if step else None, self._conditioning, noise)

    def _seconds(self, once: Callable[[], object]) -> float:
        self._wait()
        start = time.perf_counter()
        once()
        self._wait()
        return time.perf_counter() - start

    def _wait(self) -> None:
        if self._device.startswith('cuda'):
            torch.cuda.synchronize(self._device)


def kinds(spec: ModelSpec) -> list[str]:
    """Return the kinds of blocks a model has."""
    return list(dict.fromkeys(kind_of(spec, block) for block in range(spec.blocks)))


def kind_of(spec: ModelSpec, block: int) -> str:
    """Return the kind of a block; a model of one block has ``first`` only."""
    if block == 0:
        return 'first'
    return 'last' if block == spec.blocks - 1 else 'inner'


def _fill(ring: KvRing, chunks: int) -> None:
    ring.clear(0)
    for chunk in range(chunks):
        ring.begin(0, chunk, chunk)
        ring.finish(chunk)
