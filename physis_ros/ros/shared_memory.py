# SPDX-License-Identifier: Apache-2.0
"""
Shared memory that a killed node left behind.

Fast DDS gives each participant a segment of up to 35 MB in /dev/shm and holds a lock beside it
while the process lives. After ``kill -9`` nobody removes it; ``fastdds shm clean`` does, where the
tool is there, and this does the same.
"""

from __future__ import annotations

import fcntl
import re
import time
from pathlib import Path

FOLDER = Path('/dev/shm')
LOCK = re.compile(r'fastrtps_[0-9a-f]{16}_el')
# A participant that comes up makes the file a moment before it takes the lock.
YOUNG_S = 60.0


def remove_dead(folder: Path = FOLDER) -> list[Path]:
    """
    Remove the segments whose owner is dead, and return them.

    Dead is who holds no lock on a file that is a minute old. Those of other users stay.
    """
    if not folder.is_dir():
        return []
    locks = [path for path in sorted(folder.iterdir()) if LOCK.fullmatch(path.name)]
    return [segment for path in locks if (segment := _removed(path)) is not None]


def _removed(lock: Path) -> Path | None:
    """Remove one segment with its lock; None when its owner lives or it is somebody else's."""
    segment = lock.with_name(lock.name.removesuffix('_el'))
    try:
        if time.time() - lock.stat().st_mtime < YOUNG_S:
            return None
        with lock.open() as file:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
            segment.unlink(missing_ok=True)
            lock.unlink(missing_ok=True)
    except OSError:
        return None
    return segment
