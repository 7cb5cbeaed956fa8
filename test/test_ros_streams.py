# SPDX-License-Identifier: Apache-2.0
"""Several streams on one engine, over real DDS: each for itself, and they come and go."""

from __future__ import annotations

import os
import signal
import time
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip('rclpy')
pytest.importorskip('physis_ros.msg')

import numpy as np
from diagnostic_msgs.msg import DiagnosticArray
from rclpy.lifecycle import TransitionCallbackReturn
from ros_cases import picture
from sensor_msgs.msg import Image, JointState
from std_srvs.srv import Trigger
from test_ros_live import set_all

from physis_ros.backbones.registry import read_spec
from physis_ros.commands.local import device_name, versions
from physis_ros.engine.profile import FORMAT, Link, Profile, Sizes, Timing, spec_hash
from physis_ros.errors import ParameterError
from physis_ros.msg import ActionChunk, StreamStatus
from physis_ros.ros import conversions, qos
from physis_ros.ros.wam import WamNode
from physis_ros.srv import CloseStream, ListStreams, OpenStream, PlanStreams

SUCCESS = TransitionCallbackReturn.SUCCESS
RUNNING = StreamStatus.STATE_RUNNING
MODEL = 'synthetic:'
SPEC = read_spec(MODEL)
SIZE = SPEC.frames.height
NAMES = SPEC.actions.names


class Fleet:
    """
    A model node with several streams, and the robots of all of them.

    :param bench: the probe's.
    """

    def __init__(self, bench: Any, **parameters: Any) -> None:
        self.bench = bench
        given = {'model': MODEL, 'workers': 1, 'max_streams': 3, **parameters}
        self.node = bench.add(WamNode, given)
        self.chunks: dict[str, list[Any]] = {}
        self._robots: dict[str, tuple[Any, Any]] = {}
        bench.probe.create_timer(0.025, self._tick)

    def robot(self, prefix: str, camera: str = 'camera') -> None:
        """Begin to publish for a stream, and to listen to its chunks."""
        probe = self.bench.probe
        self._robots[prefix] = (
            probe.create_publisher(Image, f'{prefix}{camera}/image_raw', 10),
            probe.create_publisher(JointState, f'{prefix}joint_states', 10),
        )
        self.chunks[prefix] = self.bench.collect(
            ActionChunk, f'wam_node/{prefix}action_chunk', qos.CHUNK
        )

    def _tick(self) -> None:
        stamp_ns, rest = time.time_ns(), np.zeros(len(NAMES))
        for images, joints in self._robots.values():
            joints.publish(conversions.joint_state_message(stamp_ns, NAMES, rest, rest))
            images.publish(conversions.image_message(picture(SIZE), stamp_ns, 'eye'))

    def up(self) -> None:
        """Configure and activate."""
        assert self.node.trigger_configure() is SUCCESS, self.node.refusal
        assert self.node.trigger_activate() is SUCCESS

    def call(self, kind: Any, name: str, **request: Any) -> Any:
        """Call a service of the node."""
        client = self.bench.probe.create_client(kind, f'wam_node/{name}')
        assert self.bench.spin_until(client.service_is_ready, 60), name
        answer = client.call_async(kind.Request(**request))
        assert self.bench.spin_until(answer.done, 60), name
        self.bench.probe.destroy_client(client)
        return answer.result()

    def states(self) -> dict[str, Any]:
        """Return what the node lists."""
        return {one.stream: one for one in self.call(ListStreams, 'list_streams').streams}

    def flows(self, prefix: str, more: int = 3) -> bool:
        """Wait until so many chunks more have come."""
        told = len(self.chunks[prefix])
        return bool(self.bench.spin_until(lambda: len(self.chunks[prefix]) >= told + more, 60))

    def offered(self) -> set[str]:
        """Return the topics and services of the node."""
        node = self.node
        names = (node.get_name(), node.get_namespace())
        graph = self.bench.probe
        found = [
            *graph.get_publisher_names_and_types_by_node(*names),
            *graph.get_subscriber_names_and_types_by_node(*names),
            *graph.get_service_names_and_types_by_node(*names),
        ]
        return {name for name, _ in found}


@pytest.fixture(scope='module')
def fleet(shared_bench: Any) -> Fleet:
    """Give a node with two running streams; each test leaves it so."""
    given = {'period_ms': 80.0, 'right.period_ms': 120.0}
    made = Fleet(shared_bench, streams=['left', 'right'], **given)
    made.robot('left/')
    made.robot('right/')
    made.up()
    assert made.flows('left/', 8)
    assert made.flows('right/', 8)
    return made


def test_each_stream_has_its_own_chunks_period_and_status(fleet: Fleet) -> None:
    assert {one.stream for one in fleet.chunks['left/']} == {'left'}
    assert {one.stream for one in fleet.chunks['right/']} == {'right'}
    found = fleet.states()
    assert list(found) == ['left', 'right']
    for name, status in found.items():
        assert status.state == RUNNING, status
        assert [worker.worker for worker in status.workers] == [0]
        assert not status.overloaded or 'is behind, at step' in status.overload
        assert fleet.node.get_parameter(f'{name}.camera').value == 'camera'
    assert found['left'].period.nanosec == 80_000_000
    assert found['right'].period.nanosec == 120_000_000


