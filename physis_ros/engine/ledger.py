# SPDX-License-Identifier: Apache-2.0
"""
What each device of a pool carries: bytes, share of its time, share of its links.

Kept up to date rank by rank, so that asking "where would this fit" costs a few array operations.
The three rules: bytes <= memory, batch times of a period <= the period, traffic <= the links.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from physis_ros.engine.beat import Beat
from physis_ros.engine.demand import Demand, Rank
from physis_ros.engine.devices import DevicePool
from physis_ros.engine.traffic import ONE, BoolArray, Change, Traffic
from physis_ros.types import FloatArray

IntArray = npt.NDArray[np.int64]
# Share of the time of a device that is lost: nothing fits beside it.
_NEVER_FREE = 2.0


class Bid(NamedTuple):
    """
    What carrying one rank on one device would mean.

    :param new_bytes: weights that are not there yet.
    :param bytes: used afterwards.
    :param busy: share of time afterwards.
    """

    device: int
    new_bytes: float
    bytes: float
    busy: float


class Offer(NamedTuple):
    """The same for each device, and which rules it would keep there."""

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

    def bid(self, device: int) -> Bid:
        """Return what it means on one device."""
        return Bid(
            device, float(self.new_bytes[device]), float(self.bytes[device]),
            float(self.busy[device]),
        )  # fmt: skip


@dataclass
class Receipt:
    """How to undo one rank's placement: what was there before."""

    demand: Demand
    rank: int
    device: int
    bytes: float
    busy: float
    moved: list[Change]


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
        # Memory of the devices that are lost.
        self._away: dict[int, float] = {}
        self.room = (1.0 - headroom) * ONE
        self._all = np.ones(n, np.bool_)
        self._traffic = Traffic(pool)
        self._beats: dict[tuple[str, float], Beat] = {}
        # By model, for each block and device: ranks that need it there, weights not there.
        self._copies: dict[str, IntArray] = {}
        self._absent: dict[str, FloatArray] = {}

    def begin(self, demand: Demand) -> None:
        """Make room in the books for a stream's model and period."""
        model, key = demand.model, (demand.model.name, demand.slo_s)
        if key not in self._beats:
            self._beats[key] = Beat(demand, self.speed)
        self._beats[key].fit()
        if model.name not in self._copies:
            shape = (model.blocks, len(self.pool))
            self._copies[model.name] = np.zeros(shape, np.int64)
            self._absent[model.name] = np.repeat(model.weights[:, None], len(self.pool), axis=1)

    def tidy(self) -> None:
        """Forget models and periods that nobody has."""
        self._beats = {k: beat for k, beat in self._beats.items() if beat.rows.any()}
        self._copies = {name: c for name, c in self._copies.items() if c.any()}
        self._absent = {name: self._absent[name] for name in self._copies}

    def hopeless(self, demand: Demand, able: BoolArray) -> str:
        """
        Name the rule that no order of devices can keep; empty when none is sure to break.

        :param able: devices that may be used.
        """
        if np.maximum(self.memory - self.used, 0.0)[able].sum() < demand.model.stream_bytes:
            return 'memory'
        beat = self._beats[demand.model.name, demand.slo_s]
        free = np.maximum(self.room - self.busy[able], 0.0) * self.speed[able]
        return 'time' if free.sum() * demand.slo_s < beat.least_s else ''

    @property
    def lost(self) -> int:
        """How many devices are lost."""
        return len(self._away)

    def retire(self, device: int) -> None:
        """Put nothing more on a device: it is lost. What it carries is released as ever."""
        self._away[device] = float(self.memory[device])
        self.memory[device], self.busy[device] = 1.0, _NEVER_FREE

    def restore(self, device: int) -> None:
        """Use a lost device again: it is back, and empty but for what was never released."""
        self.memory[device] = self._away.pop(device)
        self.busy[device] = self._load(device)

    def grown(self, count: int) -> Ledger:
        """Return the books of a pool with ``count`` more devices like the last."""
        other = Ledger(self.pool.grown(count))
        n, other.room, more = len(self.pool), self.room, ((0, 0), (0, count))
        for name in ('used', 'busy', 'memory'):
            getattr(other, name)[:n] = getattr(self, name)
        other._traffic = self._traffic.padded(other.pool)
        other._beats = {key: beat.padded(other.speed) for key, beat in self._beats.items()}
        other._copies = {name: np.pad(copies, more) for name, copies in self._copies.items()}
        # What the last device lacks may be there already: new devices lack everything.
        for (model, _), beat in self._beats.items():
            weights = np.repeat(beat.model.weights[:, None], count, axis=1)
            other._absent[model] = np.hstack([self._absent[model], weights])
        return other

    def hosts(self, model: str) -> BoolArray:
        """Return which devices hold any block of a model."""
        copies = self._copies.get(model)
        if copies is None:
            return ~self._all
        found: BoolArray = np.asarray(copies.any(axis=0), dtype=np.bool_)
        return found

    def offer(self, demand: Demand, rank: int, hosts: list[int]) -> Offer:
        """
        Say what a rank would mean on each device.

        :param hosts: devices of the ranks placed before it.
        """
        group, beat = demand.ranks[rank], self._beats[demand.model.name, demand.slo_s]
        new = self._absent[demand.model.name][group.index]
        new = new.copy() if group.single >= 0 else new.sum(axis=0)
        size = self.used + new
        size += group.kv_bytes
        link_ok: BoolArray = self._all
        for crossing in demand.inbound[rank]:
            receives, rate = crossing.target == rank, crossing.bytes / demand.slo_s
            host = hosts[crossing.source if receives else crossing.target]
            if receives:
                size += crossing.buffer_bytes
                size[host] -= crossing.buffer_bytes
            if not self._traffic.light(rate):
                link_ok = link_ok & self._traffic.fits(host, rate, receives)
            if not receives and self.used[host] + crossing.buffer_bytes > self.memory[host]:
                link_ok = link_ok & (np.arange(len(self.pool)) == host)
        busy = self.busy + beat.added(group)
        return Offer(new, size, busy, size <= self.memory, busy <= self.room, link_ok)

    def bid(self, demand: Demand, rank: int, device: int, hosts: list[int]) -> Bid | None:
        """Return the same for one device; None when it cannot carry the rank."""
        group, beat = demand.ranks[rank], self._beats[demand.model.name, demand.slo_s]
        new = self._absent[demand.model.name][group.index, device]
        if group.single < 0:
            new = new.sum()
        size = self.used[device] + new + group.kv_bytes
        for crossing in demand.inbound[rank]:
            receives, rate = crossing.target == rank, crossing.bytes / demand.slo_s
            host = hosts[crossing.source if receives else crossing.target]
            if host == device:
                continue
            if receives:
                size += crossing.buffer_bytes
            elif self.used[host] + crossing.buffer_bytes > self.memory[host]:
                return None
            light = self._traffic.light(rate)
            if not light and not self._traffic.fits(host, rate, receives)[device]:
                return None
        busy = self.busy[device] + beat.added_on(device, group)
        if size > self.memory[device] or busy > self.room:
            return None
        return Bid(device, float(new), float(size), float(busy))

    def take(self, demand: Demand, rank: int, bid: Bid, hosts: list[int]) -> Receipt:
        """Carry a rank on the device of a bid."""
        device = bid.device
        receipt = Receipt(demand, rank, device, self.used[device], self.busy[device], [])
        self._count(demand, demand.ranks[rank], device, 1)
        self.used[device], self.busy[device] = bid.bytes, bid.busy
        for crossing in demand.inbound[rank]:
            receives = crossing.target == rank
            host = hosts[crossing.source if receives else crossing.target]
            if host == device:
                continue
            source, target = (host, device) if receives else (device, host)
            receipt.moved += self._traffic.add(source, target, crossing.bytes / demand.slo_s)
            if not receives:
                receipt.moved.append((self.used, host, float(self.used[host])))
                self.used[host] += crossing.buffer_bytes
        return receipt

    def sound(self, receipt: Receipt) -> bool:
        """Tell whether what a placement moved beside its device still obeys the rules."""
        for array, i, _ in receipt.moved:
            if array[i] > (self.memory[i] if array is self.used else ONE):
                return False
        return True

    def undo(self, receipt: Receipt) -> None:
        """Forget the last placement; only the last can be undone."""
        for array, i, before in reversed(receipt.moved):
            array[i] = before
        self._count(receipt.demand, receipt.demand.ranks[receipt.rank], receipt.device, -1)
        self.used[receipt.device], self.busy[receipt.device] = receipt.bytes, receipt.busy

    def release(self, demand: Demand, hosts: tuple[int, ...]) -> None:
        """Give back everything a placed stream held."""
        name = demand.model.name
        for device in set(hosts):
            before = self._absent[name][:, device].sum()
            for group in (demand.ranks[r] for r, host in enumerate(hosts) if host == device):
                self._count(demand, group, device, -1)
                self.used[device] -= group.kv_bytes
            # Weights leave with the last rank that needs them.
            self.used[device] -= self._absent[name][:, device].sum() - before
            self.busy[device] = self._load(device)
        for crossing in demand.crossings:
            source, target = hosts[crossing.source], hosts[crossing.target]
            if source != target:
                self._traffic.drop(source, target, crossing.bytes / demand.slo_s)
                self.used[target] -= crossing.buffer_bytes
        self._traffic.settle()

    def _load(self, device: int) -> float:
        if device in self._away:
            return _NEVER_FREE
        return sum(beat.load(device) for beat in self._beats.values())

    def _count(self, demand: Demand, group: Rank, device: int, sign: int) -> None:
        model, blocks = demand.model, group.index
        self._beats[model.name, demand.slo_s].count(device, group, sign)
        copies = self._copies[model.name]
        copies[blocks, device] += sign
        self._absent[model.name][blocks, device] = model.weights[blocks] * (
            copies[blocks, device] == 0
        )
