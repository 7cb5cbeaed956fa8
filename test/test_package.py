# SPDX-License-Identifier: Apache-2.0
"""What is written in more than one place agrees; what ships is complete and documented."""

from __future__ import annotations

import ast
import re
import runpy
import subprocess
import sys
import xml.etree.ElementTree as ElementTree
from collections.abc import Iterator
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest
import setuptools

ROOT = Path(__file__).resolve().parents[1]
LAUNCH_FILES = sorted(ROOT.glob('launch/*.launch.py'))
INTERFACES = sorted([*ROOT.glob('msg/*.msg'), *ROOT.glob('srv/*.srv')])
LONGEST_FILE = 400
SOURCE_SUFFIXES = {'.py', '.sh', '.toml', '.xml', '.yaml', '.msg', '.srv'}
SOURCES_WITHOUT_SUFFIX = {'run', '.ci/run', 'CMakeLists.txt', 'requirements.lock'}


def text(name: str) -> str:
    """Return the text of a file in the repository."""
    return (ROOT / name).read_text()


def tracked() -> list[Path]:
    """Return the files of the repository: what git knows, or everything where there is no git."""
    listed = subprocess.run(
        ['git', '-C', str(ROOT), 'ls-files', '-z'], capture_output=True, text=True, check=False
    )
    names = listed.stdout.split('\0') if listed.returncode == 0 else []
    return [ROOT / name for name in names if name and (ROOT / name).is_file()]


def calls(path: Path, function: str) -> Iterator[ast.Call]:
    """Yield the calls of a function in a Python file."""
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Name | ast.Attribute):
            name = node.func.id if isinstance(node.func, ast.Name) else node.func.attr
            if name == function:
                yield node


def keyword(call: ast.Call, name: str) -> str | None:
    """Return a keyword argument that is a plain string, or the source of what it is."""
    for given in call.keywords:
        if given.arg == name:
            is_text = isinstance(given.value, ast.Constant) and isinstance(given.value.value, str)
            return str(given.value.value) if is_text else ast.unparse(given.value)
    return None


def installed_programs() -> dict[str, str]:
    """Return the programs that CMake installs: name -> module."""
    cmake = text('CMakeLists.txt')
    loop = re.search(r'foreach\(executable ([\w ]+)\)', cmake)
    assert loop is not None
    nodes = {name: f'physis_ros.ros.{name}' for name in loop[1].split()}
    single = re.findall(r'PROGRAMS \$\{PROJECT_NAME\}/(\w+)\.py\s+\S+ \S+ RENAME (\w+)', cmake)
    return nodes | {name: f'physis_ros.{module}' for module, name in single}


def test_nothing_beside_a_node_has_the_name_of_a_module_of_python() -> None:
    """Python looks beside a program first; an installed one may be a link to it."""
    beside = {path.stem for path in (ROOT / 'physis_ros/ros').glob('*.py')}
    assert not beside & sys.stdlib_module_names


def test_one_version() -> None:
    manifest = ElementTree.fromstring(text('package.xml')).findtext('version')
    setup = re.search(r"version='([^']+)'", text('setup.py'))
    module = re.search(r"__version__ = '([^']+)'", text('physis_ros/__init__.py'))
    newest = re.search(r'^(\d+\.\d+\.\d+) \(\d{4}-\d\d-\d\d\)$', text('CHANGELOG.rst'), re.M)
    assert setup is not None
    assert module is not None
    assert newest is not None
    assert {manifest} == {setup[1], module[1], newest[1]}


def test_changelog_headings_are_underlined_in_full() -> None:
    lines = text('CHANGELOG.rst').splitlines()
    underlined = [i for i, line in enumerate(lines) if re.fullmatch(r'(-+|\^+)', line) and i]
    assert underlined
    assert all(len(lines[i - 1]) == len(lines[i]) for i in underlined)


def test_manifest_is_a_message_package_built_by_cmake() -> None:
    manifest = ElementTree.fromstring(text('package.xml'))
    assert manifest.get('format') == '3'
    assert manifest.findtext('member_of_group') == 'rosidl_interface_packages'
    assert manifest.findtext('export/build_type') == 'ament_cmake'
    assert manifest.findtext('license') == 'Apache-2.0'


def test_every_message_package_used_is_a_dependency() -> None:
    manifest = ElementTree.fromstring(text('package.xml'))
    declared = {tag.text for tag in manifest if tag.tag in ('depend', 'exec_depend')}
    used = {
        match
        for path in ROOT.glob('physis_ros/ros/*.py')
        for match in re.findall(r'^\s*from (\w+)\.(?:msg|srv) import', path.read_text(), re.M)
    }
    in_messages = {
        match for path in INTERFACES for match in re.findall(r'^(\w+)/\w+', path.read_text(), re.M)
    }
    assert in_messages == {tag.text for tag in manifest if tag.tag == 'depend'}
    assert used - declared - {'physis_ros'} == set()


