# SPDX-License-Identifier: Apache-2.0
"""
What running in a pool costs beyond the model: measured on a real pool of this model.

One worker, then two: the engine's own time for each task, the time of a hop to a worker that
waits, and how much slower a stage gets when the other worker computes beside it.
"""

from __future__ import annotations

import time
from collections.abc import Sequence
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


def measure_handover(
    model: str, blocks: int, device: str = 'cpu', chunks: int = 40, models: str = REGISTRY
) -> Handover:
    """
    Run the model on one worker and, where it has two blocks, on two.

    :param model: its URI, as workers load it.
    :param chunks: how many chunks each pool makes.
    """
    (alone,) = _laps(PoolConfig(model, 1, 'serial', **_for(device, 1)), (1,), chunks, models)
    if blocks < 2:
        return Handover(task_s=_task_s(alone))
    config = PoolConfig(model, 2, 'block', **_for(device, 2))
    # A lonely chunk meets idle workers: what it waits is the hop, not a queue.
    lonely, both = _laps(config, (1, 2), chunks, models)
    hops = [edge.wait.percentile_ns(50) for (a, b), edge in lonely.edges.items() if min(a, b) >= 0]
    return Handover(
        task_s=_task_s(both),
        hop_s=float(np.median(hops)) / 1e9,
        # Two workers on one accelerator are no two devices: only processors say something here.
        crowding=max(1.0, _stage_ns(both, blocks) / _stage_ns(alone, blocks))
        if device == 'cpu'
        else 1.0,
    )


def _for(device: str, workers: int) -> dict[str, Any]:
    return {'devices': (device,) * workers, 'max_streams': 1}


def _laps(config: PoolConfig, laps: Sequence[int], chunks: int, models: str) -> list[Metrics]:
    """Run one pool in laps, each with at most so many chunks in flight; return their figures."""
    found = []
    with Pool(config, models) as pool:
        pool.start(_START_S)
        pool.open_stream(_STREAM)
        for most in laps:
            pool.metrics = Metrics()
            _lap(pool, most, chunks)
            pool.health()
            found.append(pool.metrics)
    return found


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
