# SPDX-License-Identifier: Apache-2.0
"""
Launch files without ROS's launch packages: read as text and trees, so they are checked anywhere.

Every argument is described, and every executable and file that is named exists.
"""

from __future__ import annotations

import ast
import re
from pathlib import Path

import pytest
import yaml

ROOT = Path(__file__).parents[1]
FILES = sorted((ROOT / 'launch').glob('*'))
EXPECTED = {'params_file', 'use_sim_time', 'namespace', 'log_level', 'autostart'}
COMMON = ROOT / 'launch' / 'bringup.launch.py'
# Nodes of other packages, which only those who have that simulator need.
FOREIGN = {('ros_gz_bridge', 'parameter_bridge')}


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


def declared(path: Path) -> set[str]:
    """Return the arguments of a launch file: its own, and those of the one that it includes."""
    own = {text(call.args[0]) for call in calls(path, 'DeclareLaunchArgument')}
    included = calls(path, 'IncludeLaunchDescription')
    return own | (declared(COMMON) if included else set())


def position(path: Path, name: str) -> int:
    """Return the line of the only call of a name."""
    (call,) = calls(path, name)
    return call.lineno


def test_the_folder_holds_launch_files_only() -> None:
    # An __init__.py would hide the package that ROS calls launch.
    names = [path.name for path in FILES if path.name != '__pycache__']
    kinds = ('bag', 'bringup', 'demo', 'gazebo', 'isaac', 'robots')
    assert names == [f'{kind}.launch.py' for kind in kinds]


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
        assert declared(path) >= EXPECTED
        for call in arguments:
            given = keywords(call)
            assert text(given['description']).endswith('.'), text(call.args[0])
            # Whoever has set them in the file would wonder.
            if text(call.args[0]) in ('use_sim_time', 'autostart'):
                assert 'Goes before what params_file says.' in text(given['description'])
            choices = given.get('choices')
            if choices is not None:
                assert isinstance(choices, ast.List)
                assert text(given['default_value']) in [text(item) for item in choices.elts]

    def test_every_value_that_is_used_is_declared(self, path: Path) -> None:
        used = {
            text(call.args[0])
            for call in calls(path, 'LaunchConfiguration')
            if isinstance(call.args[0], ast.Constant)
        }
        assert used <= declared(path)

    def test_every_executable_is_a_node_of_ours(self, path: Path) -> None:
        for call in calls(path, 'Node'):
            given = keywords(call)
            if (text(given['package']), text(given['executable'])) in FOREIGN:
                continue
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


def test_every_managed_node_is_told_whether_to_come_up_by_itself() -> None:
    managed = [
        (path.name, call)
        for path in FILES
        if path.suffix == '.py'
        for call in calls(path, 'Node')
        if text(keywords(call)['executable']) in ('wam_node', 'servo_node')
    ]
    assert [name for name, _ in managed] == ['bringup.launch.py'] * 2 + ['robots.launch.py']
    given = "{'autostart': LaunchConfiguration('autostart')}"
    for name, call in managed:
        parameters = keywords(call)['parameters']
        if isinstance(parameters, ast.Name):
            parameters = assigned(ROOT / 'launch' / name, parameters.id)
        assert isinstance(parameters, ast.List)
        assert given in [ast.unparse(item) for item in parameters.elts]


def assigned(path: Path, name: str) -> ast.expr:
    """Return what a name stands for in a file."""
    (value,) = [
        node.value
        for node in ast.walk(ast.parse(path.read_text()))
        if isinstance(node, ast.Assign) and ast.unparse(node.targets[0]) == name
    ]
    return value


@pytest.mark.parametrize('path', [p for p in FILES if p.suffix == '.py' and p != COMMON])
def test_the_common_part_is_included_once_and_first(path: Path) -> None:
    included = position(path, 'IncludeLaunchDescription')
    # What is declared after it would come too late to be another default; what is started before
    # it would have neither its arguments nor its transports.
    arguments = calls(path, 'DeclareLaunchArgument')
    assert all(call.lineno < included for call in arguments)
    started = [*calls(path, 'Node'), *calls(path, 'ExecuteProcess')]
    assert all(call.lineno > included for call in started)
    assert calls(COMMON, 'Node')
    # Its own defaults are for its kind of robot, and for nothing that is the same everywhere.
    redeclared = {text(call.args[0]) for call in arguments} & declared(COMMON)
    assert redeclared <= {'params_file', 'use_sim_time', 'command_topic'}


