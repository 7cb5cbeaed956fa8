# SPDX-License-Identifier: Apache-2.0
"""
The player as a ROS node of its own process, next to the controllers.

Nothing here decides what is commanded; the player does. This gives it chunks, joint states and the
time, publishes what it answers, and keeps the tick free of everything that can wait.
"""

from __future__ import annotations

import time
from collections import OrderedDict
from typing import Any

from rclpy.duration import Duration
from rclpy.executors import Executor
from rclpy.node import Node
from sensor_msgs.msg import JointState
from std_srvs.srv import SetBool, Trigger

from physis_ros.clock import ClockSteps, system_minus_steady_ns
from physis_ros.errors import ChunkError
from physis_ros.msg import ActionChunk as ActionChunkMessage
from physis_ros.msg import ChunkTimes as ChunkTimesMessage
from physis_ros.msg import Playback
from physis_ros.observation.config import Timeline
from physis_ros.output.figures import Phase
from physis_ros.ros import conversions, qos, realtime, servo_report
from physis_ros.ros.clock import RosClock, seldom, steady
from physis_ros.ros.commands import Adapter
from physis_ros.ros.live import LiveParameters
from physis_ros.ros.metrics import serve
from physis_ros.ros.parameters import declare, refuse_unknown
from physis_ros.ros.qos import QosWatch
from physis_ros.ros.ready import Ready
from physis_ros.ros.servo_config import ServoConfig
from physis_ros.ros.servo_joints import ServoJoints
from physis_ros.ros.servo_status import ServoStatus
from physis_ros.ros.signals import Stop
from physis_ros.ros.skew import Skews
from physis_ros.ros.ticking import SimulatedTicks, SteadyTicks
from physis_ros.session.player import Player, PlayerState
from physis_ros.types import ActionChunk, Command

KEPT_CHUNKS = 64
NONE_YET = (-1, -1)
LISTENERS_NS = 500_000_000
LAST_WORDS = Duration(nanoseconds=200_000_000)
CLOCK_READINGS = 3


