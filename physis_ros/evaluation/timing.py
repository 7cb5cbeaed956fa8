# SPDX-License-Identifier: Apache-2.0
"""
When things happened in a recorded run: rates, intervals, latencies, parts of an age.

Never mixes what the words keep apart: output interval, response latency, action age, servo period.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from itertools import pairwise

import numpy as np

from physis_ros.evaluation import settings
from physis_ros.evaluation.recording import Recording
from physis_ros.evaluation.scores import Spread, Times, pooled_rate_hz, rounded, spread
from physis_ros.output.account import PARTS, parts
from physis_ros.types import Command


@dataclass(frozen=True)
class ChunkSeries:
    """
    Times of the chunks, warm-up left out [ms].

    :param publish_ns: when each was published.
    :param response_ms: last input received to published.
    :param engine_ms: entered to published.
    :param interval_ms: between two of one epoch.
    """

    publish_ns: Times
    response_ms: list[float]
    engine_ms: list[float]
    interval_ms: list[float]

    @classmethod
    def of(cls, recording: Recording) -> ChunkSeries:
        """Take the chunks from each epoch's first counted tick on."""
        begins = epoch_begins(recording)
        kept = [
            chunk
            for chunk in recording.chunks
            if chunk.times.publish_ns >= begins.get(chunk.epoch, math.inf)
        ]
        times = [chunk.times for chunk in kept]
        return cls(
            publish_ns=np.array([t.publish_ns for t in times], dtype=np.int64),
            response_ms=[(t.publish_ns - t.receive_ns) * 1e-6 for t in times],
            engine_ms=[(t.publish_ns - t.enter_ns) * 1e-6 for t in times],
            interval_ms=[
                (after.times.publish_ns - before.times.publish_ns) * 1e-6
                for before, after in pairwise(kept)
                if before.epoch == after.epoch and after.chunk == before.chunk + 1
            ],
        )


def epoch_begins(recording: Recording) -> dict[int, int]:
    """Return the stamp of the first tick after warm-up for each epoch played."""
    begins: dict[int, int] = {}
    for tick in recording.ticks:
        if tick.due and tick.command.chunk >= 0:
            begins.setdefault(tick.command.epoch, tick.command.stamp_ns)
    return begins


def rates_hz(recording: Recording) -> dict[str, float | None]:
    """Return the four rates, each within the episodes."""
    spans = [(item.start_ns, item.end_ns) for item in recording.episodes]
    published = np.array([c.times.publish_ns for c in recording.chunks], dtype=np.int64)
    newest = np.array([max(c.input_stamps_ns.values()) for c in recording.chunks], dtype=np.int64)
    fresh = np.flatnonzero(np.diff(newest, prepend=newest[0] - 1) > 0)
    commanded = np.array([tick.command.stamp_ns for tick in recording.ticks], dtype=np.int64)
    return {
        'sensor': pooled_rate_hz(_within(recording.camera_ns, spans)),
        'replan': pooled_rate_hz(_within(published[fresh], spans)),
        'chunk': pooled_rate_hz(_within(published, spans)),
        'servo': pooled_rate_hz(_within(commanded, spans)),
    }


def jitter_us(recording: Recording) -> Spread:
    """Return how far the time between two counted commands is from the set period, real time."""
    speed = float(recording.configuration.get('speed', 1.0))
    period_ns = 1e9 / settings.servo_rate_hz(recording) / speed
    published = [t.published_ns for t in recording.ticks]
    counted = [t.due for t in recording.ticks]
    return spread(
        [
            abs(after - before - period_ns) * 1e-3
            for before, after, first, second in zip(
                published, published[1:], counted, counted[1:], strict=False
            )
            if first and second
        ]
    )


def age_parts(recording: Recording) -> dict[str, float | int | None]:
    """Return the median of each part of the age of played commands [ms], as the account has it."""
    chunks = {(chunk.epoch, chunk.chunk): chunk for chunk in recording.chunks}
    made = {(chunk.epoch, chunk.observed_ns): chunk for chunk in recording.chunks}
    rows = []
    for command in counted(recording):
        observed_ns = command.stamp_ns - (command.age_ns or 0)
        chunk = chunks.get((command.epoch, command.chunk))
        if chunk is None or chunk.observed_ns != observed_ns:
            # An older one still has a part in the command.
            chunk = made.get((command.epoch, observed_ns))
        if chunk is not None:
            rows.append(tuple(parts(observed_ns, chunk.times, command.stamp_ns).values()))
    columns = np.array(rows, dtype=np.float64).reshape(-1, len(PARTS)) * 1e-6
    return {name: rounded(spread(columns[:, i]).p50) for i, name in enumerate(PARTS)}


def counted(recording: Recording) -> list[Command]:
    """Return the commands played from a chunk after warm-up."""
    return [t.command for t in recording.ticks if t.due and t.command.age_ns is not None]


def _within(stamps_ns: Times, spans: list[tuple[int, int]]) -> list[Times]:
    """Return the stamps of each span."""
    return [stamps_ns[(stamps_ns >= start) & (stamps_ns < end)] for start, end in spans]
