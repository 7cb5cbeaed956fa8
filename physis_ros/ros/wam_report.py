# SPDX-License-Identifier: Apache-2.0
"""What the model node tells of itself: the stream status and the diagnostics. Pure."""

from __future__ import annotations

import math
from dataclasses import dataclass

from physis_ros.msg import StreamStatus, WorkerStatus
from physis_ros.output.sketch import Quantiles
from physis_ros.ros import conversions
from physis_ros.ros.diagnostics import Level, Report
from physis_ros.ros.servo_report import quantiles
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
LEVELS = {
    StreamStatus.STATE_WAITING_OBSERVATION: Level.WARN,
    StreamStatus.STATE_FAILED: Level.ERROR,
}


@dataclass(frozen=True)
class Snapshot:
    """
    Everything a status is made from.

    :param state: one of the STATE constants.
    :param reason: why, for a person; empty when all is well.
    :param producer: of the present activation; None while there is none.
    :param pids: of the workers.
    :param images_refused: that could not be read, or have another size than the model wants.
    :param queued: tasks that wait for each worker.
    :param busy: share of its time that each worker computed.
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
    kv_rule: str
    pids: tuple[int, ...] = ()
    queued: tuple[int, ...] = ()
    busy: tuple[float, ...] = ()
    complaints: tuple[str, ...] = ()
    images_refused: int = 0
    restarts: int = 0


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
        kv_rule=conversions.KV_RULES.index(snapshot.kv_rule),
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
    """Return what is known of the workers."""
    queued = snapshot.queued or (0,) * len(snapshot.pids)
    busy = snapshot.busy or (math.nan,) * len(snapshot.pids)
    return [
        WorkerStatus(worker=index, pid=pid, alive=True, queue_length=length, busy=share)
        for index, (pid, length, share) in enumerate(
            zip(snapshot.pids, queued, busy, strict=False)
        )
    ]


def engine_report(snapshot: Snapshot) -> Report:
    """Return the diagnosis of the engine."""
    values: dict[str, object] = {
        'state': WORDS[snapshot.state],
        'epoch': snapshot.epoch,
        'chunks_delivered': snapshot.delivered,
        'observation_age_p50_ms': snapshot.age_ms.p50,
        'workers': len(snapshot.pids),
        'worker_pids': snapshot.pids,
        'restarts': snapshot.restarts,
        'kv_rule': snapshot.kv_rule,
    }
    if snapshot.producer is not None:
        producer = snapshot.producer
        values.update(
            sensor_hz=producer.sensor_hz,
            replan_hz=producer.replan_hz,
            chunk_hz=producer.chunk_hz,
            response_latency_p50_ms=producer.response_latency_ms.p50,
            output_interval_p50_ms=producer.output_interval_ms.p50,
            told_delay_steps=None if producer.told_delay is None else producer.told_delay.steps,
        )
    level = LEVELS.get(snapshot.state, Level.OK)
    if level is Level.OK and snapshot.restarts and snapshot.state != StreamStatus.STATE_RUNNING:
        level = Level.ERROR
    return Report(level, snapshot.reason or WORDS[snapshot.state], values)


def inputs_report(snapshot: Snapshot) -> Report:
    """Return the diagnosis of camera and joint states."""
    values: dict[str, object] = {'images_refused': snapshot.images_refused}
    if snapshot.producer is not None:
        values.update(snapshot.producer.counts)
        values.update(
            {f'skew_{name}_ms': ns * 1e-6 for name, ns in snapshot.producer.skew_ns.items()}
        )
    if snapshot.complaints:
        return Report(Level.ERROR, '; '.join(snapshot.complaints), values)
    return Report(Level.OK, 'images and joint states come', values)
