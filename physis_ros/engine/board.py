# SPDX-License-Identifier: Apache-2.0
"""
The notice board: what every worker may read at any time, written by the pool alone.

For each stream its *era* and its newest observations. An era is one number for a stream's life
(between open and close) and epoch (between resets): what bears another era is dead wherever it is
met (E12). Observations lie in a few slots, each under a version that only grows (E11).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

from physis_ros.backbones.base import InputSpec
from physis_ros.engine.arena import LINE, WORD, Arena, aligned, tensor_bytes
from physis_ros.errors import ObservationError

_EPOCH_BITS = 32
CLOSED = -1
_ERA, _NEWEST = 0, 1


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
    :param slots: observations kept for each.
    :param inputs: what an observation consists of.
    :param commits: what a commit adds to it.
    """

    streams: int
    slots: int
    inputs: tuple[InputSpec, ...]
    commits: tuple[InputSpec, ...] = ()

    @property
    def slot_bytes(self) -> int:
        """One version word and one observation."""
        parts = (*self.inputs, *self.commits)
        return LINE + sum(aligned(tensor_bytes(i.shape, i.dtype)) for i in parts)

    @property
    def stream_bytes(self) -> int:
        """Everything of one stream."""
        return LINE + self.slots * self.slot_bytes

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
        self._heads = [arena.words(at, LINE // WORD) for at in heads]
        self._versions = [
            [arena.words(at + LINE + i * shape.slot_bytes, 1) for i in range(shape.slots)]
            for at in heads
        ]
        self._inputs = [
            [_views(arena, at + LINE + i * shape.slot_bytes + LINE, shape)
             for i in range(shape.slots)]
            for at in heads
        ]  # fmt: skip

    def era(self, stream: int) -> int:
        """Return the era that is alive; ``CLOSED`` when the stream is not open."""
        return self._heads[stream][_ERA]

    def set_era(self, stream: int, era: int) -> None:
        """Begin an era; everything of older ones is dead from here on."""
        self._heads[stream][_ERA] = era

    def newest(self, stream: int) -> int:
        """Return the version of the newest observation, 0 before the first."""
        return self._heads[stream][_NEWEST]

    def post(
        self, stream: int, inputs: Mapping[str, npt.NDArray[Any]], commit: bool = False
    ) -> int:
        """
        Put an observation up as the newest.

        :param commit: it also says what really happened.
        :raises ObservationError: on a missing, foreign or misshapen input; nothing changes then.
        :returns: its version.
        """
        self._check(inputs, commit)
        version = self.newest(stream) + 1
        slot = version % self._shape.slots
        self._versions[stream][slot][0] = 0
        views = self._inputs[stream][slot]
        for name, value in inputs.items():
            views[name][0].copy_(torch.from_numpy(np.asarray(value)))
        self._versions[stream][slot][0] = version
        self._heads[stream][_NEWEST] = version
        return version

    def inputs(self, stream: int, version: int) -> dict[str, Tensor]:
        """
        Return an observation where it lies, each input [1, *shape].

        It stays while no more than ``slots`` newer ones have come; ask :meth:`holds` after use.
        """
        return self._inputs[stream][version % self._shape.slots]

    def holds(self, stream: int, version: int) -> bool:
        """Tell whether the slot still is that observation's."""
        return self._versions[stream][version % self._shape.slots][0] == version

    def _check(self, inputs: Mapping[str, npt.NDArray[Any]], commit: bool) -> None:
        wanted = (*self._shape.inputs, *(self._shape.commits if commit else ()))
        names = {spec.name for spec in wanted}
        if set(inputs) != names:
            raise ObservationError(f'inputs must be {sorted(names)}, got {sorted(inputs)}')
        for spec in wanted:
            shape = np.shape(inputs[spec.name])
            if shape != tuple(spec.shape):
                raise ObservationError(
                    f'input {spec.name} must have shape {tuple(spec.shape)}, got {shape}'
                )


def _views(arena: Arena, offset: int, shape: BoardShape) -> dict[str, Tensor]:
    views = {}
    for spec in (*shape.inputs, *shape.commits):
        views[spec.name] = arena.tensor(offset, (1, *spec.shape), spec.dtype)
        offset += aligned(tensor_bytes(spec.shape, spec.dtype))
    return views
