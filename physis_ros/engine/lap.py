# SPDX-License-Identifier: Apache-2.0
"""Chunks sent through a running pool one after the other, and what was seen of them."""

from __future__ import annotations

import time
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
import torch

from physis_ros.engine.config import PoolConfig
from physis_ros.engine.metrics import Metrics
from physis_ros.engine.pool import Pool
from physis_ros.engine.result import ChunkResult
from physis_ros.engine.spans import Span
from physis_ros.errors import DeadlinePassed

STREAM = 'measured'
_START_S, _RESULT_S = 120.0, 30.0
_POOL = -1


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
    def entry_s(self) -> float:
        """The time of a message from the pool to a worker."""
        return self.way_s(_POOL, 0)

    def way_s(self, source: int, target: int) -> float:
        """Return the time of a message from worker to worker."""
        return self.metrics.edges[source, target].wait.percentile_ns(50) / 1e9

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


@contextmanager
def running(config: PoolConfig, models: str) -> Iterator[Pool]:
    """Give a pool that runs, with the stream of :func:`lap` open; it ends with the context."""
    with Pool(config, models) as pool:
        pool.start(_START_S)
        pool.open_stream(STREAM)
        yield pool


def lap(pool: Pool, most: int, chunks: int, rest_s: float = 0.0) -> Lap:
    """
    Run chunks through a pool in which the stream ``measured`` is open; return what was seen.

    :param most: chunks in flight at once.
    :param rest_s: pause before each.
    """
    pool.metrics = Metrics()
    results = _ran(pool, most, chunks, rest_s)
    return Lap(pool.metrics, results, [_stages(pool, r.chunk) for r in results])


def _stages(pool: Pool, chunk: int) -> list[Span]:
    return [s for s in pool.chunk_spans(STREAM, chunk) if s.block < pool.spec.blocks]


def _ran(pool: Pool, most: int, chunks: int, rest_s: float) -> list[ChunkResult]:
    inputs = _zeros(pool)
    entered, results = 0, list[ChunkResult]()
    until_s = time.monotonic() + _RESULT_S
    while len(results) < chunks:
        free = entered < min(chunks, len(results) + most)
        if free and pool.ready(STREAM):
            time.sleep(rest_s)
            pool.enter(STREAM, inputs, time.monotonic_ns() + 10**9, True)
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
