# SPDX-License-Identifier: Apache-2.0
"""
How wide a model is spread over a pool, and the even split that joint placement must beat. Pure.

Best-Fit alone fills one device and then the next, so every few streams pay for another copy of
all weights. Spreading the first stream over many devices lets the streams after it share them.
How wide is best is found by filling an empty pool with copies of the stream for each width.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

import numpy as np

from physis_ros.engine.demand import Demand
from physis_ros.engine.devices import DevicePool
from physis_ros.engine.ledger import Ledger
from physis_ros.engine.placement import DEPARTURES, DeadEnd, Order, Placement, Search, homes, keep

# Offers looked at in one decision, shared by its searches.
_KNOWN, _FRESH, _FILL = 250, 150, 150
# Copies with which an empty pool is filled in thought: who carries as many is as good as any.
ENOUGH = 4096


@dataclass(frozen=True)
class Width:
    """
    How a model is laid out.

    :param devices: over which the first stream, and every fresh copy of the weights, is spread.
    :param alone: each stream has its devices to itself: the even split.
    :param streams: copies of one stream that an empty pool carries this way.
    """

    devices: int
    alone: bool
    streams: int


def find(
    ledger: Ledger, demand: Demand, width: Width, departures: int = DEPARTURES
) -> tuple[Placement | None, DeadEnd]:
    """
    Look for a stream's place: where its weights are already, spread afresh, or the fullest fit.

    :param departures: from the first choice, at most, in each of the searches.
    :returns: the placement that copies the fewest weights, and how far the first search came.
    """
    if width.alone:
        return _find_alone(ledger, demand, width.devices)
    first = Search(ledger, demand, offers=_KNOWN)
    found = [first.run(departures)] if ledger.hosts(demand.model.name).any() else []
    lost = found and found[0] is None and ledger.hopeless(demand, first.able)
    if not lost and (not found or found[0] is None or found[0].new_bytes > 0):
        fresh = _emptiest(ledger, demand, width.devices)
        spread = Search(ledger, demand, homes=homes(demand, fresh), offers=_FRESH)
        found.insert(0, spread.run(departures))
        if len(found) == 1:
            first = spread
        # A long chain has used the decision's time up by now.
        if found[0] is None and len(demand.ranks) <= _FILL:
            fullest = Search(ledger, demand, Order.FULLEST, offers=_FILL)
            found.append(fullest.run(departures))
    places = [placement for placement in found if placement is not None]
    best = min(places, key=lambda placement: placement.new_bytes, default=None)
    return best, first.dead_end


def fill(pool: DevicePool, demand: Demand, width: Width, headroom: float = 0.0) -> int:
    """Return how many copies of a stream an empty pool carries, at most :data:`ENOUGH`."""
    ledger = Ledger(pool, headroom)
    for count in range(ENOUGH):
        placement = find(ledger, demand, width, departures=0)[0]
        if placement is None:
            return count
        keep(ledger, placement)
    return ENOUGH


def best_width(pool: DevicePool, demand: Demand, headroom: float = 0.0) -> Width:
    """
    Choose the width that carries most copies of a stream; the narrowest of equals.

    Never fewer than the even split: that is one of the choices.
    """
    even = len(even_split(pool, [demand] * len(pool), headroom))
    best = Width(max(1, len(pool) // max(even, 1)), True, even)
    for devices in _ladder(min(len(pool), len(demand.ranks))):
        width = Width(devices, False, 0)
        count = fill(pool, demand, width, headroom)
        if count > best.streams or (count == best.streams and best.alone):
            best = Width(devices, False, count)
    return best


def even_split(
    pool: DevicePool, demands: Sequence[Demand], headroom: float = 0.0
) -> list[Placement]:
    """
    Give every stream the same number of whole devices, for the number that carries most streams.

    :param demands: in the order they are served.
    """
    splits = (split(pool, demands, size, headroom) for size in range(1, len(pool) + 1))
    best: list[Placement] = []
    for found in splits:
        if len(found) > len(best):
            best = found
    return best


def split(
    pool: DevicePool, demands: Sequence[Demand], size: int, headroom: float = 0.0
) -> list[Placement]:
    """Give every stream ``size`` whole devices, as long as there are any and it fits them."""
    ledger = Ledger(pool, headroom)
    groups = [list(range(i, i + size)) for i in range(0, len(pool) - size + 1, size)]
    placed: list[Placement] = []
    hopeless: set[tuple[object, ...]] = set()
    for demand in demands:
        for group in groups:
            key = _kind(pool, demand, group)
            placement = None if key in hopeless else _inside(ledger, demand, group)
            if placement is not None:
                keep(ledger, placement)
                groups.remove(group)
                placed.append(placement)
                break
            hopeless.add(key)
    return placed


def _kind(pool: DevicePool, demand: Demand, group: Sequence[int]) -> tuple[object, ...]:
    # Whatever fits one idle group fits all alike; so does what does not.
    devices = tuple(replace(pool.devices[i], name='', node='') for i in group)
    return (demand.model.name, demand.slo_s, demand.owner, devices)


def _inside(ledger: Ledger, demand: Demand, group: Sequence[int]) -> Placement | None:
    spread = homes(demand, group)
    return (
        Search(ledger, demand, homes=spread, only=group, offers=_FRESH).run()
        or Search(ledger, demand, Order.FULLEST, only=group, offers=_FRESH).run()
    )


def _find_alone(ledger: Ledger, demand: Demand, size: int) -> tuple[Placement | None, DeadEnd]:
    idle = np.flatnonzero(ledger.used == 0)
    for start in range(0, len(idle) - size + 1):
        placement = _inside(ledger, demand, [int(i) for i in idle[start : start + size]])
        if placement is not None:
            return placement, DeadEnd()
    # No idle devices left: whatever still fits beside others is welcome.
    search = Search(ledger, demand, offers=_KNOWN)
    return search.run(), search.dead_end


def _emptiest(ledger: Ledger, demand: Demand, count: int) -> list[int]:
    full = np.maximum(ledger.used / ledger.memory, ledger.busy)
    order = np.lexsort((full, ledger.hosts(demand.model.name)))
    return sorted(int(device) for device in order[:count])


def _ladder(most: int) -> Iterator[int]:
    """Widths tried: doublings, the half and the whole."""
    doublings = {1 << n for n in range(most.bit_length())}
    return iter(sorted(doublings | {max(1, most // 2), most}))
