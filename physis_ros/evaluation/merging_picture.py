# SPDX-License-Identifier: Apache-2.0
"""The merge policies in a picture: what a joint was told, and what that does to motion."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
from matplotlib import rc_context
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.figure import Figure

from physis_ros.errors import ParameterError
from physis_ros.evaluation.canvas import BLUE, CYCLE, GREY, STYLE, WIDTH_IN
from physis_ros.evaluation.virtual_loop import BEGIN_NS, Trip

FROM_S, UNTIL_S = 2.0, 2.6
CURVES = {
    'track_mm': 'tracking error [mm]',
    'gap_mrad': 'chunks apart at the seam [mrad]',
    'jerk_arm': "RMS of the arm's jerk [rad/s³]",
}


def draw(path: Path, delays: Mapping[str, Any], trips: Mapping[str, Trip]) -> None:
    """
    Draw into a PNG file.

    :param delays: for each delay [ms], for each policy, each figure with its interval.
    :param trips: one episode of each policy, of the same seed, for the motion on top.
    :raises ParameterError: for a file of another kind.
    """
    if path.suffix != '.png':
        raise ParameterError('--picture', 'a .png file', str(path))
    with rc_context(STYLE):
        figure = Figure(figsize=(WIDTH_IN, 6.4), dpi=110, layout='constrained')
        parts: Any = figure.subfigures(2, 1, height_ratios=(1.1, 1.0))
        above, below = parts
        axes = above.subplots(2, -(-len(trips) // 2), sharex=True, sharey=True).flatten()
        for place, (name, trip) in zip(axes, trips.items(), strict=False):
            _motion(place, name, trip)
        for place in axes[len(trips) :]:
            place.set_visible(False)
        above.supylabel('shoulder [rad]', fontsize=9)
        above.supxlabel('time [s]', fontsize=9)
        columns = below.subplots(1, len(CURVES))
        for place, (name, label) in zip(columns, CURVES.items(), strict=True):
            _sweep(place, delays, list(trips), name, label)
        canvas: Any = FigureCanvasAgg(figure)
        canvas.print_png(str(path))


def _motion(axes: Any, name: str, trip: Trip) -> None:
    """Draw what the shoulder was told over a few chunks, and what the chunks had said."""
    for done in trip.chunks:
        chunk = done.chunk
        times = (chunk.start_ns - BEGIN_NS + np.arange(len(chunk.actions)) * chunk.dt_ns) * 1e-9
        axes.plot(times, chunk.actions[:, 0], color=GREY, alpha=0.45, linewidth=0.8)
    told = [tick.command for tick in trip.ticks if len(tick.command.position)]
    times = np.array([command.stamp_ns - BEGIN_NS for command in told]) * 1e-9
    axes.plot(times, [command.position[0] for command in told], color=BLUE)
    inside = [command.position[0] for command, at_s in zip(told, times, strict=True)
              if FROM_S <= at_s <= UNTIL_S]  # fmt: skip
    middle, half = (max(inside) + min(inside)) / 2, (max(inside) - min(inside)) * 0.75
    axes.set(title=name, xlim=(FROM_S, UNTIL_S), ylim=(middle - half, middle + half))


def _sweep(
    axes: Any, delays: Mapping[str, Any], names: list[str], figure: str, label: str
) -> None:
    """Draw one figure over the delay, with intervals."""
    across = [int(delay) for delay in delays]
    for name, colour in zip(names, CYCLE, strict=False):
        middle, low, high = zip(*(delays[delay][name][figure] for delay in delays), strict=True)
        axes.plot(across, middle, 'o-', color=colour, label=name, markersize=3)
        axes.fill_between(across, low, high, color=colour, alpha=0.15, linewidth=0)
    axes.set(title=label, xlabel='delay [ms]', ylim=(0, None))
    if figure == 'track_mm':
        axes.legend(fontsize=7)
