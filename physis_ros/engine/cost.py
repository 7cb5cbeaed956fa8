# SPDX-License-Identifier: Apache-2.0
"""
What a model costs: time of a batch, bytes of weights, KV and hidden states.

Plain numbers, whether measured (a profile) or derived (device assumptions). Knows no device but
the one of speed 1, no stream and no torch.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np

from physis_ros.errors import ParameterError
from physis_ros.types import FloatArray

# Slots of each mailbox between two workers, unless a pool is asked for others.
MAILBOX_DEPTH = 4
# No batch is larger.
MOST_ROWS = 1024


@dataclass(frozen=True)
class BatchCurve:
    """
    Time of one block's batch by its number of rows.

    :param times_s: seconds; the first is for one row, each further one for one row more.
    """

    times_s: tuple[float, ...]

    def __post_init__(self) -> None:
        """
        Refuse an empty curve and times that are not above zero.

        :raises ParameterError: naming the curve.
        """
        if not self.times_s or not all(0 < t < float('inf') for t in self.times_s):
            raise ParameterError('times_s', 'finite seconds > 0, at least one', self.times_s)

    @property
    def limit(self) -> int:
        """Rows of the largest batch it knows."""
        return len(self.times_s)

    def table(self, rows: int) -> FloatArray:
        """
        Return the least time for 0 .. ``rows`` rows, cut into batches in the best way.

        A curve may bend upwards: two batches can then be quicker than one.
        """
        least = np.zeros(rows + 1)
        times = np.array(self.times_s)
        for n in range(1, rows + 1):
            most = min(n, self.limit)
            least[n] = (times[:most] + least[n - 1 :: -1][:most]).min()
        return least

    @classmethod
    def affine(cls, fixed_s: float, row_s: float, rows: int) -> BatchCurve:
        """Return the curve ``fixed_s + row_s * rows``, up to a batch of ``rows``."""
        return cls(tuple(fixed_s + row_s * n for n in range(1, rows + 1)))


@dataclass(frozen=True)
class ModelCost:
    """
    Everything placement, admission and plan need to know of a model.

    :param name: of the model; streams of one name share weights.
    :param passes: passes of a chunk through the blocks.
    :param weight_bytes: for each block; what only the first or last block's owner needs (stem,
        decoder) counts there.
    :param kv_bytes: KV memory of one (stream, pass, block).
    :param hidden_bytes: what goes from block to block.
    :param latent_bytes: what goes from pass to pass.
    :param curves: batch time for each block, on a device of speed 1.
    :param entry_s: work once a chunk on each device that enters a step (encoding).
    :param exit_s: work once a chunk at its last stage (decoding).
    :param mailbox_depth: receive slots for each hop between two devices.
    :param overlaps: whether a chunk may enter before its predecessor is out.
    :param crowding: time of a batch while other devices of the node compute, over time alone.
    :param deliver_s: a result's way from its device to whoever collects it; None: that of a hop.
    :param turn_s: from a chunk's delivery to the entry of one that waited for its place.
    """

    name: str
    passes: int
    weight_bytes: tuple[int, ...]
    kv_bytes: int
    hidden_bytes: int
    latent_bytes: int
    curves: tuple[BatchCurve, ...]
    entry_s: float = 0.0
    exit_s: float = 0.0
    mailbox_depth: int = MAILBOX_DEPTH
    overlaps: bool = True
    crowding: float = 1.0
    deliver_s: float | None = None
    turn_s: float = 0.0

    def __post_init__(self) -> None:
        """
        Refuse sizes that do not fit each other.

        :raises ParameterError: naming the size.
        """
        if self.passes < 1:
            raise ParameterError('passes', '>= 1', self.passes)
        if not self.weight_bytes or len(self.curves) != len(self.weight_bytes):
            raise ParameterError(
                'curves', f'one for each of {len(self.weight_bytes)} blocks', len(self.curves)
            )
        if not self.crowding >= 1:
            raise ParameterError('crowding', '>= 1', self.crowding)
        sizes = (*self.weight_bytes, self.kv_bytes, self.hidden_bytes, self.latent_bytes)
        if min(sizes) < 0:
            raise ParameterError('sizes in bytes', '>= 0', min(sizes))

    @property
    def blocks(self) -> int:
        """Transformer blocks L."""
        return len(self.weight_bytes)

    @property
    def stages(self) -> int:
        """Stages of a chunk."""
        return self.passes * self.blocks

    @property
    def stream_bytes(self) -> int:
        """KV memory of a whole stream."""
        return self.kv_bytes * self.stages

    @cached_property
    def serial_s(self) -> float:
        """Time of one chunk, stage after stage, alone on a device of speed 1."""
        alone = self.passes * sum(curve.times_s[0] for curve in self.curves)
        return alone + self.entry_s + self.exit_s

    @cached_property
    def weights(self) -> FloatArray:
        """Bytes of each block, as an array."""
        return np.array(self.weight_bytes, dtype=np.float64)

    def tables(self, rows: int) -> FloatArray:
        """
        Return the least time of each block for 0 .. ``rows`` rows, [blocks, rows + 1].

        Passes of chunks that do not overlap come one after the other: they share no batch.
        """
        if not self.overlaps:
            alone = np.array([curve.times_s[0] for curve in self.curves])
            return np.outer(alone, np.arange(rows + 1))
        known: dict[BatchCurve, FloatArray] = {}
        for curve in self.curves:
            if curve not in known:
                known[curve] = curve.table(rows)
        return np.stack([known[curve] for curve in self.curves])
