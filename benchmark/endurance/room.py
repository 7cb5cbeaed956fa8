# SPDX-License-Identifier: Apache-2.0
"""A room with a camera, joints and time for the nodes in it, that listens to what they say."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import rclpy
from lifecycle_msgs.msg import Transition
from lifecycle_msgs.srv import ChangeState
from rclpy.node import Node
from rclpy.signals import SignalHandlerOptions
from rosgraph_msgs.msg import Clock
from sensor_msgs.msg import Image, JointState
from std_srvs.srv import SetBool

from endurance.spinning import spin_until
from physis_ros.msg import Playback, PlaybackStatus, StreamStatus
from physis_ros.ros import conversions, qos
from physis_ros.ros.executor import make_executor

JOINTS = ('shoulder', 'elbow')
PATIENCE_S = 90.0
STEP_S = 0.01
FRAME_STEPS = 3


class Room:
    """
    A camera, joints, time, and what the nodes say.

    :param simulated: time comes from here, on /clock.
    """

    def __init__(self, simulated: bool) -> None:
        self._context = rclpy.Context()
        rclpy.init(context=self._context, signal_handler_options=SignalHandlerOptions.NO)
        self._executor = make_executor(self._context)
        self.node: Any = Node('room', context=self._context)
        self._executor.add_node(self.node)
        self._simulated, self.stopped = simulated, False
        self._now_ns, self._steps = 10**12, 0
        self._clock_out = self.node.create_publisher(Clock, '/clock', qos.CLOCK)
        self._image_out = self.node.create_publisher(Image, 'camera/image_raw', 10)
        self._joints_out = self.node.create_publisher(JointState, 'joint_states', 10)
        self.ticks: list[Playback] = self._collect(Playback, 'servo_node/playback', qos.PLAYBACK)
        self.states: list[StreamStatus] = self._collect(
            StreamStatus, 'wam_node/stream_status', qos.LATCHED
        )
        topic = 'servo_node/playback_status'
        self.servo_states: list[PlaybackStatus] = self._collect(PlaybackStatus, topic, qos.LATCHED)
        self.commands: list[JointState] = []
        self._commands_in = self.node.create_subscription(
            JointState, 'servo_node/command', self.commands.append, qos.COMMAND
        )
        self._picture = np.zeros((128, 128, 3), np.uint8)
        self._timer = self.node.create_timer(STEP_S, self._step)

    def _collect(self, kind: Any, topic: str, profile: Any) -> list[Any]:
        """Keep the messages of a topic."""
        kept: list[Any] = []
        self.node.create_subscription(kind, topic, kept.append, profile)
        return kept

    def _step(self) -> None:
        """Let the world go on."""
        if self.stopped:
            return
        self._now_ns = self._now_ns + round(STEP_S * 1e9) if self._simulated else time.time_ns()
        if self._simulated:
            self._clock_out.publish(Clock(clock=conversions.time_message(self._now_ns)))
        rest = np.zeros(2)
        self._joints_out.publish(
            conversions.joint_state_message(self._now_ns, JOINTS, np.array([0.4, 1.1]), rest)
        )
        self._steps += 1
        if self._steps % FRAME_STEPS == 0:
            image = conversions.image_message(self._picture, self._now_ns, 'camera_optical')
            self._image_out.publish(image)

    def leave(self) -> None:
        """Listen to the commands no more."""
        self.node.destroy_subscription(self._commands_in)
        self.commands.clear()

    def spin_until(self, condition: Callable[[], Any], timeout_s: float = PATIENCE_S) -> bool:
        """Serve callbacks until a condition holds."""
        return spin_until(self._executor, condition, timeout_s)

    def pause(self) -> None:
        """Pause both nodes."""
        for name in ('wam_node', 'servo_node'):
            self._call(SetBool, f'{name}/pause', SetBool.Request(data=True))

    def change_servo(self, label: str) -> bool:
        """Ask for a transition of the player, and say whether it was made."""
        request = ChangeState.Request(transition=Transition(label=label))
        return bool(self._call(ChangeState, 'servo_node/change_state', request).success)

    def _call(self, kind: Any, name: str, request: Any) -> Any:
        """Call a service and wait for its answer."""
        client = self.node.create_client(kind, name)
        assert self.spin_until(client.service_is_ready)
        answer = client.call_async(request)
        assert self.spin_until(answer.done)
        return answer.result()

    def moved(self) -> list[Playback]:
        """Return the ticks at which something was commanded."""
        return [tick for tick in self.ticks if tick.play != Playback.PLAY_SILENT]

    def held(self) -> bool:
        """Whether the last that was commanded is a hold at rest, or nothing ever was."""
        moved = self.moved()
        if not moved:
            return not self.commands
        last = moved[-1]
        ended = last.play == Playback.PLAY_HOLD and last.reason == Playback.REASON_INACTIVE
        resting = not self.commands or not any(self.commands[-1].velocity)
        return ended and not any(last.velocity) and resting

    def speed(self, told: int) -> float:
        """Return the greatest speed of any joint at the last of so many of :meth:`moved`."""
        last = self.moved()[max(told - 1, 0) : told]
        return max((abs(float(value)) for tick in last for value in tick.velocity), default=0.0)

    def hardest(self, told: int, rate_hz: float) -> float:
        """Return the greatest acceleration from there on, by :func:`hardest` [rad/s^2]."""
        return hardest(self.moved()[max(told - 1, 0) :], rate_hz)

    def close(self) -> None:
        """Take everything down."""
        self.node.destroy_node()
        self._executor.shutdown()
        rclpy.try_shutdown(context=self._context)


def hardest(ticks: Sequence[Playback], rate_hz: float) -> float:
    """
    Return the greatest acceleration of any joint from tick to tick [rad/s^2].

    :param ticks: at which something was commanded.
    :param rate_hz: at which they were due.
    """
    if len(ticks) < 2:
        return 0.0
    instants_ns = np.array([_instant_ns(tick, 0.5e9 / rate_hz) for tick in ticks])
    changes = np.abs(np.diff([tick.velocity for tick in ticks], axis=0)).max(axis=1)
    return float(np.max(changes / (np.maximum(np.diff(instants_ns), 1) * 1e-9)))


def _instant_ns(tick: Playback, late_ns: float) -> int:
    """Return for when a command was worked out: when it was due, or sent if that was late."""
    due_ns, began_ns = int(tick.scheduled_steady_ns), int(tick.ticked_steady_ns)
    return due_ns if began_ns - due_ns <= late_ns else began_ns
