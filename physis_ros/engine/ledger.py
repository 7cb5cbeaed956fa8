# SPDX-License-Identifier: Apache-2.0
"""
What each device of a pool carries: bytes, share of its time, share of its links.

Kept up to date rank by rank, so that asking "where would this fit" costs a few array operations.
The three rules: bytes <= memory, batch times of a period <= the period, traffic <= the links.
"""

from __future__ import annotations

from copy import copy
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from physis_ros.engine.demand import Crossing, Demand, Rank
from physis_ros.engine.devices import DevicePool
from physis_ros.types import FloatArray

IntArray = npt.NDArray[np.int64]
BoolArray = npt.NDArray[np.bool_]

# Shares are sums of quotients: equality must not hang on their last bit.
_ONE = 1.0 + 1e-9
_ROWS = 64


class Offer(NamedTuple):
    """
    What carrying one rank would mean on each device.

    :param new_bytes: weights that are not there yet.
    :param bytes: used afterwards.
    :param busy: share of time afterwards.
    """

    new_bytes: FloatArray
    bytes: FloatArray
    busy: FloatArray
    memory_ok: BoolArray
    time_ok: BoolArray
    link_ok: BoolArray

    @property
    def fits(self) -> BoolArray:
        """Devices that can carry it."""
        return self.memory_ok & self.time_ok & self.link_ok

    def fits_but(self, ignore: frozenset[str]) -> BoolArray:
        """Return devices that could carry it were it not for these rules."""
        if not ignore:
            return self.fits
        rules = {'memory': self.memory_ok, 'time': self.time_ok, 'link': self.link_ok}
        fits = np.ones_like(self.link_ok)
        for name, ok in rules.items():
            if name not in ignore:
                fits &= ok
        return fits


class _Beat:
    """Rows of all streams of one model and one period: what forms batches together."""

    def __init__(self, demand: Demand, devices: int) -> None:
        self.model, self.slo_s = demand.model, demand.slo_s
        self.rows: IntArray = np.zeros((devices, demand.model.blocks), dtype=np.int64)
        self.extra_s: FloatArray = np.zeros(devices)
        self.grow(_ROWS)

    def grow(self, rows: int) -> None:
        self.table = self.model.tables(rows)
        self.limit = rows

    def padded(self, count: int) -> _Beat:
        other = copy(self)
        other.rows = np.pad(self.rows, ((0, count), (0, 0)))
        other.extra_s = np.pad(self.extra_s, (0, count))
        return other

    def load(self, device: int) -> float:
        blocks = np.arange(self.model.blocks)
        batches = self.table[blocks, self.rows[device]].sum()
        return float(batches + self.extra_s[device]) / self.slo_s


@dataclass
class Receipt:
    """How to undo one rank's placement: what was there before."""

    demand: Demand
    rank: int
    device: int
    bytes: float
    busy: float
    moved: list[tuple[FloatArray, int, float]]


