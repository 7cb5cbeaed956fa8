# SPDX-License-Identifier: Apache-2.0
"""Pools of real worker processes: equality, epochs, death, and that nothing stays behind."""

from __future__ import annotations

import gc
import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest
from engine_cases import SECOND_NS, Oracle, assert_same, catch_up, collect, feed, inputs

from physis_ros.engine.config import PoolConfig
from physis_ros.engine.pool import Pool
from physis_ros.engine.result import ChunkResult
from physis_ros.errors import EngineError, ObservationError, WorkerDied

URI = 'synthetic:blocks=3,steps=2,window=2,sink=1'
HERE = Path(__file__).resolve().parent


def gone(pid: int, timeout_s: float = 3.0) -> bool:
    """Tell whether a process ends; one that waits to be reaped has ended."""
    until_s = time.monotonic() + timeout_s
    while time.monotonic() < until_s:
        try:
            state = Path(f'/proc/{pid}/stat').read_text().rpartition(')')[2].split()[0]
        except FileNotFoundError:
            return True
        if state == 'Z':
            return True
        time.sleep(0.02)
    return False


def descriptors() -> set[str]:
    """Return what this process has open, and what it has mapped without a name."""
    gc.collect()
    found = set()
    for fd in os.listdir('/proc/self/fd'):
        try:
            target = os.readlink(f'/proc/self/fd/{fd}')
        except FileNotFoundError:
            continue
        found.add(f'{fd} {target}')
    return found


def named_memory() -> set[str]:
    """Return shared memory with a name, but for that of other tests' middleware."""
    return {name for name in os.listdir('/dev/shm') if 'fastrtps' not in name}


@pytest.fixture(scope='module')
def pool(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Pool]:
    trace = tmp_path_factory.mktemp('trace') / 'trace.json'
    config = PoolConfig(URI, workers=2, seed=4, max_streams=2, mailbox_depth=1, max_batch=2,
                        in_flight=3, trace=trace)  # fmt: skip
    with Pool(config) as made:
        made.start(180.0)
        yield made


def test_processes_are_titled(pool: Pool) -> None:
    titles = [Path(f'/proc/{pid}/cmdline').read_text() for pid in pool.pids]
    assert [title.strip('\0 ') for title in titles] == ['physis: worker 0', 'physis: worker 1']


def test_two_streams_equal_the_oracle_through_a_reset(pool: Pool) -> None:
    oracle = Oracle(URI, seed=4)
    expected = {}
    for stream in ('left', 'right'):
        pool.open_stream(stream)
        oracle.open(stream)
        for chunk in range(12):
            expected[stream, 0, chunk] = oracle.run(stream, chunk)
    oracle.reset('left')
    for chunk in range(4):
        expected['left', 1, chunk] = oracle.run('left', chunk)
    entered, epoch, reset_at = {'left': 0, 'right': 0}, {'left': 0, 'right': 0}, 0
    results: list[ChunkResult] = []
    until_s = time.monotonic() + 60
    while len([r for r in results if r.stream == 'right' or r.epoch == 1]) < 16:
        assert time.monotonic() < until_s, [(r.stream, r.epoch, r.chunk) for r in results]
        for stream, count in entered.items():
            most = 4 if epoch[stream] else 12
            if count < most and pool.ready(stream):
                pool.enter(stream, inputs(count), time.monotonic_ns() + SECOND_NS, True)
                entered[stream] += 1
        if not epoch['left'] and entered['left'] == 7:
            epoch['left'], entered['left'] = pool.reset('left'), 0
            reset_at = len(results)
        result = pool.next_result(0.05)
        if result is not None:
            results.append(result)
    for result in results:
        assert_same(result, expected[result.stream, result.epoch, result.chunk])
    assert [r.chunk for r in results if r.stream == 'right'] == list(range(12))
    assert [r.chunk for r in results if r.stream == 'left' and r.epoch == 1] == list(range(4))
    assert all(r.epoch == 1 for r in results[reset_at:] if r.stream == 'left')
    pool.close_stream('left')


def test_stamps_of_a_result_do_not_decrease(pool: Pool) -> None:
    before_ns = time.monotonic_ns()
    (result,) = feed(pool, 'right', range(1))
    stamps = [
        before_ns, result.entered_steady_ns, result.denoised_steady_ns,
        result.decoded_steady_ns, result.delivered_steady_ns, time.monotonic_ns(),
    ]  # fmt: skip
    assert stamps == sorted(stamps)


def test_every_stage_and_hop_is_found_by_chunk(pool: Pool) -> None:
    (result,) = feed(pool, 'right', range(1))
    spans = pool.chunk_spans('right', result.chunk)
    assert [(s.step, s.block) for s in spans] == [
        (0, 0), (0, 1), (0, 2), (1, 0), (1, 1), (1, 2), (1, 3),
    ]  # fmt: skip
    assert [span.worker for span in spans] == [0, 0, 0, 1, 1, 1, 1]
    assert all(s.queued_ns <= s.started_ns <= s.ended_ns for s in spans)
    assert spans[3].source == 0
    assert spans[3].bytes == 8 * 4 * 4  # the latent crosses, [tokens, channels] float32
    assert pool.metrics.edges[0, 1].wait.count >= 13
    assert pool.metrics.stages[1, 2].compute.count >= 13
    assert pool.health()['spans_lost'] == 0


