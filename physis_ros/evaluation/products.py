# SPDX-License-Identifier: Apache-2.0
"""Writes what is made from a recording: ``summary.json``, ``report.html``, ``predicted.gif``."""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from physis_ros.errors import BagError
from physis_ros.evaluation.bag import Bag
from physis_ros.evaluation.summary import evaluate


@dataclass(frozen=True)
class Products:
    """
    What was written.

    :param summary: what ``summary.json`` holds.
    :param files: all that is there to look at, the recording included.
    """

    summary: dict[str, Any]
    files: list[Path]


def write(folder: Path, *, trace: Path | None = None, report: bool = True) -> Products:
    """
    Evaluate the recording in a folder and write everything beside it.

    :param folder: a recording, or a folder with one; outputs go into the folder.
    :param trace: the engine's trace of the run, where there is one.
    :param report: write report and animation too, not only the figures.
    :raises BagError: when the recording cannot be evaluated or something cannot be written.
    """
    target = folder if folder.is_dir() else folder.parent
    with Bag(folder) as bag:
        evaluation = evaluate(bag)
        files = [bag.path]
    summary_path = target / 'summary.json'
    try:
        summary_path.write_text(json.dumps(evaluation.summary, indent=2) + '\n')
        files.append(summary_path)
        if report:
            # Drawing libraries take a second to load.
            from physis_ros.evaluation.animation import write_animation
            from physis_ros.evaluation.report import write_report

            files.append(write_report(target / 'report.html', evaluation, trace))
            if evaluation.compared:
                files.append(write_animation(target / 'predicted.gif', evaluation.compared))
    except OSError as error:
        raise BagError(f'cannot write into {target}: {error.strerror}') from error
    if trace is not None and trace.is_file():
        files.append(trace)
    return Products(evaluation.summary, files)
