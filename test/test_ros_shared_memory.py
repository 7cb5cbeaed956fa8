# SPDX-License-Identifier: Apache-2.0
"""Segments of dead participants are removed, all others are left alone."""

from __future__ import annotations

import fcntl
import os
import time
from pathlib import Path

import pytest

pytest.importorskip('rclpy')

from rclpy.node import Node

from physis_ros.ros.shared_memory import FOLDER, LOCK, remove_dead


def segment(folder: Path, name: str, age_s: float) -> Path:
    """Make the two files of a participant."""
    made = folder / f'fastrtps_{name}'
    for path in (made, made.with_name(f'{made.name}_el')):
        path.write_bytes(b'')
        os.utime(path, (time.time() - age_s,) * 2)
    return made


def test_only_what_nobody_holds_and_is_no_news_is_removed(tmp_path: Path) -> None:
    dead = segment(tmp_path, 'a' * 16, 100)
    living = segment(tmp_path, 'b' * 16, 100)
    young = segment(tmp_path, 'c' * 16, 0)
    port = segment(tmp_path, 'port7000', 100)
    other = tmp_path / 'physis_arena'
    other.write_bytes(b'')
    with living.with_name(f'{living.name}_el').open() as held:
        fcntl.flock(held, fcntl.LOCK_EX)
        assert remove_dead(tmp_path) == [dead]
        assert remove_dead(tmp_path) == []
    left = {path.name.removesuffix('_el') for path in tmp_path.iterdir()}
    assert left == {living.name, young.name, port.name, other.name}
    assert remove_dead(tmp_path / 'nowhere') == []


def test_a_living_node_holds_its_lock(bench: object) -> None:
    """The lock is what this relies on; Fast DDS might change it."""
    assert isinstance(bench.probe, Node)  # type: ignore[attr-defined]
    held = 0
    for path in FOLDER.iterdir():
        if not LOCK.fullmatch(path.name) or f'/{path.name}' not in _open_files():
            continue
        with path.open() as file, pytest.raises(BlockingIOError):
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        held += 1
    assert held >= 1


def _open_files() -> set[str]:
    """Return the names of the files that this process has open."""
    found = set()
    for path in Path('/proc/self/fd').iterdir():
        try:
            found.add('/' + Path(os.readlink(path)).name)
        except OSError:
            continue
    return found
