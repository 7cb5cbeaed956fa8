# SPDX-License-Identifier: Apache-2.0
"""
The KV memory of one stage of one stream: a ring of window chunks behind a few sink chunks (E3).

Allocated when the stream opens, overwritten for ever after, never copied between devices. Keys are
stored un-rotated; the model rotates them by the ages given here. Ages repeat, so they are tables
made once: going on to the next chunk computes nothing.
"""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor

from physis_ros.backbones.base import KvRead, ModelSpec
from physis_ros.errors import EngineError

_NO_ERA = -1


class KvBank:
    """
    The memory of rings that often run together: neighbours are a batch without a copy.

    :param spec: sizes of the model.
    :param rows: how many rings.
    :param device: where it lives.
    """

    def __init__(self, spec: ModelSpec, rows: int, device: str) -> None:
        shape = (rows, spec.kv_slots, spec.tokens, spec.heads, spec.head_dim)
        self.key = torch.zeros(shape, dtype=spec.dtype, device=device)
        self.value = torch.zeros_like(self.key)
        ages, valids = _ages(spec)
        self.ages, self.valids = ages.to(device).split(1), valids.to(device).split(1)

    @property
    def bytes(self) -> int:
        """Memory of keys and values [bytes]."""
        return 2 * self.key.numel() * self.key.element_size()

    def touch(self, first: int, rows: int) -> None:
        """Empty some rows; the first use of a page must not cost a fault later."""
        self.key[first : first + rows].zero_()
        self.value[first : first + rows].zero_()


class KvShelf:
    """
    Banks of all streams side by side: a batch over streams is read where it lies.

    For the memory of a processor, which is taken only when it is touched.

    :param spec: sizes of the model.
    :param streams: the most there can be.
    """

    def __init__(self, spec: ModelSpec, streams: int) -> None:
        self._spec, self._streams = spec, streams
        self._banks: dict[int, KvBank] = {}

    def bank(self, stream: int, block: int, rows: int) -> tuple[KvBank, int]:
        """
        Return the bank of a block and the first row of a stream's own.

        :param rows: of one stream, the same for all.
        """
        if block not in self._banks:
            self._banks[block] = KvBank(self._spec, self._streams * rows, 'cpu')
        return self._banks[block], stream * rows


class KvRing:
    """
    KV of one stage; itself the window of a batch of one, without a copy.

    :param spec: sizes of the model.
    :param device: where it lives.
    :param bank: the memory it is a row of; None: memory of its own.
    :param row: which row.
    """

    def __init__(
        self, spec: ModelSpec, device: str, bank: KvBank | None = None, row: int = 0
    ) -> None:
        self.bank, self.row = bank or KvBank(spec, 1, device), row
        self.key, self.value = self.bank.key[row], self.bank.value[row]
        self._key_slots = self.key.split(1)
        self._value_slots = self.value.split(1)
        self._reads = [
            KvRead(self.key[None], self.value[None], age, valid)
            for age, valid in zip(self.bank.ages, self.bank.valids, strict=True)
        ]
        self._sink, self._cycle, self._slots = spec.sink, spec.window + 1, spec.kv_slots
        self._slot, self._read = 0, self._reads[0]
        self._era, self._done, self._newest = _NO_ERA, -1, -1
        self._clean = True

    @property
    def bytes(self) -> int:
        """Memory of keys and values [bytes]."""
        return 2 * self.key.numel() * self.key.element_size()

    @property
    def age(self) -> Tensor:
        """Ages of the slots as the chunk begun last sees them, int64 [1, S]."""
        return self._read.age

    @property
    def valid(self) -> Tensor:
        """Which slots it may see, bool [1, S]."""
        return self._read.valid

    def ready(self, era: int, turn: int) -> bool:
        """Tell whether the predecessor is done, so that this turn may run (E1)."""
        return turn == (self._done + 1 if era == self._era else 0)

    def begin(self, era: int, turn: int, chunk: int, commit: bool = False) -> None:
        """
        Make room for ``chunk``; a new era empties the ring first.

        :param turn: its place in the order of the stream's chunks and commits.
        :param commit: ``chunk`` is an earlier one, whose KV is to be replaced (E13).
        :raises EngineError: when the predecessor is not done, or the chunk to replace is gone.
        """
        if era != self._era:
            self.clear(era)
        if turn != self._done + 1:
            raise EngineError(f'turn must follow turn {self._done} in its KV ring, got {turn}')
        phase = (chunk - self._sink) % self._cycle
        self._slot = chunk if chunk < self._sink else self._sink + phase
        if commit:
            self._read = self._look_back(chunk)
            return
        self._newest = chunk
        self._read = self._reads[chunk if chunk < self._slots else self._slots + phase]

    def finish(self, turn: int) -> None:
        """Note that this turn has written its last KV here."""
        self._done = turn

    def _look_back(self, chunk: int) -> KvRead:
        """Return what an earlier chunk sees now: its predecessors, as far as they are kept."""
        kept = [_held(slot, self._newest, self._sink, self._cycle) for slot in range(self._slots)]
        if kept[self._slot] != chunk:
            raise EngineError(f'chunk must be one of {sorted(kept)} to be replaced, got {chunk}')
        back = [chunk - found for found in kept]
        near = [
            found >= 0 and steps >= 0 and (steps < self._cycle or slot < self._sink)
            for slot, (found, steps) in enumerate(zip(kept, back, strict=True))
        ]
        ages = [min(max(steps, 0), self._cycle) for steps in back]
        device = self.key.device
        return KvRead(
            self.key[None], self.value[None],
            torch.tensor([ages], device=device), torch.tensor([near], device=device),
        )  # fmt: skip

    def clear(self, era: int) -> None:
        """Forget everything; ``era`` begins."""
        self._era, self._done, self._newest = era, -1, -1
        if self._clean:
            return
        # A masked slot still meets a zero weight in the sum: it must hold no NaN of a former life.
        self.key.zero_()
        self.value.zero_()
        self._clean = True

    def write(self, key: Tensor, value: Tensor) -> None:
        """Store the own chunk's key and value, each [1, N, heads, head_dim]."""
        self._clean = False
        self._key_slots[self._slot].copy_(key)
        self._value_slots[self._slot].copy_(value)

    def extend(self, key: Tensor, value: Tensor) -> KvRead:
        """Write and return everything to attend to; views of the ring, nothing is copied."""
        self.write(key, value)
        return self._read


