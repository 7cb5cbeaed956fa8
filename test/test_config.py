# SPDX-License-Identifier: Apache-2.0
"""Every key in config/*.yaml is a parameter of its node, with a value that the node takes."""

from __future__ import annotations

from dataclasses import fields
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip('yaml')
pytest.importorskip('rclpy')
pytest.importorskip('physis_ros.msg')

import yaml
from sensor_msgs.msg import Image, JointState
from trajectory_msgs.msg import JointTrajectory

from physis_ros.ros.arm import ArmNode
from physis_ros.ros.arm_config import ArmNodeConfig
from physis_ros.ros.servo import ServoNode
from physis_ros.ros.servo_config import ServoConfig
from physis_ros.ros.stream_config import StreamConfig
from physis_ros.ros.wam import WamNode
from physis_ros.ros.wam_config import WamConfig

FILES = sorted((Path(__file__).parents[1] / 'config').glob('*.yaml'))
NODES = {
    'wam_node': (WamNode, (WamConfig, StreamConfig)),
    'servo_node': (ServoNode, (ServoConfig,)),
    'arm_node': (ArmNode, (ArmNodeConfig,)),
}


def parameters(name: str) -> list[Any]:
    """Return the fields that are parameters of a node."""
    return [item for kind in NODES[name][1] for item in fields(kind)]


def sections(path: Path) -> dict[str, dict[str, Any]]:
    """Return the parameters by node; a file that is for something else has none."""
    given = yaml.safe_load(path.read_text())
    if not isinstance(given, dict):
        return {}
    # Without the wildcard a section would be for the node of that name in no namespace.
    assert all(name.startswith('/**/') for name in given), list(given)
    return {
        name.removeprefix('/**/'): flat(part['ros__parameters']) for name, part in given.items()
    }


def flat(given: dict[str, Any], prefix: str = '') -> dict[str, Any]:
    """Return parameters as ROS names them: those of one stream have its name before theirs."""
    found: dict[str, Any] = {}
    for key, value in given.items():
        found |= flat(value, f'{key}.') if isinstance(value, dict) else {prefix + key: value}
    return found


CASES = [(path, name) for path in FILES for name in sections(path)]


def test_there_is_a_file_for_the_demo_and_one_for_each_kind_of_robot() -> None:
    names = {path.name: set(sections(path)) for path in FILES}
    pair = {'wam_node', 'servo_node'}
    assert names == {
        'arm.yaml': {'arm_node', *pair},
        **{f'{kind}.yaml': pair for kind in ('bag', 'gazebo', 'isaac', 'robot', 'robots')},
        **{f'{kind}.yaml': set() for kind in ('gz_bridge', 'gz_clock_bridge')},
    }


@pytest.mark.parametrize('namespace', ['/', '/fleet/robot_1'])
def test_a_file_is_for_every_namespace(bench: Any, namespace: str) -> None:
    path = next(path for path in FILES if path.name == 'robot.yaml')
    given = ['--ros-args', '--params-file', str(path)]
    node = ServoNode(context=bench.context, namespace=namespace, cli_args=given)
    node.bring_up()
    joints = list(node.playing.config.joints)
    node.close()
    node.destroy_node()
    assert joints == sections(path)['servo_node']['joints']


def test_a_stream_takes_its_own_values_before_those_of_all(bench: Any) -> None:
    path = next(path for path in FILES if path.name == 'robots.yaml')
    node = WamNode(context=bench.context, cli_args=['--ros-args', '--params-file', str(path)])
    left, right = (node.streams.config(name) for name in node.config.names)
    node.close()
    node.destroy_node()
    assert (left.camera, left.period_ms, left.margin_ms) == ('camera', 200.0, 20.0)
    assert (right.camera, right.period_ms, right.margin_ms) == ('wrist_camera', 250.0, 20.0)


def bridged(name: str) -> list[dict[str, Any]]:
    """Return what a file tells ros_gz_bridge."""
    given = yaml.safe_load((FILES[0].parent / name).read_text())
    assert isinstance(given, list)
    return given


def test_what_is_bridged_to_gazebo_is_what_the_nodes_read_and_write() -> None:
    (clock,) = bridged('gz_clock_bridge.yaml')
    assert (clock['ros_topic_name'], clock['direction']) == ('/clock', 'GZ_TO_ROS')
    items = {item['ros_topic_name']: item for item in bridged('gz_bridge.yaml')}
    # With /clock among them time would wait behind pictures.
    assert set(items) == {'camera/image_raw', 'joint_states', 'joint_trajectory'}
    kinds = {'camera/image_raw': Image, 'joint_states': JointState}
    kinds['joint_trajectory'] = JointTrajectory
    known = {'ros_topic_name', 'gz_topic_name', 'ros_type_name', 'gz_type_name', 'direction'}
    known |= {'subscriber_queue', 'publisher_queue', 'lazy'}
    for name, kind in kinds.items():
        item = items[name]
        assert set(item) <= known
        assert item['ros_type_name'] == f'{kind.__module__.split(".")[0]}/msg/{kind.__name__}'
        wanted = 'ROS_TO_GZ' if kind is JointTrajectory else 'GZ_TO_ROS'
        assert item['direction'] == wanted
    # The camera's topic is the one that wam_node reads, the command's type the servo node's.
    gazebo = next(sections(path) for path in FILES if path.name == 'gazebo.yaml')
    assert f'{gazebo["wam_node"]["camera"]}/image_raw' in items
    assert gazebo['servo_node']['command_type'] == 'joint_trajectory'


def test_isaac_is_commanded_by_name() -> None:
    isaac = next(sections(path) for path in FILES if path.name == 'isaac.yaml')
    assert isaac['servo_node']['command_type'] == 'joint_state'
    # The launch file's remapping is from this camera.
    assert isaac['wam_node']['camera'] == 'camera'


@pytest.mark.parametrize(
    ('path', 'name'), CASES, ids=[f'{path.name}-{name}' for path, name in CASES]
)
def test_a_node_takes_its_section(bench: Any, path: Path, name: str) -> None:
    kind, _ = NODES[name]
    given = sections(path)[name]
    node = bench.add(kind, given)
    for key, value in given.items():
        taken = node.get_parameter(key).value
        assert (list(taken) if isinstance(value, list) else taken) == value, key


@pytest.mark.parametrize('name', NODES)
def test_every_parameter_is_described_with_its_unit(name: str) -> None:
    units = {'_hz': '[Hz]', '_ms': '[ms]', '_s': '[s]'}
    for item in parameters(name):
        description = item.metadata['rule'].description
        assert description, item.name
        unit = next((unit for suffix, unit in units.items() if item.name.endswith(suffix)), '')
        assert unit in description, f'{item.name}: {description}'


@pytest.mark.parametrize('path', FILES, ids=[path.name for path in FILES])
def test_doubles_are_written_as_doubles(path: Path) -> None:
    for name, given in sections(path).items():
        kinds = {item.name: item.type for item in parameters(name)}
        for key, value in given.items():
            if kinds[key.rpartition('.')[2]] == 'float':
                assert isinstance(value, float), f'{name}.{key}'
