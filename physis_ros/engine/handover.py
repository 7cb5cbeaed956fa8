# SPDX-License-Identifier: Apache-2.0
"""
What running in a pool costs beyond the model: measured on a real pool of this model.

One worker, then two: the engine's own time for each task, the way of a result to its collector,
what passes until the next chunk enters, the time of a hop to a worker that waits, and how much
slower a chunk gets when the other worker computes beside it.
"""

from __future__ import annotations

import time
from collections.abc import Iterable, Sequence
from contextlib import closing
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import numpy.typing as npt
import torch

from physis_ros.engine.config import PoolConfig
from physis_ros.engine.metrics import Metrics
from physis_ros.engine.models import REGISTRY
from physis_ros.engine.pool import Pool
from physis_ros.engine.result import ChunkResult
from physis_ros.engine.spans import Span
from physis_ros.errors import DeadlinePassed

_STREAM = 'measured'
_START_S, _RESULT_S = 120.0, 30.0
# Chunks of one turn where two pools take turns.
_PART = 8


@dataclass(frozen=True)
class Handover:
    """
    Costs around the model.

    :param task_s: the engine's own time for each task.
    :param hop_s: from sending a message to its being received by a worker that waits for it.
    :param deliver_s: from a worker's sending a result to its being with who waits for it.
    :param turn_s: from there to the entry of the next chunk, by who is at nothing else.
    :param crowding: time of a chunk's stages beside a busy neighbour over their time on a single
        busy worker, at least 1. What serves the pool takes its share of the processors, too.
    """

    task_s: float = 0.0
    hop_s: float = 0.0
    deliver_s: float = 0.0
    turn_s: float = 0.0
    crowding: float = 1.0


@dataclass(frozen=True)
class Lap:
    """
    What a pool did, chunk after chunk.

    :param results: in order.
    :param stages: for each of them, what was done at its stages.
    """

    metrics: Metrics
    results: Sequence[ChunkResult]
    stages: Sequence[Sequence[Span]]

    @property
    def task_s(self) -> float:
        """The engine's own time for a task."""
        return self.metrics.overhead.percentile_ns(50) / 1e9

    @property
    def hop_s(self) -> float:
        """The time of a message from worker to worker."""
        edges = self.metrics.edges.items()
        hops_ns = [e.wait.percentile_ns(50) for (a, b), e in edges if min(a, b) >= 0]
        return float(np.median(hops_ns)) / 1e9

    @property
    def deliver_s(self) -> float:
        """The time of a result from worker to collector."""
        return _median_s(r.delivered_steady_ns - r.decoded_steady_ns for r in self.results)

    @property
    def turn_s(self) -> float:
        """The time from a chunk's end to the next entry, where one follows the other."""
        # Under the clean rule a chunk still computes when its result is out.
        ends_ns = [
            max(result.delivered_steady_ns, stages[-1].ended_ns)
            for result, stages in zip(self.results, self.stages, strict=True)
        ]
        return _median_s(
            later.entered_steady_ns - end_ns
            for end_ns, later in zip(ends_ns, self.results[1:], strict=False)
        )

    @property
    def stages_s(self) -> float:
        """The time of all stages of a chunk."""
        return _median_s(sum(s.ended_ns - s.started_ns for s in spans) for spans in self.stages)


class HandoverProbe:
    """
    Runs the model on one worker and, where it has two blocks, on two, which wait in between.

    :param model: its URI, as workers load it.
    :param chunks: how many chunks each pool makes in a measurement.
    """

    def __init__(
        self,
        model: str,
        blocks: int,
        device: str = 'cpu',
        chunks: int = 40,
        models: str = REGISTRY,
    ) -> None:
        self._blocks, self._device, self._chunks = blocks, device, chunks
        self._pools: list[Pool] = []
        try:
            for workers, grouping in ((1, 'serial'), (2, 'block'))[: min(blocks, 2)]:
                devices = (device,) * workers
                config = PoolConfig(
                    model, workers, grouping, devices=devices, max_streams=1, in_flight=2
                )
                self._pools.append(Pool(config, models))
                self._pools[-1].start(_START_S)
                self._pools[-1].open_stream(_STREAM)
        except BaseException:
            self.close()
            raise

    def close(self) -> None:
        """End the workers."""
        for pool in self._pools:
            pool.close()

    def measure(self) -> Handover:
        """Return what is measured now."""
        single = self._lap(self._pools[0], 1)
        found = Handover(
            task_s=single.task_s, deliver_s=single.deliver_s, turn_s=max(0.0, single.turn_s)
        )
        if len(self._pools) < 2:
            return found
        # A lonely chunk meets idle workers: what it waits is the hop, not a queue.
        lonely = self._lap(self._pools[1], 1)
        return replace(
            found,
            hop_s=lonely.hop_s,
            # Two workers on one accelerator are no two devices: only processors say something.
            crowding=max(1.0, self._crowding()) if self._device == 'cpu' else 1.0,
        )

    def _crowding(self) -> float:
        # Workers without a pause on both sides: one that has slept is slow for a while. In turns,
        # and one ratio of each: a machine's pace changes while it is measured.
        one, two = self._pools
        ratios = [
            self._lap(two, 2, _PART).stages_s / self._lap(one, 2, _PART).stages_s
            for _ in range(max(1, self._chunks // _PART))
        ]
        return float(np.median(ratios))

    def _lap(self, pool: Pool, most: int, chunks: int = 0) -> Lap:
        """
        Run chunks, at most so many in flight; return what was seen.

        :param chunks: how many; 0: as many as a measurement has.
        """
        pool.metrics = Metrics()
        results = _ran(pool, most, chunks or self._chunks)
        return Lap(pool.metrics, results, [self._stages(pool, r.chunk) for r in results])

    def _stages(self, pool: Pool, chunk: int) -> list[Span]:
        return [s for s in pool.chunk_spans(_STREAM, chunk) if s.block < self._blocks]


def measure_handover(
    model: str, blocks: int, device: str = 'cpu', chunks: int = 40, models: str = REGISTRY
) -> Handover:
    """Start the pools of a :class:`HandoverProbe`, measure once, end them."""
    with closing(HandoverProbe(model, blocks, device, chunks, models)) as probe:
        return probe.measure()


def _ran(pool: Pool, most: int, chunks: int) -> list[ChunkResult]:
    inputs = _zeros(pool)
    entered, results = 0, list[ChunkResult]()
    until_s = time.monotonic() + _RESULT_S
    while len(results) < chunks:
        free = entered < min(chunks, len(results) + most)
        if free and pool.ready(_STREAM):
            pool.enter(_STREAM, inputs, time.monotonic_ns() + 10**9, True)
            entered += 1
        elif (result := pool.next_result(1.0)) is not None:
            results.append(result)
            until_s = time.monotonic() + _RESULT_S
        elif time.monotonic() > until_s:
            raise DeadlinePassed(f'a chunk must take at most {_RESULT_S:g} s, and did not')
    return results


def _zeros(pool: Pool) -> dict[str, npt.NDArray[Any]]:
    return {i.name: torch.zeros(i.shape, dtype=i.dtype).numpy() for i in pool.spec.inputs}


def _median_s(spans_ns: Iterable[int]) -> float:
    return float(np.median(list(spans_ns))) / 1e9
