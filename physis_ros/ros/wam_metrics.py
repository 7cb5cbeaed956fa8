# SPDX-License-Identifier: Apache-2.0
"""The metrics of the model node: its statuses once more, in the words of Prometheus. Pure."""

from __future__ import annotations

from physis_ros.engine.metrics import Metrics
from physis_ros.engine.sketch import Sketch
from physis_ros.output.sketch import ENOUGH_FOR_P999, Quantiles
from physis_ros.ros.host_state import HostState
from physis_ros.ros.metrics import Page
from physis_ros.ros.wam_report import WORDS, EngineSnapshot, Snapshot
from physis_ros.session.producer_status import ProducerStatus

MS, NS = 1e-3, 1e-9
POOL = -1
ENGINE_STATES: dict[HostState | None, str] = {
    None: 'unconfigured',
    **{state: state.value for state in HostState},
}


def fill_stream(page: Page, snapshot: Snapshot) -> None:
    """Add everything that the status tells of a stream."""
    page = page.of(stream=snapshot.stream)
    page.state('physis_stream_state', 'What the stream does.', WORDS, snapshot.state)
    page.gauge('physis_epoch', "The stream's life between resets.", snapshot.epoch)
    text = 'Promised interval between chunks.'
    page.gauge('physis_period_seconds', text, snapshot.period_ns * NS)
    text = 'Chunks published since activation.'
    page.counter('physis_chunks_delivered', text, snapshot.delivered)
    page.gauge('physis_chunk_subscribers', 'Subscribers of the chunks.', snapshot.subscribers)
    text = 'Images that could not be read.'
    page.counter('physis_images_refused', text, snapshot.images_refused)
    text = 'Capture of the oldest input behind a chunk to its publication.'
    page.summary('physis_observation_age_seconds', text, snapshot.age_ms, MS)
    if snapshot.producer is not None:
        _production(page, snapshot.producer)


def _production(page: Page, producer: ProducerStatus) -> None:
    """Add what the producer measures."""
    rates = {
        'sensor': producer.sensor_hz,
        'replan': producer.replan_hz,
        'chunk': producer.chunk_hz,
    }
    for name, rate_hz in rates.items():
        text = 'Frames taken, chunks entered, chunks published.'
        page.gauge('physis_rate_hertz', text, rate_hz, of=name)
    text = 'Publication of one chunk to that of the next.'
    page.summary('physis_output_interval_seconds', text, producer.output_interval_ms, MS)
    text = 'Last input of an observation received to its chunk published.'
    page.summary('physis_response_latency_seconds', text, producer.response_latency_ms, MS)
    page.gauge('physis_chunks_in_flight', 'Chunks in the pipe.', producer.in_flight)
    if producer.told_delay is not None:
        text = 'Delay that the model was last told.'
        page.gauge('physis_told_delay_steps', text, producer.told_delay.steps)
    text = 'Messages, chunks and reasons, as the producer counts them.'
    page.counts('physis_producer_events', text, 'event', producer.counts)
    for name, arrivals in producer.arrivals.items():
        text = 'Stamp of a message to its receipt.'
        page.summary('physis_input_transfer_seconds', text, arrivals.transfer_ms, MS, source=name)
        text = 'Receipt of one message to that of the next.'
        page.summary('physis_input_gap_seconds', text, arrivals.gap_ms, MS, source=name)
        text = 'Messages that their stamps say were left out.'
        page.counter('physis_input_missing', text, arrivals.missing, source=name)
    for name, skew_ns in producer.skew_ns.items():
        text = 'Least age of the messages of a source on receipt, lately.'
        page.gauge('physis_clock_skew_seconds', text, skew_ns * NS, source=name)


def fill_engine(page: Page, engine: EngineSnapshot, metrics: Metrics | None) -> None:
    """
    Add how the engine is.

    :param metrics: of the pool; None while there is none. May be written meanwhile: a figure is
        then one task apart from another.
    """
    page.state('physis_engine_state', 'What the engine does.', ENGINE_STATES, engine.host)
    text = 'Whether more is asked of the engine than it can do.'
    page.gauge('physis_engine_overloaded', text, float(bool(engine.overload)))
    page.counter('physis_engine_restarts', 'How often it was loaded again.', engine.restarts)
    text = 'Workers that have taken the place of one that ended.'
    page.counter('physis_engine_workers_replaced', text, engine.replaced)
    for worker, count in enumerate(engine.queued):
        page.gauge('physis_worker_queue_tasks', 'Tasks that wait.', count, worker=f'{worker}')
    for worker, share in enumerate(engine.busy):
        text = 'Share of its time that a worker computed.'
        page.gauge('physis_worker_busy_ratio', text, share, worker=f'{worker}')
    if metrics is not None:
        _tasks(page, metrics)
        _hops(page, metrics)


def _tasks(page: Page, metrics: Metrics) -> None:
    """Add where the time of the tasks goes, over all stages."""
    compute, queue, rows = Sketch(), Sketch(), 0
    for stage in list(metrics.stages.values()):
        compute.merge(stage.compute)
        queue.merge(stage.queue)
        rows += stage.rows
    text = 'Computing of the batch that a task was in.'
    page.summary('physis_stage_compute_seconds', text, quantiles(compute), NS)
    text = 'A task received to its batch begun.'
    page.summary('physis_stage_queue_seconds', text, quantiles(queue), NS)
    text = "The engine's own work for a task."
    page.summary('physis_task_overhead_seconds', text, quantiles(metrics.overhead), NS)
    if compute.count:
        text = 'Size of the batch that a task was in, on average.'
        page.gauge('physis_batch_tasks', text, rows / compute.count)
    page.counter('physis_tasks_dropped', 'Tasks of epochs that ended.', metrics.dropped_tasks)
    page.counter('physis_spans_lost', 'Tasks that left no account.', metrics.lost_spans)


def _hops(page: Page, metrics: Metrics) -> None:
    """Add what goes from process to process."""
    for (source, target), edge in list(metrics.edges.items()):
        ends = {'source': _process(source), 'target': _process(target)}
        text = 'A message sent to being received.'
        page.summary('physis_hop_wait_seconds', text, quantiles(edge.wait), NS, **ends)
        page.counter('physis_hop_bytes', 'Bytes sent.', edge.bytes, **ends)


def _process(index: int) -> str:
    """Return what a process is called."""
    return 'pool' if index == POOL else f'worker {index}'


def quantiles(sketch: Sketch) -> Quantiles:
    """Return the figures of an engine's sketch [ns]."""
    if not sketch.count:
        return Quantiles()
    enough = sketch.count >= ENOUGH_FOR_P999
    return Quantiles(
        n=sketch.count,
        p50=sketch.percentile_ns(50),
        p90=sketch.percentile_ns(90),
        p99=sketch.percentile_ns(99),
        p999=sketch.percentile_ns(99.9) if enough else None,
        max=float(sketch.max_ns),
        mean=sketch.mean_ns,
    )
