# SPDX-License-Identifier: Apache-2.0
"""
The model as a managed ROS node: observations in, action chunks out, for one stream or several.

Nothing is computed here; workers do that. This brings the engine up and down with the lifecycle,
gives its streams their place in it (``wam_stream.py``), and says what is wrong when something is.
"""

from __future__ import annotations

import time
from typing import Any

from rclpy.executors import Executor
from rclpy.lifecycle import LifecycleState, TransitionCallbackReturn

from physis_ros.errors import EngineError, PhysisError, StreamLost, WorkerDied, is_configuration
from physis_ros.msg import StreamStatus
from physis_ros.ros import wam_metrics
from physis_ros.ros.busy import BusyShare
from physis_ros.ros.clock import Jump, RosClock, steady
from physis_ros.ros.diagnostics import Diagnostics
from physis_ros.ros.engine_host import EngineHost
from physis_ros.ros.host_state import HostState
from physis_ros.ros.live import LiveParameters
from physis_ros.ros.make_pool import make_pool
from physis_ros.ros.managed import ManagedNode
from physis_ros.ros.metrics import Page, serve
from physis_ros.ros.parameters import declare_part, is_qos_override, refuse_unknown
from physis_ros.ros.qos import QosWatch
from physis_ros.ros.restarts import Restarts
from physis_ros.ros.signals import Stop
from physis_ros.ros.statistics_topic import Statistic, Statistics
from physis_ros.ros.wam_config import WamConfig
from physis_ros.ros.wam_diagnosis import engine_report
from physis_ros.ros.wam_report import EngineSnapshot
from physis_ros.ros.wam_services import StreamServices
from physis_ros.ros.wam_statistics import statistics
from physis_ros.ros.wam_stream import Home, WamStream
from physis_ros.ros.wam_streams import WamStreams
from physis_ros.session.producer_status import ResetReason

POLL_S = 0.05
SPIN_S = 0.05
COMPLAIN_S = 0.25


