# SPDX-License-Identifier: Apache-2.0
"""
Runs the stages of a model as a worker does, one block after the other, with a stop watch.

In sweeps over all blocks, not one block again and again: that would find its weights in a nearer
cache than any worker ever does.
"""

from __future__ import annotations

import time
from collections.abc import Callable

import torch

from physis_ros.backbones.base import Backbone, ModelSpec
from physis_ros.engine.compute import Compute, Row
from physis_ros.engine.kv import KvBank, KvBatch, KvRing

_WARM = 3


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
        self._inputs = {
            spec.name: torch.zeros((1, *spec.shape), dtype=spec.dtype, device=device)
            for spec in self._spec.inputs
        }
        self._conditioning = backbone.encode(self._inputs)
        noise = torch.Generator().manual_seed(0)
        self._latent = torch.randn((1, *self._spec.latent_shape), generator=noise).to(device)
        self._hidden = torch.randn((1, self._spec.tokens, self._spec.width), generator=noise).to(
            device, self._spec.dtype
        )

    def sweep(self, batch: int, kv_chunks: int, samples: int) -> dict[str, list[float]]:
        """Return seconds by kind: all blocks in order, ``samples`` times over."""
        for rings in self._rings:
            for ring in rings[: max(batch, self._spec.passes)]:
                _fill(ring, kv_chunks - 1)
        found: dict[str, list[float]] = {kind: [] for kind in kinds(self._spec)}
        for number in range(_WARM + samples):
            for block in range(self._spec.blocks):
                spent_s = self._stage(block, batch, kv_chunks - 1, number)
                if number >= _WARM:
                    found[kind_of(self._spec, block)].append(spent_s)
        return found

    def ends(self, samples: int) -> dict[str, list[float]]:
        """Return seconds of encoding and of decoding with frames."""
        backbone = self._compute.backbone
        calls: dict[str, Callable[[], object]] = {
            'encode': lambda: backbone.encode(self._inputs),
            'decode': lambda: backbone.decode(self._latent, self._inputs, True),
        }
        found = {}
        for kind, call in calls.items():
            found[kind] = [self._seconds(call) for _ in range(_WARM + samples)][_WARM:]
        return found

    def _chain(self, streams: int) -> list[KvRing]:
        """Return a block's rings: those of one stream's passes lie side by side, as in a lane."""
        passes = self._spec.passes
        banks = [KvBank(self._spec, passes, self._device) for _ in range(streams)]
        return [KvRing(self._spec, self._device, bank, row)
                for bank in banks for row in range(passes)]  # fmt: skip

    def _stage(self, block: int, batch: int, chunk: int, number: int) -> float:
        # Small batches stand at each of the passes in turn, as in a pipeline that runs full.
        first = number % max(1, self._spec.passes - batch + 1)
        rings = self._rings[block][first : first + batch]
        rows = [self._row(block, index % self._spec.passes)
                for index in range(first, first + batch)]  # fmt: skip

        def once() -> None:
            for ring in rings:
                ring.begin(0, chunk, chunk)
            self._compute.run(block, rows, self._batch.over(rings))

        return self._seconds(once)

    def _row(self, block: int, step: int) -> Row:
        if block:
            return Row(step, self._hidden)
        latent = self._latent if step else None
        return Row(step, latent, self._conditioning, self._latent)

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
