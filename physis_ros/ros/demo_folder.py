# SPDX-License-Identifier: Apache-2.0
"""
The demo's output folder: refused when it may hold something of the user's, else cleared.

Only files that a run writes are ever deleted, by their names, and only where a run has left its
mark. Nothing is deleted with all that is in it.
"""

from __future__ import annotations

import json
import shutil
from pathlib import Path

from physis_ros.errors import ParameterError
from physis_ros.ros.demo_options import MOST_STREAMS as MOST

MARK = '.physis-demo'
PRODUCTS = (
    *('run.mcap', 'summary.json', 'report.html', 'predicted.gif', 'trace.json'),
    *(f'report_arm_{index}.html' for index in range(1, MOST + 1)),
)
NODES = (
    *('recorder', 'wam', 'arm', 'servo'),
    *(f'{kind}_{index}' for kind in ('arm', 'servo') for index in range(1, MOST + 1)),
)
# What a run writes into the folders that it makes.
CONTENTS = {
    'run': ('run.mcap', 'metadata.yaml'),
    'log': tuple(f'{node}.{kind}' for node in NODES for kind in ('log', 'yaml')),
}
LEAST_FREE_BYTES = 200 << 20


def check(out: Path) -> None:
    """
    Look whether the folder may be used; changes nothing.

    :raises ParameterError: unless it is new, empty or of an earlier run.
    """
    try:
        found = sorted(path.name for path in out.iterdir())
    except FileNotFoundError:
        return
    except OSError as error:
        raise ParameterError(
            '--out', 'a folder that can be used', str(out), f'{error.strerror}; give another one'
        ) from error
    if found and not _of_a_run(out):
        raise ParameterError(
            '--out', 'a new folder, an empty one, or one of an earlier run', str(out),
            f'it holds {found[0]!r}{" and more" if len(found) > 1 else ""}; give another one',
        )  # fmt: skip
    for name, ours in CONTENTS.items():
        foreign = _others(out / name, ours)
        # What a run writes there must begin with nothing in it.
        if foreign:
            raise ParameterError(
                '--out', f'without files of others in {name}/', str(foreign[0]),
                'move it away or give another folder',
            )  # fmt: skip


def prepare(out: Path) -> None:
    """
    Clear the folder of the products of an earlier run, and mark it as ours.

    :param out: existing, and found good by :func:`check`.
    :raises ParameterError: when the disk is full.
    """
    for name in PRODUCTS:
        (out / name).unlink(missing_ok=True)
    for name, ours in CONTENTS.items():
        for file in ours:
            (out / name / file).unlink(missing_ok=True)
        if (out / name).is_dir():
            (out / name).rmdir()
    (out / MARK).write_text('Made by the physis demo, which clears its own files here.\n')
    (out / 'log').mkdir()
    free = shutil.disk_usage(out).free
    if free < LEAST_FREE_BYTES:
        raise ParameterError(
            '--out', f'on a disk with {LEAST_FREE_BYTES >> 20} MiB free', f'{free >> 20} MiB',
            'free some space or give another folder',
        )  # fmt: skip


def _of_a_run(out: Path) -> bool:
    """Whether a run has left its mark: the mark itself, or a summary of ours."""
    if (out / MARK).is_file():
        return True
    try:
        summary = json.loads((out / 'summary.json').read_text())
    except (OSError, ValueError):
        return False
    return isinstance(summary, dict) and {'track_error_m', 'kv_rule', 'version'} <= set(summary)


def _others(folder: Path, ours: tuple[str, ...]) -> list[Path]:
    """Return what somebody else has put where a run writes; a link or a file in its place too."""
    if folder.is_symlink() or (folder.exists() and not folder.is_dir()):
        return [folder]
    if not folder.exists():
        return []
    return sorted(path for path in folder.iterdir() if path.name not in ours or path.is_dir())
