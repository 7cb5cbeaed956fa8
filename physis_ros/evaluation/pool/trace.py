# SPDX-License-Identifier: Apache-2.0
"""
The trace of a pool simulation: what happens, as a JSON file or made by code.

Everything is checked here, before anything is simulated.
"""

from __future__ import annotations

import random
from dataclasses import dataclass
from pathlib import Path

from physis_ros.errors import ParameterError
from physis_ros.evaluation.pool.entry import MOST, Entry, read
from physis_ros.evaluation.pool.pool_file import PoolFile

# Beyond these there is nothing to see any more, and figures overflow.
_MOST_ARRIVALS, _MOST_JITTER, _MOST_FACTOR = 1_000_000, 3.0, 1e6
# Kinds of events, and what each says beside whom it is about.
_KINDS = {'open': ('model', 'slo_s'), 'close': (), 'slow': ('factor',), 'lose': ()}


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
    :param sample_s: after each event run two samples of this length, rounded up to a multiple of
        all periods, and count the rest up to the next event as more of the second; 0: run all.
    """

    duration_s: float
    events: tuple[Event, ...]
    seed: int = 0
    jitter: float = 0.0
    sensor_s: float = 0.0
    settle_s: float = 0.0
    sample_s: float = 0.0

    def __post_init__(self) -> None:
        """
        Refuse impossible figures.

        :raises ParameterError: naming the figure.
        """
        if not 0 < self.duration_s < float('inf'):
            raise ParameterError('duration_s', '> 0', self.duration_s)
        for name in ('jitter', 'sensor_s', 'settle_s', 'sample_s'):
            if not 0 <= getattr(self, name) < float('inf'):
                raise ParameterError(name, '>= 0', getattr(self, name))


def read_trace(path: Path, pool: PoolFile) -> Trace:
    """
    Read a trace for a pool.

    :raises ParameterError: naming the entry that is wrong.
    """
    names = ('jitter', 'sensor_s', 'settle_s', 'sample_s')
    fields = {'duration_s', 'seed', *names, 'events', 'arrivals'}
    content = read(path, fields)
    duration_s, seed = content.number('duration_s'), content.whole('seed', 0, least=0)
    events = [_event(entry, pool, duration_s) for entry in content.list('events')]
    for i, entry in enumerate(content.list('arrivals')):
        entry.only({'model', 'slo_s', 'per_s', 'life_s'})
        rates = {name: entry.number(name) for name in ('slo_s', 'per_s', 'life_s')}
        events += arrivals(i, seed, duration_s, entry.text('model'), **rates)
    events = sorted(events, key=lambda event: event.at_s)
    _check_streams(events, pool)
    figures = {
        name: content.number(name, 0.0, most=_MOST_JITTER if name == 'jitter' else MOST)
        for name in names
    }
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
            raise ParameterError(f'arrivals[{index}].{name}', '> 0', value)
    if per_s * duration_s > _MOST_ARRIVALS:
        rule = f'at most {_MOST_ARRIVALS / duration_s:g}, for {_MOST_ARRIVALS} streams in all'
        raise ParameterError(f'arrivals[{index}].per_s', rule, per_s)
    events: list[Event] = []
    chance, now_s = random.Random(f'{seed}.{index}'), 0.0
    while (now_s := now_s + chance.expovariate(per_s)) < duration_s:
        name = f'{model}.{index}.{len(events)}'
        events.append(Event(now_s, 'open', name, model, slo_s))
        events.append(Event(now_s + chance.expovariate(1 / life_s), 'close', name))
    return events


def _event(entry: Entry, pool: PoolFile, duration_s: float) -> Event:
    kinds = [kind for kind in _KINDS if entry.has(kind)]
    if len(kinds) != 1 or not entry.has('at_s'):
        raise ParameterError(entry.where, f'an at_s and one of {list(_KINDS)}', entry.content)
    (kind,) = kinds
    entry.only({'at_s', kind, *_KINDS[kind]})
    subject, at_s = entry.text(kind), entry.number('at_s')
    if at_s > duration_s:
        raise ParameterError(f'{entry.where}.at_s', f'within duration_s, {duration_s}', at_s)
    if kind == 'open':
        slo_s = entry.number('slo_s')
        return Event(at_s, kind, subject, entry.text('model'), slo_s)
    if kind in ('slow', 'lose'):
        pool.pool.index(subject)
    factor = entry.number('factor', 1.0, most=_MOST_FACTOR)
    if not factor > 0:
        raise ParameterError('factor', '> 0', factor)
    return Event(at_s, kind, subject, factor=factor)


def _check_streams(events: list[Event], pool: PoolFile) -> None:
    """Refuse models that are not there, and names that do not fit each other."""
    seen: set[str] = set()
    there: set[str] = set()
    for event in events:
        if event.kind == 'open':
            if event.model not in pool.models:
                raise ParameterError('model', f'one of {sorted(pool.models)}', event.model)
            if not event.slo_s > 0:
                raise ParameterError('slo_s', '> 0', event.slo_s)
            if event.subject in there:
                raise ParameterError('open', 'a name that is not open', event.subject)
            there.add(event.subject)
            seen.add(event.subject)
        elif event.kind == 'close':
            if event.subject not in seen:
                raise ParameterError('close', 'a stream opened before', event.subject)
            there.discard(event.subject)
