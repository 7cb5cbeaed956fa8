# SPDX-License-Identifier: Apache-2.0
"""
The account of a recorded run, by the same code that keeps it live (``session/player.py``).

Chunks are judged again and ticks are counted again, in the order in which they were received. The
servo's own last status in the recording tells whether both agree.
"""

from __future__ import annotations

import heapq
import math
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np

from physis_ros.clock import ClockSteps
from physis_ros.errors import BagError
from physis_ros.evaluation.recording import Recording, Tick
from physis_ros.output.figures import Figures
from physis_ros.output.sketch import RELATIVE_ACCURACY
from physis_ros.session.player import Player
from physis_ros.session.player_config import PlayerConfig
from physis_ros.types import ActionChunk, Play, Reason

# A chunk that comes as its last step passes is refused or not by the microsecond.
BORDERLINE = 2
QUANTILES = ('p50', 'p90', 'p99', 'max')
RUNGS = tuple(play.value for play in Play if play is not Play.PLAYING)
SETTINGS_MS = ('max_action_age_ms', 'settle_ms', 'blend_ms', 'hold_ms', 'ramp_ms')


@dataclass(frozen=True)
class Agreement:
    """
    One figure, live and recomputed.

    :param live: as the servo published it last; None when it published none.
    :param agrees: both are the same: counts exactly but for chunks that came as their time ran
        out, quantiles to the last digit that the sketch guarantees; None when there is nothing to
        compare with.
    """

    name: str
    live: float | None
    recomputed: float | None
    agrees: bool | None


def player_config(recording: Recording) -> PlayerConfig:
    """
    Return how the chunks were played; the player's own defaults where nobody recorded it.

    :raises BagError: when no tick was recorded.
    """
    if not recording.ticks or not recording.chunks:
        raise BagError('recording must hold ticks and chunks, got none')
    given = recording.configuration
    settings: dict[str, Any] = {
        f'{name[:-3]}_ns': round(float(given[name]) * 1e6) for name in SETTINGS_MS if name in given
    }
    return PlayerConfig(
        names=recording.chunks[0].names, servo_rate_hz=servo_rate_hz(recording), **settings
    )


def servo_rate_hz(recording: Recording) -> float:
    """Return the set rate: as it was told, or from the schedule of the ticks."""
    given = recording.configuration.get('servo_hz')
    if given is not None:
        return float(given)
    if recording.status is not None and recording.status.servo_hz > 0.0:
        return float(recording.status.servo_hz)
    scheduled = np.diff([tick.scheduled_ns for tick in recording.ticks])
    return round(1e9 / float(np.median(scheduled[scheduled > 0])), 3)


def recompute(recording: Recording, config: PlayerConfig | None = None) -> Figures:
    """Return the figures of the recorded ticks and chunks."""
    player, steps = Player(config or player_config(recording)), ClockSteps()
    active, last_ns = False, 0
    for item in _in_order(recording):
        if isinstance(item, _Offered):
            if not active and item.active:
                player.activate(last_ns)
                active = True
            if item.other_engine and item.chunk.epoch < player.epoch:
                player = _anew(player, last_ns)
            player.offer(item.chunk, item.arrived_ns(last_ns))
            continue
        stamp_ns, late_ns = item.command.stamp_ns, item.ticked_ns - item.scheduled_ns
        stepped = steps.ahead_ns(stamp_ns, item.scheduled_ns) > 0
        if item.command.reason is Reason.INACTIVE:
            player.deactivate(stamp_ns)
            active = False
        else:
            if not active or stamp_ns < last_ns:
                player.activate(stamp_ns)
                active = True
            player.account.tick(item.command, late_ns, stepped)
        last_ns = stamp_ns
    return player.account.figures()


def _anew(player: Player, now_ns: int) -> Player:
    """Return a player of another engine's chunks with the same account, as the servo makes it."""
    other = Player(player.config)
    other.account = player.account
    other.activate(now_ns)
    return other


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


def agreements(figures: Figures, status: Any | None) -> list[Agreement]:
    """
    Compare with the last status that the servo published.

    :param status: a ``PlaybackStatus`` message, or None.
    """
    counts: dict[str, float | None] = {
        'ticks': figures.ticks,
        'deadline_due': figures.due,
        'deadline_misses': figures.misses,
        'underruns': figures.underruns.count,
        'underrun_ticks': figures.underruns.ticks,
    }
    rows = [_agreement(name, _count(status, name), value) for name, value in counts.items()]
    rungs = _rungs(status)
    for rung in RUNGS:
        live = None if rungs is None else rungs.get(rung, 0)
        rows.append(_agreement(f'underrun_{rung}', live, figures.underruns.by_rung.get(rung, 0)))
    chunks = figures.chunks
    for name, count in (
        ('chunks_accepted', chunks.accepted),
        ('chunks_rejected', sum(chunks.rejected.values())),
    ):
        rows.append(_agreement(name, _count(status, name), count, 0.0, BORDERLINE))
    for part in QUANTILES:
        for name, sketch, field in (
            ('action_age_ms', figures.age_ms.worst, 'action_age'),
            ('servo_period_error_us', figures.period_error_us, 'servo_period_error'),
        ):
            figure = None if status is None else float(getattr(getattr(status, field), part))
            rows.append(
                _agreement(f'{name} {part}', figure, getattr(sketch, part), RELATIVE_ACCURACY)
            )
    return rows


def _agreement(
    name: str,
    live: float | None,
    recomputed: float | None,
    relative: float = 0.0,
    absolute: float = 0.0,
) -> Agreement:
    """Compare one figure."""
    if live is None or math.isnan(live) or recomputed is None:
        return Agreement(name, live, recomputed, None)
    close = math.isclose(live, recomputed, rel_tol=relative, abs_tol=absolute)
    return Agreement(name, live, recomputed, close)


def _count(status: Any | None, name: str) -> int | None:
    """Return one count of the status."""
    return None if status is None else int(getattr(status, name))


def _rungs(status: Any | None) -> dict[str, int] | None:
    """Return the ticks of each rung; None where an older servo did not count them."""
    if status is None or not hasattr(status, 'underrun_rungs'):
        return None
    return {str(item.name): int(item.count) for item in status.underrun_rungs}


def _in_order(recording: Recording) -> Iterator[_Offered | Tick]:
    """Yield chunks and ticks as received, up to the last tick: then the servo was gone."""
    chunks = ((log_ns, 0, index) for index, log_ns in enumerate(recording.chunk_log_ns))
    ticks = ((tick.log_ns, 1, index) for index, tick in enumerate(recording.ticks))
    merged = list(heapq.merge(chunks, ticks))
    offered: dict[int, _Offered] = {}
    following: Tick | None = None
    played: set[int] = set()
    for _, kind, index in reversed(merged):
        if kind:
            following = recording.ticks[index]
            if following.command.play is Play.PLAYING:
                played.add(following.command.epoch)
        elif following is not None:
            chunk, command = recording.chunks[index], following.command
            active = command.reason is not Reason.INACTIVE
            offered[index] = _Offered(chunk, command.stamp_ns, active, chunk.epoch in played)
    for _, kind, index in merged:
        if kind:
            yield recording.ticks[index]
        elif index in offered:
            yield offered[index]
