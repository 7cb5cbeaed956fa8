# SPDX-License-Identifier: Apache-2.0
"""What the servo node tells of itself: the playback status. Pure."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import Enum
from typing import Any

from physis_ros.msg import NamedCount, NamedQuantiles, PlaybackStatus
from physis_ros.msg import Quantiles as QuantilesMessage
from physis_ros.output.account import PARTS
from physis_ros.output.figures import AgeFigures, Figures, Phase
from physis_ros.output.limits import LimitMode, column
from physis_ros.output.sketch import Quantiles
from physis_ros.ros import conversions
from physis_ros.session.player_config import PlayerConfig
from physis_ros.types import Command, Play, Reason

STATES = {
    Phase.INACTIVE: PlaybackStatus.STATE_INACTIVE,
    Phase.WARMING: PlaybackStatus.STATE_WARMING_UP,
    Phase.ACTIVE: PlaybackStatus.STATE_ACTIVE,
}
# Field of the status, limit, and what stands for none.
REFUSED = (
    ('below', 'lower', -math.inf),
    ('above', 'upper', math.inf),
    ('velocity', 'velocity', math.inf),
    ('acceleration', 'acceleration', math.inf),
    ('jerk', 'jerk', math.inf),
)
# No observation is of use after so long: more than a message's way, two clocks.
CLOCKS_APART_NS = 10_000_000_000


class Halt(Enum):
    """What was asked for that keeps the player from playing whatever comes, as a sentence."""

    INACTIVE = 'inactive until the node is activated'
    PAUSED = 'paused'
    RESETTING = 'coming to rest to begin anew'


@dataclass(frozen=True)
class Snapshot:
    """
    Everything a status is made from.

    :param stream: whose chunks are played.
    :param begun_ns: since when it counts, steady clock.
    :param command: the last tick.
    :param ticked_ns: when that began, steady clock.
    :param settings: how chunks are played.
    :param last_age_ns: of the last command played from a chunk; None when none was.
    :param halt: why it does not play, when the reason is that it was asked not to.
    :param waits: what is to be said of a clock that is missing or stands still.
    :param apart_ns: how long ago, by our clock, the last chunk was published.
    :param skew_ns: the least age lately, on receipt, of chunks and joint states.
    :param lack: what is to be said of the topic that is waited for.
    :param strangers: what is to be said of whoever takes commands of another type.
    """

    now_ns: int
    stream: str
    begun_ns: int
    figures: Figures
    command: Command
    ticked_ns: int
    settings: PlayerConfig
    last_age_ns: int | None
    depth_ns: int
    subscribers: int
    stopping: bool = False
    halt: Halt = Halt.PAUSED
    waits: str = ''
    apart_ns: int = 0
    skew_ns: Mapping[str, int] = field(default_factory=dict)
    lack: str = ''
    strangers: str = ''


def status(snapshot: Snapshot) -> PlaybackStatus:
    """Return the status message."""
    figures, chunks = snapshot.figures, snapshot.figures.chunks
    rejected = sum(chunks.rejected.values())
    state = PlaybackStatus.STATE_STOPPING if snapshot.stopping else STATES[figures.phase]
    last_age_ns = conversions.NO_AGE_NS if snapshot.last_age_ns is None else snapshot.last_age_ns
    return PlaybackStatus(
        header=conversions.header(snapshot.now_ns),
        stream=snapshot.stream,
        begun_steady_ns=snapshot.begun_ns,
        ticked_steady_ns=snapshot.ticked_ns,
        epoch=snapshot.command.epoch,
        state=state,
        warm_up=figures.phase is Phase.WARMING,
        play=conversions.PLAYS[snapshot.command.play],
        reason=conversions.REASONS[snapshot.command.reason],
        buffer_depth=conversions.duration_message(snapshot.depth_ns),
        last_age=conversions.duration_message(last_age_ns),
        **ages(figures.age_ms),
        servo_period_error=quantiles(figures.period_error_us),
        tick_late=quantiles(figures.tick_late_us),
        **settings(snapshot.settings),
        ticks=figures.ticks,
        deadline_due=figures.due,
        deadline_misses=figures.misses,
        deadline_miss_causes=counts(figures.misses_by_cause),
        underruns=figures.underruns.count,
        underrun_ticks=figures.underruns.ticks,
        underrun_time=conversions.duration_message(figures.underruns.time_ns),
        longest_underrun=conversions.duration_message(figures.underruns.longest_ns),
        underrun_reasons=counts(figures.underruns.by_reason),
        underrun_rungs=counts(figures.underruns.by_rung),
        chunks_received=chunks.accepted + rejected,
        chunks_accepted=chunks.accepted,
        chunks_late=chunks.late,
        chunks_superseded=chunks.superseded,
        chunks_rejected=rejected,
        reject_reasons=counts(chunks.rejected),
        steps_skipped=chunks.steps_skipped,
        chunks_from_future=chunks.future_inputs,
        output_interval=quantiles(chunks.interval_ms),
        response_latency=quantiles(chunks.response_ms),
        seam_position=quantiles(figures.seam_position, 1e3),
        seam_velocity=quantiles(figures.seam_velocity, 1e3),
    )


def ages(figures: AgeFigures) -> dict[str, Any]:
    """Return how old commands are, by input and by part, by the names of the status."""
    return {
        'action_age': quantiles(figures.worst),
        'input_age': [
            NamedQuantiles(name=name, quantiles=quantiles(figure))
            for name, figure in figures.inputs.items()
        ],
        **{f'age_{name}': quantiles(getattr(figures, name)) for name in PARTS},
    }


def nothing(now_ns: int) -> PlaybackStatus:
    """Return the status message of a node that has not ticked."""
    kinds = PlaybackStatus.get_fields_and_field_types()
    unmeasured = {
        name: quantiles(Quantiles()) for name, kind in kinds.items() if kind.endswith('/Quantiles')
    }
    return PlaybackStatus(
        header=conversions.header(now_ns),
        epoch=-1,
        state=PlaybackStatus.STATE_INACTIVE,
        play=conversions.PLAYS[Play.SILENT],
        reason=conversions.REASONS[Reason.INACTIVE],
        last_age=conversions.duration_message(conversions.NO_AGE_NS),
        **unmeasured,
    )


def settings(config: PlayerConfig) -> dict[str, Any]:
    """Return what is set that the figures depend on, by the names of the status."""
    refused = {}
    if config.limit_mode is LimitMode.REJECT:
        refused = {
            f'refused_{field}': column(config.joint_limits, name, none).tolist()
            for field, name, none in REFUSED
        }
    return {
        'servo_hz': config.servo_rate_hz,
        'max_action_age': conversions.duration_message(config.max_action_age_ns),
        'settle': conversions.duration_message(config.settle_ns),
        'far_future': conversions.duration_message(config.far_future_ns),
        'skew': conversions.duration_message(config.skew_ns),
        **refused,
    }


def apart(behind_ns: int) -> str:
    """Say that a stamp cannot be of our clock; nothing when it can."""
    if abs(behind_ns) < CLOCKS_APART_NS:
        return ''
    where = 'behind' if behind_ns > 0 else 'ahead of'
    return (
        f'its time is {abs(behind_ns) * 1e-9:.2g} s {where} ours: use_sim_time must be the same '
        f'at both ends, and the clocks of two machines set'
    )


def quantiles(figures: Quantiles, factor: float = 1.0) -> QuantilesMessage:
    """Return a distribution as a message; what was not measured is NaN."""
    named = {name: getattr(figures, name) for name in ('p50', 'p90', 'p99', 'p999', 'max')}
    return QuantilesMessage(
        n=figures.n,
        **{name: math.nan if value is None else value * factor for name, value in named.items()},
    )


def counts(named: Mapping[str, int]) -> list[NamedCount]:
    """Return counts by name as messages."""
    return [NamedCount(name=name, count=count) for name, count in named.items() if count]
