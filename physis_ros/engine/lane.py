# SPDX-License-Identifier: Apache-2.0
"""A stream as one worker sees it: the KV of its stages, and conditioning already computed."""

from __future__ import annotations

from collections.abc import Callable

from torch import Tensor

from physis_ros.backbones.base import ModelSpec
from physis_ros.engine.grid import Grouping
from physis_ros.engine.kv import KvBank, KvRing


class Lane:
    """
    One stream on one worker; all its memory is allocated here, when it opens.

    :param name: the stream's name; its noise depends on it.
    :param spec: sizes of the model.
    :param grouping: who runs what.
    :param worker: whose stages.
    :param device: where its memory goes.
    :param keep: conditionings kept, at least as many as chunks in flight.
    """

    def __init__(
        self, name: str, spec: ModelSpec, grouping: Grouping, worker: int, device: str, keep: int
    ) -> None:
        self.name = name
        self._keep = keep
        self._conditioning: dict[int, Tensor] = {}
        self._rings: dict[tuple[int, int], KvRing] = {}
        # The steps of one block side by side, as they run in one batch.
        for block in grouping.blocks_of(worker):
            steps = [stage.step for stage in grouping.stages_of(worker) if stage.block == block]
            bank = KvBank(spec, len(steps) if grouping.per_pass_kv else 1, device)
            rings = [KvRing(spec, device, bank, row) for row in range(len(bank.key))]
            for row, step in enumerate(steps):
                self._rings[step, block] = rings[row if grouping.per_pass_kv else 0]

    def ring(self, step: int, block: int) -> KvRing:
        """Return the KV of one stage."""
        return self._rings[step, block]

    def conditioning(self, version: int, encode: Callable[[], Tensor]) -> Tensor:
        """Return the conditioning of an observation, computed the first time it is asked for."""
        found = self._conditioning.get(version)
        if found is None:
            found = self._conditioning[version] = encode()
            while len(self._conditioning) > self._keep:
                del self._conditioning[next(iter(self._conditioning))]
        return found