class KvBatch:
    """
    The window of several rings at once.

    Rows of one bank at equal distances are read where they lie; others are gathered into a
    workspace made once.

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
        """Write each row into its ring, return what the rows attend to."""
        rings = self._rings
        for ring, own_key, own_value in zip(rings, key.split(1), value.split(1), strict=True):
            ring.write(own_key, own_value)
        count = len(rings)
        age, valid = self._age[:count], self._valid[:count]
        torch.cat([ring.age for ring in rings], out=age)
        torch.cat([ring.valid for ring in rings], out=valid)
        rows = _regular(rings)
        if rows is not None:
            bank = rings[0].bank
            return KvRead(bank.key[rows], bank.value[rows], age, valid)
        keys, values = self._key[:count], self._value[:count]
        torch.stack([ring.key for ring in rings], out=keys)
        torch.stack([ring.value for ring in rings], out=values)
        return KvRead(keys, values, age, valid)


def _regular(rings: Sequence[KvRing]) -> slice | None:
    """Return the rows as a slice of their bank; None when they are none."""
    bank, first, distance = rings[0].bank, rings[0].row, rings[1].row - rings[0].row
    if distance < 1:
        return None
    for number, ring in enumerate(rings):
        if ring.bank is not bank or ring.row != first + number * distance:
            return None
    return slice(first, rings[-1].row + 1, distance)


def _ages(spec: ModelSpec) -> tuple[Tensor, Tensor]:
    """
    Return ages and validity of the slots for each state of a ring.

    The first ``kv_slots`` chunks are states of their own; then the ring is full and only the
    place of the newest chunk in the cycle matters.

    :returns: int64 and bool [states, kv_slots].
    """
    sink, cycle, slots = spec.sink, spec.window + 1, spec.kv_slots
    ages, valids = [], []
    for state in range(slots + cycle):
        # The first chunk of a full ring with this phase; later ones look the same.
        chunk = state if state < slots else slots + (state - slots + sink - slots) % cycle
        held = [_held(slot, chunk, sink, cycle) for slot in range(slots)]
        ages.append([min(chunk - found, cycle) for found in held])
        valids.append([found >= 0 for found in held])
    return torch.tensor(ages), torch.tensor(valids)


def _held(slot: int, chunk: int, sink: int, cycle: int) -> int:
    """Return which chunk lies in a slot while ``chunk`` runs; -1 for none."""
    if slot < sink:
        return slot if slot <= chunk else -1
    back = (chunk - slot) % cycle  # (chunk - sink) - (slot - sink)
    found = chunk - back
    return found if found >= sink else -1
