# SPDX-License-Identifier: Apache-2.0
"""Figures of motion: commanded against measured joints with seams, and the tracking error."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from matplotlib.figure import Figure

from physis_ros.evaluation import canvas
from physis_ros.evaluation.canvas import BLUE, GREEN, GREY, ORANGE, PALE, RED
from physis_ros.evaluation.recording import Recording
from physis_ros.evaluation.tracking import SETTLE_S, Tracked
from physis_ros.types import Play

EXCERPT_S = 4.0
GRID_S = 0.02


@canvas.drawn
def joints(recording: Recording) -> Figure:
    """Draw some seconds of commanded and measured joint positions, chunk seams marked."""
    episode = recording.episodes[0]
    start_ns = min(episode.start_ns + round(2e9), episode.end_ns)
    end_ns = min(start_ns + round(EXCERPT_S * 1e9), episode.end_ns)
    if end_ns - start_ns < 1e9:
        start_ns, end_ns = episode.start_ns, episode.end_ns
    inside = [t for t in recording.ticks if start_ns <= t.command.stamp_ns < end_ns]
    commands = [t.command for t in inside if len(t.command.position)]
    names = commands[0].names if commands else ()
    measured = recording.joints.between(start_ns, end_ns)
    figure, axes = canvas.sheet(
        max(len(names), 1), height_in=1.9 * max(len(names), 1), sharex=True, squeeze=False
    )
    times_s = np.array([canvas.seconds(recording, c.stamp_ns) for c in commands])
    seams_s = [
        float(times_s[index])
        for index in range(1, len(commands))
        if commands[index].chunk != commands[index - 1].chunk
    ]
    all_s = np.array([canvas.seconds(recording, t.command.stamp_ns) for t in inside])
    missing = canvas.spans((t.command.play is not Play.PLAYING for t in inside), all_s)
    for row, name in enumerate(names):
        panel = axes[row, 0]
        for index, seam_s in enumerate(seams_s):
            panel.axvline(seam_s, color=PALE[ORANGE], linewidth=0.8, zorder=0,
                          label='_' * bool(index) + 'seam of two chunks')  # fmt: skip
        canvas.shade(panel, missing, PALE[RED], 'underrun')
        position = [command.position[row] for command in commands]
        panel.plot(times_s, position, color=BLUE, label='commanded')
        if name in recording.joint_names and len(measured.stamps_ns):
            column = recording.joint_names.index(name)
            measured_s = (measured.stamps_ns - recording.start_ns) * 1e-9
            panel.plot(measured_s, measured.values[:, column], color=ORANGE, linewidth=1.0,
                       label='measured')  # fmt: skip
        panel.set(ylabel=f'{name} [rad]')
        panel.margins(x=0)
    axes[-1, 0].set(xlabel='time [s]')
    if names:
        canvas.legend(figure, axes[0, 0])
    return figure


@canvas.drawn
def tracking_error(episodes: Sequence[Tracked]) -> Figure:
    """Draw the error over the time of an episode: all episodes, their mean, expert and hold."""
    figure, axes = canvas.sheet(height_in=3.4)
    for index, item in enumerate(episodes):
        axes.plot(item.time_s, item.error_m * 1e3, color=PALE[BLUE], linewidth=0.8, zorder=2,
                  label='_' * bool(index) + 'each episode')  # fmt: skip
    length_s = min((float(item.time_s[-1]) for item in episodes), default=0.0)
    grid_s = np.arange(0.0, length_s, GRID_S)
    if grid_s.size:
        mean = np.mean([np.interp(grid_s, e.time_s, e.error_m) for e in episodes], axis=0)
        axes.plot(grid_s, mean * 1e3, color=BLUE, linewidth=1.8, label='model, mean', zorder=3)
    lines = [item.baseline for item in episodes if item.baseline is not None]
    for name, colour, label in (
        ('hold_m', GREY, 'no motion, mean'),
        ('expert_m', GREEN, 'expert, mean'),
    ):
        if lines and grid_s.size:
            values = [np.interp(grid_s, x.time_s, getattr(x, name)) for x in lines]
            axes.plot(grid_s, np.mean(values, axis=0) * 1e3, color=colour, label=label)
    axes.axvspan(0, SETTLE_S, color=PALE[GREY], linewidth=0, zorder=0, label='not scored')
    axes.set(xlabel='time in the episode [s]', ylabel='tip to target [mm]', yscale='log',
             xlim=(0, None), ylim=(0.3, None))  # fmt: skip
    canvas.legend(figure, axes)
    return figure
