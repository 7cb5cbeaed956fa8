# SPDX-License-Identifier: Apache-2.0
"""
What running in a pool costs beyond the model: measured on a real pool of this model.

One worker, then two: the engine's own time for each task, the time of a hop to a worker that
waits, and how much slower a stage gets when the other worker computes beside it.
"""

from __future__ import annotations

import time
from contextlib import closing
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
import torch

from physis_ros.engine.config import PoolConfig
from physis_ros.engine.metrics import Metrics
from physis_ros.engine.models import REGISTRY
from physis_ros.engine.pool import Pool
from physis_ros.errors import DeadlinePassed

_STREAM = 'measured'
_START_S, _RESULT_S = 120.0, 30.0


@dataclass(frozen=True)
class Handover:
    """
    Costs around the model.

    :param task_s: the engine's own time for each task.
    :param hop_s: from sending a message to its being received by a worker that waits for it.
    :param crowding: time of a stage beside a busy neighbour over its time alone, at least 1.
    """

    task_s: float = 0.0
    hop_s: float = 0.0
    crowding: float = 1.0


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
                config = PoolConfig(model, workers, grouping, devices=devices, max_streams=1)
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
        alone = self._lap(self._pools[0], 1)
        if len(self._pools) < 2:
            return Handover(task_s=_task_s(alone))
        # A lonely chunk meets idle workers: what it waits is the hop, not a queue.
        lonely, both = self._lap(self._pools[1], 1), self._lap(self._pools[1], 2)
        hops = [e.wait.percentile_ns(50) for (a, b), e in lonely.edges.items() if min(a, b) >= 0]
        crowding = _stage_ns(both, self._blocks) / _stage_ns(alone, self._blocks)
        return Handover(
            task_s=_task_s(both),
            hop_s=float(np.median(hops)) / 1e9,
            # Two workers on one accelerator are no two devices: only processors say something.
            crowding=max(1.0, crowding) if self._device == 'cpu' else 1.0,
        )

    def _lap(self, pool: Pool, most: int) -> Metrics:
        """Run chunks, at most so many in flight; return the figures of the lap."""
        pool.metrics = Metrics()
        _lap(pool, most, self._chunks)
        pool.health()
        return pool.metrics


def measure_handover(
    model: str, blocks: int, device: str = 'cpu', chunks: int = 40, models: str = REGISTRY
) -> Handover:
    """Start the pools of a :class:`HandoverProbe`, measure once, end them."""
    with closing(HandoverProbe(model, blocks, device, chunks, models)) as probe:
        return probe.measure()


def _lap(pool: Pool, most: int, chunks: int) -> None:
    inputs = _zeros(pool)
    entered = came = 0
    until_s = time.monotonic() + _RESULT_S
    while came < chunks:
        free = entered < min(chunks, came + most)
        if free and pool.ready(_STREAM):
            pool.enter(_STREAM, inputs, time.monotonic_ns() + 10**9, True)
            entered += 1
        elif pool.next_result(1.0) is not None:
            came, until_s = came + 1, time.monotonic() + _RESULT_S
        elif time.monotonic() > until_s:
            raise DeadlinePassed(f'a chunk must take at most {_RESULT_S:g} s, and did not')


def _zeros(pool: Pool) -> dict[str, npt.NDArray[Any]]:
    return {i.name: torch.zeros(i.shape, dtype=i.dtype).numpy() for i in pool.spec.inputs}


def _task_s(metrics: Metrics) -> float:
    return float(metrics.overhead.percentile_ns(50)) / 1e9


def _stage_ns(metrics: Metrics, blocks: int) -> float:
    """Return the mean over stages of their median time."""
    figures = [f for (_, block), f in metrics.stages.items() if block < blocks]
    return float(np.mean([f.compute.percentile_ns(50) for f in figures]))
