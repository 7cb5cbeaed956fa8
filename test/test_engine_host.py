# SPDX-License-Identifier: Apache-2.0
"""The engine beside the node: what cannot be started is told, whoever refused it."""

from __future__ import annotations

import time
from collections.abc import Iterator
from typing import Any

import pytest
from engine_cases import local_crew

from physis_ros.engine.config import PoolConfig
from physis_ros.engine.crew import Crew
from physis_ros.engine.pool import Pool
from physis_ros.errors import AdmissionRefused, DeadlinePassed, EngineError, WorkerDied
from physis_ros.ros.engine_host import EngineHost
from physis_ros.ros.host_state import HostState
from physis_ros.ros.room import Room


class NoRoom(Crew):
    """Workers for whom the system has no room."""

    def __init__(self, *given: Any) -> None:
        raise OSError(24, 'Too many open files')


def test_what_the_system_refuses_is_told_and_not_waited_for() -> None:
    host = EngineHost(lambda: Pool(PoolConfig('synthetic:'), crew=NoRoom), 5.0)
    until_s = time.monotonic() + 30
    while host.state is HostState.LOADING and time.monotonic() < until_s:
        time.sleep(0.01)
    assert host.state is HostState.FAILED
    assert isinstance(host.check(), EngineError)
    assert 'the engine cannot be started: [Errno 24] Too many open files' in str(host.failure)
    host.close()


@pytest.fixture
def host() -> Iterator[EngineHost]:
    """Give an engine that is ready, with room for one stream."""
    config = PoolConfig('synthetic:', 1, max_streams=1)
    made = EngineHost(lambda: Pool(config, crew=local_crew(0)), 30.0)
    wait_until(lambda: made.state is HostState.READY)
    yield made
    made.close()


def wait_until(condition: Any) -> None:
    until_s = time.monotonic() + 30
    while not condition():
        assert time.monotonic() < until_s
        time.sleep(0.01)


def test_what_an_engine_that_is_well_refuses_is_a_refusal(host: EngineHost) -> None:
    rooms = [Room(host, name, 100.0, 0.0) for name in ('a', 'a', 'b')]
    wait_until(lambda: all(room.answered for room in rooms))
    assert [room.given for room in rooms] == [True, False, False]
    assert rooms[0].refusal == ''
    assert rooms[1].refusal == "stream 'a' is already open"
    assert 'max_streams = 1' in rooms[2].refusal
    assert host.check() is None


@pytest.mark.parametrize(
    ('error', 'words'),
    [
        (DeadlinePassed("opening of stream 'a' must take at most 20 s"), 'opening of stream'),
        (KeyError('owner'), "stream 'a' cannot be opened: KeyError('owner')"),
    ],
)
def test_what_goes_wrong_in_an_engine_is_its_failure_and_no_refusal(
    host: EngineHost, monkeypatch: pytest.MonkeyPatch, error: Exception, words: str
) -> None:
    def opening(*_: Any) -> None:
        raise error

    monkeypatch.setattr(host.pool, 'open_stream', opening)
    room = Room(host, 'a', 100.0, 0.0)
    wait_until(lambda: room.answered)
    assert (room.given, room.refusal) == (False, '')
    assert host.state is HostState.FAILED
    assert words in str(host.check())


def test_a_stream_that_takes_too_long_does_not_end_the_others(
    host: EngineHost, monkeypatch: pytest.MonkeyPatch
) -> None:
    first = Room(host, 'a', 100.0, 0.0)
    wait_until(lambda: first.given)

    def opening(*_: Any) -> None:
        raise DeadlinePassed("opening of 'b' must take at most 120 s, and did not")

    monkeypatch.setattr(host.pool, 'open_stream', opening)
    late = Room(host, 'b', 100.0, 0.0)
    wait_until(lambda: late.answered)
    assert late.refusal == "opening of 'b' must take at most 120 s, and did not"
    assert (first.given, host.check(), host.state) == (True, None, HostState.READY)


def test_an_engine_that_stands_still_refuses_nobody(host: EngineHost) -> None:
    failure = EngineError('worker 0 must turn within hop_timeout_s, got none in 10.0 s')
    host.pool._desk._failure = failure
    room = Room(host, 'a', 100.0, 0.0)
    wait_until(lambda: room.answered)
    assert (room.given, room.refusal) == (False, '')
    assert host.check() is failure


def test_who_has_no_room_for_want_of_a_worker_asks_again(
    host: EngineHost, monkeypatch: pytest.MonkeyPatch
) -> None:
    make, refusals = host.pool.open_stream, ['no time; worker 0 has ended']

    def opening(*given: Any) -> None:
        if refusals:
            raise AdmissionRefused(refusals.pop(), for_now=True)
        make(*given)

    monkeypatch.setattr(host.pool, 'open_stream', opening)
    room = Room(host, 'a', 100.0, 0.0)
    wait_until(lambda: room.answered)
    assert (room.given, room.lost, room.refusal) == (False, False, '')
    assert room.waits == 'no time; worker 0 has ended'

    def looked() -> bool:
        room.look(time.monotonic_ns())
        return room.given

    wait_until(looked)
    assert (room.workers, room.waits) == ((0,), '')
    # What was lost with a worker is no room, whatever was said before.
    wait_until(host.submit(lambda pool: pool.close_stream('a')).done)
    refusals.append('overloaded')
    room.lose(WorkerDied(0, -9))
    assert (room.given, room.lost, room.workers) == (False, True, ())
    assert room.waits == 'lost: worker 0 ended with exit code -9; it is opened again'
    wait_until(looked)
    assert (room.lost, room.refusal, room.waits) == (False, '', '')
    wait_until(room.leave().done)
    assert host.pool.others('') == []