class ServoNode(Node):
    """
    Plays action chunks at servo rate.

    Subscribes ``action_chunk`` (physis_ros/ActionChunk) and ``joint_states``
    (sensor_msgs/JointState [rad or m]). Publishes ``~/command`` (type by parameter),
    ``~/playback`` (physis_ros/Playback, each tick while someone listens), ``~/playback_status``
    (physis_ros/PlaybackStatus), ``/diagnostics``. Services ``~/reset`` (std_srvs/Trigger): ramp
    to rest and start from the measured state; ``~/pause`` (std_srvs/SetBool): likewise and hold,
    or go on.
    Every way out ends with a final hold. All parameters: :class:`ServoConfig`.
    """

    def __init__(self, **options: Any) -> None:
        super().__init__('servo_node', **options)
        self.config = declare(self, ServoConfig)
        self.player = Player(self.config.player)
        # Its account counts from here on.
        self._begun_ns = time.monotonic_ns()
        self._adapter = Adapter(self.config, self.player)
        self._ros_time = RosClock(self)
        self._steps = ClockSteps()
        self._apart_ns = 0
        self._skews = Skews()
        self._waits = ''
        self._watch = QosWatch(self)
        self._newest = NONE_YET
        self._engines, self._other_engine = 0, False
        self._times: OrderedDict[tuple[int, int], ChunkTimesMessage] = OrderedDict()
        self._stream = self.config.stream
        self._command: Command | None = None
        self._ticked_ns = 0
        self._ready: Ready | None = None
        self._last_age_ns: int | None = None
        self._joints = ServoJoints(self.config.robot, self.config.player.state_age_ns)
        self._figures = self.player.account.figures()
        self._goes_on: bool | None = None
        self._closed = False
        self._status_due = False
        self._listened = False
        self._looked_ns = 0
        self._phase = Phase.INACTIVE
        self._open()

    def _open(self) -> None:
        """Make publishers, subscriptions, services, timers."""
        watch = self._watch
        self._command_out = watch.advertise(self._adapter.kind, '~/command', qos.COMMAND)
        self._playback_out = watch.advertise(Playback, '~/playback', qos.PLAYBACK)
        watch.subscribe(
            ActionChunkMessage, 'action_chunk', self._on_chunk, qos.CHUNK, self._on_engine
        )
        watch.subscribe(JointState, 'joint_states', self._on_joints, qos.SENSOR_IN)
        self.create_service(Trigger, '~/reset', self._on_reset)
        self.create_service(SetBool, '~/pause', self._on_pause)
        self._status = ServoStatus(
            self,
            watch,
            self.config.statistics,
            self._joints,
            self._snapshot,
            lambda: self._waits,
        )
        rate_hz = self.config.status_rate_hz
        self.create_timer(1.0 / rate_hz, self._request_status, clock=steady())
        refuse_unknown(self)
        live = LiveParameters(self, {'use_sim_time': 'it ticks on one clock from start to end'})
        live.follow(self.config, self._on_config, self._check_config)
        self._metrics = serve(self.config.metrics_port, self._status.fill)

    def _check_config(self, config: ServoConfig) -> None:
        """
        Refuse what cannot be set while playing.

        :raises ParameterError: saying what.
        """
        self.player.check(config.player)

    def _on_config(self, config: ServoConfig) -> None:
        """Go on with parameters that were set."""
        self.config = config
        self.player.reconfigure(config.player)
        self._joints.age_ns = config.player.state_age_ns
        # Before the next tick: a recording then tells from which on they count.
        self._publish_status()
        self.get_logger().info('parameters were set')

    def run(self, executor: Executor, stop: Stop) -> None:
        """Tick until told to stop."""
        for refusal in realtime.request(self.config.real_time_priority):
            self.get_logger().warning(refusal)
        realtime.freeze_garbage()
        period_ns = self.config.player.period_ns
        ticks: SteadyTicks | SimulatedTicks
        if self._ros_time.simulated:
            self.get_logger().info('ticking on /clock')
            ticks = SimulatedTicks(period_ns, self._ros_time.now_ns)
            tick = self._simulated_tick
        else:
            ticks = SteadyTicks(period_ns, self._prepare)
            tick = self._steady_tick
        if self.config.trajectory_stamped:
            self.get_logger().info(self._adapter.stamping(self._ros_time))
        self.player.activate(self._ros_time.now_ns())
        ticks.run(executor, stop, tick, self._idle)

    def close(self) -> None:
        """Send the final hold, once."""
        if self._closed:
            return
        self._closed = True
        self._hold()
        self._publish_status()
        # Best effort to see the last words off before the publishers are destroyed.
        for publisher in (self._command_out, self._playback_out):
            publisher.wait_for_all_acked(LAST_WORDS)
        if self._metrics is not None:
            self._metrics.close()

    def _prepare(self, due_ns: int) -> None:
        """Work out the command for a tick: at its instant it has only to be sent."""
        self._ready = self._worked_out(due_ns)

    def _steady_tick(self, due_ns: int) -> None:
        """Tick on the steady clock: send what is ready, or what is right by now when late."""
        now_ns = time.monotonic_ns()
        ready, self._ready = self._ready, None
        if ready is None or ready.overtaken(now_ns, self.player.config):
            ready = self._worked_out(now_ns)
        self._tick(ready, now_ns, due_ns)

    def _worked_out(self, steady_ns: int) -> Ready:
        """Return the command for a steady instant."""
        command = self.player.decide(steady_ns + system_minus_steady_ns(CLOCK_READINGS))
        return Ready(steady_ns, command, self._adapter.message(command))

    def _simulated_tick(self, due_ns: int) -> None:
        """Tick on the simulated clock, whose time has come when it is known."""
        now_ns = time.monotonic_ns()
        command = self.player.decide(due_ns)
        self._tick(Ready(now_ns, command, self._adapter.message(command)), now_ns, now_ns)

    def _tick(self, ready: Ready, now_ns: int, due_ns: int) -> None:
        """Publish a command; after that, account for it as of the instant at which it was sent."""
        if ready.message is not None:
            self._command_out.publish(ready.message)
        self._adapter.ticked()
        published_ns = time.monotonic_ns()
        command = ready.sent(now_ns)
        stepped = self._steps.ahead_ns(command.stamp_ns, now_ns) > 0
        self.player.account.tick(command, now_ns - due_ns, stepped)
        self._account(command, (due_ns, now_ns, published_ns))

    def _account(self, command: Command, steady_ns: tuple[int, int, int]) -> None:
        """
        Note a tick, and publish its account when someone listens.

        :param steady_ns: when it was due, when it began, when its command was published.
        """
        published_ns = steady_ns[2]
        self._command, self._ticked_ns = command, steady_ns[1]
        if command.age_ns is not None:
            self._last_age_ns = command.age_ns
        if published_ns - self._looked_ns > LISTENERS_NS:
            self._looked_ns = published_ns
            self._listened = self._playback_out.get_subscription_count() > 0
        if not self._listened:
            return
        phase = self.player.account.phase
        self._playback_out.publish(
            conversions.playback_message(
                command,
                self._times.get((command.epoch, command.chunk)),
                stream=self._stream,
                warm_up=phase is Phase.WARMING,
                due=phase is Phase.ACTIVE,
                depth_ns=self.player.depth_ns(command.stamp_ns),
                begun_ns=self._begun_ns,
                steady_ns=steady_ns,
            )
        )

    def _idle(self) -> None:
        """Do what can wait until after a tick: the end of braking; the status, when due."""
        self._end_braking()
        phase = self.player.account.phase
        if self._status_due or phase is not self._phase:
            self._status_due, self._phase = False, phase
            self._publish_status()

    def _request_status(self) -> None:
        """Ask for a status after the next tick, and say when no tick comes for want of a time."""
        self._status_due = True
        waits = self._ros_time.waiting()
        if waits and not self._waits:
            self.get_logger().warning(waits)
        self._waits = waits

    def _on_chunk(self, message: ActionChunkMessage) -> None:
        """Offer a chunk to the player."""
        if self.config.stream and message.stream != self.config.stream:
            return
        try:
            chunk = conversions.chunk(message)
        except ChunkError as error:
            self.player.account.malformed()
            self._refused(f'{message.stream} {message.epoch}/{message.chunk}', str(error))
            return
        if self._other_engine and (chunk.epoch, chunk.chunk) < self._newest:
            self._begin_anew()
        self._stream = chunk.stream
        now_ns = self._ros_time.now_ns()
        self._apart_ns = now_ns - chunk.times.publish_ns
        self._skews.add('action_chunk', chunk.times.publish_ns, now_ns)
        verdict = self.player.offer(chunk, now_ns)
        if verdict.accepted:
            self._newest = max(self._newest, (chunk.epoch, chunk.chunk))
        elif self.player.account.phase is not Phase.INACTIVE:
            self._refused(f'{chunk.stream} {chunk.epoch}/{chunk.chunk}', verdict.detail)
        self._remember(chunk, message.times)

    def _on_engine(self, info: Any) -> None:
        """
        Note that an engine has come; it may count from 0 again.

        Noted until it does: what the last one had sent may still come after this. The first one
        to come is no other one, even when this is told after its first chunk.
        """
        another = 0 < self._engines < info.total_count
        self._engines = info.total_count
        self._other_engine |= another and self._newest != NONE_YET

    def _begin_anew(self) -> None:
        """Forget the last engine's epochs; motion and account go on, and so does a pause."""
        self.get_logger().info('another engine has begun: going on from the last command')
        self._newest, self._other_engine = NONE_YET, False
        self.player.begin_anew()

    def _refused(self, chunk: str, why: str) -> None:
        """Say why a chunk was refused."""
        self.get_logger().warning(f'chunk {chunk} refused: {why}', **seldom(2.0))

    def _remember(self, chunk: ActionChunk, times: ChunkTimesMessage) -> None:
        """Keep where a chunk's time went, for the account of its ticks."""
        self._times[chunk.epoch, chunk.chunk] = times
        while len(self._times) > KEPT_CHUNKS:
            self._times.popitem(last=False)

    def _on_joints(self, message: JointState) -> None:
        """Tell the player where the joints are."""
        now_ns, stamp_ns = self._ros_time.now_ns(), conversions.time_ns(message.header.stamp)
        by_header = self.config.timeline == Timeline.HEADER.value and stamp_ns
        state = self._joints.read(message, stamp_ns if by_header else now_ns)
        if self._joints.trouble:
            trouble = f'joint_states: {self._joints.trouble}'
            self.get_logger().error(trouble, **seldom(5.0))
        if state is not None:
            self._skews.add('joint_states', stamp_ns, now_ns)
            self.player.measured(*state)

    def _on_reset(self, request: Trigger.Request, response: Trigger.Response) -> Trigger.Response:
        """Come to rest, then begin anew: the next chunk is joined from the measured state."""
        if not self._paused:
            self._brake(goes_on=True)
        response.success = True
        return response

    def _on_pause(self, request: SetBool.Request, response: SetBool.Response) -> SetBool.Response:
        """Come to rest and command nothing more, or go on; asked twice it is done once."""
        if self._goes_on is not None:
            self._goes_on = not request.data
        elif request.data and not self._paused:
            self._brake(goes_on=False)
        elif self._paused and not request.data:
            self.player.activate(self._ros_time.now_ns())
        response.success = True
        return response

    @property
    def _paused(self) -> bool:
        """Whether the player plays nothing, whatever comes."""
        return self.player.state is PlayerState.INACTIVE

    def _brake(self, goes_on: bool) -> None:
        """Bring the robot to rest within its limits, tick by tick; then begin anew or not."""
        self._goes_on = goes_on
        self.player.brake(self._ros_time.now_ns())
        self._end_braking()

    def _end_braking(self) -> None:
        """Hold where the robot has come to rest, and begin anew if it shall."""
        if self._goes_on is None or not self.player.at_rest:
            return
        goes_on, self._goes_on = self._goes_on, None
        self._hold()
        if goes_on:
            self.player.activate(self._ros_time.now_ns())

    def _hold(self) -> None:
        """Bring the playing to an end at rest where the last command was."""
        command = self.player.deactivate(self._ros_time.now_ns())
        message = self._adapter.final(command)
        if message is not None:
            self._command_out.publish(message)
        self._account(command, (time.monotonic_ns(),) * 3)

    def _publish_status(self) -> None:
        """Publish the figures."""
        self._figures = self.player.account.figures()
        self._status.publish()

    def _snapshot(self) -> servo_report.Snapshot | None:
        """Gather everything a status is made from; None before the first tick."""
        if self._command is None:
            return None
        now_ns = self._ros_time.now_ns()
        return servo_report.Snapshot(
            now_ns=now_ns,
            stream=self._stream,
            begun_ns=self._begun_ns,
            figures=self._figures,
            command=self._command,
            ticked_ns=self._ticked_ns,
            settings=self.player.config,
            last_age_ns=self._last_age_ns,
            depth_ns=self.player.depth_ns(now_ns),
            subscribers=self._command_out.get_subscription_count(),
            stopping=self._closed,
            waits=self._waits,
            apart_ns=self._apart_ns,
            skew_ns=self._skews.least_ns(),
        )
