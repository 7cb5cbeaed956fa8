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

from physis_ros.ros.arm import ArmNode
from physis_ros.ros.arm_config import ArmNodeConfig
from physis_ros.ros.servo import ServoNode
from physis_ros.ros.servo_config import ServoConfig
from physis_ros.ros.wam import WamNode
from physis_ros.ros.wam_config import WamConfig

FILES = sorted((Path(__file__).parents[1] / 'config').glob('*.yaml'))
NODES = {
    'wam_node': (WamNode, WamConfig),
    'servo_node': (ServoNode, ServoConfig),
    'arm_node': (ArmNode, ArmNodeConfig),
}


def sections(path: Path) -> dict[str, dict[str, Any]]:
    """Return the parameters by node; a file that is for something else has none."""
    given = yaml.safe_load(path.read_text())
    if not isinstance(given, dict):
        return {}
    return {
        name: part['ros__parameters']
        for name, part in given.items()
        if isinstance(part, dict) and 'ros__parameters' in part
    }


CASES = [(path, name) for path in FILES for name in sections(path)]


def test_there_is_a_file_for_the_demo_and_one_for_a_robot() -> None:
    names = {path.name: set(sections(path)) for path in FILES}
    assert names['arm.yaml'] == {'arm_node', 'wam_node', 'servo_node'}
    assert names['robot.yaml'] == {'wam_node', 'servo_node'}


@pytest.mark.parametrize(
    ('path', 'name'), CASES, ids=[f'{path.name}-{name}' for path, name in CASES]
)
def test_a_node_takes_its_section(bench: Any, path: Path, name: str) -> None:
    kind, _ = NODES[name]
    given = sections(path)[name]
    node = bench.add(kind, given)
    for key, value in given.items():
        taken = getattr(node.config, key)
        assert (list(taken) if isinstance(taken, tuple) else taken) == value, key


@pytest.mark.parametrize('name', NODES)
def test_every_parameter_is_described_with_its_unit(name: str) -> None:
    _, kind = NODES[name]
    units = {'_hz': '[Hz]', '_ms': '[ms]', '_s': '[s]'}
    for item in fields(kind):
        description = item.metadata['rule'].description
        assert description, item.name
        unit = next((unit for suffix, unit in units.items() if item.name.endswith(suffix)), '')
        assert unit in description, f'{item.name}: {description}'


@pytest.mark.parametrize('path', FILES, ids=[path.name for path in FILES])
def test_doubles_are_written_as_doubles(path: Path) -> None:
    for name, given in sections(path).items():
        kinds = {item.name: item.type for item in fields(NODES[name][1])}
        for key, value in given.items():
            if kinds[key] == 'float':
                assert isinstance(value, float), f'{name}.{key}'
