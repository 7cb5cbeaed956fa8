# SPDX-License-Identifier: Apache-2.0
"""
Commands in the form that a controller takes, by the robot's names and in its units.

One adapter for each message type. Silence is no message at all: the controller keeps its own rule.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
from sensor_msgs.msg import JointState
from std_msgs.msg import Float64MultiArray
from trajectory_msgs.msg import JointTrajectory

from physis_ros.ros import conversions
from physis_ros.ros.clock import RosClock
from physis_ros.ros.servo_config import ServoConfig
from physis_ros.session.player import Player
from physis_ros.types import Command, Play

KINDS: dict[str, type] = {
    'joint_trajectory': JointTrajectory,
    'float64_multi_array': Float64MultiArray,
    'joint_state': JointState,
}


class Adapter:
    """
    Turns commands into messages.

    :param config: type, and the points of trajectories.
    :param player: foresees the points of trajectories.
    """

    def __init__(self, config: ServoConfig, player: Player) -> None:
        self._player, self._robot = player, config.robot
        self._count = config.trajectory_points
        self._dt_ns = round(config.trajectory_dt_ms * 1e6)
        self._stamped = config.trajectory_stamped
        self._every = config.trajectory_ticks if config.command_type == 'joint_trajectory' else 1
        self._ticks = 0
        self.kind = KINDS[config.command_type]
        told = self._robot.told
        forms: dict[str, Callable[[Command], Any]] = {
            'joint_trajectory': self._trajectory,
            'float64_multi_array': lambda command: conversions.array_message(told(command)),
            'joint_state': lambda command: conversions.state_command_message(told(command)),
        }
        self._form = forms[config.command_type]

    def message(self, command: Command) -> Any | None:
        """
        Return what to publish for the coming tick; None when there is nothing to say.

        May be asked again for the same tick, until :meth:`ticked` ends it.
        """
        if command.play is Play.SILENT or (self._ticks + 1) % self._every:
            return None
        return self._form(command)

    def ticked(self) -> None:
        """Count a tick."""
        self._ticks += 1

    def final(self, command: Command) -> Any | None:
        """Return the final hold; None when nothing was ever commanded."""
        if command.play is Play.SILENT:
            return None
        if self.kind is not JointTrajectory:
            return self._form(command)
        return self._points(command, [replace(command, stamp_ns=command.stamp_ns + self._dt_ns)])

    def stamping(self, clock: RosClock) -> str:
        """Say by which clock trajectories are stamped, and what a controller makes of that."""
        simulated = 'true' if clock.simulated else 'false'
        return (
            f'trajectories are stamped with ROS time, now {clock.now_ns() * 1e-9:.3f} s '
            f'(use_sim_time is {simulated}); the controller must use the same clock: it refuses '
            f'those that end in its past'
        )

    def _trajectory(self, command: Command) -> JointTrajectory:
        """Return the next points and the way to rest: controllers refuse a moving last point."""
        return self._points(
            command, self._player.upcoming(command.stamp_ns, self._count, self._dt_ns)
        )

    def _points(self, command: Command, points: Sequence[Command]) -> JointTrajectory:
        """Return points that lie after the tick of ``command``."""
        points = [self._robot.told(point) for point in points]
        return conversions.trajectory_message(
            self._robot.robot_names,
            [point.stamp_ns - command.stamp_ns for point in points],
            np.stack([point.position for point in points]),
            np.stack([point.velocity for point in points]),
            command.stamp_ns if self._stamped else 0,
        )
