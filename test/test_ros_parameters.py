# SPDX-License-Identifier: Apache-2.0
"""Parameters: declared once from a dataclass, checked, described, and nothing unknown."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip('rclpy')

from rclpy.node import Node
from rclpy.parameter import Parameter

from physis_ros.errors import ParameterError
from physis_ros.ros.arm_config import ArmNodeConfig
from physis_ros.ros.parameters import check_topic, declare, parameter
from physis_ros.ros.stream_config import StreamConfig


@dataclass(frozen=True)
class Sample:
    """One field of each type."""

    rate_hz: float = parameter(250.0, 'Ticks [Hz].', low=1.0, high=1000.0)
    workers: int = parameter(2, 'Workers [1].', low=1)
    mode: str = parameter('blend', 'How.', choices=('blend', 'replace'))
    active: bool = parameter(True, 'Whether.')
    joints: tuple[str, ...] = parameter((), 'Names.')
    lower: tuple[float, ...] = parameter((), 'Limits [rad].')
    stages: tuple[int, ...] = parameter((), 'Workers.', low=0)


class SampleNode(Node):
    """A node with these parameters."""

    def __init__(self, **options: Any) -> None:
        super().__init__('sample', **options)
        self.config = declare(self, Sample)


def test_defaults_are_those_of_the_dataclass(bench: Any) -> None:
    node = bench.add(SampleNode)
    assert node.config == Sample()
    assert node.get_parameter('rate_hz').value == 250.0


def test_given_values_win_and_whole_numbers_are_doubles(bench: Any) -> None:
    node = bench.add(
        SampleNode,
        {
            'rate_hz': 500,
            'joints': ['a', 'b'],
            'lower': [1, 2],
            'mode': 'replace',
            'stages': [0, 1, 0],
        },
    )
    assert node.config == Sample(500.0, 2, 'replace', True, ('a', 'b'), (1.0, 2.0), (0, 1, 0))
    assert type(node.config.rate_hz) is float
    assert list(node.get_parameter('lower').value) == [1.0, 2.0]


def test_what_is_dumped_can_be_given_again(bench: Any, tmp_path: Path) -> None:
    """In a file an empty list has no type, and ROS takes it for nothing at all."""
    given = tmp_path / 'dumped.yaml'
    given.write_text('sample: {ros__parameters: {joints: [], lower: [], rate_hz: 100}}')
    node = SampleNode(context=bench.context, cli_args=['--ros-args', '--params-file', str(given)])
    assert node.config == Sample(rate_hz=100.0)
    assert list(node.get_parameter('lower').value) == []
    node.destroy_node()


@pytest.mark.parametrize(
    ('topic', 'why'),
    [
        ('my cam', 'topic name must not contain characters other than alphanumerics'),
        ('2d', 'topic name token must not start with a number'),
        ('', 'topic name must not be empty'),
    ],
)
def test_what_is_no_topic_is_refused_by_the_name_of_its_parameter(topic: str, why: str) -> None:
    with pytest.raises(ParameterError) as caught:
        check_topic('camera', topic)
    assert (caught.value.name, caught.value.value) == ('camera', topic)
    assert caught.value.hint.startswith(why)
    for kind in (
        lambda: StreamConfig(camera='my cam'),
        lambda: StreamConfig(cameras=('my cam=top',)),
        lambda: StreamConfig(joint_topics=('joint states',)),
        lambda: ArmNodeConfig(reset_services=('wam node/reset',)),
    ):
        with pytest.raises(ParameterError, match='must be the name of a topic'):
            kind()


@pytest.mark.parametrize(
    ('name', 'value', 'words'),
    [
        ('rate_hz', 0.0, r'/sample\.rate_hz must be >= 1, got 0.0'),
        ('rate_hz', 2000, r'/sample\.rate_hz must be <= 1000, got 2000'),
        ('rate_hz', float('nan'), r'/sample\.rate_hz must be >= 1, got nan'),
        ('rate_hz', 'fast', r"/sample\.rate_hz must be a number, got 'fast'"),
        ('workers', 1.5, r'/sample\.workers must be a whole number, got 1.5'),
        ('workers', True, r'/sample\.workers must be a whole number, got True'),
        ('mode', 'best', r"/sample\.mode must be one of \['blend', 'replace'\], got 'best'"),
        ('stages', [0.5], r'/sample\.stages must be a list of whole numbers, got \[0.5\]'),
        ('stages', [True], r'/sample\.stages must be a list of whole numbers, got \[True\]'),
        ('stages', [0, -1], r'/sample\.stages must be >= 0, got \(0, -1\)'),
        ('joints', 'a', r"/sample\.joints must be a list of texts, got 'a'"),
    ],
)
def test_wrong_values_are_refused_with_the_full_name(
    bench: Any, name: str, value: object, words: str
) -> None:
    with pytest.raises(ParameterError, match=words):
        bench.add(SampleNode, {name: value})


def test_unknown_names_are_refused_with_a_suggestion(bench: Any) -> None:
    with pytest.raises(ParameterError, match=r"\['rate_hertz'\].*did you mean \['rate_hz'\]"):
        bench.add(SampleNode, {'rate_hertz': 100.0})


def test_a_running_node_refuses_changes(bench: Any) -> None:
    node = bench.add(SampleNode)
    (result,) = node.set_parameters([Parameter('rate_hz', value=100.0)])
    assert not result.successful
    assert 'read-only' in result.reason


def test_descriptors_tell_description_and_range(bench: Any) -> None:
    node = bench.add(SampleNode)
    descriptor = node.describe_parameter('rate_hz')
    assert descriptor.description == 'Ticks [Hz].'
    assert descriptor.read_only
    (bounds,) = descriptor.floating_point_range
    assert (bounds.from_value, bounds.to_value) == (1.0, 1000.0)
    assert 'blend' in node.describe_parameter('mode').additional_constraints
    # Though it is empty, of which a type cannot be told.
    assert node.describe_parameter('lower').type == Parameter.Type.DOUBLE_ARRAY.value
