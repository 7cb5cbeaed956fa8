# SPDX-License-Identifier: Apache-2.0
"""
Several streams decided together: as many as possible, never fewer than the even split. Pure.

Tries a few orders of arrival, then takes admitted newcomers out and puts others in, seeded and
bounded. Streams that ran before are fixed.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from physis_ros.engine.demand import Demand
from physis_ros.engine.ledger import Ledger
from physis_ros.engine.placement import Order, Placement, Search, keep
from physis_ros.engine.spread import Width, even_split, find

ROUNDS = 60
_PATIENCE = 24


@dataclass
class _Best:
    placed: list[Placement]

    def offer(self, placed: list[Placement]) -> None:
        if len(placed) > len(self.placed):
            self.placed = list(placed)


def pack(
    ledger: Ledger,
    demands: Sequence[Demand],
    width: Callable[[Demand], Width],
    rounds: int = ROUNDS,
) -> list[Placement]:
    """
    Find places for as many of the demands as possible; the books are left as they were.

    :param width: how wide a demand's model is to be spread.
    :param rounds: of taking out and putting in.
    """
    best = _Best([])
    for order in _orders(demands):
        best.offer(_fill(ledger, order, lambda demand: find(ledger, demand, width(demand))[0]))
        if len(best.placed) == len(demands):
            return best.placed
        best.offer(_fill(ledger, order, lambda demand: _fullest(ledger, demand)))
    if not ledger.used.any():
        best.offer(even_split(ledger.pool, demands))
    _improve(ledger, demands, width, best, rounds)
    return best.placed


def _orders(demands: Sequence[Demand]) -> list[list[Demand]]:
    light = sorted(demands, key=lambda demand: demand.model.stream_bytes)
    quick = sorted(demands, key=lambda demand: demand.model.serial_s / demand.slo_s)
    names = sorted({d.model.name for d in demands}, key=lambda name: _name_cost(demands, name))
    alike = sorted(light, key=lambda demand: names.index(demand.model.name))
    return [light, quick, alike, list(demands)]


def _name_cost(demands: Sequence[Demand], name: str) -> float:
    models = [d.model for d in demands if d.model.name == name]
    return models[0].stream_bytes + sum(models[0].weight_bytes) / len(models)


def _fullest(ledger: Ledger, demand: Demand) -> Placement | None:
    return Search(ledger, demand, Order.FULLEST).run()


def _fill(
    ledger: Ledger, order: Sequence[Demand], place: Callable[[Demand], Placement | None]
) -> list[Placement]:
    placed = []
    for demand in order:
        placement = place(demand)
        if placement is not None:
            keep(ledger, placement)
            placed.append(placement)
    _empty(ledger, placed)
    return placed


def _empty(ledger: Ledger, placed: Sequence[Placement]) -> None:
    for placement in placed:
        ledger.release(placement.demand, placement.hosts)


def _improve(
    ledger: Ledger,
    demands: Sequence[Demand],
    width: Callable[[Demand], Width],
    best: _Best,
    rounds: int,
) -> None:
    """Take some newcomers out, put in whatever fits in another order, keep what is not worse."""
    chance = random.Random(len(demands))
    current, stale = list(best.placed), 0
    for placement in current:
        keep(ledger, placement)
    for _ in range(rounds):
        if len(best.placed) == len(demands) or stale > _PATIENCE:
            break
        before = list(current)
        for placement in chance.sample(current, min(len(current), chance.randint(1, 3))):
            ledger.release(placement.demand, placement.hosts)
            current.remove(placement)
        _refill(ledger, demands, width, current, chance)
        if len(current) < len(before):
            _empty(ledger, current)
            current = before
            for placement in current:
                keep(ledger, placement)
        stale = 0 if len(current) > len(before) else stale + 1
        best.offer(current)
    _empty(ledger, current)


def _refill(
    ledger: Ledger,
    demands: Sequence[Demand],
    width: Callable[[Demand], Width],
    current: list[Placement],
    chance: random.Random,
) -> None:
    inside = {placement.demand.stream for placement in current}
    waiting = [demand for demand in demands if demand.stream not in inside]
    chance.shuffle(waiting)
    tight = chance.random() < 0.5
    for demand in waiting:
        placement = _fullest(ledger, demand) if tight else find(ledger, demand, width(demand))[0]
        if placement is not None:
            keep(ledger, placement)
            current.append(placement)
