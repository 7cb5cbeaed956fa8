# SPDX-License-Identifier: Apache-2.0
"""
The notice board: what every worker may read at any time, written by the pool alone.

For each stream its *era* and its observations. An era is one number for a stream's life (between
open and close) and epoch (between resets): what bears another era is dead wherever it is met
(E12). Each chunk in flight has a few slots of its own, for the observation that it entered with
and for newer ones (E11), so nothing is written over while a chunk may still read it. A version
says which slot an observation lies in, and is never given twice.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

from physis_ros.backbones.base import PREFIX_WEIGHT, InputSpec
from physis_ros.engine.arena import LINE, WORD, Arena, aligned, tensor_bytes
from physis_ros.errors import EngineError, ObservationError

_EPOCH_BITS = 32
CLOSED = -1
# Words of a stream's head; from _NEWEST on one for each chunk in flight.
_ERA, _CHUNKS, _NEWEST = range(3)
# Words of the label of an observation.
_VERSION, _PREFIXED = range(2)


def era_of(life: int, epoch: int) -> int:
    """Join a stream's life and epoch."""
    return (life << _EPOCH_BITS) | epoch


def epoch_of(era: int) -> int:
    """Return the epoch within an era."""
    return era & ((1 << _EPOCH_BITS) - 1)


@dataclass(frozen=True)
class BoardShape:
    """
    Size of the board.

    :param streams: most streams at once.
    :param chunks: most chunks of each in flight.
    :param views: most observations that one chunk is shown, the first included.
    :param inputs: what an observation consists of.
    :param commits: what a commit adds to it.
    """

    streams: int
    chunks: int
    views: int
    inputs: tuple[InputSpec, ...]
    commits: tuple[InputSpec, ...] = ()

    @property
    def slots(self) -> int:
        """Observations kept for each stream."""
        return self.chunks * self.views

    @property
    def head_bytes(self) -> int:
        """The words of one stream."""
        return aligned((_NEWEST + self.chunks) * WORD)

    @property
    def slot_bytes(self) -> int:
        """Its version, whether it holds committed actions, and one observation."""
        parts = (*self.inputs, *self.commits)
        return LINE + sum(aligned(tensor_bytes(i.shape, i.dtype)) for i in parts)

    @property
    def stream_bytes(self) -> int:
        """Everything of one stream."""
        return self.head_bytes + self.slots * self.slot_bytes

    @property
    def bytes(self) -> int:
        """The whole board."""
        return self.streams * self.stream_bytes


class Board:
    """
    The board, mapped.

    :param arena: the pool's memory.
    :param offset: where the board begins in it.
    :param shape: its size.
    """

    def __init__(self, arena: Arena, offset: int, shape: BoardShape) -> None:
        self._shape = shape
        heads = [offset + i * shape.stream_bytes for i in range(shape.streams)]
        self._heads = [arena.words(at, shape.head_bytes // WORD) for at in heads]
        steps = [shape.head_bytes + i * shape.slot_bytes for i in range(shape.slots)]
        self._labels = [[arena.words(at + step, _PREFIXED + 1) for step in steps] for at in heads]
        self._inputs = [[_views(arena, at + step + LINE, shape) for step in steps] for at in heads]

    def era(self, stream: int) -> int:
        """Return the era that is alive; ``CLOSED`` when the stream is not open."""
        return self._heads[stream][_ERA]

    def set_era(self, stream: int, era: int) -> None:
        """Begin an era; everything of older ones is dead from here on."""
        self._heads[stream][_ERA] = era

    def newest(self, stream: int, version: int) -> int:
        """Return the newest observation that was shown to the chunk which was shown this one."""
        return self._heads[stream][self._place(version)]

    def all_newest(self, stream: int) -> list[int]:
        """Return the same for each chunk that may be in flight."""
        head = self._heads[stream]
        places = range(_NEWEST, _NEWEST + self._shape.chunks)
        return [head[place] for place in places if head[place]]

    def post(
        self, stream: int, inputs: Mapping[str, npt.NDArray[Any]], commit: bool = False
    ) -> int:
        """
        Put up the observation that a chunk or a commit enters with.

        :param commit: it also says what really happened.
        :raises ObservationError: on a missing, foreign or misshapen input; nothing changes then.
        :returns: its version.
        """
        self._check(inputs, commit)
        chunks = self._heads[stream][_CHUNKS] + 1
        self._heads[stream][_CHUNKS] = chunks
        return self._put(stream, chunks * self._shape.views, inputs)

    def renew(self, stream: int, version: int, inputs: Mapping[str, npt.NDArray[Any]]) -> int:
        """
        Show a newer observation to a chunk in flight.

        :param version: of what it entered with.
        :raises ObservationError: as :meth:`post`.
        :raises EngineError: when it has been shown as many as it has slots.
        :returns: the newer one's version.
        """
        self._check(inputs, False)
        newer, views = self.newest(stream, version) + 1, self._shape.views
        if newer // views != version // views:
            raise EngineError(
                f'newer observations for one chunk must be at most {views - 1}, got one more; '
                f'nothing may be written over while it is in use: observe less often'
            )
        return self._put(stream, newer, inputs)

    def _put(self, stream: int, version: int, inputs: Mapping[str, npt.NDArray[Any]]) -> int:
        slot = version % self._shape.slots
        self._labels[stream][slot][_VERSION] = 0
        views = self._inputs[stream][slot]
        for name, value in inputs.items():
            views[name][0].copy_(torch.from_numpy(np.asarray(value)))
        weight = inputs.get(PREFIX_WEIGHT)
        self._labels[stream][slot][_PREFIXED] = weight is not None and bool(np.any(weight))
        for spec in self._shape.inputs:
            if spec.name not in inputs:
                views[spec.name].zero_()
        self._labels[stream][slot][_VERSION] = version
        self._heads[stream][self._place(version)] = version
        return version

    def _place(self, version: int) -> int:
        return _NEWEST + version // self._shape.views % self._shape.chunks

    def inputs(self, stream: int, version: int) -> dict[str, Tensor]:
        """
        Return an observation where it lies, each input [1, *shape].

        It stays until its chunk is out, or dead; ask :meth:`holds` after use.
        """
        return self._inputs[stream][version % self._shape.slots]

    def prefixed(self, stream: int, version: int) -> bool:
        """Tell whether an observation holds committed actions; see :meth:`inputs`."""
        return bool(self._labels[stream][version % self._shape.slots][_PREFIXED])

    def holds(self, stream: int, version: int) -> bool:
        """Tell whether the slot still is that observation's."""
        return self._labels[stream][version % self._shape.slots][_VERSION] == version

    def _check(self, inputs: Mapping[str, npt.NDArray[Any]], commit: bool) -> None:
        parts = (*self._shape.inputs, *(self._shape.commits if commit else ()))
        wanted = {spec.name: tuple(spec.shape) for spec in parts}
        needed = {spec.name for spec in parts if not spec.optional}
        if not needed <= set(inputs) <= set(wanted):
            raise ObservationError(f'inputs must be {sorted(wanted)}, got {sorted(inputs)}')
        for name, value in inputs.items():
            if np.shape(value) != wanted[name]:
                raise ObservationError(
                    f'input {name} must have shape {wanted[name]}, got {np.shape(value)}'
                )


def _views(arena: Arena, offset: int, shape: BoardShape) -> dict[str, Tensor]:
    views = {}
    for spec in (*shape.inputs, *shape.commits):
        views[spec.name] = arena.tensor(offset, (1, *spec.shape), spec.dtype)
        offset += aligned(tensor_bytes(spec.shape, spec.dtype))
    return views
