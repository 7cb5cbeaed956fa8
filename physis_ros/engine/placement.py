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

from physis_ros.engine.demand import Demand
from physis_ros.engine.ledger import Bid, Ledger, Offer, Receipt
from physis_ros.engine.traffic import BoolArray

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

    bids: Sequence[Bid]
    departures: int
    next: int = 0


@dataclass
class Search:
    """
    One search over the books; leaves them as they were.

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
        self._barred = np.zeros(len(self.ledger.pool), np.bool_)
        if self.only:
            self._barred[:] = True
            self._barred[list(self.only)] = False

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
        # Where the bounds allow no second round the first one departs, near its end.
        once = self._left < 2 * len(self.demand.ranks)
        for allowed in (departures,) if once else range(departures + 1):
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
            if level.next == len(level.bids) or self._left < 0:
                levels.pop()
                if hosts:
                    self._back(hosts)
                continue
            left = level.departures - (level.next > 0)
            level.next += 1
            if not self._step(hosts, level.bids[level.next - 1]):
                continue
            if len(hosts) == len(self.demand.ranks):
                return True
            levels.append(self._level(hosts, left))
        return False

    def _level(self, hosts: list[int], departures: int) -> _Level:
        rank = len(hosts)
        self._left -= 1
        if self._left < 0:
            return _Level((), departures)
        home = self.homes[rank] if self.homes else -1
        if home >= 0 and not departures and not self.ignore:
            # The common case, and quick: nobody else is asked.
            bid = self.ledger.bid(self.demand, rank, home, hosts)
            if bid is not None:
                return _Level((bid,), departures)
        offer = self.ledger.offer(self.demand, rank, hosts)
        devices = self._choices(rank, home, offer, 1 if departures == 0 else _WIDTH)
        return _Level([offer.bid(device) for device in devices], departures)

    def _step(self, hosts: list[int], bid: Bid) -> bool:
        receipt = self.ledger.take(self.demand, len(hosts), bid, hosts)
        self._receipts.append(receipt)
        self._new_bytes.append(bid.new_bytes)
        hosts.append(bid.device)
        if self.ignore or self.ledger.sound(receipt):
            return True
        self._back(hosts)
        return False

    def _back(self, hosts: list[int]) -> None:
        hosts.pop()
        self._new_bytes.pop()
        self.ledger.undo(self._receipts.pop())

    def _choices(self, rank: int, home: int, offer: Offer, width: int) -> Sequence[int]:
        fits = offer.fits_but(self.ignore)
        if self.only:
            fits &= ~self._barred
        able: list[bool] = fits.tolist()
        ranked = [device for device in self._ranking(offer) if able[device]]
        if not ranked and rank > self.dead_end.rank:
            self.dead_end = DeadEnd(rank, offer)
        if home >= 0 and able[home]:
            ranked.remove(home)
            ranked.insert(0, home)
        return ranked[:width]

    def _ranking(self, offer: Offer) -> list[int]:
        # lexsort takes the first criterion last; the index breaks ties (the sort is stable).
        full = np.maximum(offer.bytes / self.ledger.memory, offer.busy)
        keys = (-full,) if self.order is Order.FULLEST else (-full, offer.new_bytes)
        ranking: list[int] = np.lexsort(keys).tolist()
        return ranking


def keep(ledger: Ledger, placement: Placement) -> bool:
    """
    Write a placement into the books, all of it or nothing.

    :returns: whether it fits (it does when nothing changed since it was found).
    """
    demand = placement.demand
    ledger.begin(demand)
    hosts: list[int] = []
    receipts: list[Receipt] = []
    for rank, device in enumerate(placement.hosts):
        bid = ledger.bid(demand, rank, device, hosts)
        if bid is not None:
            receipts.append(ledger.take(demand, rank, bid, hosts))
            hosts.append(device)
        if bid is None or not ledger.sound(receipts[-1]):
            while receipts:
                ledger.undo(receipts.pop())
            return False
    return True


def homes(demand: Demand, devices: Sequence[int]) -> list[int]:
    """Spread a stream's ranks over devices in order, as evenly as the count allows."""
    count = len(demand.ranks)
    return [devices[rank * len(devices) // count] for rank in range(count)]