class Ledger:
    """
    The books of a pool. Not thread-safe.

    :param headroom: share of each device's time that stays free.
    """

    def __init__(self, pool: DevicePool, headroom: float = 0.0) -> None:
        self.pool = pool
        n = len(pool)
        self.memory = np.array([d.memory_bytes for d in pool.devices], dtype=np.float64)
        self.speed = np.array([d.speed for d in pool.devices])
        self.used, self.busy = np.zeros(n), np.zeros(n)
        self.lost = 0
        self.room = (1.0 - headroom) * _ONE
        nodes = [d.node for d in pool.devices]
        self._same = np.array([[a == b for b in nodes] for a in nodes])
        self._inverse = np.array(
            [[1 / d.uplink_bytes_per_s for d in pool.devices],
             [1 / d.link_bytes_per_s for d in pool.devices]]
        )  # fmt: skip
        # Shares of [uplink, link] in use.
        self._out, self._in = np.zeros((2, n)), np.zeros((2, n))
        # No share is above the peak: most offers then need no look at single links.
        self._peak, self._slowest = 0.0, float(self._inverse.max())
        self._index = np.arange(n)
        self._beats: dict[tuple[str, float], _Beat] = {}
        self._copies: dict[str, IntArray] = {}

    def begin(self, demand: Demand) -> None:
        """Make room in the books for a stream's model and period."""
        key = (demand.model.name, demand.slo_s)
        if key not in self._beats:
            self._beats[key] = _Beat(demand, len(self.pool))
        if demand.model.name not in self._copies:
            shape = (len(self.pool), demand.model.blocks)
            self._copies[demand.model.name] = np.zeros(shape, dtype=np.int64)
        beat = self._beats[key]
        if beat.rows.max(initial=0) + demand.model.passes > beat.limit:
            beat.grow(2 * beat.limit)

    def tidy(self) -> None:
        """Forget models and periods that nobody has."""
        self._beats = {k: beat for k, beat in self._beats.items() if beat.rows.any()}
        self._copies = {name: c for name, c in self._copies.items() if c.any()}

    def hopeless(self, demand: Demand, able: BoolArray) -> str:
        """
        Name the rule that no order of devices can keep; empty when none is sure to break.

        :param able: devices that may be used.
        """
        if (self.memory - self.used)[able].sum() < demand.model.stream_bytes:
            return 'memory'
        beat = self._beats[demand.model.name, demand.slo_s]
        # No row can add less than the flattest piece of its block's curve.
        least_s = demand.model.passes * float(np.diff(beat.table, axis=1).min(axis=1).sum())
        free = np.maximum(self.room - self.busy[able], 0.0) * self.speed[able]
        return 'time' if free.sum() * demand.slo_s < least_s else ''

    def retire(self, device: int) -> None:
        """Put nothing more on a device: it is lost. What it carries is released as ever."""
        self.memory[device], self.busy[device] = 1.0, 2.0
        self.lost += 1

    def grown(self, count: int) -> Ledger:
        """Return the books of a pool with ``count`` more devices like the last."""
        other = Ledger(self.pool.grown(count))
        n, other.room = len(self.pool), self.room
        for name in ('used', 'busy'):
            getattr(other, name)[:n] = getattr(self, name)
        other._out[:, :n], other._in[:, :n] = self._out, self._in
        other._peak = self._peak
        other.memory[:n] = self.memory
        for key, beat in self._beats.items():
            other._beats[key] = beat.padded(count)
        for model, copies in self._copies.items():
            other._copies[model] = np.pad(copies, ((0, count), (0, 0)))
        return other

    def hosts(self, model: str) -> BoolArray:
        """Return which devices hold any block of a model."""
        copies = self._copies.get(model)
        if copies is None:
            return np.zeros(len(self.pool), dtype=np.bool_)
        found: BoolArray = np.asarray(copies.any(axis=1), dtype=np.bool_)
        return found

    def offer(self, demand: Demand, rank: int, hosts: list[int]) -> Offer:
        """
        Say what a rank would mean on each device.

        :param hosts: devices of the ranks placed before it.
        """
        group = demand.ranks[rank]
        new = self._missing(demand, group)
        size = self.used + new + group.kv_bytes
        link_ok = np.ones(len(self.pool), bool)
        for crossing in demand.inbound[rank]:
            self._check_link(demand, crossing, rank, hosts, size, link_ok)
        busy = self.busy + self._time(demand, group)
        return Offer(new, size, busy, size <= self.memory, busy <= self.room, link_ok)

    def take(
        self, demand: Demand, rank: int, device: int, offer: Offer, hosts: list[int]
    ) -> Receipt:
        """Carry a rank on a device."""
        receipt = Receipt(demand, rank, device, self.used[device], self.busy[device], [])
        self._count(demand, rank, device, 1)
        self.used[device], self.busy[device] = offer.bytes[device], offer.busy[device]
        for crossing in demand.inbound[rank]:
            self._send(demand, crossing, rank, device, hosts, receipt)
        return receipt

    def sound(self, receipt: Receipt) -> bool:
        """Tell whether what a placement moved beside its device still obeys the rules."""
        return all(
            array[i] <= (self.memory[i] if array is self.used else _ONE)
            for array, i, _ in receipt.moved
        )

    def undo(self, receipt: Receipt) -> None:
        """Forget the last placement; only the last can be undone."""
        for array, i, before in reversed(receipt.moved):
            array[i] = before
        self._count(receipt.demand, receipt.rank, receipt.device, -1)
        self.used[receipt.device], self.busy[receipt.device] = receipt.bytes, receipt.busy

    def release(self, demand: Demand, hosts: tuple[int, ...]) -> None:
        """Give back everything a placed stream held."""
        for rank, device in enumerate(hosts):
            self._count(demand, rank, device, -1)
        copies = self._copies[demand.model.name]
        for rank, device in enumerate(hosts):
            group = demand.ranks[rank]
            self.used[device] -= group.kv_bytes
            # Weights leave with the last rank that needs them; ranks may share a block.
            gone = [b for b in group.blocks if copies[device, b] == 0]
            copies[device, gone] = -1
            self.used[device] -= demand.model.weights[gone].sum()
        for device in set(hosts):
            np.maximum(copies[device], 0, out=copies[device])
            self.busy[device] = sum(
                beat.load(device) / self.speed[device] for beat in self._beats.values()
            )
        for crossing in demand.crossings:
            self._unsend(demand, crossing, hosts[crossing.source], hosts[crossing.target])
        self._peak = float(max(self._out.max(), self._in.max()))

    # Parts of an offer.

    def _missing(self, demand: Demand, group: Rank) -> FloatArray:
        copies = self._copies[demand.model.name]
        if group.single >= 0:
            absent = copies[:, group.single] == 0
            alone: FloatArray = absent * demand.model.weights[group.single]
            return alone
        absent = copies[:, group.block_array] == 0
        missing: FloatArray = absent @ demand.model.weights[group.block_array]
        return missing

    def _time(self, demand: Demand, group: Rank) -> FloatArray:
        beat = self._beats[demand.model.name, demand.slo_s]
        if group.single >= 0:
            row_times, present = beat.table[group.single], beat.rows[:, group.single]
            more = row_times[present + group.rows[0]] - row_times[present] + group.extra_s
            single: FloatArray = more / (self.speed * demand.slo_s)
            return single
        blocks, rows = group.block_array, beat.rows[:, group.block_array]
        added = beat.table[blocks, rows + group.row_array] - beat.table[blocks, rows]
        share: FloatArray = (added.sum(axis=1) + group.extra_s) / (self.speed * demand.slo_s)
        return share

    def _check_link(
        self,
        demand: Demand,
        crossing: Crossing,
        rank: int,
        hosts: list[int],
        size: FloatArray,
        link_ok: BoolArray,
    ) -> None:
        receives = crossing.target == rank
        host = hosts[crossing.source if receives else crossing.target]
        rate = crossing.bytes / demand.slo_s
        if receives:
            size += crossing.buffer_bytes
            size[host] -= crossing.buffer_bytes
            if self._peak + rate * self._slowest <= 1.0:
                return
        kind = self._same[host].astype(np.intp)
        mine, theirs = (self._in, self._out) if receives else (self._out, self._in)
        ok = mine[kind, self._index] + rate * self._inverse[kind, self._index] <= _ONE
        ok &= (theirs[:, host] + rate * self._inverse[:, host] <= _ONE)[kind]
        if not receives and self.used[host] + crossing.buffer_bytes > self.memory[host]:
            ok[:] = False
        ok[host] = True
        link_ok &= ok

    # Writing the books.

    def _count(self, demand: Demand, rank: int, device: int, sign: int) -> None:
        group = demand.ranks[rank]
        beat = self._beats[demand.model.name, demand.slo_s]
        copies = self._copies[demand.model.name]
        beat.extra_s[device] += sign * group.extra_s
        if group.single >= 0:
            beat.rows[device, group.single] += sign * group.rows[0]
            copies[device, group.single] += sign
            return
        beat.rows[device, group.block_array] += sign * group.row_array
        copies[device, group.block_array] += sign

    def _send(
        self,
        demand: Demand,
        crossing: Crossing,
        rank: int,
        device: int,
        hosts: list[int],
        receipt: Receipt,
    ) -> None:
        source = device if crossing.source == rank else hosts[crossing.source]
        target = device if crossing.target == rank else hosts[crossing.target]
        if source == target:
            return
        kind, rate = int(self._same[source, target]), crossing.bytes / demand.slo_s
        for array, i in ((self._out[kind], source), (self._in[kind], target)):
            receipt.moved.append((array, i, float(array[i])))
            array[i] += rate * self._inverse[kind, i]
            self._peak = max(self._peak, float(array[i]))
        if target != device:
            receipt.moved.append((self.used, target, float(self.used[target])))
            self.used[target] += crossing.buffer_bytes

    def _unsend(self, demand: Demand, crossing: Crossing, source: int, target: int) -> None:
        if source == target:
            return
        kind, rate = int(self._same[source, target]), crossing.bytes / demand.slo_s
        for use, i in ((self._out[kind], source), (self._in[kind], target)):
            use[i] = max(0.0, use[i] - rate * self._inverse[kind, i])
        self.used[target] -= crossing.buffer_bytes
