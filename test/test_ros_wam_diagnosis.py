# SPDX-License-Identifier: Apache-2.0
"""What the model node tells monitors: a word for each condition, and its figures as metrics."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip('rclpy')
pytest.importorskip('physis_ros.msg')
pytest.importorskip('prometheus_client')

from metrics_cases import free_port, scrape
from robot_cases import Robot
from ros_cases import small_weights

from physis_ros.msg import StreamStatus
from physis_ros.observation.align import Lack
from physis_ros.output.sketch import Quantiles
from physis_ros.ros.diagnostics import Level
from physis_ros.ros.host_state import HostState
from physis_ros.ros.source import Complaint
from physis_ros.ros.wam import WamNode
from physis_ros.ros.wam_diagnosis import diagnose_engine, diagnose_stream, stream_report
from physis_ros.ros.wam_report import EngineSnapshot, Snapshot
from physis_ros.session.producer_status import ProducerState, ProducerStatus

MS = 1_000_000
NOTHING = Quantiles()
PRODUCER = ProducerStatus(
    stream='robot',
    state=ProducerState.RUNNING,
    epoch=0,
    in_flight=1,
    counts={},
    sensor_hz=30.0,
    replan_hz=10.0,
    chunk_hz=10.0,
    response_latency_ms=NOTHING,
    output_interval_ms=NOTHING,
    expected_response_ns=0,
    told_delay=None,
    skew_ns={'camera': 30 * MS, 'joints': 2 * MS},
    lack=None,
    missing_joints=(),
    heard_joints=(),
    failure='',
)
ENGINE = EngineSnapshot(HostState.READY)
RUNNING = Snapshot(
    0, 'robot', 0, StreamStatus.STATE_RUNNING, '', PRODUCER, NOTHING, 9, 0, ENGINE, subscribers=1
)
WAITING = replace(RUNNING, state=StreamStatus.STATE_WAITING_OBSERVATION)


def lacking(lack: Lack) -> Snapshot:
    """Return the status of a stream without an observation."""
    return replace(WAITING, reason=lack.value, producer=replace(PRODUCER, lack=lack))


@pytest.mark.parametrize(
    ('snapshot', 'condition', 'level', 'words'),
    [
        (RUNNING, 'running', Level.OK, 'running'),
        (replace(RUNNING, subscribers=0), 'no_subscriber', Level.WARN, 'nobody listens'),
        (replace(RUNNING, waits='waiting for /clock'), 'no_time', Level.WARN, '/clock'),
        (lacking(Lack.NO_FRAME), 'no_frame', Level.WARN, 'no_frame'),
        (lacking(Lack.NO_JOINTS), 'no_joints', Level.WARN, 'no_joints'),
        (lacking(Lack.STALE_FRAME), 'stale_frame', Level.WARN, 'stale_frame'),
        (lacking(Lack.STALE_JOINTS), 'stale_joints', Level.WARN, 'stale_joints'),
        (lacking(Lack.SKEW), 'clock_skew', Level.WARN, 'clock_skew'),
        (
            replace(WAITING, complaints=(Complaint('no_frame', 'nothing on /camera'),)),
            'no_frame',
            Level.ERROR,
            'nothing on /camera',
        ),
        (
            replace(RUNNING, state=StreamStatus.STATE_FAILED, reason='not admitted: no room'),
            'failed',
            Level.ERROR,
            'not admitted: no room',
        ),
        (replace(RUNNING, state=StreamStatus.STATE_PAUSED), 'paused', Level.OK, 'paused'),
        (replace(RUNNING, state=StreamStatus.STATE_LOADING), 'loading', Level.OK, 'loading'),
        (
            replace(RUNNING, producer=replace(PRODUCER, skew_ns={'camera': -70 * MS})),
            'clock_skew',
            Level.WARN,
            'camera: clock skew: stamps are at least 70 ms ahead',
        ),
    ],
)
def test_conditions_of_a_stream_are_told_apart(
    snapshot: Snapshot, condition: str, level: Level, words: str
) -> None:
    found = diagnose_stream(snapshot)
    assert (found.name, found.level) == (condition, level)
    assert words in found.text


def test_T14_skew_between_publishers_is_shown() -> None:
    values = stream_report(RUNNING).values
    assert (values['skew_camera_ms'], values['skew_joints_ms']) == (30.0, 2.0)
    assert values['skew_between_ms'] == 28.0


@pytest.mark.parametrize(
    ('engine', 'condition', 'level', 'words'),
    [
        (EngineSnapshot(), 'unconfigured', Level.OK, 'unconfigured'),
        (EngineSnapshot(HostState.LOADING), 'loading', Level.OK, 'loading'),
        (ENGINE, 'ready', Level.OK, 'ready'),
        (replace(ENGINE, overload='worker 1 is behind'), 'overloaded', Level.WARN, 'worker 1'),
        (EngineSnapshot(HostState.FAILED, 'it died'), 'failed', Level.ERROR, 'it died'),
        (EngineSnapshot(HostState.LOADING, restarts=1), 'loading', Level.ERROR, 'loading'),
    ],
)
def test_conditions_of_the_engine_are_told_apart(
    engine: EngineSnapshot, condition: str, level: Level, words: str
) -> None:
    found = diagnose_engine(engine)
    assert (found.name, found.level) == (condition, level)
    assert words in found.text


def test_the_model_node_serves_engine_and_streams(bench: Any, tmp_path: Path) -> None:
    Robot(bench)
    port = free_port()
    weights = small_weights(tmp_path)
    given = {'model': f'reach:{weights}', 'workers': 2, 'metrics_port': port}
    node = bench.add(WamNode, given)
    assert scrape(port)['physis_engine_state', 'unconfigured'] == 1
    node.trigger_configure()
    node.trigger_activate()

    def values() -> dict[tuple[str, ...], float]:
        """Read everything, while chunks go on being made."""
        return scrape(port)

    def all_told() -> bool:
        """Tell whether engine and stream, which report each for itself, have both got going."""
        page = values()
        states = [('physis_engine_state', 'ready'), ('physis_stream_state', 'running', 'robot')]
        delivered = page.get(('physis_chunks_delivered_total', 'robot'), 0)
        worked = page.get(('physis_batch_tasks',), 0) >= 1
        return all(page.get(state) == 1 for state in states) and delivered >= 5 and worked

    assert bench.spin_until(all_told, 60)
    # Nothing is served between these two: the page shows what was told last.
    found, told = values(), node.streams.named('robot').told
    assert found['physis_engine_state', 'ready'] == 1
    assert found['physis_chunks_delivered_total', 'robot'] == told.delivered >= 5
    assert found['physis_observation_age_seconds_count', 'robot'] == told.age_ms.n
    assert found['physis_rate_hertz', 'sensor', 'robot'] > 0
    assert set(told.producer.arrivals) == {'camera', 'joints'}
    for source, one in told.producer.arrivals.items():
        assert found['physis_input_transfer_seconds_count', source, 'robot'] == one.transfer_ms.n
        assert found['physis_input_gap_seconds_count', source, 'robot'] == one.gap_ms.n > 0
        assert found['physis_input_missing_total', source, 'robot'] == one.missing
    assert {key[1] for key in found if key[0] == 'physis_worker_queue_tasks'} == {'0', '1'}
    assert found['physis_stage_compute_seconds_count',] > 0
    hops = {key[1:] for key in found if key[0] == 'physis_hop_bytes_total'}
    assert ('pool', 'worker 0') in hops
    assert found['physis_batch_tasks',] >= 1
    events = {key[1] for key in found if key[0] == 'physis_producer_events_total'}
    assert {'frame', 'joints', 'entered', 'delivered'} <= events
