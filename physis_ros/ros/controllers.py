# SPDX-License-Identifier: Apache-2.0
"""
Whether the controllers that take the commands go by the same clock as the servo.

A trajectory controller plays by its own clock: on another one than ours a stamped trajectory lies
in its past, or far ahead, and is refused; an unstamped one is played at another speed. Neither is
ever told to the sender, so each subscriber of the commands is asked for its ``use_sim_time``.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Protocol

from rcl_interfaces.msg import ParameterType
from rcl_interfaces.srv import GetParameters
from rclpy.client import Client
from rclpy.node import Node

from physis_ros.ros.clock import RosClock, steady
from physis_ros.ros.diagnostics import Level, Report

TASK = 'controllers'
PARAMETER = 'use_sim_time'
PERIOD_S = 1.0
# More are not controllers, but people who look on.
MOST = 8
# They take everything, by whatever clock they like.
RECORDERS = ('rosbag2_recorder', 'rosbag2_player')


class Teller(Protocol):
    """Tells on ``/diagnostics``."""

    def tell(self, task: str, report: Callable[[], Report]) -> None:
        """Ask for a report from now on."""

    def hush(self, task: str) -> None:
        """Ask for it no more."""


class Controllers:
    """
    Asks once a second whoever subscribes to a topic, and reports who goes by another clock.

    :param node: the owner.
    :param topic: of the commands.
    :param clock: of the owner.
    :param stamped: whether the commands are stamped: then it is an error.
    :param teller: takes the report.
    """

    def __init__(
        self, node: Node, topic: str, clock: RosClock, stamped: bool, teller: Teller
    ) -> None:
        self._node, self._topic, self._clock = node, topic, clock
        self._stamped, self._teller = stamped, teller
        self._clients: dict[str, Client] = {}
        self._simulated: dict[str, bool] = {}
        self._timer = node.create_timer(PERIOD_S, self._ask, clock=steady())
        teller.tell(TASK, self.report)

    def close(self) -> None:
        """Ask nobody any more."""
        self._teller.hush(TASK)
        self._node.destroy_timer(self._timer)
        for name in list(self._clients):
            self._forget(name)

    def report(self) -> Report:
        """Return who goes by another clock."""
        ours = self._clock.simulated
        values = {f'{name} {PARAMETER}': value for name, value in self._simulated.items()}
        others = sorted(name for name, value in self._simulated.items() if value != ours)
        if not others:
            return Report(Level.OK, 'all by the same clock', {'condition': 'same_clock', **values})
        effect = (
            'trajectories are stamped: it refuses those that end in its past'
            if self._stamped
            else 'its motion is at another speed than was meant'
        )
        text = (
            f'{", ".join(others)}: {PARAMETER} is {str(not ours).lower()} there and '
            f'{str(ours).lower()} here; {effect}; set it alike'
        )
        level = Level.ERROR if self._stamped else Level.WARN
        return Report(level, text, {'condition': 'controller_clock', **values})

    def _ask(self) -> None:
        """Ask everybody there is; an answer comes when it comes."""
        names = self._peers()
        for name in self._clients.keys() - names:
            self._forget(name)
        for name in names:
            client = self._clients.get(name) or self._node.create_client(
                GetParameters, f'{name}/get_parameters'
            )
            self._clients[name] = client
            if client.service_is_ready():
                answer = client.call_async(GetParameters.Request(names=[PARAMETER]))
                answer.add_done_callback(lambda done, name=name: self._answered(name, done))

    def _peers(self) -> set[str]:
        """Return who subscribes, without those that only look on."""
        infos = self._node.get_subscriptions_info_by_topic(self._topic)
        names = {
            f'{info.node_namespace.rstrip("/")}/{info.node_name}'
            for info in infos
            if not info.node_name.startswith('_') and info.node_name not in RECORDERS
        }
        return set(sorted(names)[:MOST])

    def _answered(self, name: str, answer: Any) -> None:
        """Note what one of them goes by; who has no such parameter goes by none."""
        result = None if answer.exception() else answer.result()
        for value in () if result is None else result.values:
            if name in self._clients and value.type == ParameterType.PARAMETER_BOOL:
                self._simulated[name] = value.bool_value

    def _forget(self, name: str) -> None:
        """Forget one that is gone."""
        self._node.destroy_client(self._clients.pop(name))
        self._simulated.pop(name, None)
