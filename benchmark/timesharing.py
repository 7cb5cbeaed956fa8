#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""
What batching is worth on one worker (E6): the D steps of one stream, and two streams.

All pools hold the same model on one worker and run in turns, so that every ratio is within one
run. Outputs are compared with the serial oracle, row by row, whatever batch they came from.
"""

from __future__ import annotations

import argparse
import json
import logging
import sys
import time
from collections import Counter
from contextlib import ExitStack
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import torch
from pipeline import default_model, inputs

from physis_ros.backbones.base import ModelSpec
from physis_ros.backbones.registry import open_backbone, read_spec
from physis_ros.engine.config import PoolConfig
from physis_ros.engine.pool import Pool
from physis_ros.engine.result import ChunkResult
from physis_ros.engine.serial import SerialEngine

BAR_STEPS, BAR_STREAMS, BAR_DIFFERENCE = 0.6, 1.6, 1e-5
# Wan2.2 5B on one GPU, 173 -> 98 ms a chunk; Wan2.1 1.3B on two GPUs, 187 -> 139 ms.
PUBLISHED = {'Wan2.2 TI2V 5B, 1 GPU': 98 / 173, 'Wan2.1 1.3B, 2 GPUs': 139 / 187}
# Both streams answer one after the other: so long the first waits for the second's next chunk.
WAIT_US = 1000
_VARIED = 64


@dataclass
class Side:
    """
    One pool and its streams, kept as full as its configuration allows.

    :param spent_ns: for each turn, how long one chunk of *each* stream took.
    :param worked_ns: likewise, the processor time of the worker.
    """

    name: str
    pool: Pool
    streams: tuple[str, ...]
    values: list[dict[str, Any]]
    spent_ns: list[float] = field(default_factory=list)
    worked_ns: list[float] = field(default_factory=list)
    entered: Counter[str] = field(default_factory=Counter)
    results: list[ChunkResult] = field(default_factory=list)

    def turn(self, chunks: int) -> None:
        """Run so many chunks of each stream; what fills the pipe is not counted."""
        fill = self.pool.layout.in_flight
        first, last = len(self.results), self.entered[self.streams[0]] + fill + chunks
        before_ns = _processor_ns(self.pool.pids[0])
        while len(self.results) - first < (fill + chunks) * len(self.streams):
            if not self._enter(last):
                result = self.pool.next_result(10.0)
                if result is not None:
                    self.results.append(result)
        stamps = [r.delivered_steady_ns for r in self.results[first:]]
        counted = stamps[fill * len(self.streams) - 1 :]
        self.spent_ns.append((counted[-1] - counted[0]) / chunks)
        self.worked_ns.append((_processor_ns(self.pool.pids[0]) - before_ns) / (fill + chunks))

    def _enter(self, last: int) -> bool:
        for stream in sorted(self.streams, key=self.entered.__getitem__):
            number = self.entered[stream]
            if number < last and self.pool.ready(stream):
                values = self.values[number % _VARIED]
                self.pool.enter(stream, values, time.monotonic_ns() + 10**9, False)
                self.entered[stream] += 1
                return True
        return False

    def mean_batch(self) -> float:
        """Return the size of the batch that a task ran in, on average."""
        blocks = self.pool.spec.blocks
        kept = [f for (_, block), f in self.pool.metrics.stages.items() if block < blocks]
        return sum(f.rows for f in kept) / max(1, sum(f.compute.count for f in kept))

    def worst_difference(self) -> float:
        """Return how far actions are from the serial oracle's, at most."""
        oracle = SerialEngine(open_backbone(self.pool.config.model), self.pool.config.seed)
        worst = 0.0
        for stream in self.streams:
            oracle.open(stream)
            for result in (r for r in self.results if r.stream == stream):
                values = self.values[result.chunk % _VARIED]
                batched = {k: torch.from_numpy(np.asarray(v))[None] for k, v in values.items()}
                actions = oracle.run(stream, batched).actions[0].numpy()
                worst = max(worst, float(np.abs(actions - result.actions).max()))
        return worst


def sides(model: str, spec: ModelSpec, stack: ExitStack) -> dict[str, Side]:
    """
    Start all pools.

    ``batched`` has D + 1 chunks in flight: one waits at the entry, so that D rows are always
    there. ``two`` gives each of two streams one chunk in flight, like ``plain`` its one: there
    company comes only from the other stream, and is waited for within the slack of 1 s.
    ``two_deep`` fills both streams.
    """
    steps = spec.steps
    kinds: dict[str, tuple[tuple[str, ...], dict[str, int]]] = {
        'plain': (('a',), {'max_batch': 1, 'in_flight': 1}),
        'unbatched': (('a',), {'max_batch': 1, 'in_flight': steps + 1}),
        'batched': (('a',), {'max_batch': steps, 'in_flight': steps + 1}),
        'two': (('a', 'b'), {'max_batch': 2, 'in_flight': 1, 'batch_wait_us': WAIT_US}),
        'two_deep': (('a', 'b'), {'max_batch': 2 * steps, 'in_flight': steps + 1}),
    }
    values = [inputs(spec, number) for number in range(_VARIED)]
    found = {}
    for name, (streams, settings) in kinds.items():
        config = PoolConfig(model, 1, max_streams=len(streams), **settings)  # type: ignore[arg-type]
        pool = stack.enter_context(Pool(config))
        pool.start(120.0)
        for stream in streams:
            pool.open_stream(stream)
        found[name] = Side(name, pool, streams, values)
    return found


