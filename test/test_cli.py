# SPDX-License-Identifier: Apache-2.0
"""The command line: fast, and errors are one line."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest
from bag_cases import write_bag

from physis_ros import __version__, cli


def test_the_version(capsys: pytest.CaptureFixture[str]):
    with pytest.raises(SystemExit) as left:
        cli.main(['--version'])
    assert left.value.code == 0
    assert capsys.readouterr().out == f'physis_ros {__version__}\n'


def test_help_needs_neither_torch_nor_ros():
    code = (
        'import sys; from physis_ros import cli\n'
        'try: cli.main(["--help"])\n'
        'except SystemExit: pass\n'
        'loaded = {"torch", "rclpy", "matplotlib", "rosbags", "numpy"} & set(sys.modules)\n'
        'print("loaded", sorted(loaded))'
    )
    done = subprocess.run([sys.executable, '-c', code], capture_output=True, text=True, check=True)
    assert done.stdout.endswith('loaded []\n')
    commands = ('report', 'account', 'mend', 'profile', 'plan', 'simulate', 'top', 'train-reach')
    for command in commands:
        assert command in done.stdout


@pytest.mark.parametrize('command', ['report', 'account', 'mend'])
def test_errors_are_one_line_and_code_2(
    command: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
):
    assert cli.main([command, str(tmp_path / 'none')]) == 2
    said = capsys.readouterr()
    assert said.out == ''
    assert said.err == f'physis: recording must exist, got {tmp_path / "none"}\n'


@pytest.mark.parametrize(
    ('command', 'module', 'package'),
    [('account', 'rosbags', 'rosbags'), ('report', 'numpy', 'numpy')],
)
def test_a_package_that_is_missing_is_named_in_one_line(
    command: str, module: str, package: str, tmp_path: Path
):
    code = (
        f'import sys; sys.modules["{module}"] = None\n'
        'from physis_ros import cli\n'
        f'sys.exit(cli.main(["{command}", "{tmp_path}"]))'
    )
    done = subprocess.run([sys.executable, '-c', code], capture_output=True, text=True)
    assert done.returncode == 2
    assert done.stderr == f'physis: this needs {package}, which is not installed\n'


def test_the_account_of_a_recording(tmp_path: Path, capsys: pytest.CaptureFixture[str]):
    bag = write_bag(tmp_path / 'run', gap_ms=(600, 620))
    assert cli.main(['account', str(bag), '--json']) == 0
    rows = {row['name']: row['recomputed'] for row in json.loads(capsys.readouterr().out)}
    assert rows['ticks'] == 475
    assert rows['underrun_ticks'] == 5
    assert cli.main(['account', str(bag)]) == 0
    assert 'underrun_ticks' in capsys.readouterr().out


def test_the_report_of_a_recording(tmp_path: Path, capsys: pytest.CaptureFixture[str]):
    bag = write_bag(tmp_path / 'run', seconds=1.5)
    assert cli.main(['report', str(bag), '--json']) == 0
    assert json.loads(capsys.readouterr().out)['rates_hz']['sensor'] == 40.0
    assert (tmp_path / 'run_report' / 'report.html').is_file()


def test_a_whole_file_is_left_alone(tmp_path: Path, capsys: pytest.CaptureFixture[str]):
    bag = write_bag(tmp_path / 'run', seconds=0.4)
    before = (bag / 'run.mcap').read_bytes()
    assert cli.main(['mend', str(bag / 'run.mcap')]) == 0
    assert 'is whole' in capsys.readouterr().out
    assert (bag / 'run.mcap').read_bytes() == before
