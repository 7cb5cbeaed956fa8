# SPDX-License-Identifier: Apache-2.0
"""
Drawing for the report: one look for all figures, each an SVG text to put into a page.

Uses matplotlib without pyplot, so nothing global is touched and no display is looked for.
"""

from __future__ import annotations

import functools
import io
from collections.abc import Callable, Iterable
from typing import Any, ParamSpec

import numpy as np
from matplotlib import rc_context
from matplotlib.backends.backend_svg import FigureCanvasSVG
from matplotlib.figure import Figure

from physis_ros.evaluation.recording import Recording

BLUE, ORANGE, GREEN, GREY, RED = '#2563eb', '#ea580c', '#059669', '#64748b', '#dc2626'
PALE = {BLUE: '#bfdbfe', GREEN: '#a7f3d0', ORANGE: '#fed7aa', GREY: '#e2e8f0', RED: '#fecaca'}
CYCLE = (BLUE, ORANGE, GREEN, '#7c3aed', '#0891b2', '#ca8a04', '#db2777', '#4b5563')
WIDTH_IN = 9.2
LEAD_S = 0.5
STYLE: Any = {
    'font.family': 'sans-serif',
    'font.size': 9.0,
    'axes.edgecolor': '#94a3b8',
    'axes.labelcolor': '#334155',
    'axes.titlesize': 9.5,
    'axes.titlelocation': 'left',
    'axes.grid': True,
    'axes.axisbelow': True,
    'axes.spines.top': False,
    'axes.spines.right': False,
    'grid.color': '#e2e8f0',
    'grid.linewidth': 0.7,
    'xtick.color': '#475569',
    'ytick.color': '#475569',
    'legend.frameon': False,
    'legend.fontsize': 8.5,
    'lines.linewidth': 1.3,
    'svg.fonttype': 'none',
    # Ids in the SVG come from this, not from chance: the same run gives the same page.
    'svg.hashsalt': 'physis',
}


Given = ParamSpec('Given')


def drawn(plot: Callable[Given, Figure]) -> Callable[Given, str]:
    """Make a function that draws a figure return it as SVG, all of it in our style."""

    @functools.wraps(plot)
    def styled(*args: Given.args, **kwargs: Given.kwargs) -> str:
        with rc_context(STYLE):
            return svg(plot(*args, **kwargs))

    return styled


def sheet(
    rows: int = 1, columns: int = 1, height_in: float = 2.6, **options: Any
) -> tuple[Figure, Any]:
    """
    Return a figure and its axes, as an array only when there are several.

    :param options: for ``Figure.subplots``.
    """
    figure = Figure(figsize=(WIDTH_IN, height_in), layout='constrained')
    return figure, figure.subplots(rows, columns, **options)


def legend(figure: Figure, axes: Any, columns: int = 6) -> None:
    """Put the legend of one panel above the figure, where it hides nothing."""
    handles, labels = axes.get_legend_handles_labels()
    figure.legend(
        handles, labels, loc='outside upper left', ncols=columns, columnspacing=1.4,
        handlelength=1.3, borderaxespad=0.2,
    )  # fmt: skip


def svg(figure: Figure) -> str:
    """Return the figure as an ``<svg>`` element that fits the width of its place."""
    text = io.StringIO()
    # Only for what is rasterised within it.
    figure.set_dpi(160)
    canvas: Any = FigureCanvasSVG(figure)
    canvas.print_svg(text, metadata={'Date': None, 'Creator': None})
    body = text.getvalue()
    return body[body.index('<svg') :]


def spans(flags: Iterable[bool], times_s: np.ndarray[Any, Any]) -> list[tuple[float, float]]:
    """Return the stretches of time in which a flag is set, each up to the next sample."""
    marked = np.concatenate([[False], np.fromiter(flags, dtype=bool), [False]])
    edges = np.flatnonzero(marked[1:] != marked[:-1])
    last = len(times_s) - 1
    return [
        (float(times_s[first]), float(times_s[min(end, last)]))
        for first, end in zip(edges[::2], edges[1::2], strict=True)
    ]


def shade(axes: Any, stretches: Iterable[tuple[float, float]], colour: str, label: str) -> None:
    """Shade stretches of time, with one entry in the legend."""
    for index, (start_s, end_s) in enumerate(stretches):
        axes.axvspan(
            start_s, end_s, color=colour, linewidth=0, zorder=0, label='_' * bool(index) + label
        )


def outside_episodes(recording: Recording) -> list[tuple[float, float]]:
    """Return the stretches between episodes, and those at both ends of the run [s]."""
    edges = [run_s(recording)[0]]
    for episode in recording.episodes:
        edges += [seconds(recording, episode.start_ns), seconds(recording, episode.end_ns)]
    edges.append(run_s(recording)[1])
    pairs = zip(edges[::2], edges[1::2], strict=True)
    return [(start, end) for start, end in pairs if end > start]


def run_s(recording: Recording) -> tuple[float, float]:
    """Return the part of the run that is worth drawing: the episodes and a little around [s]."""
    end_s = seconds(recording, recording.episodes[-1].end_ns)
    return -LEAD_S, end_s + LEAD_S


def seconds(recording: Recording, stamp_ns: int) -> float:
    """Return an instant in seconds since the first episode began."""
    return (stamp_ns - recording.start_ns) * 1e-9