def test_a_reset_of_one_leaves_the_other(fleet: Fleet) -> None:
    left, right = fleet.chunks['left/'][-1].epoch, fleet.chunks['right/'][-1].epoch
    assert fleet.call(Trigger, 'left/reset').success
    assert fleet.bench.spin_until(lambda: fleet.chunks['left/'][-1].epoch == left + 1, 20)
    assert fleet.flows('right/')
    assert {one.epoch for one in fleet.chunks['right/']} == {right}


def test_a_stream_comes_and_goes_beside_the_others(fleet: Fleet) -> None:
    right = fleet.chunks['right/'][-1].epoch
    before = fleet.offered()
    plan = fleet.call(PlanStreams, 'plan_streams', count=3)
    assert plan.admitted == 1
    assert plan.answers == ['admitted', 'max_streams is 3 and 1 places are left']
    opened = fleet.call(OpenStream, 'open_stream', stream='third', period_ms=90.0, camera='eye')
    assert opened.accepted, opened.message
    assert opened.message == 'chunks come on /wam_node/third/action_chunk'
    fleet.robot('third/', 'eye')
    assert fleet.flows('third/')
    assert fleet.states()['third'].period.nanosec == 90_000_000
    assert fleet.bench.spin_until(lambda: '/third/eye/image_raw' in fleet.offered(), 10)

    full = fleet.call(OpenStream, 'open_stream', stream='fourth')
    assert not full.accepted
    assert "max_streams = 3, got 'fourth'" in full.message
    assert list(fleet.states()) == ['left', 'right', 'third']

    closed = fleet.call(CloseStream, 'close_stream', stream='third')
    assert closed.closed, closed.message
    assert fleet.bench.spin_until(lambda: fleet.offered() == before, 10)
    last = fleet.chunks['third/'][-1].epoch
    assert list(fleet.states()) == ['left', 'right']
    # Whoever plays them takes a lower epoch for something old.
    assert fleet.call(OpenStream, 'open_stream', stream='third', camera='eye').accepted
    assert fleet.flows('third/')
    assert fleet.chunks['third/'][-1].epoch > last
    assert fleet.call(CloseStream, 'close_stream', stream='third').closed
    assert {one.epoch for one in fleet.chunks['right/']} == {right}


@pytest.mark.parametrize(
    ('request_', 'words'),
    [
        ({'stream': 'left'}, "stream must be none of ['left', 'right'], which are open"),
        ({'stream': 'a b'}, "stream must be letters, digits and single '_', a letter first"),
        ({'stream': ''}, 'stream must be letters'),
        ({'stream': 'third', 'period_ms': -5.0}, 'period_ms must be >= 1, got -5.0'),
        ({'stream': 'third', 'image_transport': 'jpg'}, "image_transport must be one of ['raw',"),
        ({'stream': 'third', 'joint_names': ['a']}, 'input joints of'),
    ],
)
def test_what_cannot_be_a_stream_is_refused_with_words(
    fleet: Fleet, request_: dict[str, Any], words: str
) -> None:
    answer = fleet.call(OpenStream, 'open_stream', **request_)
    assert not answer.accepted
    assert words in answer.message
    assert list(fleet.states()) == ['left', 'right']


def test_nobody_is_closed_by_a_wrong_name(fleet: Fleet) -> None:
    answer = fleet.call(CloseStream, 'close_stream', stream='nobody')
    assert not answer.closed
    assert answer.message == "stream must be one of ['left', 'right'], got 'nobody'"


def test_engine_and_streams_are_diagnosed_apart(fleet: Fleet) -> None:
    found: list[Any] = fleet.bench.collect(DiagnosticArray, '/diagnostics')

    def tasks() -> dict[str, Any]:
        return {one.name: one for array in found for one in array.status}

    names = {f'/wam_node: {task}' for task in ('engine', 'left inputs', 'right inputs', 'qos')}
    assert fleet.bench.spin_until(lambda: set(tasks()) == names, 10), set(tasks())
    engine = {value.key: value.value for value in tasks()['/wam_node: engine'].values}
    assert (engine['condition'], engine['streams']) == ('ready', 'left right')


@pytest.mark.parametrize(
    ('given', 'words'),
    [
        ({'streams': ['a', 'a']}, "streams must be names that differ, got ['a', 'a']"),
        ({'streams': ['a/b']}, "streams must be letters, digits and single '_'"),
        ({'streams': ['qos_overrides']}, 'streams must be letters'),
        ({'streams': ['a', 'b', 'c', 'd']}, 'streams must be at most max_streams = 3 names'),
        ({'streams': ['a', 'b'], 'c.camera': 'x'}, "declared by the node, got ['c.camera']"),
        ({'streams': ['a', 'b'], 'a.workers': 2}, "declared by the node, got ['a.workers']"),
        ({'streams': ['a', 'b'], 'a.period_ms': 0.0}, 'wam_node.a.period_ms must be >= 1'),
        ({'streams': ['a', 'b'], 'a.joint_aliases': ['x']}, 'wam_node.a.joint_aliases must be'),
    ],
)
def test_parameters_that_do_not_fit_are_refused(
    bench: Any, given: dict[str, Any], words: str
) -> None:
    with pytest.raises(ParameterError) as refused:
        Fleet(bench, **given)
    assert words in str(refused.value)


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


