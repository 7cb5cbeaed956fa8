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
from physis_ros.session.player import Player
from physis_ros.session.player_config import PlayerConfig
from physis_ros.types import ActionChunk, Play

# Sketches are exact to 0.5 %; a quantile of both may be off by so much, each its own way.
TOLERANCE = 0.02
# A chunk that comes as its last step passes is refused or not by the microsecond.
BORDERLINE = 2
RUNGS = tuple(play.value for play in Play if play is not Play.PLAYING)
SETTINGS_MS = ('max_action_age_ms', 'settle_ms', 'blend_ms', 'hold_ms', 'ramp_ms')


@dataclass(frozen=True)
class Agreement:
    """
    One figure, live and recomputed.

    :param live: as the servo published it last; None when it published none.
    :param agrees: both are the same: counts exactly but for chunks that came as their time ran
        out, quantiles within the sketches' accuracy;
        None when there is nothing to compare with.
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
    """Return the set rate: from the configuration, or from the schedule of the ticks."""
    given = recording.configuration.get('servo_hz')
    if given is not None:
        return float(given)
    scheduled = np.diff([tick.scheduled_ns for tick in recording.ticks])
    return round(1e9 / float(np.median(scheduled[scheduled > 0])), 3)


def recompute(recording: Recording, config: PlayerConfig | None = None) -> Figures:
    """Return the figures of the recorded ticks and chunks."""
    player = Player(config or player_config(recording))
    begun, last_ns, steps = False, 0, ClockSteps()
    for item in _in_order(recording):
        if isinstance(item, ActionChunk):
            # Nobody recorded when it reached the servo: the hand-over comes nearest, but a chunk
            # is never taken before the tick that was counted before it.
            player.offer(item, max(item.times.publish_ns, last_ns))
            continue
        if not begun:
            player.activate(item.command.stamp_ns)
            begun = True
        last_ns = item.command.stamp_ns
        stepped = steps.ahead_ns(last_ns, item.scheduled_ns) > 0
        player.account.tick(item.command, item.ticked_ns - item.scheduled_ns, stepped)
    return player.account.figures()


def agreements(figures: Figures, status: Any | None) -> list[Agreement]:
    """
    Compare with the last status that the servo published.

    :param status: a ``PlaybackStatus`` message, or None.
    """
    age, period = figures.age_ms.worst, figures.period_error_us
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
    accepted = 'chunks_accepted'
    rows.append(
        _agreement(
            accepted, _count(status, accepted), figures.chunks.accepted, TOLERANCE, BORDERLINE
        )
    )
    for part in ('p50', 'p99'):
        for name, sketch, field in (
            (f'action_age_ms {part}', age, 'action_age'),
            (f'servo_period_error_us {part}', period, 'servo_period_error'),
        ):
            figure = None if status is None else float(getattr(getattr(status, field), part))
            rows.append(_agreement(name, figure, getattr(sketch, part), TOLERANCE))
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


def _in_order(recording: Recording) -> Iterator[ActionChunk | Tick]:
    """Yield chunks and ticks as they were received."""
    chunks = zip(recording.chunk_log_ns, range(len(recording.chunks)), strict=True)
    ticks = ((tick.log_ns, index) for index, tick in enumerate(recording.ticks))
    tagged = heapq.merge(((log, 0, i) for log, i in chunks), ((log, 1, i) for log, i in ticks))
    for _, kind, index in tagged:
        yield recording.ticks[index] if kind else recording.chunks[index]