def test_programs_exist_and_can_be_run() -> None:
    programs = installed_programs()
    assert set(programs) == {'wam_node', 'servo_node', 'arm_node', 'demo', 'physis'}
    for module in programs.values():
        path = ROOT / f'{module.replace(".", "/")}.py'
        source = path.read_text()
        assert source.startswith('#!/usr/bin/env python3\n'), path
        assert path.stat().st_mode & 0o111, path
        assert re.search(r'^def main\(', source, re.M), path
        assert "if __name__ == '__main__':" in source, path


def test_setup_names_the_same_command_line() -> None:
    scripts = re.search(
        r"'console_scripts': \[f'(\w+) = \{NAME\}\.(\w+):main'\]", text('setup.py')
    )
    assert scripts is not None
    assert installed_programs()[scripts[1]] == f'physis_ros.{scripts[2]}'


def test_setup_ships_the_messages_that_recordings_are_read_by(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    given: dict[str, Any] = {}
    monkeypatch.chdir(ROOT)
    monkeypatch.setattr(setuptools, 'setup', given.update)
    runpy.run_path('setup.py')
    shipped = {'physis_ros/msg': {Path(p).name for p in ROOT.glob('msg/*.msg')}}
    assert {
        folder.removeprefix('share/'): {Path(name).name for name in names}
        for folder, names in given['data_files']
    } == shipped


# Launch arguments that nobody could guess.
REQUIRED = {'bag'}


@pytest.mark.parametrize('path', LAUNCH_FILES, ids=lambda path: path.name)
def test_launch_file(path: Path) -> None:
    compile(path.read_text(), str(path), 'exec')
    for argument in calls(path, 'DeclareLaunchArgument'):
        assert keyword(argument, 'description'), ast.unparse(argument)
        required = ast.literal_eval(argument.args[0]) in REQUIRED
        assert (keyword(argument, 'default_value') is None) == required, ast.unparse(argument)
    for kind in ('Node', 'LifecycleNode'):
        for node in calls(path, kind):
            if keyword(node, 'package') == 'physis_ros':
                assert keyword(node, 'executable') in installed_programs(), ast.unparse(node)
    for named in re.findall(r"'(config|launch)', '([\w.]+)'", path.read_text()):
        assert (ROOT / named[0] / named[1]).is_file(), named


def test_there_are_launch_files() -> None:
    assert {'bringup.launch.py', 'demo.launch.py'} <= {path.name for path in LAUNCH_FILES}
    # As packages these folders would hide ROS's own `launch` from whoever runs in the root.
    assert not list(ROOT.glob('launch/__init__.py')) + list(ROOT.glob('test/__init__.py'))


@pytest.mark.parametrize('path', INTERFACES, ids=lambda path: path.name)
def test_every_field_is_explained(path: Path) -> None:
    """A field or constant has a comment above it, or is one of a run of constants that has."""
    lines = path.read_text().splitlines()
    assert lines[0] == '# SPDX-License-Identifier: Apache-2.0'
    assert lines[1].startswith('# '), 'the message itself must be explained first'
    for above, line in pairwise(lines):
        if line and line != '---' and not line.startswith('#'):
            told = above.startswith('#') or (above != '' and '=' in above and '=' not in line)
            assert told, f'{line} must have a comment above it'


@pytest.mark.parametrize('path', INTERFACES, ids=lambda path: path.name)
def test_every_number_has_a_unit_or_is_a_code(path: Path) -> None:
    """``[unit]`` in the comment of floats and 64-bit counts; brackets close on their own line."""
    lines = path.read_text().splitlines()
    for number, line in enumerate(lines):
        assert line.count('[') == line.count(']'), f'{line}: the generator reads [..] as a unit'
        if re.match(r'(float64|uint64)(\[\])? ', line):
            comment = []
            for above in reversed(lines[:number]):
                if not above.startswith('#'):
                    break
                comment.append(above)
            assert '[' in ' '.join(comment), f'{line} must have a unit in brackets'


def test_every_source_names_its_licence() -> None:
    missing = []
    for path in tracked():
        name = str(path.relative_to(ROOT))
        if path.suffix in SOURCE_SUFFIXES or name in SOURCES_WITHOUT_SUFFIX:
            head = path.read_text().splitlines()[:4]
            if not any('SPDX-License-Identifier: Apache-2.0' in line for line in head):
                missing.append(name)
    assert missing == []


def test_no_file_is_too_long_to_read() -> None:
    long = {
        str(path.relative_to(ROOT)): count
        for path in tracked()
        if path.suffix == '.py' and (count := len(path.read_text().splitlines())) > LONGEST_FILE
    }
    assert long == {}


def test_lock_file_pins_what_setup_asks_for_and_contributing_explains_it() -> None:
    lines = [line for line in text('requirements.lock').splitlines() if line[:1] not in ('#', '')]
    assert all(re.fullmatch(r'[\w.-]+==[\w.]+(; python_version .*)?', line) for line in lines)
    pinned = {line.split('==')[0].lower() for line in lines}
    quoted = re.findall(
        r"'([\w-]+)(?:[<>=][^']*)?',", text('setup.py').split('install_requires')[1]
    )
    asked = {name.lower() for name in quoted}
    assert len(asked) > 10
    assert asked <= pinned
    explained = text('CONTRIBUTING.md').lower()
    assert [name for name in sorted(asked) if name not in explained] == []
