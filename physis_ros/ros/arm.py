# SPDX-License-Identifier: Apache-2.0
"""
The simulated robot as a ROS node: what a Gazebo or Isaac Sim bridge would be.

Owns the arm and its time. Each tick of simulated time is worked off at its instant of the steady
clock, or as soon after it as the machine allows: physics first, then what is due for publication,
the camera last, as drawing takes longest. A node that is late leaves things out to catch up.
"""

from __future__ import annotations

import time
from collections import deque
from typing import Any

import numpy as np
from geometry_msgs.msg import PointStamped
from rclpy.client import Client
from rclpy.executors import Executor
from rclpy.node import Node
from rclpy.task import Future
from rosgraph_msgs.msg import Clock
from sensor_msgs.msg import Image, JointState
from std_msgs.msg import Float64MultiArray, Int32
from std_srvs.srv import Trigger
from trajectory_msgs.msg import JointTrajectory

from physis_ros.clock import system_minus_steady_ns
from physis_ros.errors import ChunkError
from physis_ros.ros import conversions, qos, realtime
from physis_ros.ros.arm_config import MS_NS, RATES, ArmNodeConfig
from physis_ros.ros.arm_episodes import Episodes, Phase
from physis_ros.ros.clock import seldom
from physis_ros.ros.diagnostics import Diagnostics, Level, Report
from physis_ros.ros.pacing import Pace, newest_tick
from physis_ros.ros.parameters import declare, refuse_unknown
from physis_ros.ros.qos import QosWatch
from physis_ros.ros.signals import Stop
from physis_ros.simulation.arm import JOINT_NAMES, Arm

COMMAND_KINDS = {
    'joint_trajectory': JointTrajectory,
    'float64_multi_array': Float64MultiArray,
    'joint_state': JointState,
}
RESET_PATIENCE_NS = 1_000_000_000
# A camera that is this many of its periods late leaves frames out rather than fall behind.
CAMERA_PATIENCE = 2
# So late, in real time, whole ticks are left out; so late, a clock of our own stands still.
TICK_PATIENCE_NS = 200_000_000
CLOCK_PATIENCE_NS = 2_000_000_000
MOTION_RAD = 1e-6
ZERO_BASE_NS = 1_000_000_000


