# SPDX-License-Identifier: Apache-2.0
"""What a training run leaves to the world: weights that load anywhere, its log, its curve."""

from __future__ import annotations

import csv
import shutil
from pathlib import Path
from typing import Any

from physis_ros.backbones.reach.checkpoint import save_weights
from physis_ros.training.state import TrainingState


def export_weights(state: TrainingState, path: Path) -> None:
    """Write the averaged network of a run, with where it comes from in the header."""
    progress = state.progress
    training = {
        'iterations': progress.iteration,
        'seconds': round(progress.seconds),
        'seed': state.seed,
    }
    save_weights(path, state.average, training)


def export_log(folder: Path, kv_rule: str, target: Path) -> None:
    """
    Copy a run's log and draw its curve: ``<rule>.csv``, ``<rule>_checks.csv``, ``<rule>.png``.

    :param folder: of the run.
    :param target: where they go.
    """
    target.mkdir(parents=True, exist_ok=True)
    for name, suffix in (('losses', ''), ('checks', '_checks')):
        if (folder / f'{name}.csv').exists():
            shutil.copyfile(folder / f'{name}.csv', target / f'{kv_rule}{suffix}.csv')
    _draw(folder, kv_rule, target / f'{kv_rule}.png')


def _columns(path: Path) -> dict[str, list[float]]:
    """Read a CSV file of numbers."""
    if not path.exists():
        return {}
    with path.open(newline='') as file:
        rows = list(csv.DictReader(file))
    return {name: [float(row[name]) for row in rows] for name in (rows[0] if rows else {})}


def _draw(folder: Path, kv_rule: str, path: Path) -> None:
    """Draw losses per denoise step, and the errors of what is sampled from pure noise."""
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure

    losses, checks = _columns(folder / 'losses.csv'), _columns(folder / 'checks.csv')
    figure = Figure((11, 6), layout='constrained')
    FigureCanvasAgg(figure)
    axes = figure.subplots(2, 2)
    for axis, kind in zip(axes[0], ('action', 'video'), strict=True):
        _lines(axis, losses, [name for name in losses if name.startswith(kind)])
        axis.set(title=f'{kind} loss by denoise step', yscale='log')
    tips = [name for name in checks if name.startswith('final_tip_m')]
    gains = [name for name in checks if name.startswith('final_gain_db')]
    _lines(axes[1][0], checks, tips)
    axes[1][0].set(title='held out: commanded tip, mean error [m]', yscale='log')
    _lines(axes[1][1], checks, gains)
    axes[1][1].set(title='held out: frames, gain over copying [dB]')
    figure.suptitle(f'reach, {kv_rule}')
    figure.savefig(path, dpi=90)


def _lines(axis: Any, columns: dict[str, list[float]], names: list[str]) -> None:
    """Draw columns over minutes of training."""
    for name in names:
        axis.plot([second / 60 for second in columns['seconds']], columns[name], label=name)
    axis.set_xlabel('minutes')
    axis.grid(alpha=0.3)
    if names:
        axis.legend(fontsize='x-small')
