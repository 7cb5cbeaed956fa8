# SPDX-License-Identifier: Apache-2.0
"""
Writes what is made from a recording: ``summary.json``, ``report.html``, ``predicted.gif``.

With several streams each has a report of its own, to which ``report.html`` leads.
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from physis_ros.errors import BagError
from physis_ros.evaluation import fleet, topics
from physis_ros.evaluation.bag import Bag
from physis_ros.evaluation.summary import Evaluation, evaluate


@dataclass(frozen=True)
class Products:
    """
    What was written.

    :param summary: what ``summary.json`` holds.
    :param files: all that is there to look at, the recording included.
    """

    summary: dict[str, Any]
    files: list[Path]


def place(recording: Path) -> Path:
    """
    Return the folder for what is made from a recording, which is not among its own files.

    A folder with a recording takes it; for a rosbag2 folder it is ``<name>_report`` beside it, for
    a single file the folder that the file is in.
    """
    if not recording.is_dir():
        return recording.parent
    if (recording / 'metadata.yaml').is_file():
        return recording.with_name(f'{recording.resolve().name}_report')
    return recording


def write(folder: Path, *, trace: Path | None = None, report: bool = True) -> Products:
    """
    Evaluate the recording in a folder and write everything beside it.

    :param folder: a recording, or a folder with one; :func:`place` says where outputs go.
    :param trace: the engine's trace of the run, where there is one.
    :param report: write report and animation too, not only the figures.
    :raises BagError: when the recording cannot be evaluated or something cannot be written.
    """
    target = place(folder)
    with Bag(folder) as bag:
        found = {name: evaluate(bag, name) for name in topics.streams(bag)}
        files = [bag.path]
    several = len(found) > 1
    summary = _joined({name: one.summary for name, one in found.items()})
    try:
        target.mkdir(exist_ok=True)
        summary_path = target / 'summary.json'
        summary_path.write_text(json.dumps(summary, indent=2) + '\n')
        files.append(summary_path)
        if report:
            # Chunks of several streams bear the same numbers in a trace.
            files += _reports(target, found, None if several else trace)
            if several:
                files.append(_overview(target, summary))
    except OSError as error:
        raise BagError(f'cannot write into {target}: {error.strerror}') from error
    if trace is not None and trace.is_file():
        files.append(trace)
    return Products(summary, files)


def _joined(summaries: dict[str, dict[str, Any]]) -> dict[str, Any]:
    """Return the summary of the only stream, or of all of them."""
    return fleet.join(summaries) if len(summaries) > 1 else next(iter(summaries.values()))


def _reports(target: Path, found: dict[str, Evaluation], trace: Path | None) -> list[Path]:
    """Write the report of each stream, and the animation of the first that has one."""
    # Drawing libraries take a second to load.
    from physis_ros.evaluation.animation import write_animation
    from physis_ros.evaluation.report import write_report

    files = [
        write_report(target / _page(name), evaluation, trace) for name, evaluation in found.items()
    ]
    compared = [one.compared for one in found.values() if one.compared]
    if compared:
        files.append(write_animation(target / 'predicted.gif', compared[0]))
    return files


def _overview(target: Path, summary: dict[str, Any]) -> Path:
    """Write the page that leads to all streams."""
    pages = {name: target / _page(name) for name in summary['streams']}
    return fleet.write_fleet_report(target / 'report.html', summary, pages)


def _page(stream: str) -> str:
    """Return the file name of a stream's report."""
    return f'report_{stream}.html' if stream else 'report.html'
