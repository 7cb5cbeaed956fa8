# SPDX-License-Identifier: Apache-2.0
"""
The order in which a servo met what is recorded.

A recorder gets every topic in its order, but not always two topics as the servo met them: the way
of a chunk to it may be longer than that to the servo and on to a tick played from it, it gets a
chunk before a servo that is held up has taken it, and it gets ticks seconds late when it is held
up itself. So ticks count by when they were. What is certain is kept to. A chunk comes
before the first tick that was played from it, and after whatever made the player drop its chunks
before that tick; it comes after ticks that know nothing of its epoch yet, if at all; chunks keep
their order; a status counts no chunk after its tick.
"""

from __future__ import annotations

from bisect import bisect_left
from collections import deque
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import accumulate
from typing import Any

from physis_ros.evaluation import settings
from physis_ros.evaluation.recording import Lost, Recording, Tick
from physis_ros.types import ActionChunk, Play, Reason


@dataclass(frozen=True)
class Malformed:
    """A message that is no chunk."""


@dataclass(frozen=True)
class Told:
    """A status, after the last tick that it counts."""

    message: Any


@dataclass(frozen=True)
class Offered:
    """
    A chunk where it was received.

    :param next_ns: stamp of the tick after it.
    :param active: that tick is one of an active player.
    :param other_engine: with it another engine begins, which counts from 0 again.
    :param played: a tick was played from it: it was taken.
    :param unheard: the servo had not heard of its epoch where it was recorded.
    """

    chunk: ActionChunk
    next_ns: int
    active: bool
    other_engine: bool
    played: bool
    unheard: bool = False

    def arrived_ns(self, last_ns: int) -> int:
        """
        Return when it reached the servo, between two ticks; nobody recorded it.

        The hand-over comes nearest; where time went back meanwhile it is of the new time.
        """
        arrived_ns = max(self.chunk.times.publish_ns, last_ns)
        return arrived_ns if self.next_ns < last_ns else min(arrived_ns, self.next_ns)


Item = Offered | Tick | Malformed | Told | Lost
# What comes between the same two ticks: first the status of the one before, last the next tick.
AT_ONCE, BETWEEN, TICK = range(3)
# What a message takes that is sent again: three times the heartbeat of Fast DDS.
LONGEST_WAY_NS = 10_000_000_000


def in_order(recording: Recording) -> Iterator[Item]:
    """
    Yield everything as received, up to the last tick: then the servo was gone.

    :param recording: of one life of a servo, its ticks in their order.
    """
    offered = _offered(recording)
    keyed: list[tuple[int, int, int, int, Item]] = []
    for place, rank, log_ns, item in _placed(recording, offered):
        keyed.append((place, rank, log_ns, len(keyed), item))
    end = len(recording.ticks)
    for place, _, _, _, item in sorted(keyed, key=lambda entry: entry[:4]):
        if place < end or isinstance(item, Told | Lost):
            yield item


def _placed(
    recording: Recording, offered: Sequence[tuple[int, Offered]]
) -> Iterator[tuple[int, int, int, Item]]:
    """Yield the tick that follows, what comes first before it, the instant, and the item."""
    logs = came_ns(recording.ticks)
    for (place, item), log_ns in zip(offered, recording.chunk_log_ns, strict=True):
        yield place, BETWEEN, log_ns, item
    for log_ns in recording.malformed_log_ns:
        yield bisect_left(logs, log_ns), BETWEEN, log_ns, Malformed()
    for lost in recording.lost:
        yield bisect_left(logs, lost.log_ns), BETWEEN, lost.log_ns, lost
    for index, tick in enumerate(recording.ticks):
        yield index, TICK, 0, tick
    yield from _told(recording)


def _told(recording: Recording) -> Iterator[tuple[int, int, int, Item]]:
    """Yield the statuses whose tick is known; what is set may have been changed after it."""
    places = {tick.ticked_ns: index for index, tick in enumerate(recording.ticks)}
    before = config = settings.player_config(recording)
    for record in recording.statuses:
        before, config = config, settings.told(config, record.message)
        # Without its tick nobody can tell what a status counts: neither can one of an older servo.
        place = places.get(getattr(record.message, 'ticked_steady_ns', -1))
        if place is not None:
            rank = AT_ONCE if config == before else BETWEEN
            yield place + 1, rank, record.log_ns, Told(record.message)


def _offered(recording: Recording) -> list[tuple[int, Offered]]:
    """Return each chunk with the index of the tick after it; chunks after the last one too."""
    ticks, chunks = recording.ticks, recording.chunks
    bounds = _bounds(ticks)
    logs, end, horizon = came_ns(ticks), len(ticks), _Horizon(ticks)
    places = [bisect_left(logs, log_ns) for log_ns in recording.chunk_log_ns]
    least, most, sure = [0] * len(chunks), [end] * len(chunks), set()
    for index, chunk in enumerate(chunks):
        least[index] = horizon.heard(chunk.epoch, places[index])
        # Of a chunk that came twice the first one was taken.
        found = bounds.pop((chunk.epoch, chunk.chunk, chunk.times.publish_ns), None)
        if found is not None:
            least[index], most[index] = max(least[index], found[0]), found[1]
            sure.add(index)
    least = list(accumulate(least, max))
    most = list(accumulate(reversed(most), min))[::-1]
    engines = _engines(ticks)
    result = []
    for index, chunk in enumerate(chunks):
        place = min(max(places[index], least[index]), most[index])
        command = ticks[min(place, end - 1)].command
        active = command.reason is not Reason.INACTIVE
        other = bool(engines) and engines[0].sends(chunk, place)
        if other:
            engines.pop(0)
        unheard = place > places[index]
        item = Offered(chunk, command.stamp_ns, active, other, index in sure, unheard)
        result.append((place, item))
    return result


