# SPDX-License-Identifier: Apache-2.0
"""What a producer says about itself: plain frozen data, and the gauges behind it."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import Enum

from physis_ros.observation.align import Lack
from physis_ros.output.sketch import Quantiles, Sketch
from physis_ros.session.arrivals import ArrivalFigures
from physis_ros.session.delay import ToldDelay
from physis_ros.session.rates import RateMeter


class ProducerState(Enum):
    """Where a producer is in its life."""

    IDLE = 'idle'
    WAITING = 'waiting_for_observation'
    RUNNING = 'running'
    PAUSED = 'paused'
    FAILED = 'failed'
    STOPPED = 'stopped'


class ResetReason(Enum):
    """Why a new epoch began; those of time forget what was observed before."""

    REQUESTED = 'requested'
    RESUMED = 'resumed'
    EPISODE = 'episode'
    INSTRUCTION = 'instruction'
    CLOCK_JUMP = 'clock_jump'
    STAMP_REGRESSED = 'stamp_regressed'
    NON_FINITE = 'non_finite'  # what the model remembers makes no numbers any more

    @property
    def of_time(self) -> bool:
        """Whether time itself went back."""
        return self in (ResetReason.CLOCK_JUMP, ResetReason.STAMP_REGRESSED)

    @property
    def forgets(self) -> bool:
        """Whether what was observed before says nothing any more (the world was set back)."""
        return self.of_time or self is ResetReason.EPISODE


@dataclass(frozen=True)
class ProducerStatus:
    """
    A snapshot.

    :param in_flight: chunks in the pipe.
    :param counts: ``entered``, ``delivered``, ``dropped`` (in the pipe when their epoch ended),
        ``old_epoch`` (came out of it all the same), ``delay_clamped``, ``beat_skipped``,
        ``renewed`` (newer observations shown to chunks in the pipe), ``rtc_prefix`` (entered with
        committed actions to agree with), ``non_finite`` (chunks of values that are no numbers,
        which end their epoch and go nowhere),
        ``reset_<reason>``, and the aligner's counters of messages and reasons.
    :param sensor_hz: frames taken, stream time.
    :param replan_hz: chunks entered.
    :param chunk_hz: chunks delivered.
    :param response_latency_ms: from the receipt of the input that completed the observation to
        publishing; warm-up left out.
    :param output_interval_ms: between deliveries of one epoch; warm-up left out.
    :param expected_response_ns: entry to publishing, as planned with now.
    :param told_delay: of the last entry; None before it.
    :param skew_ns: least ``receive - stamp`` lately of each publisher.
    :param lack: why there would be no observation now; None when there would be one.
    :param lagging: the camera that keeps the others waiting; empty when none does.
    :param missing_joints: joints of which nothing has come.
    :param heard_joints: names that publishers gave instead (the robot's), for the error message.
    :param failure: what went wrong; empty while nothing did.
    :param arrivals: how the messages of each input come.
    """

    stream: str
    state: ProducerState
    epoch: int
    in_flight: int
    counts: Mapping[str, int]
    sensor_hz: float
    replan_hz: float
    chunk_hz: float
    response_latency_ms: Quantiles
    output_interval_ms: Quantiles
    expected_response_ns: int
    told_delay: ToldDelay | None
    skew_ns: Mapping[str, int]
    lack: Lack | None
    missing_joints: tuple[str, ...]
    heard_joints: tuple[str, ...]
    failure: str
    lagging: str = ''
    arrivals: Mapping[str, ArrivalFigures] = field(default_factory=dict)


class Gauges:
    """
    The figures of one producer. Single-threaded: its owner's lock is around all calls.

    :param warmup_chunks: first deliveries that stay outside the latency figures.
    """

    def __init__(self, warmup_chunks: int) -> None:
        self.counts: Counter[str] = Counter()
        self.replans, self.chunks = RateMeter(), RateMeter()
        self.response_ms, self.interval_ms = Sketch(), Sketch()
        self._warmup_chunks = warmup_chunks
        self._last_ns: int | None = None

    def entered(self, now_ns: int, told: ToldDelay) -> None:
        """Note an entry."""
        self.counts['entered'] += 1
        self.counts['delay_clamped'] += told.clamped
        self.replans.add(now_ns)

    def delivered(self, receive_ns: int, publish_ns: int) -> None:
        """Note a delivery."""
        self.counts['delivered'] += 1
        self.chunks.add(publish_ns)
        if self.counts['delivered'] > self._warmup_chunks:
            self.response_ms.add((publish_ns - receive_ns) * 1e-6)
            if self._last_ns is not None:
                self.interval_ms.add((publish_ns - self._last_ns) * 1e-6)
        self._last_ns = publish_ns

    def new_epoch(self, reason: ResetReason) -> None:
        """Note a reset; intervals do not reach across it."""
        self.counts[f'reset_{reason.value}'] += 1
        self._last_ns = None
        if reason.of_time:
            self.replans.clear()
            self.chunks.clear()
