# SPDX-License-Identifier: Apache-2.0
"""What a process uses, read from /proc."""

from __future__ import annotations

import os
from dataclasses import dataclass
from pathlib import Path

PAGE_KIB = os.sysconf('SC_PAGE_SIZE') / 1024


@dataclass(frozen=True)
class Usage:
    """
    Of one process at one instant.

    :param private_kib: resident memory that is its own, not of shared files or shared memory.
    """

    private_kib: float
    threads: int
    handles: int


def usage(pid: int) -> Usage:
    """
    Return what a process uses now.

    :raises OSError: when it is gone.
    """
    folder = Path(f'/proc/{pid}')
    _, resident, shared, *_ = map(int, (folder / 'statm').read_text().split())
    threads = sum(1 for _ in (folder / 'task').iterdir())
    handles = sum(1 for _ in (folder / 'fd').iterdir())
    return Usage((resident - shared) * PAGE_KIB, threads, handles)


def children(pid: int) -> list[int]:
    """Return the processes that a process started and that still run."""
    found: list[int] = []
    for task in Path(f'/proc/{pid}/task').glob('*/children'):
        found += map(int, task.read_text().split())
    return sorted(found)
