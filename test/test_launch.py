# SPDX-License-Identifier: Apache-2.0
"""
Launch files without ROS's launch packages: read as text and trees, so they are checked anywhere.

Every argument is described, and every executable and file that is named exists.
"""

from __future__ import annotations

import ast
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
FILES = sorted((ROOT / 'launch').glob('*'))
EXPECTED = {'params_file', 'use_sim_time', 'namespace', 'log_level', 'autostart'}


def calls(path: Path, name: str) -> list[ast.Call]:
    """Return all calls of a name in a file."""
    tree = ast.parse(path.read_text(), str(path))
    return [
        node
        for node in ast.walk(tree)
        if isinstance(node, ast.Call)
        and isinstance(node.func, ast.Name)
        and node.func.id == name
    ]


def text(node: ast.expr) -> str:
    """Return a text constant."""
    assert isinstance(node, ast.Constant), ast.dump(node)
    assert isinstance(node.value, str)
    return node.value


def keywords(call: ast.Call) -> dict[str, ast.expr]:
    """Return a call's keyword arguments."""
    return {item.arg: item.value for item in call.keywords if item.arg is not None}


def test_the_folder_holds_launch_files_only() -> None:
    # An __init__.py would hide the package that ROS calls launch.
    names = [path.name for path in FILES if path.name != '__pycache__']
    assert names == ['bringup.launch.py', 'demo.launch.py']


@pytest.mark.parametrize('path', [p for p in FILES if p.suffix == '.py'], ids=lambda p: p.name)
class TestLaunchFile:
    """What holds for each."""

    def test_it_has_the_entry_point_and_works_at_no_other_time(self, path: Path) -> None:
        tree = ast.parse(path.read_text())
        compile(tree, str(path), 'exec')
        functions = [node.name for node in tree.body if isinstance(node, ast.FunctionDef)]
        assert functions == ['generate_launch_description']
        allowed = (ast.Import, ast.ImportFrom, ast.FunctionDef, ast.Expr)
        assert all(isinstance(node, allowed) for node in tree.body)

    def test_every_argument_is_described(self, path: Path) -> None:
        arguments = calls(path, 'DeclareLaunchArgument')
        names = {text(call.args[0]) for call in arguments}
        assert names >= EXPECTED
        for call in arguments:
            given = keywords(call)
            assert text(given['description']).endswith('.'), text(call.args[0])
            choices = given.get('choices')
            if choices is not None:
                assert isinstance(choices, ast.List)
                assert text(given['default_value']) in [text(item) for item in choices.elts]

    def test_every_value_that_is_used_is_declared(self, path: Path) -> None:
        declared = {text(call.args[0]) for call in calls(path, 'DeclareLaunchArgument')}
        used = {
            text(call.args[0])
            for call in calls(path, 'LaunchConfiguration')
            if isinstance(call.args[0], ast.Constant)
        }
        assert used <= declared

    def test_every_executable_is_a_node_of_ours(self, path: Path) -> None:
        nodes = calls(path, 'Node')
        assert nodes
        for call in nodes:
            given = keywords(call)
            assert text(given['package']) == 'physis_ros'
            main = ROOT / 'physis_ros' / 'ros' / f'{text(given["executable"])}.py'
            assert main.read_text().startswith('#!/usr/bin/env python3\n')
            assert main.stat().st_mode & 0o111
            assert text(given['executable']) in (ROOT / 'CMakeLists.txt').read_text()

    def test_every_file_that_is_named_exists(self, path: Path) -> None:
        named = [
            node.value
            for node in ast.walk(ast.parse(path.read_text()))
            if isinstance(node, ast.Constant)
            and isinstance(node.value, str)
            and node.value.endswith(('.yaml', '.xml', '.launch.py'))
            and ' ' not in node.value
        ]
        assert named
        for name in named:
            assert any((ROOT / folder / name).is_file() for folder in ('config', 'launch')), name


def test_included_arguments_are_declared_there() -> None:
    arguments = calls(ROOT / 'launch/bringup.launch.py', 'DeclareLaunchArgument')
    declared = {text(call.args[0]) for call in arguments}
    (passed,) = [
        node.value
        for node in ast.walk(ast.parse((ROOT / 'launch/demo.launch.py').read_text()))
        if isinstance(node, ast.Assign)
        and isinstance(node.targets[0], ast.Name)
        and node.targets[0].id == 'passed'
    ]
    assert set(ast.literal_eval(passed)) | {'command_topic'} <= declared
