# SPDX-License-Identifier: Apache-2.0
"""
The model as a managed ROS node: observations in, action chunks out.

Nothing is computed here; workers do that. This brings the engine up and down with the lifecycle,
plugs a producer between inputs and outputs, and says what is wrong when something is.
"""

from __future__ import annotations

import time
from dataclasses import replace
from typing import Any

from rclpy.clock import Clock, ClockType
from rclpy.executors import Executor
from rclpy.lifecycle import LifecycleNode, LifecycleState, TransitionCallbackReturn
from std_msgs.msg import String
from std_srvs.srv import SetBool, Trigger

from physis_ros.engine.pool import Pool
from physis_ros.engine.trace import check_writable
from physis_ros.errors import EngineError, PhysisError, is_configuration
from physis_ros.msg import StreamStatus
from physis_ros.observation.align import names_after
from physis_ros.output.sketch import Quantiles
from physis_ros.ros import qos, wam_report
from physis_ros.ros.busy import BusyShare
from physis_ros.ros.clock import Jump, RosClock
from physis_ros.ros.diagnostics import Diagnostics
from physis_ros.ros.engine_host import EngineHost, HostState
from physis_ros.ros.parameters import declare, refuse_unknown
from physis_ros.ros.qos import QosWatch
from physis_ros.ros.restarts import Restarts
from physis_ros.ros.signals import Stop
from physis_ros.ros.wam_config import WamConfig
from physis_ros.ros.wam_inputs import WamInputs
from physis_ros.ros.wam_outputs import WamOutputs
from physis_ros.session.inputs import InputBuilder
from physis_ros.session.producer import Ports, Producer
from physis_ros.session.producer_status import ProducerStatus, ResetReason

POLL_S = 0.05
SPIN_S = 0.05
COMPLAIN_S = 0.25
REPEAT_NS = 10_000_000_000
SUCCESS, FAILURE = TransitionCallbackReturn.SUCCESS, TransitionCallbackReturn.FAILURE


