# SPDX-License-Identifier: Apache-2.0
"""
From a pipe's result to what is published: chunk, frames and their times. Pure.

The engine stamps with the steady clock, the world with the stream clock; the two are tied at
entry and at delivery, and what lies between is placed in proportion. So a simulation at twice the
speed has true times too.

What a chunk is said to be made from is the observation that was used last (E11): stamps, receipt
and entry are that one's.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

import numpy as np

from physis_ros.backbones.base import ModelSpec
from physis_ros.output.prefix import Prefix
from physis_ros.session.delay import ToldDelay
from physis_ros.session.pool_port import ChunkResult
from physis_ros.types import ActionChunk, ChunkTimes, Observation, PredictedFrame


class Instant(NamedTuple):
    """One moment on both clocks."""

    stream_ns: int
    steady_ns: int


class Sight(NamedTuple):
    """
    An observation as one chunk was given it.

    :param at: when it went into the engine.
    """

    at: Instant
    observation: Observation


@dataclass(frozen=True)
class Entry:
    """
    A chunk in the pipe.

    :param at: when it entered.
    :param observation: what it was given then.
    :param told: the delay the model was told then.
    :param start_ns: the instant its first action is meant for.
    :param prefix: the committed actions it was given.
    :param shown: newer observations it was shown on the way, by the engine's version, the last
        one newest; grows while it is in the pipe.
    """

    at: Instant
    observation: Observation
    told: ToldDelay
    start_ns: int
    prefix: Prefix | None = None
    shown: dict[int, Sight] = field(default_factory=dict)

    @property
    def frozen(self) -> int:
        """How many of its steps are those of the chunk before."""
        return 0 if self.prefix is None else self.prefix.frozen

    @property
    def newest(self) -> Sight:
        """What it was given last."""
        return next(reversed(self.shown.values()), Sight(self.at, self.observation))

    def used(self, version: int) -> Sight:
        """Return the observation of a version: one it was shown, else what it entered with."""
        return self.shown.get(version, Sight(self.at, self.observation))


@dataclass(frozen=True)
class Produced:
    """
    One finished chunk.

    :param frames: the predicted frames; empty when nobody wanted them.
    :param told: the delay the model was told at entry.
    """

    chunk: ActionChunk
    frames: tuple[PredictedFrame, ...]
    told: ToldDelay


def produce(
    entry: Entry, result: ChunkResult, spec: ModelSpec, names: Sequence[str], published: Instant
) -> Produced:
    """
    Assemble what is published.

    :param names: the robot's names of the action columns.
    :param published: now.
    """
    sight = entry.used(result.observation)
    observation, prefix = sight.observation, entry.prefix
    chunk = ActionChunk(
        stream=result.stream,
        epoch=result.epoch,
        chunk=result.chunk,
        start_ns=entry.start_ns,
        dt_ns=spec.actions.dt_ns,
        names=tuple(names),
        actions=np.array(result.actions, dtype=np.float64),
        input_stamps_ns=observation.input_stamps_ns,
        times=_times(entry, sight, result, published),
        kv_rule=result.kv_rule,
        taken_over=0 if prefix is None else prefix.taken,
        taken_over_stamps_ns={} if prefix is None else prefix.stamps_ns,
    )
    return Produced(chunk, _frames(entry, result, spec), entry.told)


def _frames(entry: Entry, result: ChunkResult, spec: ModelSpec) -> tuple[PredictedFrame, ...]:
    if result.frames is None:
        return ()
    return tuple(
        PredictedFrame(
            stream=result.stream,
            epoch=result.epoch,
            chunk=result.chunk,
            about_ns=entry.start_ns + step * spec.actions.dt_ns,
            observed_ns=entry.used(result.observation).observation.stamp_ns,
            image=image,
        )
        for step, image in zip(spec.frames.predicted_steps, result.frames, strict=True)
    )


def _times(entry: Entry, sight: Sight, result: ChunkResult, published: Instant) -> ChunkTimes:
    """Place all instants on the stream clock, none before the one before it."""
    enter_ns = min(sight.at.stream_ns, published.stream_ns)
    receive_ns = min(sight.observation.receive_ns, enter_ns)
    steady_ns = (result.denoised_steady_ns, result.decoded_steady_ns)
    placed = [stream_time(instant, entry.at, published) for instant in steady_ns]
    denoised_ns = min(max(placed[0], enter_ns), published.stream_ns)
    return ChunkTimes(
        # A stamp ahead of our clock is skew: the way counts as nothing, never as negative.
        capture_ns=min(sight.observation.oldest_ns, receive_ns),
        receive_ns=receive_ns,
        enter_ns=enter_ns,
        denoised_ns=denoised_ns,
        decoded_ns=min(max(placed[1], denoised_ns), published.stream_ns),
        publish_ns=published.stream_ns,
    )


def stream_time(steady_ns: int, before: Instant, after: Instant) -> int:
    """Translate a steady time between two tied moments."""
    span_ns = after.steady_ns - before.steady_ns
    if span_ns <= 0:
        return after.stream_ns
    passed_ns = steady_ns - before.steady_ns
    return before.stream_ns + passed_ns * (after.stream_ns - before.stream_ns) // span_ns
