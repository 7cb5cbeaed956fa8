# SPDX-License-Identifier: Apache-2.0
"""When a pool is behind, where, and since when: by the queue at its entry and by those inside."""

from __future__ import annotations

import time

from engine_cases import SECOND_NS, inputs, local_crew

from physis_ros.engine.config import PoolConfig
from physis_ros.engine.overload import ENOUGH, HELD_IN_A_ROW, Overload, Pressure, Queue
from physis_ros.engine.pool import Pool

S = 1_000_000_000
NONE = Queue(0, -1)


def squeezed(pressure: Pressure, *streams: str) -> None:
    """Let chunk after chunk of each stream wait for the pipe."""
    for now_ns in range(10, 10 * HELD_IN_A_ROW + 1, 10):
        for stream in streams:
            assert pressure.look(now_ns) is None
            pressure.held(stream, now_ns)
        for stream in streams:
            pressure.entered(stream, now_ns + 1)


def standing(
    pressure: Pressure, found: list[Queue], entries: dict[str, int], ends_ns: int
) -> None:
    """Let queues stay as they are from 1 ns on, while so many chunks of each stream enter."""
    pressure.queues(found, 1)
    for stream, count in entries.items():
        for _ in range(count):
            pressure.entered(stream, 1)
    pressure.queues(found, ends_ns)


def test_a_full_pipe_is_told_with_the_worker_that_is_behind() -> None:
    pressure = Pressure(blocks=3)
    pressure.follow([(0, 1), (1, 2)])
    for _ in range(50):
        pressure.queues([Queue(3, 1), Queue(4, 7), NONE], 0)
    squeezed(pressure, 'b', 'a')
    found = pressure.look(S)
    assert found is not None
    assert (found.worker, found.step, found.block) == (1, 2, 1), '4 before none, 3 before 4'
    assert (found.since_steady_ns, found.streams) == (10, ('a', 'b'))
    assert found.text(3 * S) == (
        'overloaded for 3.0 s: chunks of a, b wait for a full pipe; worker 1 is behind, at step 2 '
        'block 1 with 4.0 tasks waiting; choose a longer period, fewer streams or more workers'
    )


def test_where_no_worker_has_a_queue_the_entry_is_behind() -> None:
    pressure = Pressure(blocks=3)
    for _ in range(50):
        pressure.queues([Queue(3, 5), NONE], 0)
    for _ in range(50):
        pressure.queues([NONE, NONE], 0)
    squeezed(pressure, 'a')
    assert pressure.look(S) == Overload(-1, 0, 0, 1, 10, ('a',)), 'of a queue long gone no word'
    text = Overload(-1, 0, 0, 1, 1, ('a',)).text(S)
    assert 'a wait for a full pipe; no worker has a queue, the entry is behind, at step 0' in text


def test_overload_ends_when_nothing_is_asked_any_more() -> None:
    """Whatever comes after the beat that had to wait: nothing, a pause, a new epoch."""
    pressure = Pressure(blocks=3)
    squeezed(pressure, 'a')
    pressure.idle(['a'], S)
    assert pressure.look(S) is not None, 'a moment between two chunks'
    pressure.idle(['a'], 3 * S)
    assert pressure.look(3 * S) is None

    pressure.held('b', 4 * S)
    pressure.free('b', 4 * S)  # it could enter now, and has nothing to enter with
    assert pressure.look(9 * S) is None
    pressure.held('b', 9 * S)
    assert pressure.look(11 * S) is not None
    pressure.forget('b')
    assert pressure.look(11 * S) is None

    squeezed(pressure, 'c')
    assert pressure.look(11 * S) is not None
    for _ in range(ENOUGH):
        assert pressure.look(11 * S) is not None
        pressure.entered('c', 11 * S)  # and found its way free
    assert pressure.look(11 * S) is None


def test_a_queue_that_stays_longer_than_those_behind_it_is_overload() -> None:
    pressure = Pressure(blocks=2, batch=3)
    pressure.follow([(0, 1)])
    entries = {'a': HELD_IN_A_ROW, 'b': HELD_IN_A_ROW}
    standing(pressure, [Queue(4, 3), Queue(3, 0)], entries, 1 + S)
    assert pressure.look(1 + S) is None, 'not for long enough'
    overload = pressure.look(2 + S)
    assert overload is not None
    assert (overload.worker, overload.step, overload.block) == (0, 1, 1)
    assert (overload.since_steady_ns, overload.streams) == (1, ())
    assert overload.text(1 + 2 * S).startswith('overloaded for 2.0 s: worker 0 is behind, at step')
    pressure.queues([Queue(4, 3), Queue(4, 2)], 3 * S)
    assert pressure.look(3 * S) is None, 'no longer than behind it'
    pressure.queues([Queue(5, 3), Queue(4, 2)], 4 * S)
    assert pressure.look(9 * S) is None, 'it begins anew, and nothing comes in'


