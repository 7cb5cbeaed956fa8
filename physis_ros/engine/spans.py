# SPDX-License-Identifier: Apache-2.0
"""
What workers say of every task: one fixed record in a shared ring, read by the pool (E14).

The ring loses the newest records when nobody reads, and counts them; it never holds a worker up.
"""

from __future__ import annotations

import struct
from typing import NamedTuple

from physis_ros.engine.arena import LINE, WORD, Arena

_STRUCT = struct.Struct('=HHHHiIIIqqqqqqq')
_RECORD = 80
_WRITTEN, _READ, _LOST = 0, 8, 1
_HEAD_WORDS = 2 * LINE // WORD


class Span(NamedTuple):
    """
    One task at one stage; all times steady nanoseconds.

    :param source: the worker its state came from, ``task.LOCAL`` for the same one.
    :param batch: rows it was computed with, itself included.
    :param block: the block; ``blocks`` of the model for the decoding at the end.
    :param bytes: size of the state that came over the hop.
    :param sent_ns: when the source handed it over.
    :param queued_ns: when it was received, or handed on within the worker.
    :param overhead_ns: the worker's own time around its previous batch, per task.
    """

    worker: int
    source: int
    batch: int
    stream: int
    step: int
    block: int
    bytes: int
    era: int
    chunk: int
    sent_ns: int
    queued_ns: int
    started_ns: int
    ended_ns: int
    overhead_ns: int


def ring_bytes(records: int) -> int:
    """Return the size of a ring."""
    return _HEAD_WORDS * WORD + records * _RECORD


class SpanRing:
    """
    One end of a worker's ring.

    :param arena: the pool's memory.
    :param offset: where the ring begins in it.
    :param records: its capacity.
    """

    def __init__(self, arena: Arena, offset: int, records: int) -> None:
        self._words = arena.words(offset, _HEAD_WORDS)
        self._buffer, self._records = arena.buffer, records
        self._first = offset + _HEAD_WORDS * WORD
        self._written, self._read = self._words[_WRITTEN], self._words[_READ]

    def write(
        self, worker: int, source: int, batch: int, stream: int, step: int, block: int,
        size: int, era: int, chunk: int, sent_ns: int, queued_ns: int, started_ns: int,
        ended_ns: int, overhead_ns: int,
    ) -> None:  # fmt: skip
        """Add a record, or count it as lost; fields as in :class:`Span`."""
        if self._written - self._words[_READ] >= self._records:
            self._words[_LOST] += 1
            return
        _STRUCT.pack_into(
            self._buffer, self._first + self._written % self._records * _RECORD,
            worker, source, batch, 0, stream, step, block, size, era, chunk,
            sent_ns, queued_ns, started_ns, ended_ns, overhead_ns,
        )  # fmt: skip
        self._written += 1
        self._words[_WRITTEN] = self._written

    def drain(self) -> list[Span]:
        """Take all records there are."""
        spans = []
        end = self._words[_WRITTEN]
        while self._read < end:
            at = self._first + self._read % self._records * _RECORD
            worker, source, batch, _, *rest = _STRUCT.unpack_from(self._buffer, at)
            spans.append(Span(worker, source, batch, *rest))
            self._read += 1
        self._words[_READ] = self._read
        return spans

    @property
    def lost(self) -> int:
        """Records lost so far."""
        return self._words[_LOST]
