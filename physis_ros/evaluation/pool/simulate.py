# SPDX-License-Identifier: Apache-2.0
"""
A trace run on a pool: admission at the door, the engine in virtual time behind it. Seeded.

The result is plain data; :mod:`physis_ros.evaluation.pool.figures` says what it holds.
"""

from __future__ import annotations

import random
from collections import Counter

import numpy as np

from physis_ros.engine.admission import Admission, Admitter
from physis_ros.engine.demand import Demand, demand
from physis_ros.engine.draws import Jitter
from physis_ros.engine.groupings import in_flight
from physis_ros.engine.placement import Placement
from physis_ros.engine.refusal import Refusal
from physis_ros.engine.virtual import S, VirtualPool, VirtualStream
from physis_ros.evaluation.pool.figures import Outcome, Sample, StreamFigures, stream_figures
from physis_ros.evaluation.pool.pool_file import PoolFile
from physis_ros.evaluation.pool.trace import Event, Trace


def simulate(pool: PoolFile, trace: Trace, skip: bool = True) -> Outcome:
    """
    Run a trace to its end and return all figures.

    :param skip: what repeats itself is not run again and again; the figures are the same.
    """
    return _Simulation(pool, trace, skip).run()


class _Simulation:
    def __init__(self, pool: PoolFile, trace: Trace, skip: bool) -> None:
        chance = random.Random(trace.seed)
        self._chance, self._file, self._trace, self._skip = chance, pool, trace, skip
        jitter = Jitter(trace.seed, trace.jitter) if trace.jitter else None
        sensor_ns = round(trace.sensor_s * S)
        self._virtual = VirtualPool(
            pool.pool, pool.max_batch, sensor_ns, jitter, round(pool.batch_wait_s * S)
        )
        self._max_batch = pool.max_batch
        self._door = Admitter(pool.pool, pool.headroom)
        self._ended: list[StreamFigures] = []
        self._refusals: Counter[str] = Counter()
        self._asked = 0
        self._lost: list[str] = []
        self._samples: list[Sample] = []

    def run(self) -> Outcome:
        for event in self._trace.events:
            if event.at_s <= self._trace.duration_s:
                self._run(event.at_s)
                getattr(self, f'_{event.kind}')(event)
        self._run(self._trace.duration_s)
        for stream in list(self._virtual.streams.values()):
            self._ended.append(self._figures(stream, 'ran'))
        span_ns = self._virtual.now_ns
        return Outcome(
            streams=tuple(self._ended),
            asked=self._asked,
            refusals=dict(self._refusals),
            lost=tuple(self._lost),
            devices=tuple(device.name for device in self._file.pool.devices),
            utilisation=tuple(d.busy_ns / span_ns for d in self._virtual.devices),
            mean_batch=tuple(d.rows / max(d.batches, 1) for d in self._virtual.devices),
            samples=tuple(self._samples),
            sample_s=self._trace.sample_s,
            sampled_share=self._virtual.sampled_ns / span_ns,
        )

    def _run(self, until_s: float) -> None:
        self._virtual.run(round(until_s * S), self._skip, round(self._trace.sample_s * S))

    def _open(self, event: Event) -> None:
        self._ask(demand(event.subject, self._file.models[event.model], event.slo_s))

    def _ask(self, asked: Demand) -> None:
        self._asked += 1
        answer = self._behind(asked) or self._door.admit(asked, explain=False)
        if isinstance(answer, Admission):
            self._start(answer.placement)
        else:
            self._refuse(answer)
        self._sample(asked)

    def _start(self, placement: Placement) -> None:
        asked = placement.demand
        passes, slo_s = asked.model.passes, asked.slo_s
        hosts = [placement.hosts[rank] for rank in asked.owner]
        # A time-shared period serves each pass once: a chunk lives up to that many periods.
        depth = in_flight(asked.model, hosts, self._max_batch)
        self._virtual.open(
            asked.stream, asked.model, hosts, slo_s, depth, passes * slo_s,
            phase_s=self._chance.random() * slo_s,
        )  # fmt: skip

    def _behind(self, asked: Demand) -> Refusal | None:
        overload = self._virtual.overload
        if overload is None:
            return None
        return Refusal(asked.stream, 'closed', '', overload.text(self._virtual.now_ns))

    def _refuse(self, refusal: Refusal) -> None:
        self._refusals[refusal.constraint] += 1

    def _close(self, event: Event) -> None:
        if event.subject in self._virtual.streams:
            asked = self._door.running[event.subject].demand
            self._ended.append(self._figures(self._virtual.close(event.subject), 'left'))
            self._door.leave(event.subject)
            self._sample(asked)

    def _slow(self, event: Event) -> None:
        self._virtual.slow_down(self._file.pool.index(event.subject), event.factor)

    def _lose(self, event: Event) -> None:
        device = self._file.pool.index(event.subject)
        before = dict(self._virtual.streams)
        gone = self._virtual.lose(device)
        demands = [self._door.running[name].demand for name in gone]
        for name in gone:
            self._ended.append(self._figures(before[name], 'lost'))
            self._door.leave(name)
        self._door.ledger.retire(device)
        self._lost += gone
        # A lost stream begins anew, in a new epoch, wherever there is room.
        for asked in demands:
            self._ask(asked)

    def _sample(self, asked: Demand) -> None:
        ledger = self._door.ledger
        ledger.begin(asked)
        free = ledger.memory - ledger.used
        usable = np.zeros(len(free), bool)
        for rank in range(len(asked.ranks)):
            usable |= ledger.offer(asked, rank, [-1] * len(asked.ranks)).memory_ok
        stranded = float(free[~usable].sum() / free.sum()) if free.sum() else 0.0
        ledger.tidy()
        self._samples.append(
            Sample(
                at_s=self._virtual.now_ns / S,
                streams=len(self._door.running),
                used_share=float(ledger.used.sum() / ledger.memory.sum()),
                stranded_share=stranded,
                longest_queue=max(self._virtual.queues()),
            )
        )

    def _figures(self, stream: VirtualStream, fate: str) -> StreamFigures:
        return stream_figures(
            stream, fate, round(self._trace.settle_s * S), sampled=self._trace.sample_s > 0
        )
