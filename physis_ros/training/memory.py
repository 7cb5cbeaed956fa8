# SPDX-License-Identifier: Apache-2.0
"""
Key and value memories: over whole sequences for training, chunk by chunk for serial runs.

Both give a block exactly what the engine's rings would give it, so one block function serves all.
"""

from __future__ import annotations

from collections import deque

import torch
from torch import Tensor
from torch.nn import functional as F

from physis_ros.backbones.base import KvRead, KvRule, ModelSpec


def _slots(past: Tensor, own: Tensor, chunks: int, window: int) -> Tensor:
    """Give each chunk its predecessors' rows, oldest first, then its own, [B*S, w+1, N, h, d]."""
    padded = F.pad(past.unflatten(0, (-1, chunks)), (0, 0, 0, 0, 0, 0, window, 0))
    before = [padded[:, index : index + chunks] for index in range(window)]
    return torch.stack([*before, own.unflatten(0, (-1, chunks))], 2).flatten(0, 1)


class SequenceKv:
    """
    One block's memory over sequences of chunks, all at the same pass.

    :param chunks: S, chunks of a sequence; rows are ``b * S + s``.
    :param window: predecessors a chunk attends to.
    :param history: key and value that predecessors are read from; None: what is written here.
    """

    def __init__(
        self, chunks: int, window: int, history: tuple[Tensor, Tensor] | None = None
    ) -> None:
        self._chunks, self._window, self._history = chunks, window, history
        self.written: tuple[Tensor, Tensor] | None = None

    def extend(self, key: Tensor, value: Tensor) -> KvRead:
        """Write this pass's key and value, return what each chunk attends to."""
        self.written = key, value
        past_key, past_value = self._history or self.written
        chunks, window = self._chunks, self._window
        keys = _slots(past_key, key, chunks, window)
        values = _slots(past_value, value, chunks, window)
        age = torch.arange(window, -1, -1)
        valid = age <= torch.arange(chunks)[:, None]
        sequences = len(key) // chunks
        return KvRead(keys, values, age.expand(len(key), -1), valid.repeat(sequences, 1))


class _ChunkKv:
    """One block's memory while one chunk passes it."""

    def __init__(self, past: deque[tuple[Tensor, Tensor]], keep: bool) -> None:
        self._past, self._keep = past, keep

    def extend(self, key: Tensor, value: Tensor) -> KvRead:
        """Return predecessors' and own; remember own if later chunks are to read it."""
        slots = [*self._past, (key, value)]
        if self._keep:
            self._past.append((key, value))
        age = torch.arange(len(slots) - 1, -1, -1).expand(len(key), -1)
        keys, values = (torch.stack(part, 1) for part in zip(*slots, strict=True))
        return KvRead(keys, values, age, torch.ones_like(age, dtype=torch.bool))


class SerialMemory:
    """
    The memory of streams that run chunk by chunk, each chunk through all its passes.

    Same-step: one ring for each (pass, block). Clean: one for each block, which only the last
    pass writes.

    :param spec: the model's sizes.
    """

    def __init__(self, spec: ModelSpec) -> None:
        self._clean, self._last = spec.kv_rule is KvRule.CLEAN, spec.passes - 1
        rings = spec.blocks if self._clean else spec.blocks * spec.passes
        self._rings: list[deque[tuple[Tensor, Tensor]]] = [
            deque(maxlen=spec.window) for _ in range(rings)
        ]
        self._blocks = spec.blocks

    def window(self, step: int, block: int) -> _ChunkKv:
        """Return the memory of one stage; ask for each stage of a chunk once, in order."""
        if self._clean:
            return _ChunkKv(self._rings[block], step == self._last)
        return _ChunkKv(self._rings[step * self._blocks + block], True)
