# SPDX-License-Identifier: Apache-2.0
"""
The model as a managed ROS node: observations in, action chunks out, for one stream or several.

Nothing is computed here; workers do that. This brings the engine up and down with the lifecycle,
gives its streams their place in it (``wam_stream.py``), and says what is wrong when something is.
"""

from __future__ import annotations

import time
from concurrent.futures import Future
from typing import Any

from rclpy.executors import Executor
from rclpy.lifecycle import LifecycleNode, LifecycleState, TransitionCallbackReturn

from physis_ros.engine.pool import Pool
from physis_ros.engine.trace import check_writable
from physis_ros.errors import EngineError, ParameterError, PhysisError, is_configuration
from physis_ros.msg import StreamStatus
from physis_ros.ros import wam_report
from physis_ros.ros.busy import BusyShare
from physis_ros.ros.clock import Jump, RosClock, steady
from physis_ros.ros.diagnostics import Diagnostics
from physis_ros.ros.engine_host import EngineHost
from physis_ros.ros.host_state import HostState
from physis_ros.ros.parameters import declare_part, is_qos_override, refuse_unknown
from physis_ros.ros.qos import QosWatch
from physis_ros.ros.restarts import Restarts
from physis_ros.ros.signals import Stop
from physis_ros.ros.stream_config import StreamConfig, StreamNames, check_name
from physis_ros.ros.wam_config import WamConfig
from physis_ros.ros.wam_report import EngineSnapshot
from physis_ros.ros.wam_services import StreamServices
from physis_ros.ros.wam_stream import Home, WamStream
from physis_ros.session.producer_status import ResetReason

POLL_S = 0.05
SPIN_S = 0.05
COMPLAIN_S = 0.25
SUCCESS, FAILURE = TransitionCallbackReturn.SUCCESS, TransitionCallbackReturn.FAILURE


