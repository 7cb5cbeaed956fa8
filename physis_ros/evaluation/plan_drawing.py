# SPDX-License-Identifier: Apache-2.0
"""The plans of one model in a picture: period against response, size by devices."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from matplotlib import rc_context
from matplotlib.backends.backend_agg import FigureCanvasAgg

from physis_ros.engine.plan import Plan
from physis_ros.errors import ParameterError
from physis_ros.evaluation.canvas import BLUE, GREY, ORANGE, STYLE, sheet


def draw(
    path: Path, options: Sequence[Plan], best: Sequence[Plan], schemes: Sequence[Plan], title: str
) -> None:
    """
    Draw plans into a PNG file.

    :param best: those that no other beats, joined by a line.
    :param schemes: the published ones, which get their names.
    :raises ParameterError: for a file of another kind.
    """
    if path.suffix != '.png':
        raise ParameterError('--draw', 'a .png file', str(path))
    with rc_context(STYLE):
        figure, axes = sheet(height_in=4.2)
        others = [plan for plan in options if plan not in best and plan not in schemes]
        _dots(axes, others, GREY, 'beaten')
        _dots(axes, best, BLUE, 'best in period, response or devices')
        _dots(axes, schemes, ORANGE, 'named')
        for plan in schemes:
            axes.annotate(plan.grouping.scheme, _place(plan), (6, 4), textcoords='offset points')
        axes.set(title=title, xlabel='response [ms]', ylabel='period [ms]')
        axes.set(xlim=(0, None), ylim=(0, None))
        axes.legend(title='a larger dot: more devices', loc='best')
        canvas: Any = FigureCanvasAgg(figure)
        canvas.print_png(str(path))


def _dots(axes: Any, plans: Sequence[Plan], colour: str, label: str) -> None:
    if plans:
        across, up = zip(*map(_place, plans), strict=True)
        sizes = [14 + 12 * len(plan.devices) for plan in plans]
        axes.scatter(across, up, sizes, color=colour, alpha=0.75, label=label, linewidths=0)


def _place(plan: Plan) -> tuple[float, float]:
    return plan.response_s * 1e3, plan.period_s * 1e3
