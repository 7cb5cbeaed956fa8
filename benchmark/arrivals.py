#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""
What streams that run feel of others that arrive and leave (E9): nothing beyond their SLO.

Two streams run on their beat while further ones are opened, run for a moment and are closed, each
placed by admission from a profile made just before. Intervals that overlap an opening or a closing
are set beside those that do not, within one run. An attempt that is refused is neither, and its
intervals are counted apart.

It holds when the running streams' p99 interval around arrivals and departures is within their SLO,
of at least as many of either as ``--least`` says; whoever was taken on must have left again.
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
_LEAST = 20

# Begin and end [s].
Span = tuple[float, float]


@dataclass
class Guest:
    """
    A further stream: when it was being opened, closed, or refused.

    :param error: what ended its visits before their time.
    """

    opened: list[Span] = field(default_factory=list)
    closed: list[Span] = field(default_factory=list)
    refused: list[Span] = field(default_factory=list)
    error: Exception | None = None

    @property
    def changes(self) -> list[Span]:
        """When it came or went."""
        return self.opened + self.closed

    def visit(self, pool: Pool, until_s: float, slo_s: float, live: set[str]) -> None:
        """Come and go until the end."""
        number = 0
        try:
            while time.monotonic() < until_s:
                self._come_and_go(pool, f'guest {number}', slo_s, live)
                number += 1
        except Exception as error:  # told at the end: without guests nothing is measured
            self.error = error

    def _come_and_go(self, pool: Pool, name: str, slo_s: float, live: set[str]) -> None:
        began_s = time.monotonic()
        try:
            pool.open_stream(name, slo_s)
        except AdmissionRefused:
            self.refused.append((began_s, time.monotonic()))
        else:
            self.opened.append((began_s, time.monotonic()))
            live.add(name)
            time.sleep(_STAY_S)
            live.discard(name)
            began_s = time.monotonic()
            pool.close_stream(name)
            self.closed.append((began_s, time.monotonic()))
        time.sleep(_REST_S)


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


def measure(model: str, slo_s: float, seconds: float, samples: int, least: int) -> dict[str, Any]:
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
        if guest.error is not None:
            raise guest.error
        placed = {name: pool.workers_of(name) for name in RUNNING}
    found = judged(slo_s, guest, came, least)
    return {'slo_ms': slo_s * 1e3, 'beat_ms': BEAT_SHARE * slo_s * 1e3, 'placed': placed, **found}


def judged(slo_s: float, guest: Guest, came: dict[str, list[float]], least: int) -> dict[str, Any]:
    """Split the intervals by what happened meanwhile."""
    spans = [pair for stamps in came.values() for pair in pairwise(stamps[3:])]
    disturbed = [pair for pair in spans if meets(pair, guest.changes)]
    others = [pair for pair in spans if not meets(pair, guest.changes)]
    refused = [pair for pair in others if meets(pair, guest.refused)]
    calm = [pair for pair in others if not meets(pair, guest.refused)]
    around = figures(disturbed)
    # Each change lies within an interval of every stream that runs.
    enough = min(len(guest.opened), len(guest.closed)) >= least and len(disturbed) >= 2 * least
    left = len(guest.opened) == len(guest.closed)
    within = around['p99'] is not None and around['p99'] <= slo_s * 1e3
    return {
        'opened': len(guest.opened), 'closed': len(guest.closed), 'refused': len(guest.refused),
        'least': least, 'open_ms': figures(guest.opened), 'close_ms': figures(guest.closed),
        'refusal_ms': figures(guest.refused), 'calm_ms': figures(calm),
        'disturbed_ms': around, 'while_refused_ms': figures(refused),
        'holds': enough and left and within,
    }  # fmt: skip


def meets(pair: Span, others: list[Span]) -> bool:
    """Tell whether a span overlaps any other."""
    return any(began_s < pair[1] and ended_s > pair[0] for began_s, ended_s in others)


def figures(spans: list[Span]) -> dict[str, float | None]:
    """Return percentiles of lengths in milliseconds, and how many they are of; None of none."""
    if not spans:
        return {'n': 0, 'p50': None, 'p99': None, 'max': None}
    lengths_ms = [(ended_s - began_s) * 1e3 for began_s, ended_s in spans]
    p50, p99, most = (float(v) for v in np.percentile(lengths_ms, [50, 99, 100]))
    return {'n': len(spans), 'p50': p50, 'p99': p99, 'max': most}


def told(what: str, row: dict[str, float | None]) -> str:
    """Return figures for a person."""
    parts = [f'{name} {"-" if row[name] is None else format(row[name], ".1f"):>6}'
             for name in ('p50', 'p99', 'max')]  # fmt: skip
    return f'{what:34}{"  ".join(parts)} ms, n = {row["n"]}'


def main() -> int:
    """Measure, print, judge."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument('--model', help='default: reach, or a random model of its size')
    parser.add_argument('--slo-ms', type=float, default=125.0)
    parser.add_argument('--seconds', type=float, default=60.0)
    parser.add_argument('--samples', type=int, default=40, help='for each timing of the profile')
    parser.add_argument('--least', type=int, default=_LEAST, help='arrivals, and departures')
    parser.add_argument('--json', action='store_true')
    given = parser.parse_args()
    torch.set_num_threads(1)
    logging.disable(logging.WARNING)
    found = measure(
        given.model or default_model(), given.slo_ms / 1e3, given.seconds, given.samples,
        given.least,
    )  # fmt: skip
    for what, row in (
        ('interval, nobody came or went', 'calm_ms'),
        ('interval, somebody came or went', 'disturbed_ms'),
        ('interval, somebody was refused', 'while_refused_ms'),
        ('opening', 'open_ms'), ('closing', 'close_ms'), ('refusing', 'refusal_ms'),
    ):  # fmt: skip
        print(told(what, found[row]))
    print(
        f'{found["opened"]} arrivals, {found["closed"]} departures (at least {given.least} of '
        f'either), {found["refused"]} refused; SLO {given.slo_ms:.0f} ms, beat '
        f'{found["beat_ms"]:.0f} ms, placed on {found["placed"]}; '
        f'{"holds" if found["holds"] else "does NOT hold"}'
    )
    if given.json:
        print(json.dumps(found))
    return 0 if found['holds'] else 1


if __name__ == '__main__':
    sys.exit(main())
