# SPDX-License-Identifier: Apache-2.0
"""A controller by another clock than the servo's says nothing of it; the servo does."""

from __future__ import annotations

from typing import Any

import pytest

pytest.importorskip('rclpy')
pytest.importorskip('physis_ros.msg')

from diagnostic_msgs.msg import DiagnosticArray, DiagnosticStatus
from rclpy.node import Node
from rclpy.parameter import Parameter
from ros_cases import JOINTS
from trajectory_msgs.msg import JointTrajectory

from physis_ros.ros.servo import ServoNode

TOPIC = 'servo_node/command'


class Controller(Node):
    """Takes trajectories, under a name of its own."""

    def __init__(self, name: str, **options: Any) -> None:
        super().__init__(name, **options)
        self.create_subscription(JointTrajectory, TOPIC, self.get_logger().debug, 1)


def statuses(bench: Any) -> list[DiagnosticStatus]:
    """Return a list that fills with what is said of the controllers."""
    found: list[DiagnosticStatus] = []

    def on_diagnostics(message: DiagnosticArray) -> None:
        found.extend(s for s in message.status if s.name == '/servo_node: controllers')

    bench.probe.create_subscription(DiagnosticArray, '/diagnostics', on_diagnostics, 10)
    return found


@pytest.mark.parametrize(
    ('stamped', 'level', 'words'),
    [
        (False, DiagnosticStatus.WARN, 'at another speed'),
        (True, DiagnosticStatus.ERROR, 'refuses those that end in its past'),
    ],
)
def test_A9_a_controller_by_another_clock_is_named(
    bench: Any, stamped: bool, level: bytes, words: str
) -> None:
    found = statuses(bench)
    given = {'joints': list(JOINTS), 'autostart': False, 'trajectory_stamped': stamped}
    servo = bench.add(ServoNode, given)
    servo.trigger_configure()
    assert bench.spin_until(lambda: found, 20)
    assert found[-1].level == DiagnosticStatus.OK
    controller = bench.add(lambda **options: Controller('arm_controller', **options))
    # Who records goes by what clock it likes.
    bench.add(lambda **options: Controller('rosbag2_recorder', **options), {'use_sim_time': True})
    controller.set_parameters([Parameter('use_sim_time', value=True)])
    assert bench.spin_until(lambda: found[-1].level == level, 20), found[-1]
    text = found[-1].message
    assert text.startswith('/arm_controller: use_sim_time is true there and false here')
    assert words in text
    assert 'rosbag2' not in text
    controller.set_parameters([Parameter('use_sim_time', value=False)])
    assert bench.spin_until(lambda: found[-1].level == DiagnosticStatus.OK, 20)
    servo.trigger_cleanup()
