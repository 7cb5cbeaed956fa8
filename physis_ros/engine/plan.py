# SPDX-License-Identifier: Apache-2.0
"""
From a cost, devices and targets to plans with predicted figures, and the choice among them (E8).

Each grouping is placed, run in virtual time alone or with its like, and judged: period, response,
age, bytes, device time, cost. Pure.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from functools import reduce
from statistics import median

from physis_ros.engine.cost import MOST_ROWS, ModelCost
from physis_ros.engine.demand import Demand, demand
from physis_ros.engine.devices import DevicePool, size_text
from physis_ros.engine.groupings import Grouping, groupings, in_flight
from physis_ros.engine.ledger import Ledger
from physis_ros.engine.placement import Placement, Search, homes, keep
from physis_ros.engine.virtual import Output, S, VirtualPool, VirtualStream
from physis_ros.errors import ParameterError, PlanError

OBJECTIVES = ('youngest', 'fleet')
# Room between beats, as a share of the period: what a stream at its SLO has, too.
ROOM = 1.15
_SETTLE, _CHUNKS = 3, 24
# More streams than these are not tried when the most are looked for.
MOST_STREAMS = 64
# Nor are more streams than these put into one plan.
_MOST_ASKED = 1024


@dataclass(frozen=True)
class Targets:
    """
    What a plan is for.

    :param streams: how many run at once, all alike.
    :param slo_s: longest interval wanted; 0: as short as it gets.
    :param max_age_s: greatest age of an action at its effect; 0: any.
    :param sensor_s: interval of observations; 0: always a fresh one.
    :param max_batch: most rows of one batch.
    """

    streams: int = 1
    slo_s: float = 0.0
    max_age_s: float = 0.0
    sensor_s: float = 0.0
    max_batch: int = 8

    def __post_init__(self) -> None:
        """
        Refuse targets that mean nothing.

        :raises ParameterError: naming the target.
        """
        for name in ('slo_s', 'max_age_s', 'sensor_s'):
            if not 0 <= getattr(self, name) < float('inf'):
                raise ParameterError(name, '>= 0', getattr(self, name))
        for name, most in (('streams', _MOST_ASKED), ('max_batch', MOST_ROWS)):
            if not 1 <= getattr(self, name) <= most:
                raise ParameterError(name, f'1 .. {most}', getattr(self, name))


@dataclass(frozen=True)
class Plan:
    """
    A grouping, its place and what it is predicted to do.

    :param hosts: for each stream the device of each stage, in chain order.
    :param max_batch: most rows of one batch.
    :param period_s: steady interval between chunks of one stream.
    :param response_s: longest time from entry to output at that period.
    :param usual_response_s: the median of that time.
    :param allowed_s: from a chunk's entry to its deadline, by which batches were formed.
    :param worst_age_s: of an action at its effect: observation, response and the period it plays.
    :param bytes: used on each device.
    :param device_s: device time for each chunk.
    :param on_time_cost_s: devices x time for each chunk that is on time (``C_out``).
    """

    grouping: Grouping
    placements: tuple[Placement, ...]
    max_batch: int
    period_s: float
    response_s: float
    usual_response_s: float
    allowed_s: float
    worst_age_s: float
    bytes: tuple[int, ...]
    device_s: float
    on_time_cost_s: float

    @property
    def devices(self) -> tuple[int, ...]:
        """Devices used."""
        return tuple(sorted({host for p in self.placements for host in p.hosts}))

    @property
    def hosts(self) -> tuple[tuple[int, ...], ...]:
        """For each stream the device of each stage, in chain order."""
        return tuple(tuple(p.hosts[rank] for rank in p.demand.owner) for p in self.placements)

    @property
    def in_flight(self) -> int:
        """Most chunks of a stream in the pipe."""
        return in_flight(self.placements[0].demand.model, self.hosts[0], self.max_batch)

    def shortfall(self, targets: Targets) -> tuple[float, float, float]:
        """How many times as long as allowed it takes, the worse of period and age; then both."""
        over = [
            figure_s / most_s
            for figure_s, most_s in (
                (self.period_s, targets.slo_s),
                (self.worst_age_s, targets.max_age_s),
            )
            if most_s
        ]
        return max(over, default=0.0), self.period_s, self.worst_age_s

    def meets(self, targets: Targets) -> bool:
        """Tell whether SLO and age are kept."""
        slo_ok = not targets.slo_s or self.period_s <= targets.slo_s * (1 + 1e-9)
        return slo_ok and (not targets.max_age_s or self.worst_age_s <= targets.max_age_s)


@dataclass(frozen=True)
class Usual:
    """
    What a plan does on most days; ``benchmark/predicted.py`` holds these against runs.

    :param period_s: flat out.
    :param response_s: the median of chunks that come a little slower than that, or at the SLO.
    :param pace_s: how fast those come.
    """

    period_s: float
    response_s: float
    pace_s: float


def plans(
    model: ModelCost, pool: DevicePool, targets: Targets, among: Iterable[Grouping] = ()
) -> list[Plan]:
    """
    Return a plan for every grouping that fits the devices' memory.

    :param among: groupings to look at; all by default.
    :raises PlanError: when none fits.
    """
    options = list(among) or groupings(model, len(pool))
    batches = sorted({1, targets.max_batch})
    need = model.stream_bytes * targets.streams + sum(model.weight_bytes)
    have = sum(device.memory_bytes for device in pool.devices)
    # What fits in no way at all is not even tried.
    found = (
        []
        if need > have
        else [
            plan
            for grouping in options
            for max_batch in batches
            if (plan := predict(model, pool, targets, grouping, max_batch)) is not None
        ]
    )
    if not found:
        raise PlanError(
            f'{targets.streams} streams of {model.name} need at least {size_text(need)} in '
            f'pieces that fit {len(pool)} devices with {size_text(have)}; take more devices'
        )
    return found


def predict(
    model: ModelCost, pool: DevicePool, targets: Targets, grouping: Grouping, max_batch: int
) -> Plan | None:
    """Place and judge one grouping; None when it does not fit."""
    ledger = Ledger(pool)
    placements = _place(model, ledger, targets, grouping)
    if placements is None:
        return None
    hosts = [tuple(p.hosts[rank] for rank in p.demand.owner) for p in placements]
    full, _ = _run(model, pool, targets, hosts, max_batch, 0.0)
    tightest = max(_interval_s(stream.outputs) for stream in full)
    # Beats a little wider than the tightest interval: full, but nothing queues at the entry.
    pace_s = max(targets.slo_s, tightest)
    paced, spent_s = _run(model, pool, targets, hosts, max_batch, pace_s)
    settled = [out for stream in paced for out in stream.outputs[_SETTLE:]]
    responses_s = [(out.out_ns - out.enter_ns) / S for out in settled]
    response_s = max(responses_s)
    wait_s = targets.sensor_s + response_s
    used = len({host for stream in hosts for host in stream})
    on_time = targets.streams if not targets.slo_s or tightest <= targets.slo_s else 0
    return Plan(
        grouping=grouping,
        placements=tuple(placements),
        max_batch=max_batch,
        period_s=tightest,
        response_s=response_s,
        usual_response_s=median(responses_s),
        allowed_s=paced[0].allowed_ns / S,
        worst_age_s=wait_s + pace_s,
        bytes=tuple(int(b) for b in ledger.used),
        device_s=spent_s,
        on_time_cost_s=used * pace_s / on_time if on_time else float('inf'),
    )


def usually(model: ModelCost, pool: DevicePool, targets: Targets, plan: Plan) -> Usual:
    """
    Return what a plan usually does.

    :param model: what it usually costs: by what each piece adds to a whole chunk.
    """
    how = (plan.grouping, plan.max_batch)
    full = predict(model, pool, replace(targets, slo_s=0.0), *how) or plan
    pace_s = max(targets.slo_s, full.period_s * ROOM)
    calm = predict(model, pool, replace(targets, slo_s=pace_s), *how) or plan
    return Usual(full.period_s, calm.usual_response_s, pace_s)


def pareto(options: Sequence[Plan]) -> list[Plan]:
    """Return the plans that no other beats in period, response and devices together."""

    def figures(plan: Plan) -> tuple[float, float, int]:
        return (round(plan.period_s, 9), round(plan.response_s, 9), len(plan.devices))

    kept: dict[tuple[float, float, int], Plan] = {}
    for plan in options:
        mine = figures(plan)
        others = (figures(other) for other in options)
        beaten = any(
            o != mine and all(a <= b for a, b in zip(o, mine, strict=True)) for o in others
        )
        if not beaten:
            kept.setdefault(mine, plan)
    return sorted(kept.values(), key=figures)


def choose(options: Sequence[Plan], targets: Targets, objective: str = 'youngest') -> Plan:
    """
    Pick one plan.

    :param objective: ``youngest``: least worst age within the targets, then fewest devices.
        ``fleet``: least device time for each chunk on time, then least age.
    :raises PlanError: when no plan meets the targets, naming the nearest.
    """
    if objective not in OBJECTIVES:
        raise ParameterError('objective', f'one of {list(OBJECTIVES)}', objective)
    able = [plan for plan in options if plan.meets(targets)]
    if not able:
        near = min(options, key=lambda plan: plan.shortfall(targets))
        asked = [
            f'{what} of {value_s * 1e3:g} ms'
            for what, value_s in (('an SLO', targets.slo_s), ('an age', targets.max_age_s))
            if value_s
        ]
        raise PlanError(
            f'no plan meets {" and ".join(asked)}; the nearest, {near.grouping.scheme} on '
            f'{len(near.devices)} devices, has a period of {near.period_s * 1e3:.1f} ms and a '
            f'worst age of {near.worst_age_s * 1e3:.1f} ms'
        )
    if objective == 'youngest':
        return min(able, key=lambda plan: (plan.worst_age_s, len(plan.devices)))
    return min(able, key=lambda plan: (plan.on_time_cost_s, plan.worst_age_s))


def most_streams(model: ModelCost, pool: DevicePool, targets: Targets) -> int:
    """
    Return how many streams at once some plan carries within the targets; 1 when not even one.

    Found by doubling and halving: what carries some also carries fewer. No more are tried than
    there is time for when every batch is full, nor more than :data:`MOST_STREAMS`.

    :param targets: with an SLO; their number of streams is not looked at.
    """
    row_s = model.passes * sum(
        min(t / n for n, t in enumerate(curve.times_s[: targets.max_batch], start=1))
        for curve in model.curves
    )
    speed = sum(device.speed for device in pool.devices)
    low, high = 1, min(MOST_STREAMS, int(targets.slo_s * speed / row_s)) + 1
    step = 2
    while high - low > 1:
        middle = min(low * step, (low + high) // 2)
        if _carries(model, pool, replace(targets, streams=middle)):
            low = middle
        else:
            high, step = middle, high
    return low


def _carries(model: ModelCost, pool: DevicePool, targets: Targets) -> bool:
    """Tell whether some plan meets the targets."""
    batches = sorted({1, targets.max_batch}, reverse=True)
    found = (
        predict(model, pool, targets, grouping, max_batch)
        for grouping in groupings(model, len(pool))
        for max_batch in batches
    )
    return any(plan is not None and plan.meets(targets) for plan in found)


def table(options: Sequence[Plan], chosen: Plan | None = None) -> str:
    """Print plans side by side."""
    head = ('', 'scheme', 'groups', 'batch', 'period ms', 'response ms', 'worst age ms', 'devices')
    rows = [(*head, 'MB each', 'device ms/chunk', 'C_out ms')]
    for plan in options:
        most = max(plan.bytes[host] for host in plan.devices) / 1e6
        rows.append(
            (
                '*' if plan is chosen else '',
                plan.grouping.scheme,
                plan.grouping.shape,
                str(plan.max_batch),
                f'{plan.period_s * 1e3:.2f}',
                f'{plan.response_s * 1e3:.2f}',
                f'{plan.worst_age_s * 1e3:.2f}',
                str(len(plan.devices)),
                f'{most:.1f}',
                f'{plan.device_s * 1e3:.2f}',
                f'{plan.on_time_cost_s * 1e3:.2f}',
            )
        )
    widths = reduce(lambda w, row: [max(a, len(b)) for a, b in zip(w, row, strict=True)], rows,
                    [0] * len(rows[0]))  # fmt: skip
    return '\n'.join(
        '  '.join(cell.rjust(width) for cell, width in zip(row, widths, strict=True)).rstrip()
        for row in rows
    )


def _place(
    model: ModelCost, ledger: Ledger, targets: Targets, grouping: Grouping
) -> list[Placement] | None:
    owner = grouping.owner(model)
    pool = ledger.pool
    # The fastest, and among them those that hand over quickest.
    ways = [(-device.speed, pool.end_s(device, True)) for device in pool.devices]
    chosen = sorted(range(len(pool)), key=lambda i: (*ways[i], i))[: grouping.groups]
    found = []
    for number in range(targets.streams):
        # Time is judged by running the plan; only bytes and links are asked of the books.
        asked: Demand = demand(f's{number}', model, max(targets.slo_s, 1e6), owner)
        search = Search(ledger, asked, homes=homes(asked, sorted(chosen)))
        placement = search.run()
        if placement is None or not keep(ledger, placement):
            return None
        found.append(placement)
    return found


def _run(
    model: ModelCost,
    pool: DevicePool,
    targets: Targets,
    hosts: Sequence[tuple[int, ...]],
    max_batch: int,
    pace_s: float,
) -> tuple[list[VirtualStream], float]:
    virtual = VirtualPool(pool, max_batch, round(targets.sensor_s * S))
    used = {host for stages in hosts for host in stages}
    if model.crowding > 1:
        nodes = Counter(pool.devices[host].node for host in used)
        for host in used:
            if nodes[pool.devices[host].node] > 1:
                virtual.slow_down(host, model.crowding)
    serial_s = model.serial_s / min(device.speed for device in pool.devices)
    most = in_flight(model, hosts[0], max_batch)
    # As if whatever may be in the pipe were done one after the other: no deadline but that of the
    # order keeps rows apart, as in a node, which allows a chunk what chunks have taken so far.
    longest_s = serial_s * targets.streams * most + pool.longest_hop_s * model.stages
    streams = [
        virtual.open(
            f's{i}', model, stages, pace_s or longest_s * 1e-6, most, longest_s,
            phase_s=pace_s * i / len(hosts),
        )
        for i, stages in enumerate(hosts)
    ]  # fmt: skip
    enough = _SETTLE + _CHUNKS
    step_ns = max(1, round(max(longest_s, pace_s) * S))
    while any(len(stream.outputs) < enough for stream in streams):
        virtual.run(virtual.now_ns + step_ns)
    # By rows, not by outputs: chunks still inside have used time, too.
    busy_ns = sum(device.busy_ns for device in virtual.devices)
    rows = sum(device.rows for device in virtual.devices)
    return streams, busy_ns / S / rows * model.stages


def _interval_s(outputs: Sequence[Output]) -> float:
    settled = outputs[_SETTLE:]
    return (settled[-1].out_ns - settled[0].out_ns) / (len(settled) - 1) / S
