# SPDX-License-Identifier: Apache-2.0
"""
The figures of one stream as plain frozen data, ready to be published or written to a report.

Units are in the names; distributions are :class:`physis_ros.output.sketch.Quantiles`.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from enum import Enum

from physis_ros.output.sketch import Quantiles


class Phase(Enum):
    """Where a stream is in its life; only ACTIVE ticks enter the figures."""

    INACTIVE = 'inactive'
    WARMING = 'warming'
    ACTIVE = 'active'


@dataclass(frozen=True)
class AgeFigures:
    """
    Age of the observation behind a command when it was commanded [ms].

    :param worst: the oldest input; its parts follow and add up to it.
    :param inputs: the same for each input.
    :param receive: capture to receive (transport).
    :param queue: receive to entry.
    :param engine: entry to the last denoise step.
    :param decode: to decoded actions.
    :param hand_over: to published.
    :param buffer: from published to commanded.
    """

    worst: Quantiles
    inputs: Mapping[str, Quantiles]
    receive: Quantiles
    queue: Quantiles
    engine: Quantiles
    decode: Quantiles
    hand_over: Quantiles
    buffer: Quantiles


@dataclass(frozen=True)
class UnderrunFigures:
    """
    Times without a chunk to play.

    :param count: how often one began.
    :param ticks: ticks without a chunk, also by rung and by reason.
    :param time_ns: how long in all, from the first such tick to the next played one.
    :param longest_ns: the longest one.
    """

    count: int
    ticks: int
    by_rung: Mapping[str, int]
    by_reason: Mapping[str, int]
    time_ns: int
    longest_ns: int


@dataclass(frozen=True)
class ChunkFigures:
    """
    What became of the chunks.

    :param accepted: taken, the late ones among them.
    :param late: taken though some steps had passed.
    :param superseded: taken, but a newer one was played before its first step was.
    :param rejected: refused, by reason.
    :param steps_skipped: steps of accepted chunks whose time had passed on arrival.
    :param steps_clamped: steps moved onto a position limit.
    :param interval_ms: publish to publish (``output_interval``).
    :param response_ms: last input received to published (``response_latency``).
    :param future_inputs: chunks with an input stamped after it was received (clock skew).
    """

    accepted: int
    late: int
    superseded: int
    rejected: Mapping[str, int]
    steps_skipped: int
    steps_clamped: int
    interval_ms: Quantiles
    response_ms: Quantiles
    future_inputs: int


@dataclass(frozen=True)
class Figures:
    """
    All figures of one stream since ``since_ns``.

    :param window: counts up when the clock goes back and the figures begin anew.
    :param ticks: ticks that entered the figures; ``warmup_ticks`` did not.
    :param due: due ticks, :class:`physis_ros.output.account.Account` says which.
    :param misses: due ticks that missed their deadline; ``misses_by_cause`` adds up to it.
    :param period_error_us: absolute difference of servo period and its target.
    :param tick_late_us: tick after its scheduled instant, 0 when early.
    :param seam_position: position step at a switch of chunks that no announced velocity explains,
        greatest joint [rad or m]; ``seam_velocity`` the velocity step [rad/s or m/s].
    """

    phase: Phase
    window: int
    since_ns: int
    until_ns: int
    ticks: int
    warmup_ticks: int
    paused_ticks: int
    due: int
    misses: int
    misses_by_cause: Mapping[str, int]
    age_ms: AgeFigures
    underruns: UnderrunFigures
    chunks: ChunkFigures
    period_error_us: Quantiles
    tick_late_us: Quantiles
    seam_position: Quantiles
    seam_velocity: Quantiles
