# SPDX-License-Identifier: Apache-2.0
"""Figures of age and buffer: how old the actions were, how long it could have gone on."""

from __future__ import annotations

from typing import Any

import numpy as np
from matplotlib.figure import Figure

from physis_ros.evaluation import canvas, timing
from physis_ros.evaluation.canvas import BLUE, GREEN, GREY, ORANGE, PALE, RED
from physis_ros.evaluation.recording import Recording
from physis_ros.evaluation.scores import spread
from physis_ros.types import Play

PARTS = {
    'receive': 'camera to engine',
    'queue': 'queue',
    'engine': 'denoising',
    'decode': 'decoding',
    'hand_over': 'hand-over',
    'buffer': 'waiting in the buffer',
}
EXCERPT_S = 2.5


@canvas.drawn
def age_distribution(recording: Recording) -> Figure:
    """Draw the ages of all commands: histogram and cumulative share."""
    ages = np.array([c.age_ns for c in timing.counted(recording)], dtype=np.float64) * 1e-6
    figure, axes = canvas.sheet()
    if not ages.size:
        return _nothing(figure, axes)
    figures = spread(ages)
    axes.hist(ages, bins=np.linspace(0, ages.max() * 1.05, 80), color=PALE[BLUE], edgecolor=BLUE,
              linewidth=0.5)  # fmt: skip
    axes.set(xlabel='action age [ms]', ylabel='commands', xlim=(0, None))
    for value, name, colour in ((figures.p50, 'p50', BLUE), (figures.p99, 'p99', ORANGE)):
        assert value is not None
        axes.axvline(value, color=colour, label=f'{name} {value:.0f} ms')
    share = axes.twinx()
    share.plot(np.sort(ages), np.arange(1, ages.size + 1) / ages.size * 100, color=GREY)
    share.set(ylabel='at most this old [%]', ylim=(0, 103))
    share.grid(False)
    canvas.legend(figure, axes)
    return figure


@canvas.drawn
def age_over_time(recording: Recording) -> Figure:
    """Draw the age of every command over the run."""
    commands = timing.counted(recording)
    figure, axes = canvas.sheet()
    if not commands:
        return _nothing(figure, axes)
    times_s = [canvas.seconds(recording, command.stamp_ns) for command in commands]
    ages_ms = [(command.age_ns or 0) * 1e-6 for command in commands]
    axes.plot(times_s, ages_ms, '.', color=BLUE, markersize=1.2, rasterized=True)
    canvas.shade(axes, canvas.outside_episodes(recording), PALE[GREY], 'between episodes')
    axes.set(xlabel='time [s]', ylabel='action age [ms]', ylim=(0, None))
    axes.set_xlim(*canvas.run_s(recording))
    canvas.legend(figure, axes)
    return figure


@canvas.drawn
def age_parts(recording: Recording) -> Figure:
    """Draw where the median age comes from, as one bar."""
    parts = timing.age_parts(recording)
    figure, axes = canvas.sheet(height_in=1.3)
    left = 0.0
    for (name, label), colour in zip(PARTS.items(), canvas.CYCLE, strict=False):
        value = float(parts[name] or 0.0)
        axes.barh(0, value, left=left, color=colour, height=0.6, label=f'{label} {value:.0f} ms')
        left += value
    axes.set(xlabel='median of each part [ms]', yticks=[], xlim=(0, max(left, 1.0)))
    canvas.legend(figure, axes)
    return figure


@canvas.drawn
def buffer_depth(recording: Recording) -> Figure:
    """Draw how much motion lay ahead, underruns shaded; below, an excerpt with chunk arrivals."""
    ticks = recording.ticks
    times_s = np.array([canvas.seconds(recording, t.command.stamp_ns) for t in ticks])
    depth_ms = np.array([t.depth_ns for t in ticks]) * 1e-6
    missing = canvas.spans((t.due and t.command.play is not Play.PLAYING for t in ticks), times_s)
    figure, (whole, part) = canvas.sheet(2, height_in=4.4)
    start_s = _excerpt_start(recording, missing)
    for axes in (whole, part):
        axes.plot(times_s, depth_ms, color=GREEN, linewidth=0.8, label='buffer depth')
        canvas.shade(axes, missing, PALE[RED], 'underrun')
        axes.set(ylabel='motion ahead [ms]', ylim=(0, None))
    canvas.shade(whole, canvas.outside_episodes(recording), PALE[GREY], 'between episodes')
    whole.axvspan(start_s, start_s + EXCERPT_S, facecolor='none', edgecolor=GREY, linestyle=':')
    whole.set_xlim(*canvas.run_s(recording))
    end_s = start_s + EXCERPT_S
    published_s = (canvas.seconds(recording, c.times.publish_ns) for c in recording.chunks)
    arrivals_s = [at_s for at_s in published_s if start_s <= at_s <= end_s]
    part.plot(arrivals_s, [0.0] * len(arrivals_s), '^', color=ORANGE, clip_on=False,
              label='chunk published')  # fmt: skip
    part.set(xlabel='time [s]', xlim=(start_s, end_s))
    part.set_title('the dotted part, closer')
    canvas.legend(figure, whole)
    part.legend(loc='upper right', handles=part.get_lines()[-1:])
    return figure


def _excerpt_start(recording: Recording, missing: list[tuple[float, float]]) -> float:
    """Return where it is worth looking closer: an underrun, else the middle of an episode."""
    inside = [start for start, _ in missing if start > EXCERPT_S / 2]
    if inside:
        return inside[0] - EXCERPT_S / 2
    episode = recording.episodes[0]
    middle_ns = (episode.start_ns + episode.end_ns) // 2
    return canvas.seconds(recording, middle_ns)


def _nothing(figure: Figure, axes: Any) -> Figure:
    """Say that there is nothing to draw."""
    axes.text(0.5, 0.5, 'no command was played from a chunk', ha='center', color=GREY,
              transform=axes.transAxes)  # fmt: skip
    axes.set(xticks=[], yticks=[])
    return figure
