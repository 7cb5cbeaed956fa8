# SPDX-License-Identifier: Apache-2.0
"""
One stream of the model node: its topics and services, its place in the engine, its production.

The node brings the engine up and down and tells its streams; a stream makes the best of what there
is. What goes wrong with one stream is said there, and the others go on.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass

from rclpy.lifecycle import LifecycleNode
from std_msgs.msg import String
from std_srvs.srv import SetBool, Trigger

from physis_ros.backbones.base import ModelSpec
from physis_ros.errors import PhysisError, WorkerDied
from physis_ros.msg import StreamStatus
from physis_ros.output.sketch import Quantiles
from physis_ros.ros import qos, wam_report
from physis_ros.ros.clock import RosClock
from physis_ros.ros.engine_host import EngineHost
from physis_ros.ros.host_state import HostState
from physis_ros.ros.qos import QosWatch
from physis_ros.ros.room import Room
from physis_ros.ros.source import Complaint
from physis_ros.ros.stream_config import StreamConfig, StreamNames
from physis_ros.ros.wam_inputs import WamInputs
from physis_ros.ros.wam_outputs import WamOutputs
from physis_ros.ros.wam_report import EngineSnapshot, Snapshot
from physis_ros.session import commitment
from physis_ros.session.inputs import InputBuilder
from physis_ros.session.producer import Ports, Producer
from physis_ros.session.producer_status import ResetReason

REPEAT_NS = 10_000_000_000


@dataclass(frozen=True)
class Home:
    """
    What the streams of a node share.

    :param watch: makes topics.
    :param clock: the stream clock.
    :param engine: tells of the engine.
    """

    node: LifecycleNode
    watch: QosWatch
    clock: RosClock
    engine: Callable[[], EngineSnapshot]


class WamStream:
    """
    One stream. Its callbacks and methods belong to the executor's thread.

    :param home: shared with the other streams.
    :param names: its name, and those of its topics.
    :param config: its parameters.
    :param epoch: the first one; those of an earlier stream of this name are played no more.
    """

    def __init__(
        self, home: Home, names: StreamNames, config: StreamConfig, epoch: int = 0
    ) -> None:
        self.name, self.config = names.stream, config
        self.inputs: WamInputs | None = None
        self.outputs: WamOutputs | None = None
        self.producer: Producer | None = None
        # The status that was published last.
        self.told: Snapshot | None = None
        self.room: Room | None = None
        self._home, self.names = home, names
        self._said_refusal = ''
        self._failure: PhysisError | None = None
        self._epoch = epoch
        self._paused = False
        self._since_ns = 0
        self._instruction = ''
        self._shown = (-1, '')
        self._said: tuple[str, ...] = ()
        self._said_ns = 0
        node = home.node
        self._status_out = home.watch.advertise(
            StreamStatus, names.own('stream_status'), qos.LATCHED
        )
        self._words_in = home.watch.subscribe(
            String, names.own('instruction'), self._on_instruction, qos.LATCHED
        )
        self._services = [
            node.create_service(Trigger, names.own('reset'), self._on_reset),
            node.create_service(SetBool, names.own('pause'), self._on_pause),
        ]

    @property
    def next_epoch(self) -> int:
        """The first epoch that nothing was published of."""
        return self._epoch if self.outputs is None else self.outputs.next_epoch

    # The engine's life.

    def configure(self, spec: ModelSpec) -> None:
        """
        Check that the model fits, then subscribe and advertise.

        :raises PhysisError: when it does not.
        """
        align = self.config.producer.align_config(spec)
        InputBuilder(spec, len(align.joint_names))
        robot = self.config.robot(align.joint_names)
        home, names = self._home, self.names
        cameras = self.config.camera_topics(align.cameras)
        self.inputs = WamInputs(
            home.node,
            home.watch,
            self.config,
            names,
            home.clock,
            robot,
            cameras,
            len(align.history_ns),
        )
        self.outputs = WamOutputs(
            home.node,
            home.watch,
            names,
            lambda: self._frame_id,
            spec.actions.unit,
            self.next_epoch,
        )
        self.inputs.viewer = self.outputs.overlay.seen

    def enter(self, host: EngineHost) -> None:
        """Ask an engine for room; what it says shows in :meth:`state`."""
        self._failure, self._said_refusal = None, ''
        if self.outputs is not None:
            self.outputs.new_engine()
        config = self.config
        self.room = Room(host, self.name, config.period_ms, config.max_response_ms)

    def activate(self) -> None:
        """Begin to count anew; production begins as soon as it can."""
        self._failure, self._since_ns = None, self._home.clock.now_ns()
        if self.outputs is not None:
            self.outputs.activate()

    def look(self, active: bool) -> PhysisError | None:
        """
        Bring production to where it should be; to be called twenty times a second.

        :param active: whether it shall produce.
        :returns: why the production ended by itself; None while it did not.
        """
        if self.room is not None:
            self.room.look(time.monotonic_ns())
        if self.outputs is not None:
            self.outputs.look()
            idle = self.producer is None and self._failure is None
            if active and idle and self.room is not None and self.room.given:
                self._start(self.outputs, self.room.host)
        self._say_refusal()
        failure = None if self.producer is None else self.producer.failure
        if self.state() != self._shown:
            self.publish_status()
        return failure

    def check(self, config: StreamConfig) -> None:
        """
        Refuse parameters that do not fit the model.

        :raises ParameterError: saying what.
        """
        if self.room is not None:
            commitment.check(config.producer, self.room.host.pool.spec)

    def reconfigure(self, config: StreamConfig) -> None:
        """Go on with other parameters."""
        self.config = config
        if self.producer is not None:
            self.producer.reconfigure(config.producer)
        self._log('parameters were set')

    def lose(self, died: WorkerDied) -> None:
        """Produce no more until the engine carries it again, in a new epoch."""
        self.stop()
        self._failure, self._said_refusal = None, ''
        if self.outputs is not None:
            self.outputs.new_engine()
        if self.room is not None:
            self.room.lose(died)

    def hurry(self) -> None:
        """Ask for room at once, if it has none: there may be some now."""
        if self.room is not None:
            self.room.hurry()

    def give_up(self, failure: PhysisError) -> None:
        """Produce no more, for a reason that is not the engine's."""
        self._failure = failure
        self.stop()

    def stop(self) -> None:
        """Unplug the producer; nothing is published after this."""
        producer, self.producer = self.producer, None
        if self.inputs is not None:
            self.inputs.sink = None
        if producer is not None and not producer.stop():
            self._home.node.get_logger().error('a thread of the production did not end within 1 s')

    def free(self) -> None:
        """Leave the engine; take away what :meth:`configure` made."""
        self.stop()
        self._epoch = self.next_epoch
        inputs, outputs = self.inputs, self.outputs
        self.inputs = self.outputs = self.room = self._failure = None
        for part in (inputs, outputs):
            if part is not None:
                part.close()

    def close(self) -> None:
        """Take everything away."""
        self.free()
        node = self._home.node
        for service in self._services:
            node.destroy_service(service)
        node.destroy_subscription(self._words_in)
        node.destroy_publisher(self._status_out)

    def _start(self, outputs: WamOutputs, host: EngineHost) -> None:
        """Plug a producer between inputs and outputs."""
        try:
            producer = Producer(
                host.pool,
                self.name,
                self.config.producer,
                self._home.clock,
                Ports(outputs.deliver, outputs.frames_wanted),
                host.collector,
            )
            producer.start()
        except PhysisError as error:
            self._failure = error
            self._home.node.get_logger().error(f"stream '{self.name}': {error}")
            return
        self.producer = producer
        producer.pause(self._paused)
        if self.inputs is not None:
            self.inputs.sink = producer
        self._log('the engine is ready; producing')

    # Room in the engine.

    @property
    def admitted(self) -> bool:
        """Whether the engine carries it."""
        return self.room is not None and self.room.given

    @property
    def refusal(self) -> str:
        """Why the engine has no room for it; empty while that is not known."""
        return '' if self.room is None else self.room.refusal

    def _say_refusal(self) -> None:
        """Say once that the engine has no room for it, however often that is asked."""
        refusal, said = self.refusal, self._said_refusal
        lost = self.room is not None and self.room.lost
        if refusal and refusal != said and not (said and lost):
            self._said_refusal = refusal
            words = f"stream '{self.name}' is not admitted: {refusal}"
            self._home.node.get_logger().error(words)

    # Epochs.

    def new_epoch(self, reason: ResetReason, why: str) -> None:
        """Begin a new epoch, when there is something to begin one of."""
        if self.producer is not None:
            self.producer.reset(reason)
            self._log(f'new epoch: {why}')

    def _on_instruction(self, message: String) -> None:
        """Begin a new epoch with another instruction."""
        if message.data != self._instruction:
            self._instruction = message.data
            self.new_epoch(ResetReason.INSTRUCTION, f'instruction {message.data!r}')

    def _on_reset(self, request: Trigger.Request, response: Trigger.Response) -> Trigger.Response:
        """Begin an episode: a new epoch that knows nothing of what was seen before."""
        response.success = self.producer is not None
        if self.producer is None:
            response.message = f'nothing to reset: {wam_report.WORDS[self.state()[0]]}'
        self.new_epoch(ResetReason.EPISODE, 'asked for')
        return response

    def _on_pause(self, request: SetBool.Request, response: SetBool.Response) -> SetBool.Response:
        """Hold the production, or go on in a new epoch."""
        self._paused = request.data
        if self.producer is not None:
            self.producer.pause(request.data)
        response.success = True
        return response

    # Status.

    @property
    def _frame_id(self) -> str:
        """The camera's frame."""
        return self.inputs.frame_id if self.inputs is not None else ''

    def state(self) -> tuple[int, str]:
        """Return one of the STATE constants, and why it is that."""
        engine = self._home.engine()
        if engine.host is not HostState.READY:
            return engine.state, engine.reason
        if self.refusal:
            return StreamStatus.STATE_FAILED, f'not admitted: {self.refusal}'
        if not self.admitted:
            return StreamStatus.STATE_LOADING, '' if self.room is None else self.room.waits
        if self._failure is not None:
            return StreamStatus.STATE_FAILED, str(self._failure)
        if self.producer is None:
            return StreamStatus.STATE_PAUSED, 'ready; inactive until it is activated'
        status = self.producer.status()
        state = wam_report.state_of(status, self.outputs is None or self.outputs.warming_up)
        if state == StreamStatus.STATE_WAITING_OBSERVATION:
            texts = '; '.join(complaint.text for complaint in self.complaints())
            of = f' of {status.lagging}' if status.lack and status.lack.of_frames else ''
            return state, texts or f'{status.lack and status.lack.value}{of}'
        return state, status.failure

    def complaints(self) -> list[Complaint]:
        """Return what is wrong with the inputs; without a time nothing else can be told."""
        waits = self._home.clock.waiting()
        if waits:
            return [Complaint('no_time', waits)]
        return self.inputs.complaints() if self.inputs is not None else []

    def complain(self, active: bool) -> None:
        """Say in the log what is wrong with the inputs."""
        found = self.complaints() if active and not self.refusal else []
        complaints = tuple(complaint.text for complaint in found)
        now_ns = time.monotonic_ns()
        if complaints == self._said and now_ns - self._said_ns < REPEAT_NS:
            return
        self._said, self._said_ns = complaints, now_ns
        for text in complaints:
            self._home.node.get_logger().warning(text)

    def publish_status(self) -> None:
        """Publish the status."""
        self.told = snapshot = self.snapshot()
        self._shown = (snapshot.state, snapshot.reason)
        self._status_out.publish(wam_report.status(snapshot))

    def snapshot(self) -> Snapshot:
        """Gather everything a status is made from."""
        state, reason = self.state()
        engine, outputs, producer = self._home.engine(), self.outputs, self.producer
        return Snapshot(
            now_ns=self._home.clock.now_ns(),
            stream=self.name,
            epoch=self._epoch if outputs is None else outputs.epoch,
            state=state,
            reason=reason,
            producer=None if producer is None else producer.status(),
            age_ms=Quantiles() if outputs is None else outputs.age_figures(),
            delivered=0 if outputs is None else outputs.delivered,
            period_ns=self.config.producer.period_ns,
            engine=engine,
            carriers=() if self.room is None else self.room.workers,
            complaints=() if producer is None else tuple(self.complaints()),
            images_refused=0 if self.inputs is None else self.inputs.refused,
            subscribers=0 if outputs is None else outputs.subscribers,
            waits=self._home.clock.waiting(),
            since_ns=self._since_ns,
            lost={} if self.inputs is None else self.inputs.lost,
            without_worker=self.room is not None and self.room.lost,
        )

    def _log(self, text: str) -> None:
        """Say what happened to this stream."""
        self._home.node.get_logger().info(f"stream '{self.name}': {text}")
