# SPDX-License-Identifier: Apache-2.0
"""
Where the ranks of one stream go: Best-Fit with limited discrepancy search. Pure.

All ranks or none; what runs is never moved. Same books and same demand give the same answer. The
search is bounded by a number of offers looked at, not by a clock.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from enum import Enum
from itertools import pairwise

import numpy as np
import numpy.typing as npt

from physis_ros.engine.demand import Demand
from physis_ros.engine.ledger import BoolArray, Ledger, Offer, Receipt
from physis_ros.types import FloatArray

OFFERS = 800
DEPARTURES = 2
_WIDTH = 3


class Order(Enum):
    """
    What makes a device the first choice for a rank.

    ``FULLEST``: Best-Fit, the fullest that still fits. ``COPIES``: the one that needs the fewest
    bytes of new weights, then the fullest.
    """

    FULLEST = 'fullest'
    COPIES = 'copies'


@dataclass(frozen=True)
class Placement:
    """
    A stream's place.

    :param hosts: device of each rank.
    :param new_bytes: weights that had to be copied.
    """

    demand: Demand
    hosts: tuple[int, ...]
    new_bytes: float

    @property
    def devices(self) -> tuple[int, ...]:
        """Devices used, ascending."""
        return tuple(sorted(set(self.hosts)))

    @property
    def hops(self) -> int:
        """How many times a chunk goes from one device to another."""
        where = [self.hosts[rank] for rank in self.demand.owner]
        return sum(a != b for a, b in pairwise(where))


@dataclass
class DeadEnd:
    """
    The furthest point a failed search came to.

    :param rank: the rank that fitted nowhere; -1 when the search never failed.
    :param offer: what it would have meant.
    """

    rank: int = -1
    offer: Offer | None = None


@dataclass
class _Level:
    """What may still be tried at one rank."""

    offer: Offer
    devices: Sequence[int]
    departures: int
    next: int = 0


@dataclass
class Search:
    """
    One search over the books; leaves them as they were unless told to keep a placement.

    :param order: of devices.
    :param homes: for each rank the device to try first, -1 for none.
    :param only: devices that may be used; empty: all.
    :param offers: how many offers to look at, at most.
    :param ignore: rules taken as kept: ``memory``, ``time``, ``link``. For asking what binds.
    """

    ledger: Ledger
    demand: Demand
    order: Order = Order.COPIES
    homes: Sequence[int] = ()
    only: Sequence[int] = ()
    offers: int = OFFERS
    ignore: frozenset[str] = frozenset()
    dead_end: DeadEnd = field(default_factory=DeadEnd)

    def __post_init__(self) -> None:
        """Prepare the books."""
        self.ledger.begin(self.demand)
        self._receipts: list[Receipt] = []
        self._new_bytes: list[float] = []
        self._left = max(self.offers, len(self.demand.ranks))
        self._barred = np.ones(len(self.ledger.pool), bool)
        self._barred[list(self.only) or slice(None)] = False

    @property
    def able(self) -> BoolArray:
        """Devices that may be used."""
        return ~self._barred

    def run(self, departures: int = DEPARTURES) -> Placement | None:
        """
        Look for a place, at most so many departures from the first choice; books unchanged.

        :returns: the first placement with the fewest departures, None when there is none within
            the bounds.
        """
        hopeless = self.ledger.hopeless(self.demand, self.able)
        if hopeless and hopeless not in self.ignore:
            # One greedy round says where it breaks.
            departures = 0
        for allowed in range(departures + 1):
            if self._look(allowed):
                return self._unwind()
            if self._left <= 0:
                break
        return None

    def _unwind(self) -> Placement:
        hosts = tuple(receipt.device for receipt in self._receipts)
        placement = Placement(self.demand, hosts, sum(self._new_bytes))
        while self._receipts:
            self.ledger.undo(self._receipts.pop())
        self._new_bytes.clear()
        return placement

    def _look(self, departures: int) -> bool:
        hosts: list[int] = []
        levels = [self._level(hosts, departures)]
        while levels:
            level = levels[-1]
            if level.next == len(level.devices):
                levels.pop()
                if hosts:
                    self._back(hosts)
                continue
            left = level.departures - (level.next > 0)
            level.next += 1
            if not self._step(hosts, level.devices[level.next - 1], level.offer):
                continue
            if len(hosts) == len(self.demand.ranks):
                return True
            levels.append(self._level(hosts, left))
        return False

    def _level(self, hosts: list[int], departures: int) -> _Level:
        offer = self.ledger.offer(self.demand, len(hosts), hosts)
        devices = self._choices(len(hosts), offer, departures) if self._left > 0 else ()
        self._left -= 1
        return _Level(offer, devices, departures)

    def _step(self, hosts: list[int], device: int, offer: Offer) -> bool:
        receipt = self.ledger.take(self.demand, len(hosts), device, offer, hosts)
        self._receipts.append(receipt)
        self._new_bytes.append(float(offer.new_bytes[device]))
        hosts.append(device)
        if self.ignore or self.ledger.sound(receipt):
            return True
        self._back(hosts)
        return False

    def _back(self, hosts: list[int]) -> None:
        hosts.pop()
        self._new_bytes.pop()
        self.ledger.undo(self._receipts.pop())

    def _choices(self, rank: int, offer: Offer, departures: int) -> Sequence[int]:
        fits = offer.fits_but(self.ignore) & ~self._barred
        able = np.flatnonzero(fits)
        if not len(able):
            if rank > self.dead_end.rank:
                self.dead_end = DeadEnd(rank, offer)
            return ()
        ranked = able[np.lexsort(self._keys(offer, able))]
        if self.homes and self.homes[rank] >= 0 and fits[self.homes[rank]]:
            home = self.homes[rank]
            ranked = np.concatenate(([home], ranked[ranked != home]))
        return [int(d) for d in ranked[: 1 if departures == 0 else _WIDTH]]

    def _keys(self, offer: Offer, able: npt.NDArray[np.intp]) -> list[FloatArray]:
        # lexsort takes the first criterion last; the index breaks ties (the sort is stable).
        full = np.maximum(offer.bytes / self.ledger.memory, offer.busy)[able]
        if self.order is Order.FULLEST:
            return [-full]
        return [-full, offer.new_bytes[able]]


def keep(ledger: Ledger, placement: Placement) -> bool:
    """
    Write a placement into the books, all of it or nothing.

    :returns: whether it fits (it does when nothing changed since it was found).
    """
    ledger.begin(placement.demand)
    hosts: list[int] = []
    receipts: list[Receipt] = []
    for rank, device in enumerate(placement.hosts):
        offer = ledger.offer(placement.demand, rank, hosts)
        receipts.append(ledger.take(placement.demand, rank, device, offer, hosts))
        hosts.append(device)
        if not offer.fits[device] or not ledger.sound(receipts[-1]):
            while receipts:
                ledger.undo(receipts.pop())
            return False
    return True


def homes(demand: Demand, devices: Sequence[int]) -> list[int]:
    """Spread a stream's ranks over devices in order, as evenly as the count allows."""
    count = len(demand.ranks)
    return [devices[rank * len(devices) // count] for rank in range(count)]
