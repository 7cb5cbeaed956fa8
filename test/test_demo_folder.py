# SPDX-License-Identifier: Apache-2.0
"""The demo's output folder: what is refused, what is cleared, what is never touched."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from physis_ros.errors import ParameterError

pytest.importorskip('rclpy')
from physis_ros.ros import demo_options, demo_preflight


def options(tmp_path: Path, *arguments: str) -> demo_options.DemoOptions:
    return demo_options.parse(['--out', str(tmp_path / 'out'), *arguments])


def files(folder: Path) -> dict[str, str]:
    """Return the content of every file in a folder."""
    return {
        str(path.relative_to(folder)): path.read_text()
        for path in folder.rglob('*')
        if path.is_file()
    }


SUMMARY = json.dumps({'track_error_m': {}, 'kv_rule': 'same_step', 'version': '0'})
USERS = (
    {'notes.txt': 'mine'},
    {'log/notes.txt': 'mine'},
    {'run/results.csv': 'mine'},
    {'log/wam.log': 'mine'},
    {'run.mcap': 'mine'},
    {'summary.json': '{"version": 3}'},
    {'summary.json': SUMMARY, 'log/notes.txt': 'mine'},
    {'.physis-demo': '', 'run/metadata.yaml': '', 'run/results.csv': 'mine'},
    {'.physis-demo': '', 'run': 'mine'},
)


@pytest.mark.ros
@pytest.mark.parametrize('given', USERS, ids=lambda given: ' '.join(given))
def test_a_folder_with_files_of_the_user_is_refused_and_left_alone(
    tmp_path: Path, given: dict[str, str]
):
    out = tmp_path / 'out'
    for name, text in given.items():
        (out / name).parent.mkdir(parents=True, exist_ok=True)
        (out / name).write_text(text)
    with pytest.raises(ParameterError, match='--out must be'):
        demo_preflight.check(options(tmp_path, '--model', 'synthetic:', '--workers', '1'))
    assert files(out) == given


@pytest.mark.ros
def test_a_link_to_a_folder_of_the_user_is_refused(tmp_path: Path):
    (tmp_path / 'mine').mkdir()
    (tmp_path / 'mine' / 'wam.log').write_text('mine')
    out = tmp_path / 'out'
    out.mkdir()
    (out / 'summary.json').write_text(SUMMARY)
    (out / 'log').symlink_to(tmp_path / 'mine')
    with pytest.raises(ParameterError, match='--out must be without files of others in log/'):
        demo_preflight.check(options(tmp_path, '--model', 'synthetic:', '--workers', '1'))
    assert files(tmp_path / 'mine') == {'wam.log': 'mine'}


@pytest.mark.ros
def test_an_earlier_run_is_cleared_and_nothing_else(tmp_path: Path):
    out, asked = tmp_path / 'out', options(tmp_path, '--model', 'synthetic:', '--workers', '1')
    demo_preflight.check(asked)
    (out / 'run').mkdir()
    for name in ('run.mcap', 'summary.json', 'notes.txt', 'run/run.mcap', 'log/wam.log'):
        (out / name).write_text('old')
    demo_preflight.check(asked)
    assert sorted(path.name for path in out.iterdir()) == ['.physis-demo', 'log', 'notes.txt']
    assert not list((out / 'log').iterdir())
    (out / '.physis-demo').unlink()
    (out / 'summary.json').write_text(SUMMARY)
    demo_preflight.check(asked)
    assert (out / 'notes.txt').read_text() == 'old'
