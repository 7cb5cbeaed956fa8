# SPDX-License-Identifier: Apache-2.0
"""
The playing of a servo node, from being configured to being cleaned up.

Nothing here decides what is commanded; the player does. This gives it the time, publishes what it
answers, and keeps the tick free of everything that can wait.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from contextlib import ExitStack

from rclpy.executors import Executor
from rclpy.node import Node
from std_srvs.srv import SetBool, Trigger

from physis_ros.clock import ClockSteps, system_minus_steady_ns
from physis_ros.output.figures import Phase
from physis_ros.ros import conversions, realtime, servo_report
from physis_ros.ros.clock import RosClock, steady
from physis_ros.ros.commands import Adapter
from physis_ros.ros.controllers import Controllers
from physis_ros.ros.metrics import serve
from physis_ros.ros.qos import QosWatch
from physis_ros.ros.ready import Ready
from physis_ros.ros.servo_config import ServoConfig
from physis_ros.ros.servo_inputs import ServoInputs
from physis_ros.ros.servo_outputs import ServoOutputs
from physis_ros.ros.servo_report import Halt
from physis_ros.ros.servo_status import ServoStatus
from physis_ros.ros.signals import Stop
from physis_ros.ros.ticking import SimulatedTicks, SteadyTicks
from physis_ros.session.player import Player, PlayerState
from physis_ros.types import Command

CLOCK_READINGS = 3
# Without a tick for so long (a clock that stands still) nothing is waited for to come to rest.
STALLED_NS = 1_000_000_000
# A process that is told to stop has 2 s; so long it brakes within the limits, by a ramp that is no
# longer than this unless they need it, and so long it waits for a tick.
STOP_NS, STOP_RAMP_NS, STOP_STALLED_NS = 1_000_000_000, 500_000_000, 250_000_000


class Playing:
    """
    Plays chunks at servo rate while it is active, and is silent else; ticks go on either way.

    Belongs to the executor's thread.

    :param node: the owner.
    :param watch: makes topics.
    :param clock: the stream clock.
    :param config: the parameters.
    :param status: tells of it.
    :param rested: called when it has come to rest.
    :raises PhysisError: what cannot be had; then nothing is left of it.
    """

    def __init__(
        self,
        node: Node,
        watch: QosWatch,
        clock: RosClock,
        config: ServoConfig,
        status: ServoStatus,
        rested: Callable[[], None],
    ) -> None:
        self.config, self.waits, self.closed = config, '', False
        self.player = Player(config.player)
        self.inputs = ServoInputs(node, clock, config, self.player)
        self._node, self._ros_time, self._status, self._rested = node, clock, status, rested
        self._adapter = Adapter(config, self.player)
        self._steps = ClockSteps()
        self._active = self._paused = self._braking = False
        # Since when it counts; steady clock, as all of these.
        self._begun_ns = time.monotonic_ns()
        self._braked_ns = self._ticked_ns = 0
        # Until when it may brake on the way out; 0 before it was told to stop.
        self._stop_ns = 0
        self._command: Command | None = None
        self._ready: Ready | None = None
        self._last_age_ns: int | None = None
        self._figures = self.player.account.figures()
        self._status_due, self._phase = False, Phase.INACTIVE
        with ExitStack() as closing:
            self.outputs = self._open(watch, closing)
            self._closing = closing.pop_all()

    def _open(self, watch: QosWatch, closing: ExitStack) -> ServoOutputs:
        """Make publishers, subscriptions, services, timer, until ``closing`` is closed."""
        node = self._node
        metrics = serve(self.config.metrics_port, self._status.fill)
        if metrics is not None:
            closing.callback(metrics.close)
        outputs = ServoOutputs(node, watch, self._adapter.kind, closing)
        self.inputs.open(node, watch, closing)
        if self.config.command_type == 'joint_trajectory':
            # Only these are played by the clock of who takes them.
            stamped = self.config.trajectory_stamped
            asked = Controllers(node, outputs.topic, self._ros_time, stamped, self._status)
            closing.callback(asked.close)
        for service in (
            node.create_service(Trigger, '~/reset', self._on_reset),
            node.create_service(SetBool, '~/pause', self._on_pause),
        ):
            closing.callback(node.destroy_service, service)
        rate_hz = self.config.status_rate_hz
        timer = node.create_timer(1.0 / rate_hz, self._request_status, clock=steady())
        closing.callback(node.destroy_timer, timer)
        return outputs

    def check(self, config: ServoConfig) -> None:
        """
        Refuse what cannot be set while playing.

        :raises ParameterError: saying what.
        """
        self.player.check(config.player)

    def reconfigure(self, config: ServoConfig) -> None:
        """Go on with parameters that were set."""
        self.config = config
        self.player.reconfigure(config.player)
        self.inputs.reconfigure(config)
        self.inputs.joints.age_ns = config.player.state_age_ns
        # Before the next tick: a recording then tells from which on they count.
        self._publish_status()
        self._node.get_logger().info('parameters were set')

    def run(self, executor: Executor, stop: Stop) -> None:
        """Tick until told to stop, or closed."""
        for refusal in realtime.request(self.config.real_time_priority):
            self._node.get_logger().warning(refusal)
        self._node.get_logger().info(self.outputs.told(self.config.joints))
        realtime.freeze_garbage()
        period_ns = self.config.player.period_ns
        ticks: SteadyTicks | SimulatedTicks
        if self._ros_time.simulated:
            self._node.get_logger().info('ticking on /clock')
            ticks = SimulatedTicks(period_ns, self._ros_time.now_ns)
            tick = self._simulated_tick
        else:
            ticks = SteadyTicks(period_ns, self._prepare)
            tick = self._steady_tick
        if self.config.trajectory_stamped:
            self._node.get_logger().info(self._adapter.stamping(self._ros_time))
        ticks.run(executor, lambda: self._over(stop), tick, self._idle)
        if self.closed:
            # It is left to be collected, and so is what was frozen with it.
            realtime.thaw_garbage()

    def _over(self, stop: Stop) -> bool:
        """Whether to tick no more: closed, or told to stop and at rest, as far as time allows."""
        if self.closed or not stop.requested:
            return self.closed
        if not self._stop_ns:
            self._begin_to_stop()
        if self.at_rest:
            return True
        over = time.monotonic_ns() >= self._stop_ns
        if over and self.player.config.ladder.limited:
            self._node.get_logger().warning(
                f'not at rest within {STOP_NS * 1e-9:g} s by the limits of motion: held at once'
            )
        return over

    def _begin_to_stop(self) -> None:
        """Begin to come to rest for good, where that must not be at once."""
        self._active, self._stop_ns = False, time.monotonic_ns()
        if not self.at_rest and self.player.config.ladder.limited:
            self._stop_ns += STOP_NS
            self._brake(STOP_RAMP_NS)

    def close(self) -> None:
        """Send the final hold and take everything away, once."""
        if self.closed:
            return
        self.closed = True
        with self._closing:
            self._hold()
            self._publish_status()

    # What is wanted of it.

    def activate(self) -> None:
        """Play from now on, unless it is paused."""
        self._active = True
        self._turn()

    def deactivate(self) -> None:
        """Come to rest within the limits, then be silent."""
        self._active = False
        self._turn()

    def stand(self) -> None:
        """Be at rest, at once."""
        if self._braking:
            self._hold()

    @property
    def at_rest(self) -> bool:
        """Whether nothing is played any more."""
        return not self._braking and not self._plays

    @property
    def _plays(self) -> bool:
        """Whether the player takes what comes."""
        return self.player.state is not PlayerState.INACTIVE

    def _on_reset(self, request: Trigger.Request, response: Trigger.Response) -> Trigger.Response:
        """Come to rest, then begin anew: the next chunk is joined from the measured state."""
        if self._plays:
            self._brake()
        response.success = True
        return response

    def _on_pause(self, request: SetBool.Request, response: SetBool.Response) -> SetBool.Response:
        """Come to rest and command nothing more, or go on; asked twice it is done once."""
        self._paused = request.data
        self._turn()
        response.success = True
        return response

    def _turn(self) -> None:
        """Begin, or begin to come to rest, as is wanted; once it brakes it comes to rest first."""
        wanted = self._active and not self._paused and not self._stop_ns
        if self._braking or wanted is self._plays:
            return
        if wanted:
            self.player.activate(self._ros_time.now_ns())
        else:
            self._brake()

    def _brake(self, most_ns: int | None = None) -> None:
        """Bring the robot to rest within its limits, tick by tick; sooner than set, if wanted."""
        self._braking, self._braked_ns = True, time.monotonic_ns()
        self.player.brake(self._ros_time.now_ns(), most_ns)
        self._end_braking()

    def _end_braking(self) -> None:
        """Hold where the robot has come to rest, then do what is wanted."""
        if self._braking and (self.player.at_rest or self._stalled):
            self._hold()
            self._turn()
            self._rested()

    @property
    def _stalled(self) -> bool:
        """Whether no tick comes that would bring it to rest."""
        last_ns = max(self._ticked_ns, self._braked_ns)
        patience_ns = STOP_STALLED_NS if self._stop_ns else STALLED_NS
        return time.monotonic_ns() - last_ns > patience_ns

    def _hold(self) -> None:
        """Bring the playing to an end at rest where the last command was."""
        self._braking = False
        command = self.player.deactivate(self._ros_time.now_ns())
        self.outputs.command(self._adapter.final(command))
        self._account(command, (time.monotonic_ns(),) * 3)

    # Ticks.

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
        self.outputs.command(ready.message)
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
        self._command, self._ticked_ns = command, steady_ns[1]
        if command.age_ns is not None:
            self._last_age_ns = command.age_ns
        if not self.outputs.listened(steady_ns[2]):
            return
        phase = self.player.account.phase
        self.outputs.account(
            conversions.playback_message(
                command,
                self.inputs.times(command.epoch, command.chunk),
                stream=self.inputs.stream,
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
        if self.closed:
            # Whoever waited for it to come to rest has taken it away.
            return
        phase = self.player.account.phase
        if self._status_due or phase is not self._phase:
            self._status_due, self._phase = False, phase
            self._publish_status()

    # Status.

    def _request_status(self) -> None:
        """Ask for a status after the next tick, and say when no tick comes for want of a time."""
        self._status_due = True
        waits = self._ros_time.waiting()
        if waits and not self.waits:
            self._node.get_logger().warning(waits)
        self.waits = waits

    def _publish_status(self) -> None:
        """Publish the figures."""
        self._figures = self.player.account.figures()
        self._status.publish()

    def snapshot(self) -> servo_report.Snapshot | None:
        """Gather everything a status is made from; None before the first tick."""
        if self._command is None:
            return None
        now_ns = self._ros_time.now_ns()
        return servo_report.Snapshot(
            now_ns=now_ns,
            stream=self.inputs.stream,
            begun_ns=self._begun_ns,
            figures=self._figures,
            command=self._command,
            ticked_ns=self._ticked_ns,
            settings=self.player.config,
            last_age_ns=self._last_age_ns,
            depth_ns=self.player.depth_ns(now_ns),
            subscribers=self.outputs.subscribers,
            stopping=self.closed or self._stop_ns > 0,
            halt=self._halt,
            waits=self.waits,
            apart_ns=self.inputs.apart_ns,
            skew_ns=self.inputs.skews.least_ns(),
            lack=self.inputs.lack(self._command.reason),
            strangers=self.outputs.strangers,
        )

    @property
    def _halt(self) -> Halt:
        """Why nothing is played by what was asked for."""
        if not self._active:
            return Halt.INACTIVE
        return Halt.PAUSED if self._paused else Halt.RESETTING
