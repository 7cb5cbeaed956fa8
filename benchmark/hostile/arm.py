# SPDX-License-Identifier: Apache-2.0
"""
A real arm node, the simulated robot of the demo, to which hostile commands are given.

Whatever comes: no exception, what the joints and the tip are said to be stays finite, and each
command is counted, obeyed or refused.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np
from hypothesis import strategies as st
from rclpy.parameter import Parameter
from std_msgs.msg import Float64MultiArray
from trajectory_msgs.msg import JointTrajectory, JointTrajectoryPoint

from hostile.gate import TAKEN
from hostile.messages import JOINTS, JointRecipe, Strategy, joints
from hostile.servo import COMMAND_TYPES, Counts, Sink
from physis_ros.ros.arm import ArmNode

TOPICS = tuple(f'command ({kind})' for kind in COMMAND_TYPES)
REFUSED = 'refused'


def events() -> Strategy:
    """Return a strategy of series of commands, as recipes that have what all kinds have."""
    return st.lists(joints(), min_size=8, max_size=32)


class HostileArm:
    """
    An arm node, and what it publishes of its joints and its tip.

    :param context: an initialised one.
    :param command_type: of the commands that it takes.
    """

    def __init__(self, context: Any, command_type: str) -> None:
        self._kind, self._topic = command_type, f'command ({command_type})'
        given = [Parameter('command_type', value=command_type), Parameter('start', value='now')]
        node: Any = ArmNode(context=context, namespace=command_type, parameter_overrides=given)
        self._node, self._joints, self._tip = node, Sink(), Sink()
        node._joints_out, node._tip_out = self._joints, self._tip

    def play(self, series: Sequence[JointRecipe]) -> Counts:
        """Give it a series; return how many commands there were, by what became of them."""
        before, expected = self._counted(), Counts()
        for recipe in series:
            self._node._on_command(self._message(recipe))
            expected[self._topic, self._refusal(recipe)] += 1
        assert self._counted() - before == expected, (self._counted() - before, expected)
        self._hold()
        return expected

    def close(self) -> None:
        """Take the node away."""
        self._node.close()
        self._node.destroy_node()

    def _message(self, recipe: JointRecipe) -> Any:
        """Return a command of the kind that it takes."""
        if self._kind == 'joint_state':
            return recipe.message(0)
        if self._kind == 'float64_multi_array':
            return Float64MultiArray(data=list(recipe.position))
        point = JointTrajectoryPoint(positions=list(recipe.position))
        # None where there is nothing to say.
        points = [point] if recipe.position else []
        return JointTrajectory(joint_names=list(recipe.names), points=points)

    def _refusal(self, recipe: JointRecipe) -> str:
        """Return what must become of a command."""
        by_order = self._kind == 'float64_multi_array'
        names, values = JOINTS if by_order else recipe.names, recipe.position
        if len(names) != len(values) or not set(JOINTS) <= set(names):
            return REFUSED
        asked = [values[names.index(name)] for name in JOINTS]
        return TAKEN if all(map(math.isfinite, asked)) else REFUSED

    def _counted(self) -> Counts:
        """Return what it has counted so far."""
        counts = self._node._counts
        return Counts(
            {
                (self._topic, TAKEN): counts['commands'],
                (self._topic, REFUSED): counts['commands_refused'],
            }
        )

    def _hold(self) -> None:
        """Look at what it says of itself."""
        for message in self._joints.messages:
            assert np.isfinite([*message.position, *message.velocity]).all(), message
        for message in self._tip.messages:
            point = message.point
            assert np.isfinite([point.x, point.y, point.z]).all(), message
        self._joints.messages.clear()
        self._tip.messages.clear()