def test_every_robot_of_the_example_is_a_stream_with_a_servo_of_its_own() -> None:
    path = ROOT / 'launch' / 'robots.launch.py'
    given = yaml.safe_load((ROOT / 'config' / 'robots.yaml').read_text())
    streams = given['/**/wam_node']['ros__parameters']['streams']
    named = [
        ast.literal_eval(node.value)
        for node in ast.walk(ast.parse(path.read_text()))
        if isinstance(node, ast.Assign) and ast.unparse(node.targets[0]) == 'streams'
    ]
    assert named == [tuple(streams)]
    (servo,) = calls(path, 'Node')
    assert text(keywords(servo)['executable']) == 'servo_node'
    # The one of the bring-up would hear nothing.
    (included,) = calls(path, 'IncludeLaunchDescription')
    assert ast.unparse(keywords(included)['launch_arguments']) == "{'servo': 'false'}.items()"
    conditions = [keywords(call).get('condition') for call in calls(COMMON, 'Node')]
    (condition,) = [ast.unparse(one) for one in conditions if one is not None]
    assert condition == "IfCondition(LaunchConfiguration('servo'))"


def test_a_recording_is_played_with_its_time_and_without_what_was_published_before() -> None:
    path = ROOT / 'launch' / 'bag.launch.py'
    (play,) = calls(path, 'ExecuteProcess')
    words = [node.value for node in ast.walk(play) if isinstance(node, ast.Constant)]
    assert {'--clock', '--rate', '--delay', '--regex'} <= set(words)
    (topics,) = [
        text(keywords(call)['default_value'])
        for call in calls(path, 'DeclareLaunchArgument')
        if text(call.args[0]) == 'topics'
    ]
    ours = ('/wam_node/action_chunk', '/wam_node/predicted_image', '/servo_node/playback')
    for name in ('/clock', '/command', '/wam_node/stream_status', *ours):
        assert not re.match(topics, name), name
    cameras = (
        '/camera/image_raw',
        '/r1/camera/image_raw/compressed',
        '/r1/depth/image_raw/compressedDepth',
    )
    for name in (*cameras, '/joint_states', '/r1/joint_states'):
        assert re.fullmatch(topics, name), name


def test_the_cameras_name_in_isaac_sim_holds_for_compressed_pictures_too() -> None:
    path = ROOT / 'launch' / 'isaac.launch.py'
    remapped = {text(call.args[0]): ast.unparse(call.args[1]) for call in calls(path, 'SetRemap')}
    topic = "LaunchConfiguration('image_topic')"
    assert remapped == {
        'camera/image_raw': topic,
        'camera/image_raw/compressed': f"[{topic}, '/compressed']",
    }


def test_T13_the_clock_of_gazebo_does_not_share_a_bridge_with_pictures() -> None:
    path = ROOT / 'launch' / 'gazebo.launch.py'
    configs = {
        text(keywords(call)['name']): ast.unparse(keywords(call)['parameters'])
        for call in calls(path, 'Node')
    }
    assert set(configs) == {'clock_bridge', 'bridge'}
    assert 'gz_clock_bridge.yaml' in configs['clock_bridge']
    assert "LaunchConfiguration('bridge_config')" in configs['bridge']
    (default,) = [
        ast.unparse(keywords(call)['default_value'])
        for call in calls(path, 'DeclareLaunchArgument')
        if text(call.args[0]) == 'bridge_config'
    ]
    assert "'gz_bridge.yaml'" in default
    carried = {
        name: [item['ros_topic_name'] for item in yaml.safe_load((ROOT / name).read_text())]
        for name in ('config/gz_clock_bridge.yaml', 'config/gz_bridge.yaml')
    }
    assert carried['config/gz_clock_bridge.yaml'] == ['/clock']
    assert 'camera/image_raw' in carried['config/gz_bridge.yaml']
    assert '/clock' not in carried['config/gz_bridge.yaml']
