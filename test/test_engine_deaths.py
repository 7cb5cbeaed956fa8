# SPDX-License-Identifier: Apache-2.0
"""Workers are killed and replaced (E16): who they carried comes back, others go on."""

from __future__ import annotations

import os
import signal
import time
from collections.abc import Callable
from pathlib import Path

import pytest
from engine_cases import SECOND_NS, LocalCrew, Oracle, apart, assert_same, inputs
from test_engine_pool import descriptors, gone

from physis_ros.backbones.registry import read_spec
from physis_ros.engine import layout as lay
from physis_ros.engine.config import PoolConfig
from physis_ros.engine.crew import Crew
from physis_ros.engine.models import REGISTRY
from physis_ros.engine.places import FORGET_NS, MOST, PATIENCE_S, Places
from physis_ros.engine.pool import Pool
from physis_ros.errors import AdmissionRefused, StreamLost, WorkerDied

URI = 'synthetic:blocks=3,steps=2,window=1,tokens=3,width=8,heads=1'
# Of the numbers of their observations: what ``tripping`` trips over comes to one of them alone.
STRIDE = {'left': 20, 'right': 1}


class Pair:
    """
    Two streams, ``left`` and ``right``, each on a worker of its own, beside the oracle.

    ``told`` are the losses as they came.
    """

    def __init__(self, uri: str, models: str = REGISTRY, crew: type[Crew] = Crew) -> None:
        config = PoolConfig(uri, 2, seed=5, max_streams=3, in_flight=2, max_batch=2)
        spec = read_spec(uri.partition('+')[2] or uri)
        self.pool = Pool(config, models, crew, apart(spec, 2))
        self.oracle = Oracle(uri.partition('+')[2] or uri, seed=5)
        self.told: list[StreamLost] = []
        self.entered = {'left': 0, 'right': 0}
        self.came = {'left': 0, 'right': 0}

    def start(self) -> None:
        self.pool.start(180.0)
        for name in self.came:
            self.open(name)

    def open(self, name: str) -> None:
        self.pool.open_stream(name, slo_s=1.0)
        if self.entered[name]:
            self.oracle.close(name)
        self.oracle.open(name)
        self.entered[name] = self.came[name] = 0

    def pid(self, name: str) -> int:
        (worker,) = self.pool.workers_of(name)
        return self.pool.pids[worker]

    def run(self, done: Callable[[], bool], what: str) -> None:
        """Feed both, hold every chunk to the oracle, until something has happened."""
        until_s = time.monotonic() + 120
        while not done():
            assert time.monotonic() < until_s, f'never came: {what}'
            try:
                self._feed()
                result = self.pool.next_result(0.01)
            except StreamLost as lost:
                self.told.append(lost)
                continue
            if result is not None:
                name, number = result.stream, self.came[result.stream]
                assert name not in self.pool.lost
                assert (result.epoch, result.chunk) == (0, number)
                assert_same(result, self.oracle.run(name, STRIDE[name] * number))
                self.came[name] += 1

    def _feed(self) -> None:
        for name, number in self.entered.items():
            # One at a time: nobody is taken on while a pool is asked for all it can do.
            waits = number == self.came[name] and name not in self.pool.lost
            if waits and self.pool.ready(name):
                self.pool.enter(
                    name, inputs(STRIDE[name] * number), time.monotonic_ns() + SECOND_NS, True
                )
                self.entered[name] += 1

    def goes_on(self, name: str, more: int = 10) -> None:
        """Wait for chunks of a stream, which come one after the other."""
        wanted = self.came[name] + more
        self.run(lambda: self.came[name] >= wanted, f'{more} chunks of {name}')

    def back(self) -> bool:
        """Try to open the one that was lost; tell whether that went well."""
        try:
            self.open('right')
        except AdmissionRefused:
            return False
        return True


def test_a_killed_worker_takes_only_its_streams_and_its_place_is_filled() -> None:
    before = descriptors()
    pids = killed_again_and_again()
    assert all(gone(pid) for pid in pids)
    assert descriptors() == before


