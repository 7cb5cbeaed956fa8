# SPDX-License-Identifier: Apache-2.0
"""A stream as one worker sees it: the KV of its stages, and what is known ahead of its tasks."""

from __future__ import annotations

from collections.abc import Callable

from torch import Tensor

from physis_ros.backbones.base import ModelSpec
from physis_ros.engine.grid import Grouping
from physis_ros.engine.kv import KvBank, KvRing
from physis_ros.engine.noise import NoiseAhead


class Lane:
    """
    One stream on one worker; all its memory is allocated here, when it opens.

    ``arrivals`` are the blocks at which its chunks come from outside, ``enters`` says whether one
    of its steps begins here.

    :param name: the stream's name; its noise depends on it.
    :param spec: sizes of the model.
    :param grouping: who runs what.
    :param worker: whose stages.
    :param device: where its memory goes.
    :param keep: conditionings kept, at least as many as chunks in flight.
    :param bank: gives for a block and a number of rows a bank and the first row to use.
    """

    def __init__(
        self,
        name: str,
        spec: ModelSpec,
        grouping: Grouping,
        worker: int,
        device: str,
        keep: int,
        bank: Callable[[int, int], tuple[KvBank, int]] | None = None,
    ) -> None:
        self.name, self.grouping = name, grouping
        self.enters = worker in grouping.entries
        self._keep = keep
        self.noise = NoiseAhead(name)
        self._conditioning: dict[int, Tensor] = {}
        self._rings: dict[tuple[int, int], KvRing] = {}
        mine, before = grouping.stages_of(worker), (-1, *grouping.owner)
        self.blocks = grouping.blocks_of(worker)
        self.arrivals = frozenset(
            stage.block
            for stage, source in zip(grouping.stages, before, strict=False)
            if stage in mine and source != worker
        )
        # The steps of one block side by side, as they run in one batch.
        for block in self.blocks:
            steps = [stage.step for stage in mine if stage.block == block]
            rows = len(steps) if grouping.per_pass_kv else 1
            kept, first = bank(block, rows) if bank else (KvBank(spec, rows, device), 0)
            kept.touch(first, rows)
            rings = [KvRing(spec, device, kept, first + row) for row in range(rows)]
            for row, step in enumerate(steps):
                self._rings[step, block] = rings[row if grouping.per_pass_kv else 0]

    @property
    def bytes(self) -> int:
        """Memory of its KV [bytes]; where all passes share it, once."""
        return sum({id(ring): ring.bytes for ring in self._rings.values()}.values())

    def ring(self, step: int, block: int) -> KvRing:
        """Return the KV of one stage."""
        return self._rings[step, block]

    def conditioning(self, version: int) -> Tensor | None:
        """Return the conditioning of an observation; None when it is yet to be computed."""
        return self._conditioning.get(version)

    def keep(self, version: int, conditioning: Tensor) -> None:
        """Remember the conditioning of an observation; the oldest goes when there are many."""
        self._conditioning[version] = conditioning
        while len(self._conditioning) > self._keep:
            del self._conditioning[next(iter(self._conditioning))]
