# SPDX-License-Identifier: Apache-2.0
"""
Rows of all streams of one model and one period: what forms batches together, and its time.

What further rows would cost is kept for every device and block and changed only where a row comes
or goes: a decision asks for it hundreds of times.
"""

from __future__ import annotations

from copy import copy

import numpy as np
import numpy.typing as npt

from physis_ros.engine.demand import Demand, Rank
from physis_ros.types import FloatArray

_ROWS = 64


class Beat:
    """
    The books of one model at one period. Not thread-safe.

    :param speed: of each device.
    """

    def __init__(self, demand: Demand, speed: FloatArray) -> None:
        self.model, self.slo_s = demand.model, demand.slo_s
        self.rows: npt.NDArray[np.int64] = np.zeros((len(speed), demand.model.blocks), np.int64)
        self._extra_s: FloatArray = np.zeros(len(speed))
        self._share = 1.0 / (speed * demand.slo_s)
        self._blocks = np.arange(demand.model.blocks)
        self._grow(_ROWS)

    def fit(self) -> None:
        """Make the tables long enough for one stream more."""
        most = int(self.rows.max(initial=0))
        if most + self.model.passes > self._limit:
            self._grow(2 * self._limit)

    def padded(self, speed: FloatArray) -> Beat:
        """Return the same with more, empty devices, given the speeds of all."""
        other, count = copy(self), len(speed) - len(self._share)
        other.rows = np.pad(self.rows, ((0, count), (0, 0)))
        other._extra_s = np.pad(self._extra_s, (0, count))
        other._share = 1.0 / (speed * self.slo_s)
        other._more = {}
        return other

    def load(self, device: int) -> float:
        """Return the share of a device's time that all rows on it take."""
        batches = self._table[self._blocks, self.rows[device]].sum()
        return float((batches + self._extra_s[device]) * self._share[device])

    def added(self, group: Rank) -> FloatArray:
        """Return the share of time that one rank more would take, for each device."""
        total: FloatArray
        if group.single >= 0:
            total = self._further(group.rows[0])[group.single]
        else:
            parts = [self._further(rows)[blocks].sum(axis=0) for rows, blocks in group.by_rows]
            total = parts[0] if len(parts) == 1 else np.sum(parts, axis=0)
        return total + group.extra_s * self._share if group.extra_s else total

    def added_on(self, device: int, group: Rank) -> float:
        """Return the same for one device."""
        extra = group.extra_s * self._share[device]
        if group.single >= 0:
            return float(self._further(group.rows[0])[group.single, device] + extra)
        parts = (self._further(rows)[blocks, device].sum() for rows, blocks in group.by_rows)
        return float(sum(parts) + extra)

    def count(self, device: int, group: Rank, sign: int) -> None:
        """Enter a rank into the books of a device, or strike it out."""
        self._extra_s[device] += sign * group.extra_s
        blocks, table, share = group.index, self._table, self._share[device]
        self.rows[device, blocks] += sign * group.amount
        now = self.rows[device, blocks]
        for rows, further in self._more.items():
            further[blocks, device] = (table[blocks, now + rows] - table[blocks, now]) * share

    def _grow(self, rows: int) -> None:
        self._table, self._limit = self.model.tables(rows + self.model.passes), rows
        self._more: dict[int, FloatArray] = {}
        # No row can add less than the flattest piece of its block's curve.
        flattest = np.diff(self._table, axis=1).min(axis=1).sum()
        self.least_s = self.model.passes * float(flattest)

    def _further(self, rows: int) -> FloatArray:
        """Return the share of time that so many rows more of a block take, [blocks, devices]."""
        found = self._more.get(rows)
        if found is None:
            blocks, now = self._blocks[:, None], self.rows.T
            found = (self._table[blocks, now + rows] - self._table[blocks, now]) * self._share
            self._more[rows] = found
        return found