class ArmNode(Node):
    """
    A two-joint arm with a camera.

    Publishes ``/clock`` (rosgraph_msgs/Clock), ``<camera>/image_raw`` (sensor_msgs/Image, rgb8,
    stamp = capture), ``joint_states`` (sensor_msgs/JointState [rad, rad/s]), ``~/target`` and
    ``~/tip`` (geometry_msgs/PointStamped [m], frame ``world``: the truth, for scores),
    ``~/episode`` (std_msgs/Int32, latched: the running episode, -1 when none runs, the number of
    episodes when all are done), ``/diagnostics``. Subscribes ``command`` (its type is a parameter
    [rad]). Service ``~/start`` (std_srvs/Trigger): begin the first episode. All parameters:
    :class:`ArmNodeConfig`.
    """

    def __init__(self, **options: Any) -> None:
        super().__init__('arm_node', **options)
        self.config = declare(self, ArmNodeConfig)
        self._arm = Arm(seed=self.config.seed)
        self._episodes = Episodes(self.config.episodes, round(self.config.seconds * 1e9))
        self._now_ns = 0  # simulated time since the node began; never goes back
        self._arm_start_ns = 0  # when the arm's own time was 0
        self._delayed: deque[Image] = deque()
        self._last_command: np.ndarray[Any, Any] | None = None
        self._resets: list[tuple[str, Future]] = []
        self._to_reset: deque[Client] = deque()
        self._reset_deadline_ns = 0
        self._counts = {
            'commands': 0,
            'commands_refused': 0,
            'frames': 0,
            'frames_left_out': 0,
            'ticks_left_out': 0,
        }
        self._late_ns = self._due_ns = 0
        self._said_late = False
        self._periods_ns = {what: self.config.period_ns(what) for what in RATES}
        self._watch = QosWatch(self)
        self._open()
        refuse_unknown(self)
        self._begin_time()

    def _open(self) -> None:
        """Make publishers, subscriptions and services."""
        watch, config = self._watch, self.config
        image_topic = f'{config.camera}/image_raw'
        self._clock_out = watch.advertise(Clock, '/clock', qos.CLOCK)
        self._image_out = watch.advertise(Image, image_topic, qos.SENSOR_OUT)
        self._joints_out = watch.advertise(JointState, 'joint_states', qos.SENSOR_OUT)
        self._target_out = watch.advertise(PointStamped, '~/target', qos.SENSOR_OUT)
        self._tip_out = watch.advertise(PointStamped, '~/tip', qos.SENSOR_OUT)
        self._episode_out = watch.advertise(Int32, '~/episode', qos.LATCHED)
        kind = COMMAND_KINDS[config.command_type]
        watch.subscribe(kind, 'command', self._on_command, qos.COMMAND)
        self.create_service(Trigger, '~/start', self._on_start)
        self._reset_clients = [self.create_client(Trigger, name) for name in config.reset_services]
        self._diagnostics = Diagnostics(self, watch)
        self._diagnostics.add('arm', self._report)
        self._announce()

    def _begin_time(self) -> None:
        """Anchor simulated time; the first picture is drawn before, as it takes a second."""
        self._arm.render()
        start_ns = time.monotonic_ns() + 10 * MS_NS
        self._pace = Pace(start_ns, self.config.speed)
        if self.config.time_base == 'zero':
            self._base_ns = ZERO_BASE_NS
        else:
            self._base_ns = start_ns + system_minus_steady_ns()

    def run(self, executor: Executor, stop: Stop) -> None:
        """Work off tick after tick until told to stop."""
        for refusal in realtime.request(self.config.real_time_priority):
            self.get_logger().warning(refusal)
        if self.config.start == 'now':
            self._prepare_episode()
        while not stop.requested:
            self._serve(executor, self._pace.steady_ns(self._due_ns))
            self._work_off(self._pace.simulated_ns(time.monotonic_ns()))

    def close(self) -> None:
        """Give the graphics context back; the arm holds by itself."""
        self._arm.close()

    def _serve(self, executor: Executor, deadline_ns: int) -> None:
        """Run callbacks until the deadline; at least a few when it has passed."""
        for _ in range(4):
            executor.spin_once(timeout_sec=0)
        while (left_ns := deadline_ns - time.monotonic_ns()) > 0:
            executor.spin_once(timeout_sec=left_ns * 1e-9)

    def _work_off(self, now_ns: int) -> None:
        """
        Work off the ticks that are due, so that what they publish is of their own instants.

        :param now_ns: simulated time.
        """
        self._look_late()
        if self._late_ns > CLOCK_PATIENCE_NS and self.config.time_base == 'zero':
            self._pace = self._pace.held(self._late_ns)
            now_ns = self._due_ns
            self._say_late('simulated time stands still meanwhile')
        elif self._late_ns > TICK_PATIENCE_NS:
            due_ns = newest_tick(self._due_ns, now_ns, self._periods_ns['camera'])
            self._counts['ticks_left_out'] += (due_ns - self._due_ns) // self.config.tick_ns
            self._due_ns = due_ns
            self._say_late('clock, joint states and camera frames are left out')
        while self._due_ns <= now_ns:
            self._look_late()
            self._tick(self._due_ns)
            self._due_ns += self.config.tick_ns

    def _look_late(self) -> None:
        """Note how late the next tick is, in real time."""
        self._late_ns = time.monotonic_ns() - self._pace.steady_ns(self._due_ns)

    def _say_late(self, consequence: str) -> None:
        """Say once that the machine is too slow; the diagnostics count what follows."""
        if not self._said_late:
            self._said_late = True
            self.get_logger().warning(
                f'the simulation cannot keep up: {self._late_ns * 1e-6:.0f} ms late; '
                f'{consequence}; lower camera_rate_hz or speed'
            )

    def _tick(self, due_ns: int) -> None:
        """Bring the world to ``due_ns`` and publish what is due there."""
        self._advance(due_ns)
        self._schedule_episodes()
        stamp_ns, periods_ns = self._base_ns + due_ns, self._periods_ns
        if due_ns % periods_ns['clock'] == 0:
            self._clock_out.publish(Clock(clock=conversions.time_message(stamp_ns)))
        if due_ns % periods_ns['joint'] == 0:
            self._publish_joints(stamp_ns)
        if due_ns % periods_ns['truth'] == 0:
            arm = self._arm
            self._target_out.publish(conversions.point_message(stamp_ns, arm.target_position_m))
            self._tip_out.publish(conversions.point_message(stamp_ns, arm.tip_position_m))
        if due_ns % periods_ns['camera'] == 0:
            self._capture(stamp_ns)
        self._release_frames(stamp_ns)

    def _advance(self, now_ns: int) -> None:
        """Let simulated time pass up to ``now_ns``, in whole milliseconds."""
        steps = (now_ns - self._now_ns) // MS_NS
        if steps > 0:
            self._arm.advance(steps)
            self._now_ns += steps * MS_NS

    def _publish_joints(self, stamp_ns: int) -> None:
        """Publish what the encoders say."""
        arm = self._arm
        self._joints_out.publish(
            conversions.joint_state_message(
                stamp_ns, JOINT_NAMES, arm.joint_position_rad, arm.joint_velocity_rad_s
            )
        )

    def _capture(self, stamp_ns: int) -> None:
        """Take a picture, unless the machine is so late that it had better catch up."""
        if self._late_ns > CAMERA_PATIENCE * self._periods_ns['camera'] / self.config.speed:
            self._counts['frames_left_out'] += 1
            self._say_late('camera frames are left out')
            return
        self._counts['frames'] += 1
        frame_id = f'{self.config.camera}_optical'
        self._delayed.append(conversions.image_message(self._arm.render(), stamp_ns, frame_id))

    def _release_frames(self, now_ns: int) -> None:
        """Publish the frames whose wait is over."""
        wait_ns = round(self.config.camera_delay_ms * MS_NS)
        while self._delayed:
            if conversions.time_ns(self._delayed[0].header.stamp) + wait_ns > now_ns:
                break
            self._image_out.publish(self._delayed.popleft())

    def _on_command(self, message: Any) -> None:
        """Obey, from this very millisecond on."""
        try:
            position = conversions.commanded_positions(message, JOINT_NAMES)
        except ChunkError as error:
            self._counts['commands_refused'] += 1
            self.get_logger().error(str(error), **seldom(5.0))
            return
        self._counts['commands'] += 1
        last, self._last_command = self._last_command, position
        now_ns = self._pace.simulated_ns(time.monotonic_ns())
        self._work_off(now_ns)
        if self._episodes.phase is Phase.RESETTING:
            return
        self._advance(now_ns)
        self._arm.command(position)
        moved = last is not None and float(np.abs(position - last).max()) > MOTION_RAD
        if self._episodes.phase is Phase.WAITING and self.config.start == 'motion' and moved:
            self._prepare_episode()

    def _on_start(self, request: Trigger.Request, response: Trigger.Response) -> Trigger.Response:
        """Begin the first episode on request."""
        response.success = self._episodes.phase is Phase.WAITING
        if response.success:
            self._prepare_episode()
        else:
            response.message = f'episodes are {self._episodes.phase.value} already'
        return response

    def _schedule_episodes(self) -> None:
        """Move from episode to episode."""
        episodes = self._episodes
        if episodes.ended(self._now_ns):
            if episodes.phase is Phase.DONE:
                self._announce()
            else:
                self._prepare_episode()
        elif episodes.phase is Phase.RESETTING and self._resets_done():
            episodes.begin(self._now_ns)
            self._announce()

    def _prepare_episode(self) -> None:
        """Put the arm into the first pose of the next episode and tell all to start afresh."""
        self._episodes.prepare()
        self._announce()
        self._arm.reset(self.config.seed + self._episodes.index)
        # Pictures of the past world would be taken for the new one.
        self._delayed.clear()
        self._to_reset = deque(self._reset_clients)
        self._resets.clear()
        self._call_next_reset()

    def _call_next_reset(self) -> None:
        """Call the next service in order."""
        self._reset_deadline_ns = time.monotonic_ns() + RESET_PATIENCE_NS
        while self._to_reset:
            client = self._to_reset.popleft()
            if client.service_is_ready():
                self._resets.append((client.srv_name, client.call_async(Trigger.Request())))
                return
            self.get_logger().warning(f'reset service {client.srv_name} is not there; going on')

    def _resets_done(self) -> bool:
        """Return whether everyone has answered, or has had time enough."""
        if not self._resets:
            return True
        name, future = self._resets[-1]
        if not future.done():
            if time.monotonic_ns() < self._reset_deadline_ns:
                return False
            self.get_logger().warning(f'reset service {name} did not answer in 1 s; going on')
        self._resets.clear()
        self._call_next_reset()
        return not self._resets

    def _announce(self) -> None:
        """Tell which episode runs."""
        self._episode_out.publish(Int32(data=self._episodes.announced))
        self.get_logger().info(f'episode {self._episodes.index}: {self._episodes.phase.value}')

    def _report(self) -> Report:
        """Say how the simulation fares."""
        late_ms = self._late_ns * 1e-6
        values: dict[str, object] = {
            'condition': 'behind' if late_ms > 100.0 else self._episodes.phase.value,
            'phase': self._episodes.phase.value,
            'episode': self._episodes.index,
            'late_ms': late_ms,
            **self._counts,
        }
        if late_ms > 100.0:
            return Report(Level.WARN, f'{late_ms:.0f} ms behind real time', values)
        return Report(Level.OK, self._episodes.phase.value, values)
