# SPDX-License-Identifier: Apache-2.0
"""
The account of a recorded run, by the same code that keeps it live (``session/player.py``).

Chunks are judged again and ticks are counted again, in the order in which the servo met them
(``order.py``). The account as of the servo's own statuses is kept beside, for ``agreement.py``. A
servo that was started again counts from 0 and knows nothing of its life before: each life has its
own account. What the recording lacks is told, and nothing is compared across it.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

from physis_ros.clock import ClockSteps
from physis_ros.errors import BagError
from physis_ros.evaluation import settings
from physis_ros.evaluation.order import Malformed, Offered, Told, came_ns, in_order
from physis_ros.evaluation.recording import Lost, Recording, Tick
from physis_ros.output.checks import out_of_time, passed
from physis_ros.output.figures import Figures, Phase
from physis_ros.session.player import Player
from physis_ros.types import Play, Reason

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
    :param doubtful_chunks: chunks that were taken or not, likewise, and never played.
    """

    status: Any
    figures: Figures
    doubtful_late: int
    doubtful_steps: int
    doubtful_chunks: int = 0


@dataclass(frozen=True)
class Recomputed:
    """
    What a recording gives.

    :param figures: of all of it.
    :param first: at the first status whose tick is recorded; None when there is none.
    :param settled: at the first one from which on all counts go on alike, whatever had been
        before the recording, or is missing in it: both are in one phase, and a recorded chunk has
        been played.
    :param last: at the last one.
    :param whole: nothing is missing since the first one, or since the clock went back.
    :param missing_ticks: that the recorder knows to have missed.
    :param missing_chunks: likewise, or played and not recorded.
    """

    figures: Figures
    first: Mark | None
    settled: Mark | None
    last: Mark | None
    whole: bool
    missing_ticks: int
    missing_chunks: int


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
    ticks = [tick for tick in recording.ticks if tick.begun_ns == begun_ns]
    from_ns = 0
    # An older servo does not say when it began.
    if begun_ns:
        # What was sent again on its way came late.
        ticks.sort(key=lambda tick: tick.ticked_ns)
        # What came before that nobody heard.
        from_ns = came_ns(ticks)[0] - (ticks[0].ticked_ns - begun_ns)
    played = {tick.key for tick in ticks}
    heard = [
        index
        for index, (chunk, log_ns) in enumerate(
            zip(recording.chunks, recording.chunk_log_ns, strict=True)
        )
        if log_ns >= from_ns or (chunk.epoch, chunk.chunk, chunk.times.publish_ns) in played
    ]
    return replace(
        recording,
        ticks=tuple(ticks),
        chunks=tuple(recording.chunks[index] for index in heard),
        chunk_log_ns=tuple(recording.chunk_log_ns[index] for index in heard),
        malformed_log_ns=tuple(ns for ns in recording.malformed_log_ns if ns >= from_ns),
        statuses=tuple(
            record
            for record in recording.statuses
            if getattr(record.message, 'begun_steady_ns', 0) == begun_ns
        ),
        lost=tuple(lost for lost in recording.lost if lost.log_ns >= from_ns),
    )


def recompute(recording: Recording) -> Recomputed:
    """
    Return the figures of the recorded ticks and chunks.

    :param recording: one of :func:`lives`.
    :raises BagError: when no tick was recorded.
    """
    recount = _Recount(Player(settings.player_config(recording)))
    for item in in_order(recording):
        if isinstance(item, Offered):
            recount.offer(item)
        elif isinstance(item, Tick):
            recount.tick(item)
        elif isinstance(item, Malformed):
            recount.player.account.malformed()
        elif isinstance(item, Lost):
            recount.lost(item)
        else:
            recount.status(item)
    return recount.result()


