# SPDX-License-Identifier: Apache-2.0
"""Parameters set while a node runs, by the real service: all of a call, or nothing of it."""

from __future__ import annotations

import time
from dataclasses import dataclass
from typing import Any

import pytest

pytest.importorskip('rclpy')
pytest.importorskip('physis_ros.msg')

from rcl_interfaces.srv import SetParametersAtomically
from rclpy.node import Node
from rclpy.parameter import Parameter
from servo_cases import Feed

from physis_ros.errors import ParameterError
from physis_ros.output.merge import Merge
from physis_ros.ros.live import LiveParameters
from physis_ros.ros.managed import SUCCESS
from physis_ros.ros.parameters import declare, parameter
from physis_ros.ros.servo import ServoNode
from physis_ros.ros.wam import WamNode
from physis_ros.types import Play


@dataclass(frozen=True)
class Sample:
    """Parameters that may be set, and one that may not."""

    low_ms: float = parameter(1.0, 'Least [ms].', low=0.0, dynamic=True)
    high_ms: float = parameter(2.0, 'Greatest [ms].', high=100.0, dynamic=True)
    gains: tuple[float, ...] = parameter((), 'Gains.', dynamic=True)
    name: str = parameter('a', 'Name.')

    def __post_init__(self) -> None:
        """Refuse bounds the wrong way round."""
        if self.low_ms > self.high_ms:
            raise ParameterError('low_ms', f'<= high_ms = {self.high_ms}', self.low_ms)


class SampleNode(Node):
    """A node with these parameters, which says what it was told."""

    def __init__(self, **options: Any) -> None:
        super().__init__('sample', **options)
        self.told: list[Sample] = []
        live = LiveParameters(self, {'use_sim_time': 'it cannot'})
        live.follow(declare(self, Sample), self.told.append)


def set_all(bench: Any, node: str, **values: Any) -> Any:
    """Call the service that sets all or nothing, and return its answer."""
    name = f'{node}/set_parameters_atomically'
    client = bench.probe.create_client(SetParametersAtomically, name)
    assert bench.spin_until(client.service_is_ready, 20)
    messages = [Parameter(key, value=value).to_parameter_msg() for key, value in values.items()]
    answer = client.call_async(SetParametersAtomically.Request(parameters=messages))
    assert bench.spin_until(answer.done, 20)
    return answer.result().result


def test_a_call_is_taken_whole_and_whole_numbers_are_doubles(bench: Any) -> None:
    node = bench.add(SampleNode)
    # Neither could be set before the other: 50 is above 2.
    assert set_all(bench, 'sample', low_ms=50, high_ms=60.5, gains=[1, 2]).successful
    assert node.told == [Sample(50.0, 60.5, (1.0, 2.0))]
    assert node.get_parameter('low_ms').value == 50.0
    assert node.get_parameter('low_ms').type_ is Parameter.Type.DOUBLE
    assert list(node.get_parameter('gains').value) == [1.0, 2.0]
    assert set_all(bench, 'sample', gains=[]).successful
    assert node.told[-1].gains == ()


@pytest.mark.parametrize(
    ('values', 'words'),
    [
        ({'high_ms': 50.0, 'low_ms': 70.0}, 'low_ms must be <= high_ms = 50.0, got 70.0'),
        ({'high_ms': 50.0, 'gains': [float('nan')], 'low_ms': -1.0}, 'low_ms'),
        ({'high_ms': 50.0, 'name': 'b'}, 'read-only parameter: name'),
        ({'high_ms': 'wide'}, 'Wrong parameter type'),
        ({'high_ms': 50.0, 'hihg_ms': 60.0}, "undeclared parameter(s): ['hihg_ms']"),
        ({'high_ms': 50.0, 'use_sim_time': True}, '/sample.use_sim_time must be False while'),
    ],
)
def test_one_wrong_value_keeps_all_others_out(
    bench: Any, values: dict[str, Any], words: str
) -> None:
    node = bench.add(SampleNode)
    answer = set_all(bench, 'sample', **values)
    assert not answer.successful
    assert words in answer.reason
    assert node.told == []
    assert node.get_parameter('high_ms').value == 2.0