class WamNode(LifecycleNode):
    """
    Turns camera images and joint states into action chunks.

    Subscribes ``<camera>/image_raw`` (sensor_msgs/Image, or CompressedImage on
    ``<camera>/image_raw/compressed``), ``joint_states`` (sensor_msgs/JointState [rad or m]),
    ``~/instruction`` (std_msgs/String, latched; a new one begins a new epoch). Publishes
    ``~/action_chunk`` (physis_ros/ActionChunk), ``~/predicted_image`` (sensor_msgs/Image, stamp =
    the time it is about; decoded only while someone listens), ``~/stream_status``
    (physis_ros/StreamStatus, latched), ``/diagnostics``. Services ``~/reset`` (std_srvs/Trigger):
    a new epoch, what was seen before is forgotten; ``~/pause`` (std_srvs/SetBool).

    Lifecycle: configure takes well under a second and starts to load in the background, which the
    status shows; activate produces as soon as the engine is ready; deactivate stops; cleanup frees
    everything. All parameters: :class:`WamConfig`.
    """

    def __init__(self, **options: Any) -> None:
        super().__init__('wam_node', **options)
        self.config = declare(self, WamConfig)
        self.refusal: PhysisError | None = None
        self._ros_time = RosClock(self)
        self._watch = QosWatch(self)
        self._host: EngineHost | None = None
        self._inputs: WamInputs | None = None
        self._outputs: WamOutputs | None = None
        self._producer: Producer | None = None
        self._last: ProducerStatus | None = None
        self._active = self._paused = False
        self._jumped: Jump | None = None
        self._instruction = ''
        self._fatal: PhysisError | None = None
        self._why_failed = ''
        self._restarts = Restarts(self.config.on_worker_death == 'restart')
        self._shown = (-1, '')
        self._said: tuple[str, ...] = ()
        self._said_ns = 0
        self._busy = BusyShare()
        self._status_out = self._watch.advertise(StreamStatus, '~/stream_status', qos.LATCHED)
        self._diagnostics = Diagnostics(self, self._watch)
        self._diagnostics.add('engine', lambda: wam_report.engine_report(self._snapshot()))
        self._diagnostics.add('inputs', lambda: wam_report.inputs_report(self._snapshot()))
        self._watch.subscribe(String, '~/instruction', self._on_instruction, qos.LATCHED)
        self.create_service(Trigger, '~/reset', self._on_reset)
        self.create_service(SetBool, '~/pause', self._on_pause)
        steady = Clock(clock_type=ClockType.STEADY_TIME)
        self.create_timer(POLL_S, self._poll, clock=steady)
        self.create_timer(1.0 / self.config.status_rate_hz, self._publish_status, clock=steady)
        self.create_timer(COMPLAIN_S, self._complain, clock=steady)
        self._jump = self._ros_time.on_jump(self._on_jump)
        self._publish_status()

    def run(self, executor: Executor, stop: Stop) -> None:
        """Serve callbacks until told to stop; bring the node up by itself when it shall."""
        if self.config.autostart:
            self._bring_up()
        while not stop.requested:
            executor.spin_once(timeout_sec=SPIN_S)
            if self._fatal is not None:
                raise self._fatal

    def close(self) -> None:
        """Stop producing and free everything, from whatever state."""
        self._active = False
        self._stop_production()
        self._free()
        self._jump.unregister()

    def _bring_up(self) -> None:
        """
        Configure and activate.

        :raises PhysisError: what configuring refused.
        """
        if self.trigger_configure() is not SUCCESS:
            raise self.refusal or EngineError('configuring failed; see the log')
        self.trigger_activate()

    # Lifecycle.

    def on_configure(self, state: LifecycleState) -> TransitionCallbackReturn:
        """Check everything that can be checked now, subscribe, and begin to load."""
        try:
            self._host = self._new_host()
            spec = self._host.pool.spec
            align = self.config.producer.align_config(spec)
            InputBuilder(spec, len(align.joint_names))
            robot_joints = names_after(align.aliases, align.joint_names)
            self._inputs = WamInputs(
                self, self._watch, self.config, self._ros_time, robot_joints
            )
            self._outputs = WamOutputs(self, self._watch, lambda: self._frame_id)
            refuse_unknown(self)
        except PhysisError as error:
            self.refusal = error
            self.get_logger().error(f'not configured: {error}')
            self._free()
            return FAILURE
        self.get_logger().info(
            f'loading {self.config.model} on {self.config.workers} workers in the background'
        )
        self._publish_status()
        return SUCCESS

    def on_activate(self, state: LifecycleState) -> TransitionCallbackReturn:
        """Produce as soon as the engine is ready."""
        self._active = True
        if self._outputs is not None:
            self._outputs.activate()
        self._poll()
        return super().on_activate(state)

    def on_deactivate(self, state: LifecycleState) -> TransitionCallbackReturn:
        """Stop producing; the engine stays warm."""
        self._active = False
        self._stop_production()
        self._publish_status()
        return super().on_deactivate(state)

    def on_cleanup(self, state: LifecycleState) -> TransitionCallbackReturn:
        """Free everything."""
        return self._end(state)

    def on_shutdown(self, state: LifecycleState) -> TransitionCallbackReturn:
        """Free everything for good."""
        return self._end(state)

    def on_error(self, state: LifecycleState) -> TransitionCallbackReturn:
        """Free everything; the node can be configured again."""
        return self._end(state)

    def _end(self, state: LifecycleState) -> TransitionCallbackReturn:
        """Come to the unconfigured state from any."""
        self._active = False
        self._stop_production()
        self._free()
        self._restarts.forget()
        self._why_failed = ''
        self._publish_status()
        return SUCCESS

    def _free(self) -> None:
        """Close engine, inputs and outputs."""
        host, inputs, outputs = self._host, self._inputs, self._outputs
        self._host = self._inputs = self._outputs = None
        for part in (inputs, outputs, host):
            if part is not None:
                part.close()

    # Production.

    def _new_host(self) -> EngineHost:
        """Begin to load an engine; refuses a configuration that does not fit the model."""
        config = self.config
        if config.pool.trace is not None:
            check_writable(config.pool.trace)
        return EngineHost(lambda: Pool(config.pool), config.stream, config.start_timeout_s)

    def _poll(self) -> None:
        """Bring production to where it should be; called twenty times a second."""
        host = self._host
        if host is None or self._outputs is None:
            return
        self._outputs.look()
        failure = host.check()
        if failure is None and self._producer is not None:
            failure = self._producer.failure
        if failure is not None:
            self._on_failure(host, failure)
        elif host.state is HostState.READY and self._active and self._producer is None:
            self._start_production(host, self._outputs)
        self._turn_after_jump()
        state = self._state()
        running = state[0] == StreamStatus.STATE_RUNNING
        self._restarts.look(running, time.monotonic_ns())
        if state != self._shown:
            self._publish_status()

    def _start_production(self, host: EngineHost, outputs: WamOutputs) -> None:
        """Plug a producer between inputs and outputs."""
        try:
            producer = Producer(
                host.pool,
                host.stream,
                self.config.producer,
                self._ros_time,
                Ports(outputs.deliver, outputs.frames_wanted),
            )
            producer.start()
        except PhysisError as error:
            self._on_failure(host, error)
            return
        self._producer = producer
        producer.pause(self._paused)
        if self._inputs is not None:
            self._inputs.sink = producer
        self._why_failed = ''
        self.get_logger().info('the engine is ready; producing')

    def _stop_production(self) -> None:
        """Unplug the producer; nothing is published after this."""
        producer, self._producer = self._producer, None
        if self._inputs is not None:
            self._inputs.sink = None
        if producer is not None and not producer.stop():
            self.get_logger().error('a thread of the production did not end within 1 s')

    def _on_failure(self, host: EngineHost, failure: PhysisError) -> None:
        """Say what happened to the engine, and go on or give up."""
        if host.state is HostState.FAILED and self._why_failed == str(failure):
            return
        again = self._restarts.may(failure, host.was_ready)
        host.fail(failure)
        what = 'loading it again' if again else 'giving up'
        self.get_logger().fatal(f'the engine failed: {failure}; {what}')
        self._why_failed = str(failure)
        self._stop_production()
        self._publish_status()
        self._diagnostics.publish()
        if again:
            self._restart(host)
        elif self.config.on_worker_death == 'exit' or (
            not host.was_ready and is_configuration(failure)
        ):
            self._fatal = failure

    def _restart(self, host: EngineHost) -> None:
        """Load the engine anew and go on in a new epoch."""
        self._restarts.again()
        host.close()
        if self._outputs is not None:
            self._outputs.new_engine()
        try:
            self._host = self._new_host()
        except (PhysisError, OSError) as error:
            self._fatal = EngineError(f'the engine cannot be loaded again: {error}')

    def _new_epoch(self, reason: ResetReason, why: str) -> None:
        """Begin a new epoch, when there is a stream to begin one of."""
        if self._producer is not None:
            self._producer.reset(reason)
            self.get_logger().info(f'new epoch: {why}')

    def _turn_after_jump(self) -> None:
        """Say that the clock jumped; a backward step the producer sees for itself, and at once."""
        jump, self._jumped = self._jumped, None
        if jump is not None and not jump.backward:
            self._new_epoch(ResetReason.CLOCK_JUMP, jump.text)
        elif jump is not None:
            self.get_logger().info(jump.text)

    # Callbacks.

    def _on_jump(self, jump: Jump) -> None:
        """Note a jump of the clock; called inside the clock, where nothing may be done."""
        self._jumped = jump

    def _on_instruction(self, message: String) -> None:
        """Begin a new epoch with another instruction."""
        if message.data != self._instruction:
            self._instruction = message.data
            self._new_epoch(ResetReason.INSTRUCTION, f'instruction {message.data!r}')

    def _on_reset(self, request: Trigger.Request, response: Trigger.Response) -> Trigger.Response:
        """Begin an episode: a new epoch that knows nothing of what was seen before."""
        response.success = self._producer is not None
        if self._producer is None:
            response.message = f'nothing to reset: {wam_report.WORDS[self._state()[0]]}'
        self._new_epoch(ResetReason.EPISODE, 'asked for')
        return response

    def _on_pause(self, request: SetBool.Request, response: SetBool.Response) -> SetBool.Response:
        """Hold the production, or go on in a new epoch."""
        self._paused = request.data
        if self._producer is not None:
            self._producer.pause(request.data)
        response.success = True
        return response

    # Status.

    @property
    def _frame_id(self) -> str:
        """The camera's frame."""
        return self._inputs.frame_id if self._inputs is not None else ''

    def _state(self) -> tuple[int, str]:
        """Return the state of the stream and why it is in it."""
        host = self._host
        if host is None:
            return StreamStatus.STATE_UNCONFIGURED, ''
        if host.state is HostState.FAILED:
            return StreamStatus.STATE_FAILED, self._why_failed or str(host.failure)
        if host.state is HostState.LOADING:
            return StreamStatus.STATE_LOADING, self._why_failed
        if self._producer is None:
            return StreamStatus.STATE_PAUSED, 'ready; inactive until it is activated'
        status = self._producer.status()
        warming_up = self._outputs is None or self._outputs.warming_up
        state = wam_report.state_of(status, warming_up)
        if state == StreamStatus.STATE_WAITING_OBSERVATION:
            return state, '; '.join(self._complaints()) or f'{status.lack and status.lack.value}'
        return state, status.failure

    def _complaints(self) -> list[str]:
        """Return what is wrong with the inputs."""
        return self._inputs.complaints() if self._inputs is not None else []

    def _complain(self) -> None:
        """Say in the log what is wrong with the inputs."""
        complaints = tuple(self._complaints()) if self._active else ()
        now_ns = time.monotonic_ns()
        if complaints == self._said and now_ns - self._said_ns < REPEAT_NS:
            return
        self._said, self._said_ns = complaints, now_ns
        for text in complaints:
            self.get_logger().warning(text)

    def _publish_status(self) -> None:
        """Publish the stream's status."""
        snapshot = self._snapshot()
        spent_ns = {} if self._host is None else self._host.pool.metrics.busy_ns
        busy = self._busy.since(time.monotonic_ns(), spent_ns, len(snapshot.pids))
        snapshot = replace(snapshot, busy=busy)
        self._shown = (snapshot.state, snapshot.reason)
        self._status_out.publish(wam_report.status(snapshot))

    def _snapshot(self) -> wam_report.Snapshot:
        """Gather everything a status is made from."""
        state, reason = self._state()
        host, outputs, producer = self._host, self._outputs, self._producer
        ready = host is not None and host.state is HostState.READY
        pool = host.pool if host is not None else None
        figures = Quantiles() if outputs is None else outputs.age_figures()
        return wam_report.Snapshot(
            now_ns=self._ros_time.now_ns(),
            stream=self.config.stream,
            epoch=0 if outputs is None else outputs.epoch,
            state=state,
            reason=reason,
            producer=None if producer is None else producer.status(),
            age_ms=figures,
            delivered=0 if outputs is None else outputs.delivered,
            period_ns=self.config.producer.period_ns,
            kv_rule='same_step' if pool is None else pool.grouping.kv_rule,
            pids=pool.pids if pool is not None and ready else (),
            queued=tuple(pool.metrics.queue_lengths) if pool is not None and ready else (),
            complaints=tuple(self._complaints()) if self._active else (),
            images_refused=0 if self._inputs is None else self._inputs.camera.refused,
            restarts=self._restarts.count,
        )