def test_misuse_is_refused_and_harmless(pool: Pool) -> None:
    with pytest.raises(EngineError, match="stream 'up' is not open; open are"):
        pool.ready('up')
    with pytest.raises(EngineError, match="stream 'right' is already open"):
        pool.open_stream('right')
    with pytest.raises(ObservationError, match='inputs must be'):
        pool.enter('right', {}, 0, False)
    # The tests before this one asked for all the pool can do.
    catch_up(pool)
    pool.open_stream('second')
    with pytest.raises(EngineError, match='streams must be <= max_streams = 2'):
        pool.open_stream('third')
    pool.close_stream('second')
    for number in range(3):
        pool.enter('right', inputs(number), 10 * SECOND_NS, False)
    if not pool.ready('right'):
        with pytest.raises(EngineError, match='must be ready before a chunk enters'):
            pool.enter('right', inputs(9), 0, False)
    assert all(result.frames is None for result in collect(pool, 3))


def test_memory_stays_constant(pool: Pool) -> None:
    def resident() -> list[int]:
        pages = [Path(f'/proc/{pid}/statm').read_text().split()[1] for pid in pool.pids]
        return [int(page) * 4096 for page in pages]

    feed(pool, 'right', range(100))
    before = resident()
    feed(pool, 'right', range(400))
    grown = [b - a for a, b in zip(before, resident(), strict=True)]
    # One hidden state kept for each of 400 chunks x 3 stages would be 1.2 MB and more.
    assert max(grown) < 1_000_000


def test_a_killed_worker_is_reported_and_nothing_stays(pool: Pool) -> None:
    pids = pool.pids
    pool.enter('right', inputs(0), time.monotonic_ns(), True)
    os.kill(pids[1], signal.SIGKILL)
    with pytest.raises(WorkerDied, match='worker 1 ended with exit code -9'):
        # Raised by the death, not by the time: one call is the chunk's, the next must not wait.
        assert [pool.next_result(60.0) for _ in range(2)] == []
    with pytest.raises(WorkerDied):
        pool.ready('right')
    pool.close()
    assert all(gone(pid) for pid in pids)


def test_the_trace_is_complete_even_after_a_death(pool: Pool) -> None:
    assert pool.config.trace is not None
    events = json.loads(pool.config.trace.read_text())
    slices = [event for event in events if event['ph'] == 'X']
    assert {event['tid'] for event in slices} == {0, 1}
    starts = [event['id'] for event in events if event['ph'] == 's']
    ends = [event['id'] for event in events if event['ph'] == 'f']
    assert starts == ends
    assert len(starts) == len([e for e in slices if e['args']['step'] == 1
                               and e['args']['block'] == 0])  # fmt: skip


def test_open_close_leaves_no_descriptor_and_a_new_pool_works() -> None:
    before = descriptors()
    for _ in range(2):
        with Pool(PoolConfig(URI, workers=1)) as pool:
            pool.start(180.0)
            pool.open_stream('robot')
            oracle = Oracle(URI)
            oracle.open('robot')
            for result in feed(pool, 'robot', range(2)):
                assert_same(result, oracle.run('robot', result.chunk))
            pids = pool.pids
        assert all(gone(pid) for pid in pids)
        pool.close()
    del pool
    assert descriptors() == before


@pytest.mark.parametrize(
    ('how', 'words'),
    [
        ('missing', 'worker 1 .*weights of block 1 are missing'),
        ('chatty', 'worker 1 ended with exit code 3: no such device: left hand'),
    ],
)
def test_a_failed_start_says_why_and_leaves_nothing(
    how: str, words: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv('PYTHONPATH', str(HERE))
    before = descriptors()
    pool = Pool(PoolConfig(f'{how}+{URI}', assignment=(0, 1, 0, 0, 1, 0)), 'engine_models')
    with pytest.raises(WorkerDied, match=words):
        pool.start(180.0)
    assert pool.pids == ()
    del pool
    assert descriptors() == before


def test_a_model_that_fails_and_a_worker_that_stands_still(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv('PYTHONPATH', str(HERE))
    config = PoolConfig(f'stumbling+{URI}', workers=2, hop_timeout_s=5.0)
    with Pool(config, 'engine_models') as pool:
        pool.start(180.0)
        pool.open_stream('robot')
        os.kill(pool.pids[0], signal.SIGSTOP)
        pool.enter('robot', inputs(0), 0, True)
        with pytest.raises(EngineError, match='worker 0 must turn within hop_timeout_s'):
            assert pool.next_result(60.0) is None
        pids = pool.pids
    assert all(gone(pid) for pid in pids)
    with Pool(replace(config, workers=1, hop_timeout_s=60.0), 'engine_models') as pool:
        pool.start(180.0)
        pool.open_stream('robot')
        pool.enter('robot', inputs(0), 0, True)
        with pytest.raises(WorkerDied, match='exit code 1: ValueError: cannot decode this'):
            assert pool.next_result(60.0) is None


PARENT = """
import sys, time
from physis_ros.engine.config import PoolConfig
from physis_ros.engine.pool import Pool
pool = Pool(PoolConfig(sys.argv[1], workers=2))
pool.start(180.0)
print(*pool.pids, flush=True)
time.sleep(60)
"""


def test_workers_end_with_a_killed_parent() -> None:
    before = named_memory()
    path = os.pathsep.join([str(HERE.parent), os.environ.get('PYTHONPATH', '')])
    parent = subprocess.Popen(
        [sys.executable, '-c', PARENT, URI],
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        text=True,
        env={**os.environ, 'PYTHONPATH': path},
    )
    assert parent.stdout is not None
    pids = [int(pid) for pid in parent.stdout.readline().split()]
    assert len(pids) == 2
    parent.kill()
    parent.wait(5)
    parent.stdout.close()
    assert all(gone(pid) for pid in pids)
    assert named_memory() <= before