class _Horizon:
    """
    Tells from when on a servo had heard of an epoch. Asked for places that do not decrease.

    :param ticks: of one life.
    """

    def __init__(self, ticks: Sequence[Tick]) -> None:
        self._ticks = ticks
        self._found: dict[int, tuple[int, int]] = {}

    def heard(self, epoch: int, place: int) -> int:
        """
        Return the first tick from ``place`` on that knows the epoch.

        ``place`` itself where none does, or where the player was not active before that: it then
        refuses what comes, and knows no more than before.
        """
        before, found = self._found.get(epoch, (0, -1))
        if not before <= place <= found:
            found = self._first(epoch, place)
            self._found[epoch] = place, found
        known = found < len(self._ticks) and self._ticks[found].command.epoch >= epoch
        return found if known else place

    def _first(self, epoch: int, place: int) -> int:
        for index in range(place, len(self._ticks)):
            command = self._ticks[index].command
            if command.epoch >= epoch or command.reason is Reason.INACTIVE:
                return index
        return len(self._ticks)


def _bounds(ticks: Sequence[Tick]) -> dict[tuple[int, int, int], tuple[int, int]]:
    """Return the least and the greatest index of the tick after each chunk that was played."""
    bounds: dict[tuple[int, int, int], tuple[int, int]] = {}
    least, last_ns = 0, -1
    for index, tick in enumerate(ticks):
        command = tick.command
        if command.reason is Reason.INACTIVE or command.stamp_ns < last_ns:
            least = index + 1
        elif command.play is Play.PLAYING and tick.chunk_ns:
            bounds.setdefault(tick.key, (least, index))
        last_ns = command.stamp_ns
    return bounds


@dataclass(frozen=True)
class _Engine:
    """
    Another engine, as the ticks tell of it.

    :param played: the first tick that is played from it.
    :param before: the first tick that is played from the newest chunk of the one before it.
    :param newest: number of that chunk.
    :param newest_ns: when that was published; 0 where the time went back meanwhile.
    """

    played: int
    before: int
    newest: tuple[int, int]
    newest_ns: int

    def sends(self, chunk: ActionChunk, place: int) -> bool:
        """Whether a chunk can only come from it."""
        lower = (chunk.epoch, chunk.chunk) < self.newest
        between = self.before < place <= self.played
        return between and lower and chunk.times.publish_ns > self.newest_ns


def _engines(ticks: Sequence[Tick]) -> list[_Engine]:
    """Return where chunks are played that are numbered lower than older ones."""
    found: list[_Engine] = []
    newest, newest_ns, before, last_ns = (-1, -1), 0, -1, 0
    for index, tick in enumerate(ticks):
        if tick.command.stamp_ns < last_ns:
            newest_ns = 0
        last_ns = tick.command.stamp_ns
        if tick.command.play is not Play.PLAYING or not tick.chunk_ns:
            continue
        number = tick.key[:2]
        if number < newest and tick.chunk_ns > newest_ns:
            found.append(_Engine(index, before, newest, newest_ns))
        elif number <= newest:
            continue
        newest, newest_ns, before = number, tick.chunk_ns, index
    return found


def came_ns(ticks: Sequence[Tick]) -> list[int]:
    """
    Return when each tick came, or would have but for being held up or lost on its way.

    A recorder without the processor gets what was sent meanwhile seconds later, and not in the
    order in which several sent it. When a tick was is known, and the least that one takes to come
    is what one of the next ones took.
    """
    if not ticks[0].begun_ns:
        # An older servo does not tell.
        return list(accumulate((tick.log_ns for tick in reversed(ticks)), min))[::-1]
    ways_ns = _least_ahead([tick.log_ns - tick.ticked_ns for tick in ticks], ticks)
    return list(accumulate(map(_sum_ns, ticks, ways_ns), max))


def _sum_ns(tick: Tick, way_ns: int) -> int:
    return tick.ticked_ns + way_ns


def _least_ahead(values: Sequence[int], ticks: Sequence[Tick]) -> list[int]:
    """Return the least value from each tick until so long after it as a message may be held up."""
    found: list[int] = []
    window: deque[int] = deque()
    for index in range(len(ticks) - 1, -1, -1):
        while window and values[window[0]] >= values[index]:
            window.popleft()
        window.appendleft(index)
        while ticks[window[-1]].ticked_ns - ticks[index].ticked_ns > LONGEST_WAY_NS:
            window.pop()
        found.append(values[window[-1]])
    return found[::-1]
