# SPDX-License-Identifier: Apache-2.0
"""
The KV memory of one stage of one stream: a ring of window chunks behind a few sink chunks (E3).

Allocated when the stream opens, overwritten for ever after, never copied between devices. Keys are
stored un-rotated; the model rotates them by the ages given here.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import torch
from torch import Tensor

from physis_ros.backbones.base import KvRead, ModelSpec
from physis_ros.errors import EngineError

_NO_EPOCH = -1


class KvRing:
    """
    KV of one ring; itself the window of a batch of one, without a copy.

    :param spec: sizes of the model.
    :param device: where it lives.
    """

    def __init__(self, spec: ModelSpec, device: str) -> None:
        slots = spec.kv_slots
        shape = (slots, spec.tokens, spec.heads, spec.head_dim)
        self.key = torch.zeros(shape, dtype=spec.dtype, device=device)
        self.value = torch.zeros_like(self.key)
        self.age = torch.zeros((1, slots), dtype=torch.int64, device=device)
        self.valid = torch.zeros((1, slots), dtype=torch.bool, device=device)
        self._sink, self._cycle, self._oldest = spec.sink, spec.window + 1, spec.window + 1
        self._chunk_of = np.full(slots, -1, dtype=np.int64)
        # Ages are computed on the processor: in place when the ring lives there.
        self._host = self.age.device.type == 'cpu'
        self._age_host = self.age if self._host else self.age.cpu()
        self._valid_host = self.valid if self._host else self.valid.cpu()
        self._age_np = self._age_host.numpy()[0]
        self._valid_np = self._valid_host.numpy()[0]
        self._key_slots = list(self.key.unsqueeze(1))
        self._value_slots = list(self.value.unsqueeze(1))
        self._read = KvRead(self.key[None], self.value[None], self.age, self.valid)
        self._slot = 0
        self._era, self._done = _NO_EPOCH, -1

    @property
    def bytes(self) -> int:
        """Memory of keys and values [bytes]."""
        return 2 * self.key.numel() * self.key.element_size()

    def ready(self, era: int, chunk: int) -> bool:
        """Tell whether the predecessor is done, so that ``chunk`` may run (E1)."""
        return chunk == (self._done + 1 if era == self._era else 0)

    def begin(self, era: int, chunk: int) -> None:
        """
        Make room for ``chunk``; a new era empties the ring first.

        :raises EngineError: when the predecessor is not done.
        """
        if era != self._era:
            self.clear(era)
        if chunk != self._done + 1:
            raise EngineError(f'chunk must follow chunk {self._done} in its KV ring, got {chunk}')
        sink = self._sink
        self._slot = chunk if chunk < sink else sink + (chunk - sink) % self._cycle
        self._chunk_of[self._slot] = chunk
        np.subtract(chunk, self._chunk_of, out=self._age_np)
        np.minimum(self._age_np, self._oldest, out=self._age_np)
        np.greater_equal(self._chunk_of, 0, out=self._valid_np)
        if not self._host:
            self.age.copy_(self._age_host)
            self.valid.copy_(self._valid_host)

    def finish(self, chunk: int) -> None:
        """Note that ``chunk`` has written its last KV here."""
        self._done = chunk

    def clear(self, era: int) -> None:
        """Forget everything; ``era`` begins."""
        self._era, self._done = era, -1
        self._chunk_of.fill(-1)
        # A masked slot still meets a zero weight in the sum: it must hold no NaN of a former life.
        self.key.zero_()
        self.value.zero_()

    def write(self, key: Tensor, value: Tensor) -> None:
        """Store the own chunk's key and value, each [1, N, heads, head_dim]."""
        self._key_slots[self._slot].copy_(key)
        self._value_slots[self._slot].copy_(value)

    def extend(self, key: Tensor, value: Tensor) -> KvRead:
        """Write and return everything to attend to; views of the ring, nothing is copied."""
        self.write(key, value)
        return self._read


class KvBatch:
    """
    The window of several rings at once: rows gathered into a workspace made once.

    :param spec: sizes of the model.
    :param rows: the largest batch.
    :param device: where the rings live.
    """

    def __init__(self, spec: ModelSpec, rows: int, device: str) -> None:
        shape = (rows, spec.kv_slots, spec.tokens, spec.heads, spec.head_dim)
        self._key = torch.zeros(shape, dtype=spec.dtype, device=device)
        self._value = torch.zeros_like(self._key)
        self._age = torch.zeros(shape[:2], dtype=torch.int64, device=device)
        self._valid = torch.zeros(shape[:2], dtype=torch.bool, device=device)
        self._rings: Sequence[KvRing] = ()

    def over(self, rings: Sequence[KvRing]) -> KvBatch | KvRing:
        """Return the window over these rings, in row order."""
        if len(rings) == 1:
            return rings[0]
        self._rings = rings
        return self

    def extend(self, key: Tensor, value: Tensor) -> KvRead:
        """Write each row into its ring, gather what the rows attend to."""
        for row, ring in enumerate(self._rings):
            ring.write(key[row : row + 1], value[row : row + 1])
            self._key[row].copy_(ring.key)
            self._value[row].copy_(ring.value)
            self._age[row].copy_(ring.age[0])
            self._valid[row].copy_(ring.valid[0])
        rows = len(self._rings)
        return KvRead(self._key[:rows], self._value[:rows], self._age[:rows], self._valid[:rows])