def profile(path: Path, link_bytes_per_s: float = 1e9) -> Path:
    """Write what the model costs: twelve stages of 5 ms a chunk."""
    timings = tuple(
        Timing(kind, 1, chunks, 0.005, 0.005, 10, 0.005)
        for kind in ('first', 'inner', 'last')
        for chunks in range(1, SPEC.window + SPEC.sink + 2)
    )
    ends = tuple(Timing(kind, 1, 1, 1e-6, 1e-6, 10, 1e-6) for kind in ('encode', 'decode'))
    sizes = Sizes((10,) * SPEC.blocks, 7, 128, 20, 100, 200)
    made = Profile(
        SPEC.name, spec_hash(SPEC), device_name('cpu'), versions(), SPEC.steps, SPEC.blocks,
        sizes, (*timings, *ends), 1e-6, (Link('cpu', 1e-6, link_bytes_per_s),),
    )  # fmt: skip
    made.save(path)
    return path


def test_what_does_not_fit_beside_the_others_is_refused_and_they_go_on(
    bench: Any, tmp_path: Path
) -> None:
    costs = str(profile(tmp_path / 'profile.json'))
    fleet = Fleet(bench, streams=['a', 'b'], profile=costs, period_ms=100.0)
    fleet.robot('a/')
    fleet.up()
    assert fleet.flows('a/')
    # 60 of each 90 ms are taken; what is left is enough for one in 200 ms.
    binds = "'b' refused: time on worker 0"
    refused = fleet.states()['b']
    assert refused.state == StreamStatus.STATE_FAILED
    assert f'not admitted: stream {binds}' in refused.reason
    assert 'would fit' in refused.reason
    assert [one.worker for one in refused.workers] == []
    again = fleet.call(OpenStream, 'open_stream', stream='b')
    assert not again.accepted
    assert binds in again.message
    plan = fleet.call(PlanStreams, 'plan_streams', count=2, period_ms=250.0)
    assert plan.admitted == 1
    assert plan.answers[0] == 'admitted'
    assert 'refused: time on worker 0' in plan.answers[1]
    assert fleet.call(OpenStream, 'open_stream', stream='b', period_ms=250.0).accepted
    assert fleet.states()['b'].state == StreamStatus.STATE_WAITING_OBSERVATION
    assert fleet.flows('a/')
    # What it was opened with, and admitted for, outlives what is set later.
    assert set_all(bench, 'wam_node', **{'b.margin_ms': 3.0}).successful
    stream = fleet.node.streams.named('b')
    assert (stream.config.period_ms, stream.config.margin_ms) == (250.0, 3.0)
    answer = set_all(bench, 'wam_node', **{'b.period_ms': 100.0})
    assert not answer.successful
    assert 'b.period_ms must be 250.0, which admission was asked to hold' in answer.reason
    # Closed, it holds nobody to anything.
    assert fleet.call(CloseStream, 'close_stream', stream='b').closed
    assert set_all(bench, 'wam_node', **{'b.period_ms': 300.0}).successful
    assert fleet.call(OpenStream, 'open_stream', stream='b').accepted
    assert fleet.node.streams.named('b').config.period_ms == 300.0


@pytest.mark.parametrize(
    ('content', 'words'),
    [('{}', f'must have format {FORMAT}, got None'), ('', 'cannot be read')],
)
def test_a_profile_that_is_none_is_refused_at_configure(
    bench: Any, tmp_path: Path, content: str, words: str
) -> None:
    path = tmp_path / 'profile.json'
    path.write_text(content)
    fleet = Fleet(bench, profile=str(path))
    assert fleet.node.trigger_configure() is TransitionCallbackReturn.FAILURE
    assert words in str(fleet.node.refusal)


def test_one_stream_keeps_the_plain_names_beside_one_that_is_opened(bench: Any) -> None:
    fleet = Fleet(bench, stream='only')
    refused = fleet.call(OpenStream, 'open_stream', stream='other')
    assert refused.message == 'no stream can be opened: the node is not configured'
    fleet.robot('')
    fleet.up()
    assert fleet.flows('')
    assert {one.stream for one in fleet.chunks['']} == {'only'}
    assert fleet.call(OpenStream, 'open_stream', stream='other').accepted
    fleet.robot('other/')
    assert fleet.flows('other/')
    assert fleet.flows('')
    # Cleaned up, the node has the streams of its parameters again.
    assert fleet.call(CloseStream, 'close_stream', stream='only').closed
    assert list(fleet.states()) == ['other']
    assert fleet.node.trigger_deactivate() is SUCCESS
    assert fleet.node.trigger_cleanup() is SUCCESS
    assert list(fleet.states()) == ['only']
    assert fleet.states()['only'].state == StreamStatus.STATE_UNCONFIGURED