def test_queues_that_a_busy_pool_has_are_no_overload() -> None:
    """A burst between two periods, what one batch takes, what is as long further on."""
    enough = {'a': HELD_IN_A_ROW}
    for found, entries in (
        ([Queue(4, 3), Queue(0, -1)], {**enough, 'slow': HELD_IN_A_ROW - 1}),
        ([Queue(2, 3), Queue(0, -1)], enough),
        ([Queue(4, 3), Queue(4, 3)], enough),
    ):
        pressure = Pressure(blocks=2, batch=2)
        pressure.follow([(0, 1), (1, 0)])
        standing(pressure, found, entries, 5 * S)
        assert pressure.look(5 * S) is None, found
    for _ in range(HELD_IN_A_ROW):
        pressure.entered('slow', 5 * S)
    standing(pressure, [Queue(5, 3), Queue(4, 3)], enough, 6 * S)
    assert pressure.look(8 * S) is None
    pressure.forget('slow')
    assert pressure.look(8 * S) is not None, 'nobody else is left who should have come in'


def test_beats_that_are_lost_hide_no_overload() -> None:
    """One is due each 100, a deep pipe takes one each 120: each fifth waits, for 80."""
    pressure, said, now = Pressure(blocks=3), [], 1000
    for _ in range(6):
        for wait in (0, 0, 0, 0, 80):
            now += 100
            if wait:
                pressure.held('a', now)
            pressure.entered('a', now + wait)
            said.append(pressure.look(now + wait) is not None)
        now += 100  # the beat that was lost
    assert said.index(True) == 9
    assert all(said[9:])
    assert pressure.look(now).since_steady_ns == 1500


def test_a_wait_now_and_then_is_no_overload() -> None:
    pressure = Pressure(blocks=3)
    for number in range(100):
        now = 1000 + 100 * number
        if number % 4 == 0:
            pressure.held('a', now)
        pressure.entered('a', now + 5)
        assert pressure.look(now + 5) is None


def test_a_way_that_is_free_at_the_very_instant_is_free() -> None:
    pressure = Pressure(blocks=3)
    for number in range(1, 3 * HELD_IN_A_ROW):
        pressure.held('a', number)
        pressure.entered('a', number)
        assert pressure.look(number) is None


def test_what_is_judged_the_same_for_ever_looks_the_same() -> None:
    """Virtual time skips what repeats itself: later, the same state gives the same answers."""
    pressure = Pressure(blocks=2)
    pressure.follow([(0, 1)])
    standing(pressure, [Queue(4, 3), NONE], {'a': 2, 'b': 9}, 9 * S)
    pressure.held('b', 9 * S)
    pressure.idle(['a'], 9 * S)
    before = pressure.state(9 * S)
    assert pressure.state(9 * S + 1) != before
    pressure.shift(9 * S, 60 * S)
    assert pressure.state(69 * S) == before
    assert pressure.look(69 * S) is None
    pressure.entered('a', 69 * S)
    pressure.entered('a', 69 * S)
    overload = pressure.look(69 * S)
    assert overload is not None
    assert overload.since_steady_ns == 1, 'since then, all the time'


def test_a_deep_pipe_is_behind_before_it_is_full() -> None:
    uri = 'synthetic:blocks=4,steps=2,width=8,heads=1,stage_ms=2'
    config = PoolConfig(
        uri, 2, assignment=(0, 0, 0, 1) * 2, max_streams=1, in_flight=9, max_batch=1
    )
    with Pool(config, crew=local_crew(1)) as pool:
        pool.start()
        pool.open_stream('robot')
        until_s, inside = time.monotonic() + 20, 0
        while pool.overload is None and time.monotonic() < until_s:
            if inside < 6:
                pool.enter('robot', inputs(0), time.monotonic_ns() + SECOND_NS, False)
                inside += 1
            inside -= pool.next_result(0.0) is not None
        overload = pool.overload
    assert overload is not None
    assert overload.streams == (), 'nothing waits at the entry'
    assert overload.worker == 0, 'three of the four blocks are its'
