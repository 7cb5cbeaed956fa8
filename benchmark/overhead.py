#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""
The engine's own time per task: everything a worker does that is not the model, metrics on.

Real worker processes run the model behind a watch (this file is also the module that opens it, by
the engine's registry). The watch stamps every call of the model; what lies between two calls is
the engine's: receiving, choosing, noise, stacking, KV bookkeeping, spans, sending. Writing and
gathering KV happens inside a block's call and is counted as the engine's too. The watch's own
work is not counted. Wall time counts where the worker never waits; with a hop after every task it
does, so there the thread's processor time counts.
"""

from __future__ import annotations

import argparse
import json
import logging
import mmap
import os
import struct
import sys
import tempfile
import time
from collections.abc import Collection, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

from physis_ros.backbones import registry
from physis_ros.backbones.base import Backbone, Decoded, KvRead, KvWindow, ModelSpec
from physis_ros.engine.config import PoolConfig
from physis_ros.engine.pool import Pool

BAR_US = 60.0
STREAM = 'robot'
_MARK = 'watched+'
_RECORDS = 200_000
_RECORD = struct.Struct('=6q')
FIELDS = ('rows', 'wall', 'cpu', 'window_wall', 'window_cpu', 'model')


# The watch, inside the workers.


def read_spec(uri: str) -> ModelSpec:
    """Return the sizes of the model behind the watch."""
    return registry.read_spec(_parted(uri)[1])


def open_backbone(uri: str, device: str, blocks: frozenset[int] | None) -> Backbone:
    """Load the model and put the watch around it; it writes into a file of this process."""
    folder, inner = _parted(uri)
    return Watched(registry.open_backbone(inner, device, blocks), Path(folder))


def _parted(uri: str) -> tuple[str, str]:
    folder, _, inner = uri.removeprefix(_MARK).partition('+')
    return folder, inner


class Watched:
    """
    A model that notes how long it was left alone between its calls, one record for each block.

    :param inner: the model.
    :param folder: where the record file goes, named by the process.
    """

    def __init__(self, inner: Backbone, folder: Path) -> None:
        self._inner = inner
        size = 8 + _RECORDS * _RECORD.size
        with (folder / f'{os.getpid()}').open('w+b') as file:
            file.truncate(size)
            self._map = mmap.mmap(file.fileno(), size)
        self._count = self._model_ns = self._engine_ns = self._engine_cpu_ns = 0
        self._left_ns, self._left_cpu_ns = time.monotonic_ns(), time.thread_time_ns()

    @property
    def spec(self) -> ModelSpec:
        """The sizes."""
        return self._inner.spec

    def _called(self) -> int:
        now_ns, cpu_ns = time.monotonic_ns(), time.thread_time_ns()
        self._engine_ns += now_ns - self._left_ns
        self._engine_cpu_ns += cpu_ns - self._left_cpu_ns
        return time.monotonic_ns()

    def _left(self, called_ns: int) -> None:
        self._model_ns += time.monotonic_ns() - called_ns
        self._left_cpu_ns, self._left_ns = time.thread_time_ns(), time.monotonic_ns()

    def encode(self, inputs: Mapping[str, Tensor]) -> Tensor:
        """As the model."""
        called_ns = self._called()
        out = self._inner.encode(inputs)
        self._left(called_ns)
        return out

    def enter(
        self, latent: Tensor | None, conditioning: Tensor, noise: Tensor, step: Tensor
    ) -> Tensor:
        """As the model."""
        called_ns = self._called()
        out = self._inner.enter(latent, conditioning, noise, step)
        self._left(called_ns)
        return out

    def block(self, index: int, hidden: Tensor, step: Tensor, kv: KvWindow) -> Tensor:
        """As the model; ends a record."""
        called_ns = self._called()
        window = _Window(kv)
        out = self._inner.block(index, hidden, step, window)
        model_ns = self._model_ns + time.monotonic_ns() - called_ns - window.wall_ns
        record = (
            len(hidden), self._engine_ns, self._engine_cpu_ns, window.wall_ns, window.cpu_ns,
            model_ns,
        )  # fmt: skip
        if self._count < _RECORDS:
            _RECORD.pack_into(self._map, 8 + self._count * _RECORD.size, *record)
            self._count += 1
            self._map[:8] = self._count.to_bytes(8, 'little')
        self._model_ns = self._engine_ns = self._engine_cpu_ns = 0
        self._left_cpu_ns, self._left_ns = time.thread_time_ns(), time.monotonic_ns()
        return out

    def leave(self, hidden: Tensor, step: Tensor) -> Tensor:
        """As the model."""
        called_ns = self._called()
        out = self._inner.leave(hidden, step)
        self._left(called_ns)
        return out

    def decode(self, latent: Tensor, inputs: Mapping[str, Tensor], frames: bool) -> Decoded:
        """As the model."""
        called_ns = self._called()
        out = self._inner.decode(latent, inputs, frames)
        self._left(called_ns)
        return out

    def constrain(self, latent: Tensor, prefix: Tensor, weight: Tensor) -> Tensor:
        """As the model."""
        called_ns = self._called()
        out = self._inner.constrain(latent, prefix, weight)
        self._left(called_ns)
        return out

    def witness(self, inputs: Mapping[str, Tensor]) -> Tensor:
        """As the model."""
        return self._inner.witness(inputs)

    def hold(self, blocks: Collection[int]) -> None:
        """As the model."""
        self._inner.hold(blocks)

    def drop(self, blocks: Collection[int]) -> None:
        """As the model."""
        self._inner.drop(blocks)


class _Window:
    """Times the engine's part inside a block: writing and gathering KV."""

    def __init__(self, inner: KvWindow) -> None:
        self._inner = inner
        self.wall_ns = self.cpu_ns = 0

    def extend(self, key: Tensor, value: Tensor) -> KvRead:
        """As the window."""
        wall_ns, cpu_ns = time.monotonic_ns(), time.thread_time_ns()
        read = self._inner.extend(key, value)
        self.cpu_ns += time.thread_time_ns() - cpu_ns
        self.wall_ns += time.monotonic_ns() - wall_ns
        return read


def read_records(folder: Path) -> npt.NDArray[np.int64]:
    """Return all workers' records, [n, fields]."""
    found = [np.zeros((0, len(FIELDS)), np.int64)]
    for path in sorted(folder.iterdir()):
        raw = path.read_bytes()
        count = int.from_bytes(raw[:8], 'little')
        found.append(np.frombuffer(raw, np.int64, count * len(FIELDS), 8).reshape(count, -1))
    return np.concatenate(found)


# The runs.


class Case(NamedTuple):
    """
    One way to run the model.

    :param waits: whether the worker waits between tasks, so that only processor time counts.
    :param judged: whether the bar is its; the others are shown.
    """

    name: str
    config: PoolConfig
    waits: bool
    judged: bool = True


def cases(model: str) -> list[Case]:
    """
    Return how plans run, and what no plan does.

    All on one worker; the same batched; two workers in a pipe; and a hop after *every* task, to
    see what one costs.
    """
    spec = registry.read_spec(model)
    stages, steps = spec.steps * spec.blocks, spec.steps
    apart = tuple(stage % 2 for stage in range(stages))
    return [
        Case('local', PoolConfig(model, 1, max_streams=1), False),
        Case(
            'batched',
            PoolConfig(model, 1, max_streams=1, max_batch=steps, in_flight=steps + 1),
            False,
        ),
        Case('pipe', PoolConfig(model, 2, max_streams=1), True),
        Case('hops', PoolConfig(model, 2, assignment=apart, max_streams=1), True, judged=False),
    ]


@dataclass
class Run:
    """A case's pool, running, and its record files."""

    case: Case
    pool: Pool
    folder: Path
    entered: int = 0

    def turn(self, chunks: int, values: Mapping[str, npt.NDArray[Any]]) -> None:
        """Run so many chunks as fast as they go."""
        last, done = self.entered + chunks, self.entered
        while done < last:
            if self.entered < last and self.pool.ready(STREAM):
                self.pool.enter(STREAM, values, time.monotonic_ns() + 10**9, False)
                self.entered += 1
            elif self.pool.next_result(10.0) is not None:
                done += 1


def started(case: Case, folder: Path) -> Run:
    """Start a case's pool on the watched model."""
    folder.mkdir()
    config = case.config
    watched = {**vars(config), 'model': f'{_MARK}{folder}+{config.model}'}
    pool = Pool(PoolConfig(**watched), models='overhead')
    pool.start(120.0)
    pool.open_stream(STREAM)
    return Run(case, pool, folder)


def figures(case: Case, records: npt.NDArray[np.int64], own_us: float) -> dict[str, Any]:
    """Return what a run's records say, in microseconds per task."""
    rows, wall, cpu, window_wall, window_cpu, model = records.T / 1.0
    engine_wall = (wall + window_wall) / rows / 1e3
    engine_cpu = (cpu + window_cpu) / rows / 1e3
    counted = engine_cpu if case.waits else engine_wall
    return {
        'case': case.name,
        'clock': 'processor' if case.waits else 'wall',
        'n': len(records),
        'rows': float(rows.mean()),
        'engine_us': {str(p): float(np.percentile(counted, p)) for p in (50, 90, 99)},
        'engine_cpu_mean_us': float(engine_cpu.mean()),
        'window_us': float(np.median(window_cpu / rows)) / 1e3,
        'model_us': float(np.median(model / rows)) / 1e3,
        'self_reported_us': own_us,
        'judged': case.judged,
        'holds': float(np.percentile(counted, 50)) <= BAR_US,
    }


def measure(model: str, turns: int, chunks: int) -> list[dict[str, Any]]:
    """Run all cases in turns, so that all of them meet the same machine."""
    rng = np.random.default_rng(0)
    spec = registry.read_spec(model)
    values = {i.name: _one(rng, i.shape, i.dtype) for i in spec.inputs if not i.optional}
    with tempfile.TemporaryDirectory() as place:
        runs: list[Run] = []
        try:
            for case in cases(model):
                runs.append(started(case, Path(place) / case.name))
            for _ in range(turns):
                for run in runs:
                    run.turn(chunks, values)
            own = [run.pool.metrics.overhead.percentile_ns(50) / 1e3 for run in runs]
        finally:
            for run in runs:
                run.pool.close()
        return [
            figures(run.case, read_records(run.folder), us)
            for run, us in zip(runs, own, strict=True)
        ]


def _one(rng: np.random.Generator, shape: tuple[int, ...], dtype: torch.dtype) -> Any:
    kind = torch.empty(0, dtype=dtype).numpy().dtype
    return rng.integers(0, 20, shape).astype(kind)


def main() -> int:
    """Measure, print, judge."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument('--model', default='reach')
    parser.add_argument('--turns', type=int, default=6)
    parser.add_argument('--chunks', type=int, default=12, help='in each turn')
    parser.add_argument('--json', action='store_true')
    given = parser.parse_args()
    here = str(Path(__file__).resolve().parent)
    os.environ['PYTHONPATH'] = os.pathsep.join(filter(None, [here, os.getenv('PYTHONPATH')]))
    torch.set_num_threads(1)
    logging.disable(logging.WARNING)
    found = measure(given.model, given.turns, given.chunks)
    for one in found:
        spread = one['engine_us']
        bar = f'at most {BAR_US:.0f}; ' if one['judged'] else ''
        print(
            f'{one["case"]:8} {one["n"]:6} batches of {one["rows"]:.1f}: engine '
            f'{spread["50"]:.1f} us a task at p50 ({bar}{one["clock"]} time), '
            f'p90 {spread["90"]:.1f}, p99 {spread["99"]:.1f}; KV in it {one["window_us"]:.1f}; '
            f'model {one["model_us"]:.0f} us; workers say {one["self_reported_us"]:.1f}',
            flush=True,
        )
    mean_us = {one['case']: one['engine_cpu_mean_us'] for one in found}
    hop_us = mean_us['hops'] - mean_us['local']
    print(f'a hop after every task adds {hop_us:.1f} us of processor time a task, both ends')
    result = {
        'model': given.model,
        'cases': found,
        'hop_adds_us': hop_us,
        'bar_us': BAR_US,
        'holds': all(one['holds'] for one in found if one['judged']),
    }
    if given.json:
        print(json.dumps(result))
    return 0 if result['holds'] else 1


if __name__ == '__main__':
    sys.exit(main())