def _processor_ns(pid: int) -> int:
    # The clock of another process's processor time, as clock_getcpuclockid(3) numbers it.
    return time.clock_gettime_ns((~pid << 3) | 2)


def paired(above: Side, below: Side) -> tuple[float, float, float]:
    """Return the median over turns of the ratio of two sides, and its quartiles."""
    ratios = np.array(above.spent_ns) / np.array(below.spent_ns)
    low, mid, high = (float(q) for q in np.percentile(ratios, (25, 50, 75)))
    return mid, low, high


def measure(model: str, turns: int, chunks: int) -> dict[str, Any]:
    """Run all sides in turns and compare."""
    spec = read_spec(model)
    with ExitStack() as stack:
        all_sides = sides(model, spec, stack)
        for _ in range(turns):
            for side in all_sides.values():
                side.turn(chunks)
        for side in all_sides.values():
            side.pool.health()
        steps = paired(all_sides['batched'], all_sides['unbatched'])
        streams = paired(all_sides['two'], all_sides['plain'])
        deep = paired(all_sides['two_deep'], all_sides['batched'])
        worst = max(side.worst_difference() for side in all_sides.values())
        return {
            'model': model,
            'turns': turns,
            'chunks_a_turn': chunks,
            'chunk_ms': {n: float(np.median(s.spent_ns)) / 1e6 for n, s in all_sides.items()},
            'processor_ms': {n: float(np.median(s.worked_ns)) / 1e6 for n, s in all_sides.items()},
            'rows_a_batch': {n: s.mean_batch() for n, s in all_sides.items()},
            'steps_ratio': {'p50': steps[0], 'p25': steps[1], 'p75': steps[2]},
            'streams_ratio': {'p50': streams[0], 'p25': streams[1], 'p75': streams[2]},
            'full_streams_ratio': {'p50': deep[0], 'p25': deep[1], 'p75': deep[2]},
            'published': PUBLISHED,
            'worst_difference': worst,
            'holds': steps[0] <= BAR_STEPS
            and streams[0] < BAR_STREAMS
            and worst <= BAR_DIFFERENCE,
        }


def show(found: dict[str, Any]) -> None:
    """Print the figures as a table."""
    turns, chunks = found['turns'], found['chunks_a_turn']
    print(f'{found["model"]} on one worker, {turns} turns of {chunks} chunks a stream, paired')
    for name, chunk_ms in found['chunk_ms'].items():
        rows = found['rows_a_batch'][name]
        worked_ms = found['processor_ms'][name]
        print(
            f'  {name:10} {chunk_ms:7.2f} ms for a chunk of each stream '
            f'({worked_ms:.2f} ms of processor time), batches of {rows:.2f}'
        )
    lines = {
        'steps_ratio': f'the D steps batched: {{:.3f}} of unbatched (at most {BAR_STEPS})',
        'streams_ratio': f'two streams: {{:.3f}} of one, one chunk each (below {BAR_STREAMS})',
        'full_streams_ratio': 'two full streams: {:.3f} of one full one (no bar)',
    }
    for key, line in lines.items():
        ratio = found[key]
        spread = f', quartiles {ratio["p25"]:.3f} to {ratio["p75"]:.3f}'
        print(line.format(ratio['p50']) + spread)
    for name, ratio in PUBLISHED.items():
        print(f'published, {name}: {ratio:.2f}')
    print(f'difference to the serial oracle: {found["worst_difference"]:.1e}')


def main() -> int:
    """Measure, print, judge."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument('--model', help='default: reach, or a random model of its size')
    parser.add_argument('--turns', type=int, default=8)
    parser.add_argument('--chunks', type=int, default=20, help='of each stream in each turn')
    parser.add_argument('--json', action='store_true')
    given = parser.parse_args()
    torch.set_num_threads(1)
    logging.disable(logging.WARNING)
    found = measure(given.model or default_model(), given.turns, given.chunks)
    show(found)
    if given.json:
        print(json.dumps(found))
    return 0 if found['holds'] else 1


if __name__ == '__main__':
    sys.exit(main())