class _Recount:
    """
    Counts a recording, item by item.

    :param player: as it was set at the beginning.
    """

    def __init__(self, player: Player) -> None:
        self.player, self._steps = player, ClockSteps()
        self._active, self._last_ns = False, 0
        self._late = self._skipped = self._unsure = 0
        # Chunks by what a tick tells of them: all that came, and those taken since a gap.
        self._heard: set[tuple[int, int, int]] = set()
        self._own: set[tuple[int, int, int]] = set()
        self._begun_ns: int | None = None
        self._epoch: int | None = None
        # Nothing is missing; both are where nothing that was before the recording counts any more.
        self._whole, self._in_step, self._plays_own = True, False, False
        self._lost_ticks = self._lost_chunks = 0
        self._strange: set[tuple[int, int, int]] = set()
        self._first: Mark | None = None
        self._settled: Mark | None = None
        self._last: Mark | None = None

    def offer(self, item: Offered) -> None:
        """Judge a chunk."""
        chunk, turned = item.chunk, item.active is not self._active
        if turned and item.active:
            self._go(self._last_ns)
        if item.other_engine:
            self.player.begin_anew()
        arrived_ns = item.arrived_ns(self._last_ns)
        # What comes as the servo ticks is taken after that.
        latest_ns = max(arrived_ns, item.next_ns + self.player.config.period_ns)
        verdict = self.player.offer(chunk, self._taken_ns(item, arrived_ns))
        if self._begun_ns is None:
            self._begun_ns = chunk.times.publish_ns
        # A tick may not know any more when its chunk was published.
        known = {(chunk.epoch, chunk.chunk, ns) for ns in (chunk.times.publish_ns, 0)}
        self._heard |= known
        unsure = turned or item.unheard or self._in_doubt(item, arrived_ns, latest_ns)
        unsure &= not item.played
        self._unsure += unsure
        if verdict.accepted:
            self._own |= known
            # The way to the servo may have been the shorter one.
            least = min(passed(chunk, chunk.times.publish_ns), verdict.skipped)
            most = passed(chunk, latest_ns)
            self._skipped += most if unsure else most - least
            self._late += most > 0 and (unsure or not least)

    def _in_doubt(self, item: Offered, arrived_ns: int, latest_ns: int) -> bool:
        """Whether it depends on when it came that a chunk was taken."""
        gate, published_ns = self.player.config.timeline.gate, item.chunk.times.publish_ns
        instants = (published_ns, arrived_ns, latest_ns)
        return len({out_of_time(item.chunk, ns, gate) is None for ns in instants}) > 1

    def _taken_ns(self, item: Offered, arrived_ns: int) -> int:
        """Return when a chunk was taken at which it could be, if it was played."""
        gate = self.player.config.timeline.gate
        at_ns = (arrived_ns, item.next_ns) if item.played else ()
        return next((ns for ns in at_ns if not out_of_time(item.chunk, ns, gate)), arrived_ns)

    def tick(self, item: Tick) -> None:
        """Count a tick."""
        command, went_back = item.command, item.command.stamp_ns < self._last_ns
        if command.reason is Reason.INACTIVE:
            # Takes nothing, and commands what the tick says.
            self.player.brake(command.stamp_ns)
            self._active = False
        elif not self._active or went_back:
            self._go(command.stamp_ns)
        self.player.account.tick(command, item.ticked_ns - item.scheduled_ns, self._stepped(item))
        self._last_ns = command.stamp_ns
        if went_back:
            # Both begin anew.
            self._mend(in_step=True)
            self._whole = True
        self._keep_step(item)
        if command.play is Play.PLAYING:
            self._play(item)

    def _stepped(self, item: Tick) -> bool:
        """Whether the clock was set ahead since the tick before; a final hold is none."""
        if item.final:
            return False
        return self._steps.ahead_ns(item.command.stamp_ns, item.ticked_ns) > 0

    def _keep_step(self, item: Tick) -> None:
        """Note that both are in a phase in which only what comes counts."""
        told = Phase.WARMING if item.warm_up else Phase.ACTIVE if item.due else Phase.INACTIVE
        epoch, before = item.command.epoch, self._epoch
        # What was played of an epoch counts in its warm-up: that was all recorded.
        begun = epoch < 0 or before not in (None, epoch)
        alike = told is self.player.account.phase
        self._in_step |= alike and (told is not Phase.WARMING or begun)
        self._epoch = epoch

    def _play(self, item: Tick) -> None:
        """Look whether what is played is recorded."""
        if item.key in self._own:
            self._plays_own = True
        elif item.key not in self._heard:
            # What was published before the recording began is not missing in it.
            if self._begun_ns is not None and item.chunk_ns > self._begun_ns:
                self._strange.add(item.key)
            self._break()

    def lost(self, item: Lost) -> None:
        """Note that something is missing."""
        self._lost_ticks += item.ticks
        self._lost_chunks += item.chunks
        self._break()

    def _break(self) -> None:
        """Compare nothing across what is missing."""
        self._whole = False
        self._mend(in_step=False)

    def _mend(self, in_step: bool) -> None:
        """Wait until both count alike again."""
        self._in_step, self._plays_own, self._settled = in_step, False, None
        self._epoch = None
        self._own.clear()

    def _go(self, now_ns: int) -> None:
        """Play from now on."""
        self.player.activate(now_ns)
        self._active = True

    def status(self, item: Told) -> None:
        """Note how far both have counted, and go on as is set now."""
        message, figures = item.message, self.player.account.figures()
        mark = Mark(message, figures, self._late, self._skipped, self._unsure)
        if self._first is None:
            self._first = mark
            self._whole &= self._in_step
        self._last = mark
        phase = PHASES[message.state] if message.state < len(PHASES) else None
        settled = self._plays_own and self._in_step and figures.phase is phase
        if self._settled is None and settled:
            self._settled = mark
        config = settings.told(self.player.config, message)
        if config != self.player.config:
            self.player.reconfigure(config)

    def result(self) -> Recomputed:
        """Return everything."""
        return Recomputed(
            self.player.account.figures(),
            self._first,
            self._settled,
            self._last,
            self._whole,
            self._lost_ticks,
            max(self._lost_chunks, len(self._strange)),
        )
