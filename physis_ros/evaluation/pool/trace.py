# SPDX-License-Identifier: Apache-2.0
"""
The two files of a pool simulation: the pool (devices, models) and the trace (what happens to it).

Both JSON. Everything is checked here, before anything is simulated.
"""

from __future__ import annotations

import json
import random
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from physis_ros.engine.cost import BatchCurve, ModelCost
from physis_ros.engine.devices import Device, DevicePool
from physis_ros.engine.profile import load
from physis_ros.errors import ParameterError

GB = 1_000_000_000


@dataclass(frozen=True)
class PoolFile:
    """
    What is simulated.

    :param models: costs by the name traces use.
    :param max_batch: most rows of one batch.
    :param headroom: share of each device's time that admission leaves free.
    """

    pool: DevicePool
    models: Mapping[str, ModelCost]
    max_batch: int = 16
    headroom: float = 0.0


@dataclass(frozen=True)
class Event:
    """
    One thing that happens.

    :param kind: ``open``, ``close``, ``slow`` or ``lose``.
    :param subject: a stream, or a device for the last two.
    :param model: of a stream that opens.
    :param slo_s: of a stream that opens.
    :param factor: how many times as long a slow device takes.
    """

    at_s: float
    kind: str
    subject: str
    model: str = ''
    slo_s: float = 0.0
    factor: float = 1.0


@dataclass(frozen=True)
class Trace:
    """
    What happens, and how long it is watched.

    :param jitter: standard deviation of the logarithm of each batch's time.
    :param sensor_s: interval of observations; 0: always a fresh one.
    :param settle_s: of each stream's life that stays outside the figures.
    """

    duration_s: float
    events: tuple[Event, ...]
    seed: int = 0
    jitter: float = 0.0
    sensor_s: float = 0.0
    settle_s: float = 0.0

    def __post_init__(self) -> None:
        """
        Refuse impossible figures.

        :raises ParameterError: naming the figure.
        """
        if not 0 < self.duration_s < float('inf'):
            raise ParameterError('duration_s', '> 0', self.duration_s)
        for name in ('jitter', 'sensor_s', 'settle_s'):
            if not 0 <= getattr(self, name) < float('inf'):
                raise ParameterError(name, '>= 0', getattr(self, name))


def read_pool(path: Path) -> PoolFile:
    """
    Read a pool file.

    :raises ParameterError: naming the entry that is wrong.
    """
    content = _read(path, {'devices', 'models', 'hop_s', 'max_batch', 'headroom'})
    devices = [device for entry in content.get('devices', ()) for device in _devices(entry)]
    models = {name: _model(path, name, entry) for name, entry in content.get('models', {}).items()}
    if not models:
        raise ParameterError('models', 'at least one', models)
    pool = DevicePool(tuple(devices), float(content.get('hop_s', 0.0)))
    return PoolFile(
        pool, models, int(content.get('max_batch', 16)), float(content.get('headroom', 0.0))
    )


def read_trace(path: Path, pool: PoolFile) -> Trace:
    """
    Read a trace for a pool.

    :raises ParameterError: naming the entry that is wrong.
    """
    fields = {'duration_s', 'seed', 'jitter', 'sensor_s', 'settle_s', 'events', 'arrivals'}
    content = _read(path, fields)
    duration_s, seed = float(content.get('duration_s', 0.0)), int(content.get('seed', 0))
    events = [_event(entry, pool) for entry in content.get('events', ())]
    for i, entry in enumerate(content.get('arrivals', ())):
        events += arrivals(i, seed, duration_s, **entry)
    events = sorted(events, key=lambda event: event.at_s)
    _check_models(events, pool)
    names = ('jitter', 'sensor_s', 'settle_s')
    figures = {name: float(content.get(name, 0.0)) for name in names}
    return Trace(duration_s, tuple(events), seed, **figures)


