# SPDX-License-Identifier: Apache-2.0
"""
Which streams a pool takes on (E9): all of a stream's ranks or nothing, and why not.

Streams that run are never touched, moved or squeezed. Policy only: it keeps the books and decides,
the pool opens and closes. Not thread-safe.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from physis_ros.engine.demand import Demand
from physis_ros.engine.devices import DevicePool
from physis_ros.engine.ledger import Ledger
from physis_ros.engine.packing import pack
from physis_ros.engine.placement import DeadEnd, Placement, Search, keep
from physis_ros.engine.refusal import Refusal, alone_response_s, refuse
from physis_ros.engine.spread import Width, best_width, find
from physis_ros.errors import ParameterError

_Kind = tuple[str, float, tuple[int, ...]]
# Places of streams that left, for each kind.
_REMEMBERED = 4
# Kinds of streams whose width is remembered.
_KINDS = 64


@dataclass(frozen=True)
class Admission:
    """A stream was taken on; ``placement`` says where."""

    placement: Placement


class Admitter:
    """
    The door of a pool.

    :param headroom: share of each device's time that admission leaves free.
    """

    def __init__(self, pool: DevicePool, headroom: float = 0.0) -> None:
        if not 0 <= headroom < 1:
            raise ParameterError('headroom', 'at least 0 and below 1', headroom)
        self.pool, self.headroom = pool, headroom
        self.ledger = Ledger(pool, headroom)
        self._running: dict[str, Placement] = {}
        self._widths: dict[_Kind, Width] = {}
        # Where streams of a kind were before they left, the last at the end.
        self._vacated: dict[_Kind, list[tuple[int, ...]]] = {}

    @property
    def running(self) -> dict[str, Placement]:
        """The streams there are, by name."""
        return dict(self._running)

    def prepare(self, demand: Demand) -> Width:
        """
        Choose how wide a model is spread, once for each model and period.

        Fills an empty pool in thought, which takes far longer than a decision; call it when the
        model is loaded. The first :meth:`admit` of a model does it otherwise.
        """
        key = _kind(demand)
        if key not in self._widths:
            while len(self._widths) >= _KINDS:
                oldest = next(iter(self._widths))
                self._vacated.pop(oldest, None)
                del self._widths[oldest]
            self._widths[key] = best_width(self.pool, demand, self.headroom)
        return self._widths[key]

    def admit(self, demand: Demand, explain: bool = True) -> Admission | Refusal:
        """
        Take a stream on, whole, or say why not.

        :param explain: whether a refusal also names the loosest change that would fit; finding
            that takes longer than deciding.
        :raises ParameterError: when a stream of that name runs.
        """
        if demand.stream in self._running:
            raise ParameterError('stream', 'a name not in use', demand.stream)
        width = self.prepare(demand)
        placement, dead_end = self._vacancy(demand), DeadEnd()
        if placement is None:
            placement, dead_end = find(self.ledger, demand, width)
        if placement is None:
            return refuse(self.ledger, demand, dead_end, explain, self._fits_alone(width))
        placement, response_s = self._quickest(demand, placement)
        if demand.limit_s and response_s > demand.limit_s:
            return _slow(demand, response_s, placement, self.pool)
        return self._take(placement)

    def what_if(self, demands: Sequence[Demand]) -> list[Admission | Refusal]:
        """Tell what would be answered to these streams, one after the other; nothing changes."""
        vacated = {kind: list(places) for kind, places in self._vacated.items()}
        answers = [self.admit(demand) for demand in demands]
        for answer in reversed(answers):
            if isinstance(answer, Admission):
                self.leave(answer.placement.demand.stream)
        self._vacated = vacated
        return answers

    def _quickest(self, demand: Demand, found: Placement) -> tuple[Placement, float]:
        """Return a place that answers in time; narrower ones are tried when the first does not."""
        best, least_s = found, alone_response_s(self.pool, found)
        if not demand.limit_s or least_s <= demand.limit_s:
            return best, least_s
        for devices in range(1, len(found.devices)):
            other = find(self.ledger, demand, Width(devices, False, 0))[0]
            if other is not None and (took_s := alone_response_s(self.pool, other)) < least_s:
                best, least_s = other, took_s
            if least_s <= demand.limit_s:
                break
        return best, least_s

    def admit_all(
        self, demands: Sequence[Demand], explain: bool = True
    ) -> list[Admission | Refusal]:
        """
        Decide on several streams at once: as many as possible, never fewer than the even split.

        Streams that run already count as they are; answers come in the order asked.
        """
        for placement in pack(self.ledger, demands, self.prepare):
            self._take(placement)
        return [
            Admission(self._running[demand.stream])
            if demand.stream in self._running
            else self._refuse(demand, explain)
            for demand in demands
        ]

    def leave(self, stream: str) -> None:
        """
        Free everything a stream held.

        :raises ParameterError: when no stream of that name runs.
        """
        placement = self._running.pop(stream, None)
        if placement is None:
            raise ParameterError('stream', f'one of {sorted(self._running)}', stream)
        self.ledger.release(placement.demand, placement.hosts)
        self.ledger.tidy()
        vacated = self._vacated.setdefault(_kind(placement.demand), [])
        vacated.append(placement.hosts)
        del vacated[:-_REMEMBERED]

    def _vacancy(self, demand: Demand) -> Placement | None:
        """
        Return the place of a stream of the same kind that left, when it needs no new weights.

        What came and went then leaves no gaps that fit nobody, and the answer is quick.
        """
        vacated = self._vacated.get(_kind(demand), [])
        while vacated:
            search = Search(self.ledger, demand, homes=vacated.pop(), offers=len(demand.ranks))
            placement = search.run(0)
            if placement is not None and not placement.new_bytes:
                return placement
        return None

    def _refuse(self, demand: Demand, explain: bool) -> Refusal:
        width = self.prepare(demand)
        dead_end = find(self.ledger, demand, width)[1]
        return refuse(self.ledger, demand, dead_end, explain, self._fits_alone(width))

    def _fits_alone(self, width: Width) -> bool:
        # Found when the width was chosen, with all devices there.
        return width.streams > 0 and not self.ledger.lost

    def _take(self, placement: Placement) -> Admission:
        keep(self.ledger, placement)
        self._running[placement.demand.stream] = placement
        return Admission(placement)


def _kind(demand: Demand) -> _Kind:
    return demand.model.name, demand.slo_s, demand.owner


def _slow(demand: Demand, response_s: float, placement: Placement, pool: DevicePool) -> Refusal:
    slowest = min(placement.devices, key=lambda i: pool.devices[i].speed)
    detail = (
        f'alone it answers in {response_s * 1e3:.1f} ms, asked {demand.response_s * 1e3:.1f} ms'
    )
    change = f'a response of {response_s * 1e3:.1f} ms'
    return Refusal(
        demand.stream, 'response', pool.devices[slowest].name, detail, change,
        response_s=response_s,
    )  # fmt: skip
