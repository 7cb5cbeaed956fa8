# SPDX-License-Identifier: Apache-2.0
"""The producer over real worker processes: right chunks, epochs, shared pools, a dead worker."""

from __future__ import annotations

import os
import signal
import threading
import time
from collections.abc import Callable, Iterator

import numpy as np
import numpy.typing as npt
import pytest
import torch
from engine_cases import apart

from physis_ros.backbones.registry import open_backbone, read_spec
from physis_ros.clock import SteadyClock
from physis_ros.engine.config import PoolConfig
from physis_ros.engine.pool import Pool
from physis_ros.engine.serial import SerialEngine
from physis_ros.errors import StreamLost, WorkerDied
from physis_ros.observation.joints import JointReading
from physis_ros.session.collector import Collector
from physis_ros.session.inputs import InputBuilder
from physis_ros.session.produced import Produced
from physis_ros.session.producer import Ports, Producer
from physis_ros.session.producer_config import ProducerConfig
from physis_ros.session.producer_status import ProducerState
from physis_ros.types import Observation

MS = 1_000_000
MODEL = 'synthetic:blocks=2,steps=2,tokens=4,width=16'
CONFIG = ProducerConfig(
    period_ns=50 * MS, joint_tolerance_ns=2000 * MS, max_age_ns=5000 * MS, warmup_chunks=0
)


POOL = PoolConfig(MODEL, workers=2, seed=3, max_streams=5)


@pytest.fixture(scope='module')
def pool() -> Iterator[Pool]:
    with Pool(POOL) as running:
        running.start()
        yield running


class Camera:
    """Feeds a producer with numbered frames as fast as they are asked for."""

    def __init__(self, producer: Producer) -> None:
        self._producer, self._clock, self._count = producer, SteadyClock(), 0
        self.seen: dict[int, int] = {}

    def shoot(self) -> None:
        now_ns, self._count = self._clock.now_ns(), self._count + 1
        self.seen[now_ns] = self._count
        self._producer.joints(
            JointReading(now_ns, now_ns, ['a', 'b'], [self._count, 0.5], [0.0, 1.0])
        )
        self._producer.frame(now_ns, now_ns, np.full((8, 8, 3), self._count % 256, np.uint8))

    def until(self, condition: Callable[[], bool], timeout_s: float = 20.0) -> None:
        """Shoot every 10 ms until something has happened."""
        end = time.monotonic() + timeout_s
        while not condition():
            assert time.monotonic() < end, 'condition did not come true'
            self.shoot()
            time.sleep(0.01)


def oracle(
    chunks: list[Produced], camera: Camera, epochs: int, stream: str
) -> list[npt.NDArray[np.float32]]:
    """Run the serial engine on what each chunk had seen."""
    backbone = open_backbone(MODEL, 'cpu', frozenset({0, 1}))
    engine, builder = SerialEngine(backbone, seed=3), InputBuilder(backbone.spec, 2)
    engine.open(stream)
    for _ in range(epochs):
        engine.reset(stream)
    actions = []
    for done in chunks:
        stamp = done.chunk.input_stamps_ns['camera']
        number = camera.seen[stamp]
        frames = np.full((1, 8, 8, 3), number % 256, np.uint8)
        joints = np.array([number, 0.5]), np.array([0.0, 1.0])
        seen = Observation(stamp, stamp, frames, (stamp,), *joints, stamp)
        inputs = builder.build(seen, done.told.steps)
        tensors = {name: torch.from_numpy(value[None].copy()) for name, value in inputs.items()}
        actions.append(engine.run(stream, tensors).actions[0].numpy())
    return actions


def test_chunks_equal_the_serial_oracle_across_epochs(pool: Pool) -> None:
    got: list[Produced] = []
    pool.open_stream('arm')
    producer = Producer(pool, 'arm', CONFIG, SteadyClock(), Ports(got.append, lambda: True))
    camera = Camera(producer)
    producer.start()
    camera.until(lambda: len(got) >= 8)
    epoch = producer.reset()
    camera.until(lambda: sum(done.chunk.epoch == epoch for done in got) >= 4)
    assert producer.stop()
    assert [done.chunk.epoch for done in got] == sorted(done.chunk.epoch for done in got)
    for life in (epoch - 1, epoch):
        chunks = [done for done in got if done.chunk.epoch == life]
        assert [done.chunk.chunk for done in chunks] == list(range(len(chunks)))
        expected = oracle(chunks, camera, life, 'arm')
        for done, actions in zip(chunks, expected, strict=True):
            np.testing.assert_allclose(done.chunk.actions, actions, atol=1e-5)
    stamps = [done.chunk.observed_ns for done in got]
    assert len(set(stamps)) == len(stamps)
    for done in got:
        times = list(vars(done.chunk.times).values())
        assert times == sorted(times)
        assert done.chunk.start_ns == done.chunk.observed_ns + done.told.steps * 25 * MS
        assert done.frames[0].about_ns == done.chunk.start_ns
    status = producer.status()
    assert status.state is ProducerState.STOPPED
    assert status.counts['delivered'] == len(got)


