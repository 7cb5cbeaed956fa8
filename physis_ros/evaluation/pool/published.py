# SPDX-License-Identifier: Apache-2.0
"""
The published figures beside ours: 24 devices at an SLO of 1600 ms, and one stage on each device.

Counts come from admission; the carried streams are then run in virtual time, and count as verified
when no output comes later than its planned delivery.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import asdict, dataclass, replace
from typing import Any

import numpy as np

from physis_ros.engine.admission import Admission, Admitter
from physis_ros.engine.demand import Demand, demand
from physis_ros.engine.devices import DevicePool
from physis_ros.engine.groupings import in_flight
from physis_ros.engine.spread import even_split
from physis_ros.engine.virtual import S, VirtualPool
from physis_ros.evaluation.pool.assumptions import (
    DEVICES,
    H100,
    MODELS,
    SLO_S,
    DeviceFacts,
    PublishedModel,
)

DECIDES = (
    "what decides: memory that each card keeps for KV, H3's weights as stored, tokens and latents "
    'of a chunk; speed for 14B alone\n'
    '--sensitivity changes memory, weights and speed one at a time; docs/published.md says why'
)
_MAX_BATCH = 16
_PERIODS = 8
_HEADROOMS = (0.0, 0.1, 0.2, 0.3)


@dataclass(frozen=True)
class Capacity:
    """
    Streams of one model on the pool, ours and published.

    :param headroom: share of device time that had to stay free so that no output came late.
    :param late: outputs later than their planned delivery in the virtual run; -1: not run.
    :param outputs: of that run.
    :param stage_s: interval with one stage on each device.
    :param memory_bound: streams that all memory could hold with one copy of the weights.
    :param time_bound: streams that all device time could carry at the best batch.
    """

    even: int
    joint: int
    published_even: int
    published_joint: int
    headroom: float
    late: int
    outputs: int
    stage_s: float
    memory_bound: float
    time_bound: float

    @property
    def gain(self) -> float:
        """Joint over even."""
        return self.joint / self.even

    @property
    def published_gain(self) -> float:
        """The same, published."""
        return self.published_joint / self.published_even


def capacity(model: PublishedModel, device: DeviceFacts = H100, run: bool = True) -> Capacity:
    """Fill the pool with streams of one model, and run what was admitted."""
    pool, cost = device.pool(), model.cost(device)
    asked = demand('s', cost, SLO_S)
    even = len(even_split(pool, [asked] * DEVICES))
    for headroom in _HEADROOMS:
        door = _filled(pool, asked, headroom)
        late, outputs = _verify(door, asked) if run else (-1, 0)
        if late <= 0:
            break
    free = sum(d.memory_bytes for d in pool.devices) - sum(cost.weight_bytes)
    least_s = min(t / n for n, t in enumerate(cost.curves[0].times_s, start=1)) * cost.stages
    return Capacity(
        even=even,
        joint=len(door.running),
        published_even=model.even,
        published_joint=model.joint,
        headroom=headroom,
        late=late,
        outputs=outputs,
        stage_s=stage_interval_s(model, device),
        memory_bound=free / cost.stream_bytes,
        time_bound=DEVICES * SLO_S / least_s,
    )


def stage_interval_s(model: PublishedModel, device: DeviceFacts = H100) -> float:
    """Run one stream with one stage on each device; return its steady interval."""
    cost = model.cost(device)
    pool = device.pool(cost.stages)
    virtual = VirtualPool(pool, 1)
    stream = virtual.open('s', cost, range(cost.stages), 1e-6, cost.stages, 1.0)
    chunks = 8
    while len(stream.outputs) < chunks:
        virtual.run(virtual.now_ns + round(cost.serial_s * S))
    outs = [output.out_ns for output in stream.outputs]
    return float(np.median(np.diff(outs))) / S


def report(device: DeviceFacts = H100, run: bool = True) -> dict[str, Capacity]:
    """Return all five models."""
    return {model.name: capacity(model, device, run) for model in MODELS}


def sensitivity() -> list[tuple[str, dict[str, Capacity]]]:
    """Return the counts again with one assumption changed at a time."""
    cards: list[tuple[str, DeviceFacts]] = [
        ('8 GB kept free on each card', replace(H100, reserve_bytes=8e9)),
        ('H200: 143,771 MiB', replace(H100, memory_bytes=143_771 * (1 << 20))),
        ('48 GB cards', replace(H100, memory_bytes=49_140 * (1 << 20))),
        ('everything takes a quarter longer', replace(H100, best=H100.best / 1.25)),
    ]
    found = [(what, report(device, run=False)) for what, device in cards]
    cached = replace(MODELS[4], work=replace(MODELS[4].work, block_bytes=771e6))
    found.append(('H3 with cached step modulation', {cached.name: capacity(cached, run=False)}))
    return found


def as_dict(figures: dict[str, Capacity]) -> dict[str, Any]:
    """Return the report, ready for JSON."""
    models = {
        name: {**asdict(c), 'gain': c.gain, 'published_gain': c.published_gain}
        for name, c in figures.items()
    }
    holds = all(c.joint >= c.even for c in figures.values()) and all(
        c.gain >= c.published_gain for c in figures.values()
    )
    return {'slo_s': SLO_S, 'devices': DEVICES, 'models': models, 'holds': holds}


def text(figures: dict[str, Capacity], say: Callable[[str], None]) -> None:
    """Print the report."""
    say(
        f'{DEVICES} devices ({H100.name}), SLO {SLO_S * 1e3:.0f} ms; published figures in brackets'
    )
    say(
        'model             even        joint       gain           bound by memory/time  free  '
        'late   one stage a device'
    )
    for name, c in figures.items():
        late = '-' if c.late < 0 else f'{c.late}/{c.outputs}'
        say(
            f'{name:<16}  {c.even:>3} ({c.published_even:>2})    {c.joint:>3} '
            f'({c.published_joint:>2})    {c.gain:.2f} ({c.published_gain:.2f})    '
            f'{c.memory_bound:>6.1f} / {c.time_bound:<6.1f}  {c.headroom:>4.0%}  {late:>9}  '
            f'{c.stage_s * 1e3:6.3f} ms'
        )


def _filled(pool: DevicePool, asked: Demand, headroom: float) -> Admitter:
    door, number = Admitter(pool, headroom), 0
    while isinstance(door.admit(replace(asked, stream=f's{number}'), explain=False), Admission):
        number += 1
    return door


def _verify(door: Admitter, asked: Demand) -> tuple[int, int]:
    """Run what was admitted; count outputs after their planned delivery."""
    virtual = VirtualPool(door.pool, _MAX_BATCH)
    passes, count = asked.model.passes, len(door.running)
    streams = []
    for i, (name, placed) in enumerate(door.running.items()):
        hosts = [placed.hosts[rank] for rank in placed.demand.owner]
        depth = in_flight(asked.model, hosts, _MAX_BATCH)
        streams.append(
            virtual.open(
                name, asked.model, hosts, SLO_S, depth, passes * SLO_S, phase_s=SLO_S * i / count
            )
        )
    virtual.run(round(_PERIODS * SLO_S * S))
    late = sum(
        out.out_ns > out.beat_ns + stream.allowed_ns
        for stream in streams
        for out in stream.outputs
    )
    lost = sum(stream.beats_lost for stream in streams)
    return late + lost, sum(len(stream.outputs) for stream in streams)
