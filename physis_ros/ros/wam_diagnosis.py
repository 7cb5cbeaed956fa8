# SPDX-License-Identifier: Apache-2.0
"""
What is wrong with the engine and with a stream, in one word, one level and one sentence. Pure.

The word is the value ``condition`` on /diagnostics: made for monitors, while the sentence is for a
person and may change.
"""

from __future__ import annotations

from physis_ros.msg import StreamStatus
from physis_ros.ros.diagnostics import Condition, Level, Report
from physis_ros.ros.host_state import HostState
from physis_ros.ros.skew import skewed
from physis_ros.ros.wam_report import WORDS, EngineSnapshot, Snapshot


def engine_report(engine: EngineSnapshot) -> Report:
    """Return the diagnosis of the engine."""
    condition = diagnose_engine(engine)
    values: dict[str, object] = {
        'condition': condition.name,
        'streams': ' '.join(engine.streams),
        'workers': len(engine.pids),
        'worker_pids': engine.pids,
        'queued': engine.queued,
        'restarts': engine.restarts,
        'workers_replaced': engine.replaced,
        'kv_rule': engine.kv_rule,
    }
    return Report(condition.level, condition.text, values)


def diagnose_engine(engine: EngineSnapshot) -> Condition:
    """Return how the engine is."""
    word = 'unconfigured' if engine.host is None else engine.host.value
    ready = engine.host is HostState.READY
    if engine.host is HostState.FAILED or (engine.restarts and not ready):
        return Condition(word, Level.ERROR, engine.reason or word)
    if engine.missing:
        return Condition('worker_missing', Level.ERROR, '; '.join(engine.missing))
    if engine.overload:
        return Condition('overloaded', Level.WARN, engine.overload)
    return Condition(word, Level.OK, engine.reason or word)


def stream_report(snapshot: Snapshot) -> Report:
    """Return the diagnosis of a stream: its inputs and its production."""
    condition = diagnose_stream(snapshot)
    values = {'condition': condition.name, **_values(snapshot)}
    return Report(condition.level, condition.text, values)


def diagnose_stream(snapshot: Snapshot) -> Condition:
    """Return the worst that is the matter with a stream."""
    state, producer = snapshot.state, snapshot.producer
    text = snapshot.reason or WORDS[state]
    if snapshot.waits:
        return Condition('no_time', Level.WARN, snapshot.waits)
    if snapshot.complaints:
        words = '; '.join(complaint.text for complaint in snapshot.complaints)
        return Condition(snapshot.complaints[0].condition, Level.ERROR, words)
    if state == StreamStatus.STATE_FAILED:
        return Condition('failed', Level.ERROR, text)
    if snapshot.without_worker:
        return Condition('lost', Level.ERROR, text)
    if state == StreamStatus.STATE_WAITING_OBSERVATION:
        lack = 'no_observation' if producer is None else producer.lack and producer.lack.value
        return Condition(lack or 'no_observation', Level.WARN, text)
    if state == StreamStatus.STATE_RUNNING and producer is not None:
        if not snapshot.subscribers:
            return Condition('no_subscriber', Level.WARN, 'nobody listens to the chunks')
        if skews := skewed(producer.skew_ns):
            return Condition('clock_skew', Level.WARN, '; '.join(skews))
    return Condition(WORDS[state].replace(' ', '_'), Level.OK, text)


def _values(snapshot: Snapshot) -> dict[str, object]:
    """Return the figures of a stream for its diagnosis."""
    values: dict[str, object] = {
        'state': WORDS[snapshot.state],
        'epoch': snapshot.epoch,
        'period_ms': snapshot.period_ns * 1e-6,
        'chunks_delivered': snapshot.delivered,
        'chunk_subscribers': snapshot.subscribers,
        'observation_age_p50_ms': snapshot.age_ms.p50,
        'carriers': snapshot.carriers,
        'images_refused': snapshot.images_refused,
    }
    producer = snapshot.producer
    if producer is not None:
        values.update(
            sensor_hz=producer.sensor_hz,
            replan_hz=producer.replan_hz,
            chunk_hz=producer.chunk_hz,
            response_latency_p50_ms=producer.response_latency_ms.p50,
            output_interval_p50_ms=producer.output_interval_ms.p50,
            told_delay_steps=None if producer.told_delay is None else producer.told_delay.steps,
        )
        values.update(producer.counts)
        skews = producer.skew_ns
        values.update({f'skew_{name}_ms': ns * 1e-6 for name, ns in skews.items()})
        if skews:
            # Between the publishers: what is common to all of them is our own clock.
            values['skew_between_ms'] = (max(skews.values()) - min(skews.values())) * 1e-6
        for name, arrivals in producer.arrivals.items():
            values.update(
                {
                    f'transfer_{name}_p50_ms': arrivals.transfer_ms.p50,
                    f'transfer_{name}_p99_ms': arrivals.transfer_ms.p99,
                    f'gap_{name}_p99_ms': arrivals.gap_ms.p99,
                    f'gap_{name}_max_ms': arrivals.gap_ms.max,
                    f'missing_{name}': arrivals.missing,
                }
            )
    values.update({f'lost_{topic}': count for topic, count in snapshot.lost.items()})
    return values
