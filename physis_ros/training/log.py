# SPDX-License-Identifier: Apache-2.0
"""
The record of a run: two CSV files, training losses and validations.

Losses are kept per denoise step, because an average over steps hides that sampling from pure noise
fails while later steps look fine.
"""

from __future__ import annotations

import csv
from collections import defaultdict
from collections.abc import Mapping
from pathlib import Path

from torch import Tensor

from physis_ros.training.loss import Parts
from physis_ros.training.state import Progress


class TrainingLog:
    """
    Averages losses and appends them to ``losses.csv``; validations go to ``checks.csv``.

    :param folder: where.
    :param steps: denoise steps.
    :param progress: where the run begins; later lines of a broken-off run are dropped.
    """

    def __init__(self, folder: Path, steps: int, progress: Progress) -> None:
        self._losses, self._checks = folder / 'losses.csv', folder / 'checks.csv'
        self._steps = steps
        self._sums: dict[str, float] = defaultdict(float)
        self._counts: dict[str, int] = defaultdict(int)
        for path in (self._losses, self._checks):
            _keep_until(path, progress.iteration)

    def add(self, step: Tensor, losses: Parts) -> None:
        """Take in one iteration: each sequence's step, and the losses of all its rows."""
        rows = step.repeat_interleave(len(losses.video) // len(step))
        for name in ('video', 'action'):
            values = getattr(losses, name)
            for index in range(self._steps):
                chosen = values[rows == index]
                self._take(f'{name}_{index}', float(chosen.sum()), len(chosen))
        self._take('scene', float(losses.scene.sum()), len(rows))
        self._take('early', float(losses.early.sum()), len(rows))

    def note(self, progress: Progress, rate: float) -> str:
        """Write a line of averages since the last one; return the gist of it."""
        means = {name: self._sums[name] / max(self._counts[name], 1) for name in self._sums}
        _append(self._losses, progress, {'rate': rate, **means})
        self._sums.clear()
        self._counts.clear()
        return f'video {means["video_0"]:.3f} action {means["action_0"]:.3f}'

    def check(self, progress: Progress, figures: Mapping[str, float]) -> None:
        """Write a validation."""
        _append(self._checks, progress, figures)

    def _take(self, name: str, total: float, count: int) -> None:
        """Add to an average."""
        self._sums[name] += total
        self._counts[name] += count


def _append(path: Path, progress: Progress, figures: Mapping[str, float]) -> None:
    """Append one line, with a head if it is the first."""
    row = {'iteration': progress.iteration, 'seconds': round(progress.seconds, 1)}
    row |= {name: float(f'{value:.5g}') for name, value in figures.items()}
    fresh = not path.exists()
    with path.open('a', newline='') as file:
        writer = csv.DictWriter(file, list(row))
        if fresh:
            writer.writeheader()
        writer.writerow(row)


def _keep_until(path: Path, iteration: int) -> None:
    """Drop lines of iterations that were done but not saved."""
    if not path.exists():
        return
    lines = path.read_text().splitlines(keepends=True)
    kept = [line for line in lines[1:] if int(line.split(',', 1)[0]) <= iteration]
    path.write_text(''.join([lines[0], *kept]) if kept else '')
    if not kept:
        path.unlink()