def test_chunks_in_the_pipe_see_what_is_newer_and_say_so() -> None:
    uri = f'{MODEL},conditioning=step,stage_ms=20'
    got: list[Produced] = []
    with Pool(PoolConfig(uri, workers=1, conditioning='step', max_streams=1)) as pool:
        pool.start()
        pool.open_stream('arm')
        producer = Producer(pool, 'arm', CONFIG, SteadyClock(), got.append)
        camera = Camera(producer)
        producer.start()
        camera.until(lambda: len(got) >= 6)
        assert producer.stop()
    status = producer.status()
    assert status.failure == ''
    # Two steps of 40 ms and a camera of 10.
    assert status.counts['renewed'] > 0
    renewed = 0
    for done in got:
        entered_with_ns = done.chunk.start_ns - done.told.steps * 25 * MS
        assert entered_with_ns in camera.seen
        assert done.chunk.observed_ns in camera.seen
        assert entered_with_ns <= done.chunk.observed_ns <= done.chunk.start_ns
        renewed += entered_with_ns < done.chunk.observed_ns
        assert done.chunk.times.capture_ns == done.chunk.observed_ns
        times = list(vars(done.chunk.times).values())
        assert times == sorted(times)
    assert renewed > 0


def test_two_producers_share_a_pool_and_a_collector(pool: Pool) -> None:
    collector = Collector(pool)
    got: dict[str, list[Produced]] = {'left': [], 'right': []}
    producers = []
    for name, chunks in got.items():
        pool.open_stream(name)
        producers.append(Producer(pool, name, CONFIG, SteadyClock(), chunks.append, collector))
    collector.start()
    cameras = [Camera(producer) for producer in producers]
    for producer in producers:
        producer.start()

    def both() -> bool:
        cameras[1].shoot()
        return all(len(chunks) >= 5 for chunks in got.values())

    cameras[0].until(both)
    assert all(producer.stop() for producer in producers)
    assert collector.stop()
    for name, camera in zip(got, cameras, strict=True):
        expected = oracle(got[name], camera, 1, name)
        for done, actions in zip(got[name], expected, strict=True):
            assert done.chunk.stream == name
            assert done.frames == ()
            np.testing.assert_allclose(done.chunk.actions, actions, atol=1e-5)


def test_dead_worker_fails_the_stream() -> None:
    got: list[Produced] = []
    with Pool(POOL) as pool:
        pool.start()
        pool.open_stream('arm')
        producer = Producer(pool, 'arm', CONFIG, SteadyClock(), got.append)
        camera = Camera(producer)
        producer.start()
        camera.until(lambda: len(got) >= 2)
        os.kill(pool.pids[1], signal.SIGKILL)
        camera.until(lambda: producer.failure is not None)
        assert isinstance(producer.failure, WorkerDied)
        assert producer.status().state is ProducerState.FAILED
        count = len(got)
        assert producer.stop()
        assert len(got) == count


def test_a_dead_worker_fails_the_stream_that_it_carried_and_no_other() -> None:
    config = PoolConfig(MODEL, workers=2, seed=3, max_streams=2)
    got: dict[str, list[Produced]] = {'left': [], 'right': []}
    with Pool(config, door=apart(read_spec(MODEL), 2)) as pool:
        pool.start()
        collector, producers = Collector(pool), {}
        for name, chunks in got.items():
            pool.open_stream(name, slo_s=1.0)
            ports = Ports(chunks.append)
            producers[name] = Producer(pool, name, CONFIG, SteadyClock(), ports, collector)
        collector.start()
        cameras = {name: Camera(producer) for name, producer in producers.items()}
        for producer in producers.values():
            producer.start()

        def more(count: int, *names: str) -> None:
            wanted = {name: len(got[name]) + count for name in names}
            cameras['left'].until(
                lambda: (
                    cameras['right'].shoot()
                    or all(len(got[name]) >= most for name, most in wanted.items())
                )
            )

        more(3, 'left', 'right')
        (worker,) = pool.workers_of('right')
        os.kill(pool.pids[worker], signal.SIGKILL)
        cameras['left'].until(lambda: producers['right'].failure is not None)
        assert isinstance(producers['right'].failure, StreamLost)
        assert str(producers['right'].failure) == (
            f"stream 'right' was lost: worker {worker} ended with exit code -9"
        )
        assert collector.failure is None
        told = len(got['right'])
        more(5, 'left')
        assert len(got['right']) == told
        assert producers['left'].failure is None
        assert producers['left'].status().epoch == 1, 'its own, as begun'
        # In its old place, as another producer's stream.
        producers.pop('right').stop()
        until_s = time.monotonic() + 60
        while pool.vacancies:
            assert time.monotonic() < until_s
            more(1, 'left')
        pool.open_stream('right', slo_s=1.0)
        again = Producer(pool, 'right', CONFIG, SteadyClock(), got['right'].append, collector)
        cameras['right'], producers['right'] = Camera(again), again
        again.start()
        more(3, 'left', 'right')
        assert all(producer.stop() for producer in producers.values())
        assert collector.stop()
        expected = oracle(got['left'], cameras['left'], 1, 'left')
        for done, actions in zip(got['left'], expected, strict=True):
            np.testing.assert_allclose(done.chunk.actions, actions, atol=1e-5)


def test_stopping_leaves_no_thread(pool: Pool) -> None:
    before = set(threading.enumerate())
    pool.open_stream('quiet')
    producer = Producer(pool, 'quiet', CONFIG, SteadyClock(), print)
    producer.start()
    assert len(set(threading.enumerate()) - before) == 2
    assert producer.stop()
    assert producer.stop()
    assert set(threading.enumerate()) <= before
    idle = Producer(pool, 'quiet', CONFIG, SteadyClock(), print)
    assert idle.stop()
