# SPDX-License-Identifier: Apache-2.0
"""
The account of a recorded run, by the same code that keeps it live (``session/player.py``).

Chunks are judged again and ticks are counted again, in the order in which they were received. The
account as of the servo's own statuses is kept beside, for ``agreement.py``. A servo that was
started again counts from 0 and knows nothing of its life before: each life has its own account.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Any

from physis_ros.clock import ClockSteps
from physis_ros.errors import BagError
from physis_ros.evaluation import settings
from physis_ros.evaluation.recording import Recording, Tick
from physis_ros.output.checks import passed
from physis_ros.output.figures import Figures, Phase
from physis_ros.session.player import Player
from physis_ros.types import ActionChunk, Play, Reason

CHUNK, MALFORMED, TICK, STATUS = range(4)
# By the STATE constants of the status; it says nothing of the phase while stopping.
PHASES = (Phase.INACTIVE, Phase.WARMING, Phase.ACTIVE)


@dataclass(frozen=True)
class Mark:
    """
    The account at a status of the servo.

    :param status: a ``PlaybackStatus`` message.
    :param figures: as recomputed up to the same tick.
    :param doubtful_late: chunks that were late or not by when they came between two ticks.
    :param doubtful_steps: steps that had passed or not, likewise.
    """

    status: Any
    figures: Figures
    doubtful_late: int
    doubtful_steps: int


@dataclass(frozen=True)
class Recomputed:
    """
    What a recording gives.

    :param figures: of all of it.
    :param first: at the first status whose tick is recorded; None when there is none.
    :param settled: at the first one from which on all counts go on alike, whatever had been
        before the recording: both are in one phase, and a recorded chunk has been played.
    :param last: at the last one.
    """

    figures: Figures
    first: Mark | None
    settled: Mark | None
    last: Mark | None


def lives(recording: Recording) -> tuple[Recording, ...]:
    """
    Return what each life of the servo had part in, in order.

    :raises BagError: when no tick was recorded.
    """
    if not recording.ticks:
        raise BagError('recording must hold ticks, got none')
    begun = dict.fromkeys(tick.begun_ns for tick in recording.ticks)
    return tuple(_life(recording, begun_ns) for begun_ns in begun)


def _life(recording: Recording, begun_ns: int) -> Recording:
    """Return what the servo had part in that began then."""
    ticks = tuple(tick for tick in recording.ticks if tick.begun_ns == begun_ns)
    # What came before that nobody heard; an older servo does not say when it began.
    from_ns = ticks[0].log_ns - (ticks[0].ticked_ns - begun_ns) if begun_ns else 0
    heard = [index for index, log_ns in enumerate(recording.chunk_log_ns) if log_ns >= from_ns]
    return replace(
        recording,
        ticks=ticks,
        chunks=tuple(recording.chunks[index] for index in heard),
        chunk_log_ns=tuple(recording.chunk_log_ns[index] for index in heard),
        malformed_log_ns=tuple(ns for ns in recording.malformed_log_ns if ns >= from_ns),
        statuses=tuple(
            record
            for record in recording.statuses
            if getattr(record.message, 'begun_steady_ns', 0) == begun_ns
        ),
    )


def recompute(recording: Recording) -> Recomputed:
    """
    Return the figures of the recorded ticks and chunks.

    :param recording: one of :func:`lives`.
    :raises BagError: when no tick was recorded.
    """
    recount = _Recount(Player(settings.player_config(recording)))
    for item in _in_order(recording):
        if isinstance(item, _Offered):
            recount.offer(item)
        elif isinstance(item, Tick):
            recount.tick(item)
        elif isinstance(item, _Malformed):
            recount.player.account.malformed()
        else:
            recount.status(item.message)
    return recount.result()


@dataclass(frozen=True)
class _Malformed:
    """A message that is no chunk."""


@dataclass(frozen=True)
class _Told:
    """A status, right after the last tick that it counts."""

    message: Any


@dataclass(frozen=True)
class _Offered:
    """
    A chunk where it was received.

    :param next_ns: stamp of the tick after it.
    :param active: that tick is one of an active player.
    :param other_engine: its epoch is played later on.
    """

    chunk: ActionChunk
    next_ns: int
    active: bool
    other_engine: bool

    def arrived_ns(self, last_ns: int) -> int:
        """
        Return when it reached the servo, between two ticks; nobody recorded it.

        The hand-over comes nearest; where time went back meanwhile it is of the new time.
        """
        arrived_ns = max(self.chunk.times.publish_ns, last_ns)
        return arrived_ns if self.next_ns < last_ns else min(arrived_ns, self.next_ns)


class _Recount:
    """
    Counts a recording, item by item.

    :param player: as it was set at the beginning.
    """

    def __init__(self, player: Player) -> None:
        self.player, self._steps = player, ClockSteps()
        self._active, self._last_ns = False, 0
        self._offered: set[tuple[int, int]] = set()
        self._plays_own = False
        self._late = self._skipped = 0
        self._first: Mark | None = None
        self._settled: Mark | None = None
        self._last: Mark | None = None

    def offer(self, item: _Offered) -> None:
        """Judge a chunk."""
        if not self._active and item.active:
            self.player.activate(self._last_ns)
            self._active = True
        if item.other_engine and item.chunk.epoch < self.player.epoch:
            self.player.begin_anew()
        arrived_ns = item.arrived_ns(self._last_ns)
        verdict = self.player.offer(item.chunk, arrived_ns)
        self._offered.add((item.chunk.epoch, item.chunk.chunk))
        if verdict.accepted:
            # What comes as the servo ticks is taken after that.
            latest_ns = max(arrived_ns, item.next_ns + self.player.config.period_ns)
            skipped = passed(item.chunk, latest_ns)
            self._skipped += skipped - verdict.skipped
            self._late += skipped > 0 and not verdict.late

    def tick(self, item: Tick) -> None:
        """Count a tick."""
        command, late_ns = item.command, item.ticked_ns - item.scheduled_ns
        stepped = self._steps.ahead_ns(command.stamp_ns, item.scheduled_ns) > 0
        if command.reason is Reason.INACTIVE:
            self.player.deactivate(command.stamp_ns)
            self._active = False
        else:
            if not self._active or command.stamp_ns < self._last_ns:
                self.player.activate(command.stamp_ns)
                self._active = True
            self.player.account.tick(command, late_ns, stepped)
        self._last_ns = command.stamp_ns
        if command.play is Play.PLAYING and (command.epoch, command.chunk) in self._offered:
            self._plays_own = True

    def status(self, message: Any) -> None:
        """Note how far both have counted, and go on as is set now."""
        mark = Mark(message, self.player.account.figures(), self._late, self._skipped)
        self._first, self._last = self._first or mark, mark
        phase = PHASES[message.state] if message.state < len(PHASES) else None
        if self._settled is None and self._plays_own and mark.figures.phase is phase:
            self._settled = mark
        config = settings.told(self.player.config, message)
        if config != self.player.config:
            self.player.reconfigure(config)

    def result(self) -> Recomputed:
        """Return everything."""
        figures = self.player.account.figures()
        return Recomputed(figures, self._first, self._settled, self._last)


def _in_order(recording: Recording) -> Iterator[_Offered | Tick | _Malformed | _Told]:
    """Yield everything as received, up to the last tick: then the servo was gone."""
    merged = sorted(_keys(recording))
    offered: dict[int, _Offered] = {}
    following: Tick | None = None
    played: set[int] = set()
    for _, kind, index in reversed(merged):
        if kind == TICK:
            following = recording.ticks[index]
            if following.command.play is Play.PLAYING:
                played.add(following.command.epoch)
        elif kind == CHUNK and following is not None:
            chunk, command = recording.chunks[index], following.command
            active = command.reason is not Reason.INACTIVE
            offered[index] = _Offered(chunk, command.stamp_ns, active, chunk.epoch in played)
    end_ns = recording.ticks[-1].log_ns
    for log_ns, kind, index in merged:
        if kind == TICK:
            yield recording.ticks[index]
        elif kind == STATUS:
            yield _Told(recording.statuses[index].message)
        elif kind == CHUNK and index in offered:
            yield offered[index]
        elif kind == MALFORMED and log_ns <= end_ns:
            yield _Malformed()


def _keys(recording: Recording) -> Iterator[tuple[int, int, int]]:
    """Yield instant, kind and index of everything that counts."""
    for index, log_ns in enumerate(recording.chunk_log_ns):
        yield log_ns, CHUNK, index
    for index, log_ns in enumerate(recording.malformed_log_ns):
        yield log_ns, MALFORMED, index
    for index, tick in enumerate(recording.ticks):
        yield tick.log_ns, TICK, index
    places = {tick.ticked_ns: index for index, tick in enumerate(recording.ticks)}
    following = [tick.log_ns - 1 for tick in recording.ticks[1:]]
    for index, record in enumerate(recording.statuses):
        # Without its tick nobody can tell what a status counts: neither can one of an older servo.
        place = places.get(getattr(record.message, 'ticked_steady_ns', -1))
        if place is not None:
            at_ns = recording.ticks[place].log_ns
            before_ns = following[place] if place < len(following) else record.log_ns
            yield max(at_ns, min(record.log_ns, before_ns)), STATUS, index
