# SPDX-License-Identifier: Apache-2.0
"""What stands around a servo node in tests: a robot with an engine, and a person who calls."""

from __future__ import annotations

import time
from dataclasses import replace
from typing import Any

import numpy as np
from ros_cases import JOINTS, steady_chunk
from sensor_msgs.msg import JointState

from physis_ros.msg import ActionChunk
from physis_ros.ros import conversions, qos

MODULE = 'physis_ros.ros.servo_node'
GIVEN = ('--ros-args', '-p', 'joints:=[shoulder, elbow]')


class Feed:
    """
    Plays the robot and the engine: joint states and chunks, at their rates.

    :param bench: the probe's.
    :param running: whether it begins at once.
    :param swing: how far the joints swing to and fro around their position, in 2 s [rad].
    """

    def __init__(self, bench: Any, running: bool = True, swing: float = 0.0) -> None:
        self._bench = bench
        self._chunks_out = bench.probe.create_publisher(ActionChunk, 'action_chunk', qos.CHUNK)
        self._joints_out = bench.probe.create_publisher(JointState, 'joint_states', 10)
        self.position, self.epoch, self.number = (0.5, 1.0), 0, 0
        self.names: tuple[str, ...] = JOINTS
        self._ticks, self._swing = 0, swing
        self._timer = bench.probe.create_timer(0.02, self._tick, autostart=running)

    def _tick(self) -> None:
        stamp_ns, rest = time.time_ns(), np.zeros(2)
        joints = conversions.joint_state_message(stamp_ns, self.names, np.array([0.4, 1.1]), rest)
        self._joints_out.publish(joints)
        self._ticks += 1
        if self._ticks % 5 == 0:
            chunk = steady_chunk(self.number, self.position, self.epoch)
            passed_ns = chunk.start_ns % 10**10 + np.arange(len(chunk.actions)) * chunk.dt_ns
            swung = self._swing * np.sin(np.pi * passed_ns * 1e-9)[:, None] + chunk.actions
            self._chunks_out.publish(conversions.chunk_message(replace(chunk, actions=swung)))
            self.number += 1

    @property
    def heard(self) -> bool:
        """Whether somebody takes its chunks."""
        return bool(self._chunks_out.get_subscription_count())

    def go_on(self) -> None:
        """Begin, or go on."""
        self._timer.reset()

    def stop(self) -> None:
        """Fall silent."""
        self._timer.cancel()


def call(bench: Any, kind: type, name: str, node: str = 'servo_node', **request: Any) -> Any:
    """Call a service of a node and wait for its answer."""
    client = bench.probe.create_client(kind, f'{node}/{name}')
    # A request that is sent before both sides know each other is lost.
    assert bench.spin_until(client.service_is_ready, 20)
    answer = client.call_async(kind.Request(**request))
    assert bench.spin_until(answer.done, 20)
    return answer.result()
