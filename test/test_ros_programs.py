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


@pytest.mark.parametrize(
    ('given', 'words'),
    [
        (['--params-file', '/nowhere.yaml'], 'Error opening YAML file'),
        (['-p', 'joints:=[a, 1]'], 'Sequence should be of same type'),
        (['-r', '__ns:=bad//name'], "Couldn't parse remap rule"),
        (['--paramsfile', 'my.yaml'], '--paramsfile'),
    ],
)
def test_arguments_of_ros_that_cannot_be_used_are_refused_in_one_line(
    given: list[str], words: str
) -> None:
    done = subprocess.run(
        [sys.executable, '-m', 'physis_ros.ros.servo_node', '--ros-args', *given],
        capture_output=True, text=True, timeout=120,
    )  # fmt: skip
    assert done.returncode == 2
    (line,) = [line for line in done.stderr.splitlines() if 'FATAL' in line]
    assert words in line
    assert 'Traceback' not in done.stderr
