# SPDX-License-Identifier: Apache-2.0
"""Installed programs as they are run: by a link, as ``colcon build --symlink-install`` does."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest
from test_package import ROOT, installed_programs

pytest.importorskip('rclpy')
pytest.importorskip('physis_ros.msg')


@pytest.mark.parametrize(('name', 'module'), sorted(installed_programs().items()))
def test_a_program_starts_by_a_link_to_it(name: str, module: str, tmp_path: Path) -> None:
    """Python looks for modules where the link leads, first of all: some of ours bear its names."""
    link = tmp_path / name
    link.symlink_to(ROOT / f'{module.replace(".", "/")}.py')
    done = subprocess.run(
        [sys.executable, str(link), '--help'], capture_output=True, text=True, timeout=120
    )
    assert (done.returncode, done.stderr) == (0, '')
    assert done.stdout.startswith('usage: ')
