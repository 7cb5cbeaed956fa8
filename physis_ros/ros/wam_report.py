# SPDX-License-Identifier: Apache-2.0
"""What the model node tells of engine and streams: the status. Pure."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field

from physis_ros.msg import StreamStatus, WorkerStatus
from physis_ros.output.sketch import Quantiles
from physis_ros.ros import conversions
from physis_ros.ros.host_state import HostState
from physis_ros.ros.servo_report import quantiles
from physis_ros.ros.source import Complaint
from physis_ros.session.producer_status import ProducerState, ProducerStatus

WORDS = {
    StreamStatus.STATE_UNCONFIGURED: 'unconfigured',
    StreamStatus.STATE_LOADING: 'loading',
    StreamStatus.STATE_WARMING_UP: 'warming up',
    StreamStatus.STATE_WAITING_OBSERVATION: 'waiting for an observation',
    StreamStatus.STATE_RUNNING: 'running',
    StreamStatus.STATE_PAUSED: 'paused',
    StreamStatus.STATE_FAILED: 'failed',
}
HOST_STATES = {
    None: StreamStatus.STATE_UNCONFIGURED,
    HostState.CLOSED: StreamStatus.STATE_UNCONFIGURED,
    HostState.LOADING: StreamStatus.STATE_LOADING,
    HostState.READY: StreamStatus.STATE_RUNNING,
    HostState.FAILED: StreamStatus.STATE_FAILED,
}


@dataclass(frozen=True)
class EngineSnapshot:
    """
    The engine that all streams share.

    :param host: where it is in its life; None while the node is not configured.
    :param reason: why, for a person; empty when all is well.
    :param kv_rule: of the weights.
    :param pids: of the workers; 0 where none runs.
    :param queued: tasks that wait for each worker.
    :param busy: share of its time that each worker computed.
    :param streams: names of all streams.
    :param restarts: how often it was loaded again.
    :param overload: which stage is overloaded and since when; empty while none is.
    :param missing: how workers have ended whose place is empty.
    :param replaced: how many have taken the place of another.
    """

    host: HostState | None = None
    reason: str = ''
    kv_rule: str = 'same_step'
    pids: tuple[int, ...] = ()
    queued: tuple[int, ...] = ()
    busy: tuple[float, ...] = ()
    streams: tuple[str, ...] = ()
    restarts: int = 0
    overload: str = ''
    missing: tuple[str, ...] = ()
    replaced: int = 0

    @property
    def state(self) -> int:
        """What a stream is in for the engine's sake; running when the engine is ready."""
        return int(HOST_STATES[self.host])


@dataclass(frozen=True)
class Snapshot:
    """
    Everything a stream's status is made from.

    :param state: one of the STATE constants.
    :param reason: why, for a person; empty when all is well.
    :param producer: of the present activation; None while there is none.
    :param carriers: the workers that carry the stream.
    :param images_refused: that could not be read, or have another size than the model wants.
    :param subscribers: of the chunks.
    :param waits: what is to be said of a clock that is missing or stands still.
    :param since_ns: when it was activated; figures count from there.
    :param lost: messages of each topic that never came.
    :param without_worker: it was lost with a worker, and is not carried again.
    """

    now_ns: int
    stream: str
    epoch: int
    state: int
    reason: str
    producer: ProducerStatus | None
    age_ms: Quantiles
    delivered: int
    period_ns: int
    engine: EngineSnapshot
    carriers: tuple[int, ...] = ()
    complaints: tuple[Complaint, ...] = ()
    images_refused: int = 0
    subscribers: int = 0
    waits: str = ''
    since_ns: int = 0
    lost: Mapping[str, int] = field(default_factory=dict)
    without_worker: bool = False


def state_of(producer: ProducerStatus, warming_up: bool) -> int:
    """Return the stream's state while it is produced."""
    if producer.state is ProducerState.RUNNING and warming_up:
        return int(StreamStatus.STATE_WARMING_UP)
    states = {
        ProducerState.RUNNING: StreamStatus.STATE_RUNNING,
        ProducerState.WAITING: StreamStatus.STATE_WAITING_OBSERVATION,
        ProducerState.PAUSED: StreamStatus.STATE_PAUSED,
        ProducerState.FAILED: StreamStatus.STATE_FAILED,
    }
    return int(states.get(producer.state, StreamStatus.STATE_PAUSED))


def status(snapshot: Snapshot) -> StreamStatus:
    """Return the status message."""
    message = StreamStatus(
        header=conversions.header(snapshot.now_ns),
        stream=snapshot.stream,
        epoch=snapshot.epoch,
        state=snapshot.state,
        reason=snapshot.reason,
        chunks_delivered=snapshot.delivered,
        sensor_hz=math.nan,
        replan_hz=math.nan,
        chunk_hz=math.nan,
        period=conversions.duration_message(snapshot.period_ns),
        observation_age=quantiles(snapshot.age_ms),
        output_interval=quantiles(Quantiles()),
        response_latency=quantiles(Quantiles()),
        told_delay_steps=-1,
        workers=_workers(snapshot),
        overloaded=bool(snapshot.engine.overload),
        overload=snapshot.engine.overload,
        kv_rule=conversions.KV_RULES.index(snapshot.engine.kv_rule),
    )
    if snapshot.producer is not None:
        _fill(message, snapshot.producer)
    return message


def _fill(message: StreamStatus, producer: ProducerStatus) -> None:
    """Add what the producer measures."""
    counts = producer.counts
    message.chunks_entered = counts.get('entered', 0)
    message.chunks_dropped = counts.get('dropped', 0)
    message.in_flight = producer.in_flight
    message.sensor_hz = producer.sensor_hz
    message.replan_hz = producer.replan_hz
    message.chunk_hz = producer.chunk_hz
    message.output_interval = quantiles(producer.output_interval_ms)
    message.response_latency = quantiles(producer.response_latency_ms)
    if producer.told_delay is not None:
        message.told_delay_steps = producer.told_delay.steps


def _workers(snapshot: Snapshot) -> list[WorkerStatus]:
    """Return what is known of the workers that carry a stream."""
    engine = snapshot.engine
    return [
        WorkerStatus(
            worker=index,
            pid=engine.pids[index],
            alive=True,
            queue_length=engine.queued[index] if index < len(engine.queued) else 0,
            busy=engine.busy[index] if index < len(engine.busy) else math.nan,
        )
        for index in snapshot.carriers
        if index < len(engine.pids)
    ]
