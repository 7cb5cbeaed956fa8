#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""
What streams that run feel of others that arrive and leave (E9): nothing beyond their SLO.

Two streams run on their beat while further ones are opened, run for a moment and are closed, each
placed by admission from a profile made just before. Intervals that overlap an opening or a closing
are set beside those that do not, within one run.
"""

from __future__ import annotations

import argparse
import json
import logging
import sys
import threading
import time
from contextlib import closing
from dataclasses import dataclass, field
from itertools import pairwise
from typing import Any

import numpy as np
import torch
from pipeline import default_model, inputs
from predicted import Profiler

from physis_ros.backbones.registry import read_spec
from physis_ros.engine.config import PoolConfig
from physis_ros.engine.door import open_door
from physis_ros.engine.pool import Pool
from physis_ros.errors import AdmissionRefused

BEAT_SHARE = 0.8  # of the SLO: what is promised is the SLO, beats leave room for jitter
WORKERS, ROWS, MEMORY_BYTES = 2, 4, 2 * 10**9
RUNNING = ('first', 'second')
_VARIED, _STAY_S, _REST_S = 16, 0.6, 0.4


@dataclass
class Guest:
    """
    A further stream.

    :param changing: spans of time [s] in which it was being opened or closed.
    :param refused: how often it was not taken on.
    """

    changing: list[tuple[float, float]] = field(default_factory=list)
    opened: int = 0
    refused: int = 0

    def visit(self, pool: Pool, until_s: float, slo_s: float, live: set[str]) -> None:
        """Come and go until the end."""
        while time.monotonic() < until_s:
            name = f'guest {self.opened + self.refused}'
            try:
                self._change(lambda name=name: pool.open_stream(name, slo_s))
            except AdmissionRefused:
                self.refused += 1
            else:
                self.opened += 1
                live.add(name)
                time.sleep(_STAY_S)
                live.discard(name)
                self._change(lambda name=name: pool.close_stream(name))
            time.sleep(_REST_S)

    def _change(self, work: Any) -> None:
        began_s = time.monotonic()
        try:
            work()
        finally:
            self.changing.append((began_s, time.monotonic()))


def drive(pool: Pool, until_s: float, beat_s: float, live: set[str]) -> dict[str, list[float]]:
    """Let every live stream in on its beat; return when chunks of the running ones came out."""
    values = [inputs(pool.spec, number) for number in range(_VARIED)]
    due = {name: time.monotonic() + beat_s * i / 2 for i, name in enumerate(RUNNING)}
    came: dict[str, list[float]] = {name: [] for name in RUNNING}
    entered = 0
    while (now_s := time.monotonic()) < until_s:
        for name in sorted(live):
            due.setdefault(name, now_s)
        due = {name: at for name, at in due.items() if name in live}
        name = min(due, key=due.__getitem__)
        if due[name] <= now_s and name in live and pool.ready(name):
            deadline_ns = time.monotonic_ns() + int(beat_s * 1e9)
            pool.enter(name, values[entered % _VARIED], deadline_ns, False)
            entered += 1
            due[name] = max(due[name] + beat_s, now_s)
            continue
        result = pool.next_result(max(0.0005, due[name] - time.monotonic()))
        if result is not None and result.stream in came:
            came[result.stream].append(result.delivered_steady_ns / 1e9)
    return came


def measure(model: str, slo_s: float, seconds: float, samples: int) -> dict[str, Any]:
    """Profile, admit, run."""
    config = PoolConfig(model, WORKERS, max_streams=4, max_batch=ROWS, batch_wait_us=0.0)
    with closing(Profiler(model, samples)) as profiler:
        profile = profiler.measure()
    door = open_door(profile, read_spec(model), config, [MEMORY_BYTES] * WORKERS)
    live, guest = set(RUNNING), Guest()
    with Pool(config, door=door) as pool:
        pool.start(120.0)
        for name in RUNNING:
            pool.open_stream(name, slo_s)
        until_s = time.monotonic() + seconds
        visits = threading.Thread(target=guest.visit, args=(pool, until_s, slo_s, live))
        visits.start()
        came = drive(pool, until_s + _STAY_S + _REST_S, BEAT_SHARE * slo_s, live)
        visits.join()
        placed = {name: pool.workers_of(name) for name in RUNNING}
    return judged(slo_s, guest, came, placed)


def judged(
    slo_s: float, guest: Guest, came: dict[str, list[float]], placed: dict[str, tuple[int, ...]]
) -> dict[str, Any]:
    """Split the intervals by whether somebody came or went meanwhile."""
    disturbed: list[float] = []
    calm: list[float] = []
    for stamps in came.values():
        for before_s, after_s in pairwise(stamps[3:]):
            met = any(a < after_s and b > before_s for a, b in guest.changing)
            (disturbed if met else calm).append(after_s - before_s)
    changes_ms = [(b - a) * 1e3 for a, b in guest.changing]
    p99_s = float(np.percentile(disturbed, 99))
    return {
        'slo_ms': slo_s * 1e3, 'beat_ms': BEAT_SHARE * slo_s * 1e3, 'placed': placed,
        'opened': guest.opened, 'refused': guest.refused,
        'change_ms': {'p50': float(np.median(changes_ms)), 'max': max(changes_ms)},
        'calm_ms': figures(calm), 'disturbed_ms': figures(disturbed), 'holds': p99_s <= slo_s,
    }  # fmt: skip


def figures(seconds: list[float]) -> dict[str, float]:
    """Return percentiles in milliseconds, and how many they are of."""
    p50, p99, most = (float(v) * 1e3 for v in np.percentile(seconds, [50, 99, 100]))
    return {'n': len(seconds), 'p50': p50, 'p99': p99, 'max': most}


def main() -> int:
    """Measure, print, judge."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument('--model', help='default: reach, or a random model of its size')
    parser.add_argument('--slo-ms', type=float, default=125.0)
    parser.add_argument('--seconds', type=float, default=60.0)
    parser.add_argument('--samples', type=int, default=40, help='for each timing of the profile')
    parser.add_argument('--json', action='store_true')
    given = parser.parse_args()
    torch.set_num_threads(1)
    logging.disable(logging.WARNING)
    found = measure(
        given.model or default_model(), given.slo_ms / 1e3, given.seconds, given.samples
    )
    for what in ('calm', 'disturbed'):
        row = found[f'{what}_ms']
        print(
            f'{what:10}interval p50 {row["p50"]:6.1f}  p99 {row["p99"]:6.1f}  max '
            f'{row["max"]:6.1f} ms, n = {row["n"]}'
        )
    print(
        f'{found["opened"]} arrivals and departures, {found["refused"]} refused; each took '
        f'{found["change_ms"]["p50"]:.1f} ms (p50), {found["change_ms"]["max"]:.1f} ms at most; '
        f'SLO {given.slo_ms:.0f} ms, beat {found["beat_ms"]:.0f} ms, placed on {found["placed"]}'
    )
    if given.json:
        print(json.dumps(found))
    return 0 if found['holds'] else 1


if __name__ == '__main__':
    sys.exit(main())