def arrivals(
    index: int, seed: int, duration_s: float, model: str, slo_s: float, per_s: float, life_s: float
) -> list[Event]:
    """
    Draw streams that come and go at random, memoryless.

    :param index: makes the names, and the draw, of several such sources differ.
    :param per_s: mean arrivals each second.
    :param life_s: mean life.
    """
    for name, value in (('per_s', per_s), ('life_s', life_s)):
        if not value > 0:
            raise ParameterError(name, '> 0', value)
    events: list[Event] = []
    chance, now_s = random.Random(f'{seed}.{index}'), 0.0
    while (now_s := now_s + chance.expovariate(per_s)) < duration_s:
        name = f'{model}.{index}.{len(events)}'
        events.append(Event(now_s, 'open', name, model, slo_s))
        events.append(Event(now_s + chance.expovariate(1 / life_s), 'close', name))
    return events


def _read(path: Path, known: set[str]) -> dict[str, Any]:
    try:
        content = json.loads(path.read_text())
    except (OSError, ValueError) as error:
        raise ParameterError(str(path), 'a readable JSON file', str(error)) from error
    if not isinstance(content, dict) or not set(content) <= known:
        raise ParameterError(str(path), f'a JSON object of {sorted(known)}', sorted(content))
    return content


def _devices(entry: Mapping[str, Any]) -> list[Device]:
    fields = {key: value for key, value in entry.items() if key not in ('count', 'memory_gb')}
    if 'memory_gb' not in entry or 'name' not in entry:
        raise ParameterError('devices', 'entries with name and memory_gb', dict(entry))
    fields['memory_bytes'] = round(float(entry['memory_gb']) * GB)
    try:
        device = Device(**fields)
    except TypeError as error:
        raise ParameterError('devices', 'entries of known fields', str(error)) from error
    if 'count' not in entry:
        return [device]
    names = [f'{device.name}{i}' for i in range(int(entry['count']))]
    return [Device(**{**fields, 'name': name}) for name in names]


def _model(path: Path, name: str, entry: Mapping[str, Any]) -> ModelCost:
    if 'profile' in entry:
        return load(path.parent / str(entry['profile'])).cost()
    fields = dict(entry)
    blocks = int(fields.pop('blocks', 0))
    try:
        curve = BatchCurve(tuple(float(t) for t in fields.pop('times_s')))
        weights = (int(fields.pop('block_bytes')),) * blocks
        return ModelCost(name=name, weight_bytes=weights, curves=(curve,) * blocks, **fields)
    except (KeyError, TypeError) as error:
        raise ParameterError(
            f'models.{name}', 'a profile, or blocks, passes, block_bytes, kv_bytes, '
            'hidden_bytes, latent_bytes and times_s', repr(error),
        ) from error  # fmt: skip


def _event(entry: Mapping[str, Any], pool: PoolFile) -> Event:
    kinds = [kind for kind in ('open', 'close', 'slow', 'lose') if kind in entry]
    if len(kinds) != 1 or 'at_s' not in entry:
        raise ParameterError(
            'events', "entries with at_s and one of 'open', 'close', 'slow', 'lose'", dict(entry)
        )
    kind, subject = kinds[0], str(entry[kinds[0]])
    if kind in ('slow', 'lose'):
        pool.pool.index(subject)
    factor = float(entry.get('factor', 1.0))
    if not factor > 0:
        raise ParameterError('factor', '> 0', factor)
    return Event(
        float(entry['at_s']), kind, subject, str(entry.get('model', '')),
        float(entry.get('slo_s', 0.0)), factor,
    )  # fmt: skip


def _check_models(events: list[Event], pool: PoolFile) -> None:
    for event in events:
        if event.kind == 'open' and event.model not in pool.models:
            raise ParameterError('model', f'one of {sorted(pool.models)}', event.model)
        if event.kind == 'open' and not event.slo_s > 0:
            raise ParameterError('slo_s', '> 0', event.slo_s)