class WamNode(LifecycleNode):
    """
    Turns camera images and joint states into action chunks, for all of its streams on one engine.

    Of each stream: subscribes ``<camera>/image_raw`` (sensor_msgs/Image, or CompressedImage on
    ``<camera>/image_raw/compressed``), ``joint_states`` (sensor_msgs/JointState [rad or m]),
    ``~/instruction`` (std_msgs/String, latched; a new one begins a new epoch). Publishes
    ``~/action_chunk`` (physis_ros/ActionChunk), ``~/predicted_image`` (sensor_msgs/Image, stamp =
    the time it is about; decoded only while someone listens), ``~/stream_status``
    (physis_ros/StreamStatus, latched). Services ``~/reset`` (std_srvs/Trigger): a new epoch, what
    was seen before is forgotten; ``~/pause`` (std_srvs/SetBool). With the parameter ``streams``,
    and for streams that are opened later, the stream's name goes before each:
    ``<stream>/joint_states``, ``~/<stream>/action_chunk``.

    Of the node: ``/diagnostics``; services ``~/open_stream``, ``~/close_stream``,
    ``~/list_streams``, ``~/plan_streams`` (physis_ros/srv).

    Lifecycle: configure takes well under a second and starts to load in the background, which the
    status shows; activate produces as soon as the engine is ready; deactivate stops; cleanup frees
    everything, and the streams are those of the parameters again. All parameters:
    :class:`WamConfig` and, for all streams or as ``<stream>.<parameter>`` for one,
    :class:`StreamConfig`.
    """

    def __init__(self, **options: Any) -> None:
        super().__init__('wam_node', **options)
        self.config = declare_part(self, WamConfig)
        self.defaults = declare_part(self, StreamConfig)
        self._configs = {
            name: declare_part(self, StreamConfig, f'{name}.', self.defaults)
            for name in self.config.names
        }
        refuse_unknown(self, is_qos_override)
        self.refusal: PhysisError | None = None
        self.streams: dict[str, WamStream] = {}
        self._epochs: dict[str, int] = {}
        self._ros_time = RosClock(self)
        self._watch = QosWatch(self)
        self._host: EngineHost | None = None
        self._active = False
        self._jumped: Jump | None = None
        self._fatal: PhysisError | None = None
        self._why_failed = ''
        self._restarts = Restarts(self.config.on_worker_death == 'restart')
        self._busy, self._shares = BusyShare(), ()
        self._home = Home(self, self._watch, self._ros_time, self.engine)
        self._diagnostics = Diagnostics(self, self._watch)
        self._diagnostics.add('engine', lambda: wam_report.engine_report(self.engine()))
        for name in self.config.names:
            self._add(name, self._configs[name])
        self._stream_services = StreamServices(self)
        self.create_timer(POLL_S, self._poll, clock=steady())
        self.create_timer(1.0 / self.config.status_rate_hz, self._publish, clock=steady())
        self.create_timer(COMPLAIN_S, self._complain, clock=steady())
        self._jump = self._ros_time.on_jump(self._on_jump)
        self._publish()

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
            for name in self.config.names:
                if name not in self.streams:
                    self._add(name, self._configs[name])
            for stream in self.streams.values():
                stream.configure(self._host.pool.spec)
                stream.enter(self._host)
            refuse_unknown(self)
        except PhysisError as error:
            self.refusal = error
            self.get_logger().error(f'not configured: {error}')
            self._free()
            return FAILURE
        self.get_logger().info(
            f'loading {self.config.model} on {self.config.workers} workers in the background'
        )
        self._publish()
        return SUCCESS

    def on_activate(self, state: LifecycleState) -> TransitionCallbackReturn:
        """Produce as soon as the engine is ready."""
        self._active = True
        for stream in self.streams.values():
            stream.activate()
        self._poll()
        return super().on_activate(state)

    def on_deactivate(self, state: LifecycleState) -> TransitionCallbackReturn:
        """Stop producing; the engine stays warm."""
        self._active = False
        for stream in self.streams.values():
            stream.stop()
        self._publish()
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
        self._free()
        self._restarts.forget()
        self._why_failed = ''
        self._publish()
        return SUCCESS

    def _free(self) -> None:
        """Close the engine and all that belongs to it; streams of others than us are gone."""
        host, self._host = self._host, None
        for name, stream in list(self.streams.items()):
            stream.free()
            if name not in self._configs:
                self._withdraw(stream)
        if host is not None:
            host.close()

    # Streams.

    def stream_config(self, name: str) -> StreamConfig:
        """Return what the parameters say of a stream, whether they name it or not."""
        return self._configs.get(name, self.defaults)

    def open_stream(self, name: str, config: StreamConfig) -> WamStream:
        """
        Begin to open a stream beside the others; one that was refused may be tried again.

        :raises PhysisError: when it cannot be one.
        """
        check_name(name)
        host, before = self._host, self.streams.get(name)
        if host is None:
            raise EngineError('no stream can be opened: the node is not configured')
        if before is not None and not before.refusal:
            raise ParameterError('stream', f'none of {list(self.streams)}, which are open', name)
        if before is not None:
            self._withdraw(before)
        stream = self._add(name, config)
        try:
            stream.configure(host.pool.spec)
        except PhysisError:
            self._withdraw(stream)
            raise
        stream.activate()
        stream.enter(host)
        return stream

    def close_stream(self, name: str) -> Future[None] | None:
        """Take a stream away; the engine frees its room when its turn comes, None: has none."""
        stream = self.streams[name]
        stream.stop()
        left = stream.leave()
        self._withdraw(stream)
        return left

    def _add(self, name: str, config: StreamConfig) -> WamStream:
        """Make a stream, with its status and its services."""
        names = StreamNames(name, plain=self.config.names == (name,))
        stream = WamStream(self._home, names, config, self._epochs.get(name, 0))
        self.streams[name] = stream
        self._diagnostics.add(
            names.task('inputs'), lambda: wam_report.stream_report(stream.snapshot())
        )
        return stream

    def _withdraw(self, stream: WamStream) -> None:
        """Take a stream's topics and services away."""
        del self.streams[stream.name]
        self._diagnostics.remove(stream.task('inputs'))
        stream.close()
        self._epochs[stream.name] = stream.next_epoch

    # The engine.

    def _new_host(self) -> EngineHost:
        """Begin to load an engine; refuses a configuration that does not fit the model."""
        config = self.config
        if config.pool.trace is not None:
            check_writable(config.pool.trace)
        return EngineHost(lambda: Pool(config.pool), config.start_timeout_s)

    def _poll(self) -> None:
        """Bring everything to where it should be; called twenty times a second."""
        self._stream_services.look()
        host = self._host
        if host is None:
            return
        failure = host.check()
        if failure is not None:
            self._on_failure(host, failure)
        else:
            self._look(host)
        self._turn_after_jump()

    def _look(self, host: EngineHost) -> None:
        """Look after the streams of an engine that is well."""
        if host.state is HostState.READY:
            self._why_failed = ''
        for stream in self.streams.values():
            failure = stream.look(self._active)
            # What the engine did to it is told, and mended, for all.
            if failure is not None and host.check() is None:
                self._on_stream_failure(stream, failure)
        states = [stream.state()[0] for stream in self.streams.values()]
        self._restarts.look(StreamStatus.STATE_RUNNING in states, time.monotonic_ns())

    def _on_stream_failure(self, stream: WamStream, failure: PhysisError) -> None:
        """Say what happened to one stream; the others go on."""
        self.get_logger().fatal(f'{failure}; giving up')
        stream.give_up(failure)
        stream.publish_status()
        if self.config.on_worker_death == 'exit':
            self._fatal = failure

    def _on_failure(self, host: EngineHost, failure: PhysisError) -> None:
        """Say what happened to the engine, and go on or give up."""
        if host.state is HostState.FAILED and self._why_failed == str(failure):
            return
        again = self._restarts.may(failure, host.was_ready)
        host.fail(failure)
        what = 'loading it again' if again else 'giving up'
        self.get_logger().fatal(f'the engine failed: {failure}; {what}')
        self._why_failed = str(failure)
        for stream in self.streams.values():
            stream.stop()
        self._publish()
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
        try:
            self._host = self._new_host()
        except (PhysisError, OSError) as error:
            self._fatal = EngineError(f'the engine cannot be loaded again: {error}')
            return
        for stream in self.streams.values():
            stream.enter(self._host)

    # Time.

    def _on_jump(self, jump: Jump) -> None:
        """Note a jump of the clock; called inside the clock, where nothing may be done."""
        self._jumped = jump

    def _turn_after_jump(self) -> None:
        """Say that the clock jumped; a backward step producers see for themselves, and at once."""
        jump, self._jumped = self._jumped or self._ros_time.system_step(), None
        if jump is None:
            return
        self.get_logger().info(jump.text)
        if not jump.backward:
            for stream in self.streams.values():
                stream.new_epoch(ResetReason.CLOCK_JUMP, jump.text)

    # Status.

    @property
    def engine_failed(self) -> bool:
        """Whether the engine is gone for good."""
        return self._host is None or self._host.state is HostState.FAILED

    def engine(self) -> EngineSnapshot:
        """Return how the engine is."""
        host = self._host
        if host is None:
            return EngineSnapshot(streams=tuple(self.streams))
        ready, reason = host.state is HostState.READY, self._why_failed
        if host.state is HostState.FAILED:
            reason = reason or str(host.failure)
        return EngineSnapshot(
            host=host.state,
            reason='' if ready else reason,
            kv_rule=host.pool.grouping.kv_rule,
            pids=host.pool.pids if ready else (),
            queued=tuple(host.pool.metrics.queue_lengths) if ready else (),
            busy=self._shares,
            streams=tuple(self.streams),
            restarts=self._restarts.count,
        )

    def _complain(self) -> None:
        """Say in the log what is wrong with the inputs."""
        for stream in self.streams.values():
            stream.complain(self._active)

    def _publish(self) -> None:
        """Publish the status of all streams."""
        spent_ns = {} if self._host is None else self._host.pool.metrics.busy_ns
        workers = len(self.engine().pids)
        self._shares = self._busy.since(time.monotonic_ns(), spent_ns, workers)
        for stream in self.streams.values():
            stream.publish_status()