def test_what_is_set_for_the_node_is_set_for_its_streams(bench: Any) -> None:
    node = bench.add(WamNode, {'streams': ['left', 'right'], 'right.margin_ms': 20})
    assert set_all(bench, 'wam_node', joint_tolerance_ms=70).successful
    assert set_all(bench, 'wam_node', **{'left.margin_ms': 30}).successful
    left, right = (node.streams.config(name) for name in ('left', 'right'))
    assert (left.joint_tolerance_ms, right.joint_tolerance_ms) == (70.0, 70.0)
    assert (left.margin_ms, right.margin_ms) == (30.0, 20.0)
    assert node.get_parameter('right.joint_tolerance_ms').value == 70.0
    assert [stream.config for stream in node.streams] == [left, right]
    # All of a call or nothing, over all streams.
    values = {'margin_ms': 5.0, 'right.period_ms': -1.0}
    assert not set_all(bench, 'wam_node', **values).successful
    assert node.streams.config('left').margin_ms == 30.0
    answer = set_all(bench, 'wam_node', camera='eye')
    assert 'read-only' in answer.reason


def test_a_period_that_was_admitted_stays(bench: Any) -> None:
    node = bench.add(WamNode, {'profile': 'somewhere.json'})
    answer = set_all(bench, 'wam_node', period_ms=50.0)
    assert not answer.successful
    assert 'robot.period_ms must be 100.0, which admission was asked to hold' in answer.reason
    assert set_all(bench, 'wam_node', margin_ms=5.0).successful
    assert node.streams.config('robot').margin_ms == 5.0


def test_descriptors_tell_which_may_be_set(bench: Any) -> None:
    node = bench.add(ServoNode, {'joints': ['shoulder', 'elbow']})
    assert node.trigger_configure() is SUCCESS
    read_only = {
        name: node.describe_parameter(name).read_only
        for name in ('merge', 'max_action_age_ms', 'upper', 'joints', 'servo_rate_hz')
    }
    assert read_only == {
        'merge': False,
        'max_action_age_ms': False,
        'upper': False,
        'joints': True,
        'servo_rate_hz': True,
    }


def test_the_servo_plays_on_with_what_is_set(bench: Any) -> None:
    node = bench.add(ServoNode, {'joints': ['shoulder', 'elbow'], 'settle_ms': 0})
    Feed(bench)
    node.bring_up()
    playing = node.playing
    # The bench serves the callbacks, as the executor does between two ticks.
    timer = bench.probe.create_timer(0.004, lambda: playing._simulated_tick(time.time_ns()))

    def at(place: float) -> bool:
        """Tell whether the first joint was commanded there."""
        command = playing._command
        moving = command is not None and command.play is Play.PLAYING
        return bool(moving and abs(command.position[0] - place) < 1e-3)

    assert bench.spin_until(lambda: at(0.5), 20)
    answer = set_all(bench, 'servo_node', merge='replace', max_action_age_ms=500)
    assert answer.successful, answer.reason
    assert playing.player.config.merge is Merge.REPLACE
    assert playing.player.config.max_action_age_ns == 500_000_000
    answer = set_all(bench, 'servo_node', merge='blend', lower=[0.6, 0.6], upper=[2.0, 2.0])
    assert not answer.successful
    assert 'lower must be around the last command' in answer.reason
    assert playing.player.config.merge is Merge.REPLACE
    answer = set_all(bench, 'servo_node', lower=[0.0], upper=[2.0, 2.0])
    assert "lower must be one for each of ['shoulder', 'elbow']" in answer.reason
    assert set_all(bench, 'servo_node', lower=[0.0, 0.0], upper=[2.0, 2.0]).successful
    answer = set_all(bench, 'servo_node', use_sim_time=True)
    assert 'it ticks on one clock' in answer.reason
    assert bench.spin_until(lambda: at(0.5), 20)
    timer.cancel()
