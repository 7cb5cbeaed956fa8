# SPDX-License-Identifier: Apache-2.0
"""A worker of the model node dies (E16), over real DDS: what it carried comes back."""

from __future__ import annotations

import os
import signal
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip('rclpy')
pytest.importorskip('physis_ros.msg')

from diagnostic_msgs.msg import DiagnosticArray
from fleet_cases import Fleet, profile

from physis_ros.msg import StreamStatus
from physis_ros.ros import qos
from physis_ros.srv import CloseStream, OpenStream, PlanStreams

RUNNING = StreamStatus.STATE_RUNNING


def test_a_killed_worker_is_told_on_every_stream_and_all_of_them_go_on(bench: Any) -> None:
    fleet = Fleet(bench, streams=['a', 'b'], max_streams=4)
    states = {
        name: bench.collect(StreamStatus, f'wam_node/{name}/stream_status', qos.LATCHED)
        for name in ('a', 'b')
    }
    fleet.robot('a/')
    fleet.robot('b/')
    fleet.robot('c/')
    fleet.up()
    assert fleet.call(OpenStream, 'open_stream', stream='c').accepted
    assert all(fleet.flows(f'{name}/') for name in 'abc')
    epochs = {name: fleet.chunks[f'{name}/'][-1].epoch for name in 'abc'}
    (worker,) = fleet.states()['a'].workers
    os.kill(worker.pid, signal.SIGKILL)
    # One that is opened meanwhile waits for the next engine.
    opened = fleet.call(OpenStream, 'open_stream', stream='d')
    assert opened.accepted, opened.message
    words = 'worker 0 ended with exit code -9'
    assert bench.spin_until(
        lambda: all(any(words in one.reason for one in heard) for heard in states.values()), 30
    ), {name: {one.reason for one in heard} for name, heard in states.items()}
    assert all(fleet.flows(f'{name}/') for name in 'abc')
    for name, epoch in epochs.items():
        assert fleet.chunks[f'{name}/'][-1].epoch > epoch


def test_a_stream_that_a_dead_worker_did_not_carry_goes_on(bench: Any, tmp_path: Path) -> None:
    # No link has room for a hidden state: each stream is carried whole, on a worker of its own.
    costs = str(profile(tmp_path / 'profile.json', link_bytes_per_s=1.0))
    given = {'profile': costs, 'workers': 2, 'period_ms': 100.0}
    fleet = Fleet(bench, streams=['a', 'b'], **given)
    states = bench.collect(StreamStatus, 'wam_node/b/stream_status', qos.LATCHED)
    found: list[Any] = bench.collect(DiagnosticArray, '/diagnostics')
    fleet.robot('a/')
    fleet.robot('b/')
    fleet.up()
    assert all(fleet.flows(f'{name}/', 6) for name in 'ab')
    carriers = {name: one.workers for name, one in fleet.states().items()}
    (spared,), (worker,) = carriers['a'], carriers['b']
    assert spared.worker != worker.worker
    epochs = {name: fleet.chunks[f'{name}/'][-1].epoch for name in 'ab'}
    for _ in range(2):
        told = len(states)
        os.kill(fleet.states()['b'].workers[0].pid, signal.SIGKILL)
        words = f'lost: worker {worker.worker} ended with exit code -9; it is opened again'

        def lost(told: int = told, words: str = words) -> bool:
            loading = StreamStatus.STATE_LOADING
            return any(one.state == loading and one.reason == words for one in states[told:])

        assert bench.spin_until(lost, 10), [one.reason for one in states]
        # Its place is not given to others meanwhile, and nobody is moved.
        plan = fleet.call(PlanStreams, 'plan_streams')
        assert plan.admitted == 0
        assert 'a new one is being started' in plan.answers[0]
        assert fleet.flows('a/')
        assert fleet.flows('b/', 6)
        assert fleet.chunks['b/'][-1].epoch > epochs['b']
        epochs['b'] = fleet.chunks['b/'][-1].epoch
        assert {one.epoch for one in fleet.chunks['a/']} == {epochs['a']}
    now = fleet.states()
    assert now['b'].state == RUNNING
    assert [one.worker for one in now['b'].workers] == [worker.worker]
    assert now['b'].workers[0].pid != worker.pid
    assert now['a'].workers[0].pid == spared.pid
    engine = [one for array in found for one in array.status if one.name == '/wam_node: engine']
    words = f'worker {worker.worker} ended with exit code -9; a new one is being started'
    assert words in {one.message for one in engine}
    conditions = [{v.key: v.value for v in one.values}['condition'] for one in engine]
    assert 'worker_missing' in conditions
    assert set(conditions[conditions.index('worker_missing') :]) == {'worker_missing', 'ready'}
    # Each chunk of the one that went on follows the one before: none was left out.
    numbers = [one.chunk for one in fleet.chunks['a/']]
    assert numbers == list(range(numbers[0], numbers[0] + len(numbers)))
    # A stream may be closed while it has no place, and opened again.
    os.kill(now['b'].workers[0].pid, signal.SIGKILL)
    assert bench.spin_until(lambda: states[-1].state == StreamStatus.STATE_LOADING, 10)
    assert fleet.call(CloseStream, 'close_stream', stream='b').closed
    assert list(fleet.states()) == ['a']
    assert fleet.call(OpenStream, 'open_stream', stream='b').accepted
    assert fleet.flows('b/')
    assert fleet.chunks['b/'][-1].epoch > epochs['b']
    assert {one.epoch for one in fleet.chunks['a/']} == {epochs['a']}


def test_who_wants_the_node_to_end_with_a_worker_gets_that(bench: Any, tmp_path: Path) -> None:
    costs = str(profile(tmp_path / 'profile.json', link_bytes_per_s=1.0))
    given = {'profile': costs, 'workers': 2, 'period_ms': 100.0, 'on_worker_death': 'exit'}
    fleet = Fleet(bench, streams=['a', 'b'], **given)
    fleet.up()
    assert bench.spin_until(lambda: all(stream.admitted for stream in fleet.node.streams), 60)
    os.kill(fleet.states()['b'].workers[0].pid, signal.SIGKILL)
    assert bench.spin_until(lambda: fleet.node._fatal is not None, 10)
    assert "stream 'b' was lost: worker" in str(fleet.node._fatal)
