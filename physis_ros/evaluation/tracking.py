# SPDX-License-Identifier: Apache-2.0
"""
Tracking error of a recorded run, beside the expert's and that of no motion, for each episode.

The first second of an episode is left out everywhere: the arm begins anywhere and must get there.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from physis_ros.evaluation.baseline import Baseline, baseline
from physis_ros.evaluation.recording import Episode, Recording
from physis_ros.evaluation.scores import Spread, at_times, distance_m, spread
from physis_ros.types import FloatArray

SETTLE_S = 1.0


@dataclass(frozen=True)
class Tracked:
    """
    One episode.

    :param time_s: since the episode began [n].
    :param error_m: from tip to target [n].
    :param baseline: the same arm and seed without the model; None when the seed is not recorded.
    """

    episode: Episode
    time_s: FloatArray
    error_m: FloatArray
    baseline: Baseline | None

    @property
    def scored_m(self) -> FloatArray:
        """The errors that count."""
        scored: FloatArray = self.error_m[self.time_s >= SETTLE_S]
        return scored


@dataclass(frozen=True)
class TrackingFigures:
    """Errors over all episodes, the first second of each left out [m]."""

    model: Spread
    expert: Spread
    hold: Spread


def tracked(recording: Recording) -> list[Tracked]:
    """Return every episode's errors; none when the truth was not recorded."""
    if recording.tip is None or recording.target is None:
        return []
    return [found for item in recording.episodes if (found := _tracked(recording, item))]


def figures(episodes: Sequence[Tracked]) -> TrackingFigures:
    """Join the episodes."""
    lines = [item.baseline for item in episodes if item.baseline is not None]
    settled = [line.time_s >= SETTLE_S for line in lines]
    return TrackingFigures(
        model=spread(_joined([item.scored_m for item in episodes])),
        expert=spread(_joined([x.expert_m[s] for x, s in zip(lines, settled, strict=True)])),
        hold=spread(_joined([x.hold_m[s] for x, s in zip(lines, settled, strict=True)])),
    )


def _tracked(recording: Recording, episode: Episode) -> Tracked | None:
    """Return one episode's errors, at the instants of the tip; None when it holds too little."""
    assert recording.tip is not None
    assert recording.target is not None
    tip = recording.tip.between(episode.start_ns, episode.end_ns)
    target = recording.target.between(episode.start_ns, episode.end_ns)
    if len(tip.stamps_ns) < 2 or len(target.stamps_ns) < 2:
        return None
    error_m = distance_m(tip.values, at_times(tip.stamps_ns, target.stamps_ns, target.values))
    time_s: FloatArray = (tip.stamps_ns - episode.start_ns) * np.float64(1e-9)
    seed = recording.configuration.get('seed')
    line = None if seed is None else baseline(int(seed) + episode.index, float(time_s[-1]))
    return Tracked(episode, time_s, error_m, line)


def _joined(parts: Sequence[FloatArray]) -> FloatArray:
    """Return all values in one row."""
    return np.concatenate(parts) if parts else np.empty(0)
