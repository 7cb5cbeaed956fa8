# SPDX-License-Identifier: Apache-2.0
"""Several streams on one engine, over real DDS: each for itself, and they come and go."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

pytest.importorskip('rclpy')
pytest.importorskip('physis_ros.msg')

from diagnostic_msgs.msg import DiagnosticArray
from fleet_cases import SUCCESS, Fleet, profile
from rclpy.lifecycle import TransitionCallbackReturn
from std_srvs.srv import Trigger
from test_ros_live import set_all

from physis_ros.engine.profile import FORMAT
from physis_ros.errors import ParameterError
from physis_ros.msg import StreamStatus
from physis_ros.srv import CloseStream, OpenStream, PlanStreams

RUNNING = StreamStatus.STATE_RUNNING


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