class WamNode(ManagedNode):
    """
    Turns camera images and joint states into action chunks, for all of its streams on one engine.

    Of each stream: subscribes ``<camera>/image_raw`` (sensor_msgs/Image, or CompressedImage on
    ``<camera>/image_raw/compressed``), ``joint_states`` (sensor_msgs/JointState, in the robot's
    names and units as the parameters ``joint_*`` say), ``~/instruction`` (std_msgs/String,
    latched; a new one begins a new epoch, no model here takes the words). Publishes
    ``~/action_chunk`` (physis_ros/ActionChunk), ``~/predicted_image`` (sensor_msgs/Image, stamp =
    the time it is about; decoded only while someone listens), ``~/overlay`` (sensor_msgs/Image for
    a person: camera, prediction, figures; made only while someone looks), ``~/stream_status``
    (physis_ros/StreamStatus, latched). Services ``~/reset`` (std_srvs/Trigger): a new epoch, what
    was seen before is forgotten; ``~/pause`` (std_srvs/SetBool). With the parameter ``streams``,
    and for streams that are opened later, the stream's name goes before each:
    ``<stream>/joint_states``, ``~/<stream>/action_chunk``.

    Of the node: ``/diagnostics``, ``/statistics`` on request; services ``~/open_stream``,
    ``~/close_stream``, ``~/list_streams``, ``~/plan_streams`` (physis_ros/srv).

    Lifecycle: configure takes well under a second and starts to load in the background, which the
    status shows; activate produces as soon as the engine is ready; deactivate stops; cleanup frees
    everything, and the streams are those of the parameters again. All parameters:
    :class:`WamConfig` and, for all streams or as ``<stream>.<parameter>`` for one,
    :class:`~physis_ros.ros.stream_config.StreamConfig`.
    """

    def __init__(self, **options: Any) -> None:
        super().__init__('wam_node', **options)
        self.config = declare_part(self, WamConfig)
        self.host: EngineHost | None = None
        self._ros_time = RosClock(self)
        self._watch = watch = QosWatch(self)
        self._active = False
        self._jumped: Jump | None = None
        self._fatal: PhysisError | None = None
        self._why_failed = self._overload = ''
        self._missing: tuple[str, ...] = ()
        self._restarts = Restarts(self.config.on_worker_death == 'restart')
        self._busy = BusyShare()
        self._shares: tuple[float, ...] = ()
        self._diagnostics = Diagnostics(self, watch)
        self._diagnostics.add('engine', lambda: engine_report(self.engine()))
        home = Home(self, watch, self._ros_time, self.engine)
        self.streams = WamStreams(home, self.config.names, self._diagnostics)
        self.streams.follow(LiveParameters(self, {}), bool(self.config.profile))
        refuse_unknown(self, is_qos_override)
        self.streams.restore()
        self._stream_services = StreamServices(self)
        self.create_timer(POLL_S, self._poll, clock=steady())
        self.create_timer(1.0 / self.config.status_rate_hz, self._publish, clock=steady())
        self.create_timer(COMPLAIN_S, self._complain, clock=steady())
        self._jump = self._ros_time.on_jump(self._on_jump)
        self._publish()
        wanted = self.config.statistics
        self._statistics = Statistics(self, watch, self._figures) if wanted else None
        self._metrics = serve(self.config.metrics_port, self._fill)

    def run(self, executor: Executor, stop: Stop) -> None:
        """Serve callbacks until told to stop; bring the node up by itself when it shall."""
        if self.config.autostart:
            self.bring_up()
        while not stop.requested:
            executor.spin_once(timeout_sec=SPIN_S)
            if self._fatal is not None:
                raise self._fatal

    def close(self) -> None:
        """Stop producing and free everything, from whatever state."""
        self._active = False
        self._free()
        self._jump.unregister()
        if self._metrics is not None:
            self._metrics.close()

    # Lifecycle.

    def set_up(self) -> None:
        """Check everything that can be checked now, subscribe, and begin to load."""
        self.host = self._new_host()
        self.streams.restore()
        for stream in self.streams:
            stream.configure(self.host.pool.spec)
            stream.enter(self.host)
        refuse_unknown(self)
        self.get_logger().info(
            f'loading {self.config.model} on {self.config.workers} workers in the background'
        )
        self._publish()

    def on_activate(self, state: LifecycleState) -> TransitionCallbackReturn:
        """Produce as soon as the engine is ready."""
        self._active = True
        for stream in self.streams:
            stream.activate()
        self._poll()
        return super().on_activate(state)

    def on_deactivate(self, state: LifecycleState) -> TransitionCallbackReturn:
        """Stop producing; the engine stays warm."""
        self._active = False
        for stream in self.streams:
            stream.stop()
        self._publish()
        return super().on_deactivate(state)

    def tear_down(self) -> None:
        """Free everything; the streams are those of the parameters again."""
        self._active = False
        self._free()
        self.streams.restore()
        self._restarts.forget()
        self._why_failed = ''
        self._publish()

    def _free(self) -> None:
        """Close the engine and all that belongs to it."""
        host, self.host = self.host, None
        for stream in self.streams:
            stream.free()
        if host is not None:
            host.close()

    # The engine.

    def _new_host(self) -> EngineHost:
        """Begin to load an engine; refuses a configuration that does not fit the model."""
        return EngineHost(lambda: make_pool(self.config), self.config.start_timeout_s)

    def _poll(self) -> None:
        """Bring everything to where it should be; called twenty times a second."""
        host = self.host
        if host is not None:
            failure = host.check()
            if failure is not None:
                self._on_failure(host, failure)
            else:
                self._look(host)
            self._turn_after_jump()
        # After it is known whether an engine that failed is loaded again: then they wait for it.
        self._stream_services.look()

    def _look(self, host: EngineHost) -> None:
        """Look after the streams of an engine that is well."""
        if host.state is HostState.READY:
            self._why_failed = ''
            self._watch_load(host)
            self._watch_workers(host)
        for stream in self.streams:
            # In this order: what was lost and is admitted again is not lost any more.
            died = host.pool.lost.get(stream.name) if stream.admitted else None
            if died is not None:
                self._on_loss(stream, died)
            failure = stream.look(self._active)
            if isinstance(failure, StreamLost):
                # At the next look that is known to the engine, or over.
                stream.stop()
            elif failure is not None and host.check() is None:
                # What the engine did to it is told, and mended, for all.
                self._on_stream_failure(stream, failure)
        states = [stream.state()[0] for stream in self.streams]
        self._restarts.look(StreamStatus.STATE_RUNNING in states, time.monotonic_ns())

    def _watch_load(self, host: EngineHost) -> None:
        """Say when more is asked of the engine than it can do, and when that is over."""
        found, before = host.pool.overload, self._overload
        self._overload = '' if found is None else found.text(time.monotonic_ns())
        if self._overload and not before:
            self.get_logger().warning(self._overload)
        elif before and not self._overload:
            self.get_logger().info('the engine is not overloaded any more')

    def _watch_workers(self, host: EngineHost) -> None:
        """Say which workers have ended, and when new ones have come for who waits for them."""
        missing = tuple(str(vacancy) for vacancy in host.pool.vacancies.values())
        for text in missing:
            if text not in self._missing:
                self.get_logger().error(text)
        if len(missing) < len(self._missing):
            self.get_logger().info(f'a new worker is there; missing: {len(missing)}')
            for stream in self.streams:
                stream.hurry()
        self._missing = missing

    def _on_loss(self, stream: WamStream, died: WorkerDied) -> None:
        """Say that one stream ended with a worker, and open it again; the others go on."""
        self.get_logger().error(f"stream '{stream.name}' was lost: {died}")
        stream.lose(died)
        stream.publish_status()
        self._diagnostics.publish()
        if self.config.on_worker_death == 'exit':
            self._fatal = StreamLost(stream.name, died)

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
        if again:
            self.get_logger().error(f'the engine failed: {failure}; loading it again')
        else:
            self.get_logger().fatal(f'the engine failed: {failure}; giving up')
        self._why_failed = str(failure)
        for stream in self.streams:
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
            self.host = self._new_host()
        except (PhysisError, OSError) as error:
            self._fatal = EngineError(f'the engine cannot be loaded again: {error}')
            return
        for stream in self.streams:
            stream.enter(self.host)

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
            for stream in self.streams:
                stream.new_epoch(ResetReason.CLOCK_JUMP, jump.text)

    # Status.

    def engine(self) -> EngineSnapshot:
        """Return how the engine is."""
        host = self.host
        if host is None:
            return EngineSnapshot(streams=self.streams.names)
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
            overload=self._overload if ready else '',
            missing=self._missing if ready else (),
            replaced=host.pool.replaced,
            streams=self.streams.names,
            restarts=self._restarts.count,
        )

    def _fill(self, page: Page) -> None:
        """Add what was published last to a page of metrics; called in another thread."""
        host = self.host
        wam_metrics.fill_engine(page, self._told, None if host is None else host.pool.metrics)
        for stream in self.streams:
            if stream.told is not None:
                wam_metrics.fill_stream(page, stream.told)
        self._watch.fill(page)

    def _figures(self) -> list[Statistic]:
        """Return what is told on ``/statistics``."""
        return [
            figure
            for stream in self.streams
            if stream.told is not None
            for figure in statistics(stream.told, stream.names)
        ]

    def _complain(self) -> None:
        """Say in the log what is wrong with the inputs."""
        for stream in self.streams:
            stream.complain(self._active)

    def _publish(self) -> None:
        """Publish the status of all streams."""
        spent_ns = {} if self.host is None else self.host.pool.metrics.busy_ns
        workers = len(self.engine().pids)
        self._shares = self._busy.since(time.monotonic_ns(), spent_ns, workers)
        self._told = self.engine()
        for stream in self.streams:
            stream.publish_status()