def killed_again_and_again() -> set[int]:
    """Kill one of two workers until its place stays empty; return all workers there were."""
    pair = Pair(URI)
    with pair.pool as pool:
        pair.start()
        used = {name: pool.workers_of(name) for name in pair.came}
        assert sorted(used.values()) == [(0,), (1,)]
        (worker,), left = used['right'], pair.pid('left')
        pids = set(pool.pids)
        for deaths in range(1, MOST + 1):
            pair.goes_on('left')
            pair.goes_on('right')
            os.kill(pair.pid('right'), signal.SIGKILL)
            pair.run(lambda deaths=deaths: len(pair.told) == deaths, 'word of the loss')
            words = f"stream 'right' was lost: worker {worker} ended with exit code -9"
            assert str(pair.told[-1]) == words
            assert list(pool.lost) == ['right']
            assert pool.health()['streams'] == ['left']
            for call in (pool.ready, pool.reset, pool.workers_of):
                with pytest.raises(StreamLost, match=words):
                    call('right')
            with pytest.raises(AdmissionRefused, match='a new one is being started') as refused:
                pool.open_stream('right', slo_s=1.0)
            assert refused.value.for_now
            assert 'a new one is being started' in pool.what_if(1, 1.0)[0]
            pair.goes_on('left')
            pair.run(pair.back, 'room for the one that was lost')
            assert (pool.vacancies, pool.lost, pool.replaced) == ({}, {}, deaths)
            assert pool.workers_of('right') == used['right']
            pids |= set(pool.pids)
        assert len(pids) == 2 + MOST
        os.kill(pair.pid('right'), signal.SIGKILL)
        pair.run(lambda: len(pair.told) == MOST + 1, 'word of the loss')
        assert not pool.vacancies[worker].filling, 'it would die again'
        with pytest.raises(AdmissionRefused, match='its place stays empty') as refused:
            pool.open_stream('right', slo_s=1.0)
        assert not refused.value.for_now
        assert pool.pids[worker] == 0
        pool.close_stream('right')
        assert pool.lost == {}
        pair.goes_on('left')
        assert pair.pid('left') == left
        assert pair.came['left'] >= 10 * (2 * MOST + 1)
        os.kill(left, signal.SIGKILL)
        with pytest.raises(WorkerDied, match=f'worker {1 - worker} ended'):
            pair.goes_on('left', 1000)
    return pids


def test_a_worker_that_ends_by_its_own_error_says_why(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv('PYTHONPATH', str(Path(__file__).parent))
    pair = Pair(f'tripping+{URI}', 'engine_models')
    with pair.pool as pool:
        pair.start()
        pair.run(lambda: bool(pair.told), 'word of the loss')
        assert pair.told[0].stream == 'right'
        assert pair.told[0].died.detail == 'ValueError: cannot decode this'
        assert pair.came['right'] == 19
        pair.run(pair.back, 'room for the one that was lost')
        assert pool.replaced == 1


def test_a_new_worker_that_does_not_come_up_is_ended() -> None:
    class Slow(LocalCrew):
        late = False

        def fill(self, worker: int) -> None:
            super().fill(worker)
            if self.late:
                self._loops[worker].turn = lambda: False
                self._unsay(worker)

        def _unsay(self, worker: int) -> None:
            box = self._loops[worker]._site.outboxes[lay.POOL]
            box._sent -= 1
            box._words[0] = box._sent

    pair = Pair(URI, crew=Slow)
    with pair.pool as pool:
        pair.start()
        (worker,) = pool.workers_of('right')
        crew = pool._desk.crew()
        crew.late = True
        crew.die(worker)
        pair.run(lambda: bool(pair.told), 'word of the loss')
        # Whoever comes up takes its share of the processors: that may be all that is the matter.
        pool._pressure.held('left', time.monotonic_ns() - 2 * SECOND_NS)
        with pytest.raises(AdmissionRefused, match='refused: closed: overloaded') as refused:
            pool.open_stream('right', slo_s=1.0)
        assert refused.value.for_now
        pool._desk.losses.places.patience_s = 0.05
        pair.run(lambda: bool(pool.vacancies) and not pool.vacancies[worker].filling, 'the end')
        words = 'it must be up within 0.05 s, and was not; its place stays empty'
        assert words in str(pool.vacancies[worker])
        assert len(pair.told) == 1


def test_a_place_without_room_for_a_process_stays_empty() -> None:
    class Full(LocalCrew):
        full = False

        def fill(self, worker: int) -> None:
            if self.full:
                raise OSError(12, 'Cannot allocate memory')
            super().fill(worker)

    pair = Pair(URI, crew=Full)
    with pair.pool as pool:
        pair.start()
        (worker,) = pool.workers_of('right')
        crew = pool._desk.crew()
        crew.full = True
        crew.die(worker)
        pair.run(lambda: bool(pair.told), 'word of the loss')
        assert not pool.vacancies[worker].filling
        pair.goes_on('left')


@pytest.mark.parametrize(
    ('exitcode', 'was_up', 'again'), [(-9, True, True), (1, True, True), (-9, False, True),
                                      (1, False, False)],
)  # fmt: skip
def test_a_new_worker_is_tried_where_that_may_help(
    exitcode: int, was_up: bool, again: bool
) -> None:
    places = Places()
    assert places.died(WorkerDied(0, exitcode), was_up, 0) is again
    assert places.vacant[0].filling is again


def test_deaths_of_a_place_are_forgotten_after_a_while() -> None:
    places = Places()
    for at_ns in range(MOST):
        assert places.died(WorkerDied(0, -9), True, at_ns)
        places.came_up(0)
    assert not places.died(WorkerDied(0, -9), True, MOST)
    assert places.overdue(10**12) == [], 'nobody is waited for'
    assert places.died(WorkerDied(1, -9), True, MOST), 'each place for itself'
    assert places.died(WorkerDied(0, -9), True, FORGET_NS + MOST - 1)
    assert places.overdue(FORGET_NS + MOST + int(PATIENCE_S * 1e9)) == [0, 1]
    assert places.filled == MOST
