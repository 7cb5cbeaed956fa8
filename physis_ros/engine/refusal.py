# SPDX-License-Identifier: Apache-2.0
"""
Why a stream is not taken on, and the loosest change that would let it in. Pure.

The binding rule is found by asking again with one rule set aside; the change by searching for the
smallest SLO, and the smallest number of further devices, with which it fits.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from itertools import combinations, pairwise

import numpy as np

from physis_ros.engine.demand import Demand
from physis_ros.engine.devices import DevicePool, size_text
from physis_ros.engine.ledger import Ledger, Offer
from physis_ros.engine.placement import DeadEnd, Order, Placement, Search
from physis_ros.types import FloatArray

RULES = ('memory', 'time', 'link')
_MOST_DEVICES = 64
_MOST_SLO = 32.0


@dataclass(frozen=True)
class Refusal:
    """
    A stream was not taken on.

    :param constraint: what binds: ``memory``, ``time``, ``link``, a pair of them joined by
        ``+``, one of them after ``alone:`` when the stream would not fit an empty pool either,
        ``response``, or ``closed``.
    :param device: where it binds.
    :param detail: the figures.
    :param change: the loosest change that would fit, in words; empty when none was found.
    :param slo_s: the smallest SLO that would fit, 0 when none was found.
    :param more_devices: the fewest further devices like the last that would do, 0 when none.
    :param response_s: the response it would have alone, when that is what binds.
    """

    stream: str
    constraint: str
    device: str
    detail: str
    change: str = ''
    slo_s: float = 0.0
    more_devices: int = 0
    response_s: float = 0.0

    def __str__(self) -> str:
        """Say it in one line."""
        where = f' on {self.device}' if self.device else ''
        change = f'; {self.change} would fit' if self.change else ''
        return f"stream '{self.stream}' refused: {self.constraint}{where}: {self.detail}{change}"


def refuse(
    ledger: Ledger, demand: Demand, dead_end: DeadEnd, explain: bool = True, alone: bool = False
) -> Refusal:
    """
    Say why a demand found no place.

    :param dead_end: how far the search came.
    :param explain: also search for the loosest change, which takes longer than the decision.
    :param alone: it is known to fit the pool when nobody else is there.
    """
    empty = Ledger(ledger.pool)
    empty.room, empty.memory = ledger.room, ledger.memory
    fits_alone = alone or _fits(empty, demand)
    books = ledger if fits_alone else empty
    constraint = _binding(books, demand)
    device, detail = _where(ledger.pool, dead_end.offer, constraint, ledger.room, ledger.memory)
    searched = explain and constraint != 'memory'
    slo_s = _least_slo(ledger, demand) if searched else 0.0
    more = _least_devices(ledger, demand) if explain else 0
    return Refusal(
        stream=demand.stream,
        constraint=constraint if fits_alone else f'alone:{constraint}',
        device=device,
        detail=detail,
        change=_change(slo_s, more, len(ledger.pool)),
        slo_s=slo_s,
        more_devices=more,
    )


def alone_response_s(pool: DevicePool, placement: Placement) -> float:
    """Return the time from entry to output of a placed stream that shares with nobody."""
    demand, model = placement.demand, placement.demand.model
    where = [placement.hosts[rank] for rank in demand.owner]
    speeds = [pool.devices[host].speed for host in where]
    work = sum(
        model.curves[stage % model.blocks].times_s[0] / speed for stage, speed in enumerate(speeds)
    )
    travel = sum(
        pool.wire_s(a, b, model.hidden_bytes if stage % model.blocks else model.latent_bytes)
        for stage, (a, b) in enumerate(pairwise(where), start=1)
    )
    return work + travel + model.entry_s / speeds[0] + model.exit_s / speeds[-1]


def _fits(ledger: Ledger, demand: Demand) -> bool:
    # One greedy round in either order: enough to tell which way is open.
    return any(Search(ledger, demand, order, offers=len(demand.ranks)).run(0) for order in Order)


def _binding(ledger: Ledger, demand: Demand) -> str:
    ledger.begin(demand)
    sure = ledger.hopeless(demand, np.ones(len(ledger.pool), dtype=np.bool_))
    if sure:
        return sure
    for count in (1, 2):
        # Links first: were there no limit of memory and time, a single device would do, on which
        # links are in nobody's way.
        for rules in sorted(combinations(RULES, count), key=lambda rules: 'link' not in rules):
            asked = Search(ledger, demand, ignore=frozenset(rules))
            if asked.run(0) is not None:
                return '+'.join(rules)
    return '+'.join(RULES)


def _where(
    pool: DevicePool, offer: Offer | None, constraint: str, room: float, memory: FloatArray
) -> tuple[str, str]:
    if offer is None:
        return '', 'the search was cut short'
    over_bytes, over_busy = offer.bytes - memory, offer.busy - room
    if constraint.startswith('memory'):
        over_bytes[offer.memory_ok] = np.inf
        near = int(over_bytes.argmin())
        need, have = size_text(offer.bytes[near]), size_text(memory[near])
        return pool.devices[near].name, f'needs {need} of {have}'
    if constraint.startswith('time'):
        over_busy[offer.time_ok] = np.inf
        near = int(over_busy.argmin())
        return pool.devices[near].name, f'busy for {offer.busy[near]:.3f} of each period'
    near = int(np.flatnonzero(~offer.link_ok)[0]) if not offer.link_ok.all() else 0
    return pool.devices[near].name, 'no room on the link for its hidden states'


def _least_slo(ledger: Ledger, demand: Demand) -> float:
    low, high = demand.slo_s, demand.slo_s * _MOST_SLO

    def fits(slo_s: float) -> bool:
        return _fits(ledger, replace(demand, slo_s=slo_s))

    if not fits(high):
        ledger.tidy()
        return 0.0
    while high / low > 1.02:
        middle = (low * high) ** 0.5
        low, high = (low, middle) if fits(middle) else (middle, high)
    ledger.tidy()
    return high


def _least_devices(ledger: Ledger, demand: Demand) -> int:
    def fits(count: int) -> bool:
        return _fits(ledger.grown(count), demand)

    return _least(fits, _MOST_DEVICES)


def _least(fits: Callable[[int], bool], most: int) -> int:
    high = 1
    while not fits(high):
        high *= 2
        if high > most:
            return 0
    low = high // 2
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (low, middle) if fits(middle) else (middle, high)
    return high


def _change(slo_s: float, more: int, devices: int) -> str:
    ways = []
    if slo_s:
        ways.append(f'an SLO of {slo_s * 1e3:.1f} ms')
    if more:
        ways.append(f'{devices + more} devices instead of {devices}')
    return ' or '.join(ways)
