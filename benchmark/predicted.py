#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""
Whether plans come true: predicted against measured period and response on this machine (E8).

Profiles the model, plans named groupings on one and two workers for one to three streams, and runs
each for real: flat out for the period; a little slower, as planned, for the response. In rounds:
each round measures the model anew and compares with its own runs, seconds later; the verdict is
the median over rounds. A machine's pace changes within seconds, so it is measured beside each run,
by chunks of the serial engine, and predictions are for that pace. All figures are medians of
chunks, predicted from what each piece adds to a whole chunk; the time allowed from entry to
deadline is the same for both. Takes about three minutes, and a machine that does nothing else.
"""

from __future__ import annotations

import argparse
import json
import logging
import sys
import time
from collections import Counter, defaultdict
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from pipeline import default_model, inputs

from physis_ros.backbones.registry import open_backbone, read_spec
from physis_ros.engine.config import PoolConfig
from physis_ros.engine.devices import Device, DevicePool
from physis_ros.engine.groupings import Grouping
from physis_ros.engine.handover import HandoverProbe
from physis_ros.engine.measure import Effort, begin_profile, measure_profile
from physis_ros.engine.plan import Plan, Targets, predict
from physis_ros.engine.pool import Pool
from physis_ros.engine.profile import Profile
from physis_ros.engine.serial import SerialEngine
from physis_ros.engine.weights import weigh

BAR, ENOUGH = 0.10, 6
_BYTES = 10**9
_VARIED = 16
# Time between beats over the period, for responses: more than a machine's pace moves meanwhile.
_CALM = 1.35
# Chunks of the serial engine that tell the machine's pace.
_PACE_CHUNKS = 7


@dataclass(frozen=True)
class Case:
    """
    A plan to run.

    :param rows: the largest batch.
    """

    grouping: Grouping
    workers: int
    streams: int
    rows: int

    @property
    def name(self) -> str:
        """The plan in words."""
        return f'{self.grouping.scheme}, {self.workers} w, {self.streams} s, batch {self.rows}'


SERIAL, STEP, BLOCK = Grouping('serial', 1, 1), Grouping('step', 2, 1), Grouping('block', 1, 2)
CASES = (
    Case(SERIAL, 1, 1, 1),
    Case(SERIAL, 1, 1, 4),
    Case(SERIAL, 1, 2, 1),
    Case(SERIAL, 1, 3, 8),
    Case(STEP, 2, 1, 1),
    Case(BLOCK, 2, 1, 4),
    Case(STEP, 2, 2, 1),
    Case(BLOCK, 2, 2, 8),
    Case(STEP, 2, 3, 4),
)


class Run:
    """
    One plan, for real.

    :param plan: what to run, and what was predicted.
    """

    def __init__(self, model: str, case: Case, plan: Plan) -> None:
        self.case, self.plan, self._allowed_ns = case, plan, round(plan.allowed_s * 1e9)
        config = PoolConfig(
            model, case.workers, assignment=plan.hosts[0], max_streams=case.streams,
            in_flight=plan.in_flight, max_batch=case.rows,
        )  # fmt: skip
        self.pool = Pool(config)
        self.pool.start(120.0)
        self.names = [f's{i}' for i in range(case.streams)]
        for name in self.names:
            self.pool.open_stream(name)
        self.values = [inputs(self.pool.spec, number) for number in range(_VARIED)]

    def flat_out(self, chunks: int) -> float:
        """
        Keep every stream's pipe full; return the interval of the slowest stream, in seconds.

        The median of means over a pipe's fill: single intervals of a batch come in bursts.
        """
        stamps: defaultdict[str, list[int]] = defaultdict(list)
        entered: Counter[str] = Counter()
        fill = self.plan.in_flight + 1
        while any(len(stamps[name]) < chunks + fill for name in self.names):
            wanting = [n for n in self.names if len(stamps[n]) < chunks + fill]
            wanting = [n for n in wanting if self.pool.ready(n)]
            if wanting:
                self._enter(min(wanting, key=entered.__getitem__), entered)
                continue
            result = self.pool.next_result(5.0)
            if result is not None:
                stamps[result.stream].append(result.delivered_steady_ns)
        self._empty()
        return max(_interval_ns(s, fill) for s in stamps.values()) / 1e9

    def paced(self, chunks: int, pace_s: float) -> float:
        """Let chunks in on beats, streams one after another; return the median response."""
        start_s = time.monotonic() + 0.01
        beats = sorted(
            (start_s + pace_s * (chunk + i / len(self.names)), name)
            for i, name in enumerate(self.names)
            for chunk in range(chunks)
        )
        entered: Counter[str] = Counter()
        spans: list[int] = []
        while beats or len(spans) < chunks * len(self.names):
            if beats and time.monotonic() >= beats[0][0] and self.pool.ready(beats[0][1]):
                self._enter(beats.pop(0)[1], entered)
                continue
            left_s = beats[0][0] - time.monotonic() if beats else 5.0
            result = self.pool.next_result(max(left_s, 0.0005))
            if result is not None:
                spans.append(result.delivered_steady_ns - result.entered_steady_ns)
        return float(np.median(spans[len(self.names) * 2 :])) / 1e9

    def _enter(self, name: str, entered: Counter[str]) -> None:
        values = self.values[entered[name] % _VARIED]
        # The time allowed orders tasks and forms batches; the same in virtual time.
        self.pool.enter(name, values, time.monotonic_ns() + self._allowed_ns, True)
        entered[name] += 1

    def _empty(self) -> None:
        """Take out whatever is still in the pipe."""
        while self.pool.next_result(0.2) is not None:
            pass


class Profiler:
    """
    Measures the model, what is around it, and the machine's pace, again and again.

    :param samples: for each timing.
    """

    def __init__(self, model: str, samples: int) -> None:
        self._backbone, self._effort = open_backbone(model), Effort(samples=samples)
        spec = self._backbone.spec
        self._weights = weigh(lambda blocks: open_backbone(model, 'cpu', blocks), spec.blocks)
        self._probe = HandoverProbe(model, spec.blocks)
        self._serial, self._chunk_s = SerialEngine(self._backbone, 0), 0.0
        self._serial.open('pace')
        self._values = {
            name: torch.from_numpy(value)[None] for name, value in inputs(spec, 0).items()
        }

    def measure(self) -> Profile:
        """Return a profile of now."""
        before_s = self._a_chunk_s()
        handover, effort = self._probe.measure(), self._effort
        begun = begin_profile(self._backbone.spec, self._weights, handover, effort=effort)
        profile = measure_profile(self._backbone, begun, effort=effort)
        self._chunk_s = (before_s + self._a_chunk_s()) / 2
        return profile

    def pace(self) -> float:
        """Return how fast the machine is now, 1 as it was while the last profile was made."""
        return self._chunk_s / self._a_chunk_s()

    def _a_chunk_s(self) -> float:
        spent_s = []
        for _ in range(_PACE_CHUNKS):
            start_s = time.monotonic()
            self._serial.run('pace', self._values)
            spent_s.append(time.monotonic() - start_s)
        return median(spent_s)

    def close(self) -> None:
        """End its workers."""
        self._probe.close()


def _interval_ns(stamps: Sequence[int], fill: int) -> float:
    settled = np.array(stamps[fill - 1 :])
    return float(np.median((settled[fill:] - settled[:-fill]) / fill))


def planned(profile: Profile, case: Case, period_s: float = 0.0, pace: float = 1.0) -> Plan:
    """
    Predict one case.

    :param period_s: of entries; 0: flat out.
    :param pace: of the machine, 1 as in the profile.
    """
    cost, link = profile.cost('chunk'), profile.link('cpu')
    devices = DevicePool(
        tuple(
            Device(f'cpu{i}', _BYTES, pace, link_bytes_per_s=link.bytes_per_s, hop_s=link.hop_s)
            for i in range(case.workers)
        ),
        profile.hop_s,
    )
    targets = Targets(streams=case.streams, slo_s=period_s, max_batch=case.rows)
    plan = predict(cost, devices, targets, case.grouping, case.rows)
    if plan is None:
        raise RuntimeError(f'{case.name} must fit in {_BYTES} bytes')
    return plan


def compare(model: str, turns: int, chunks: int, samples: int, limit_s: float) -> dict[str, Any]:
    """
    Profile, plan, run, compare, in rounds.

    :param limit_s: no further round begins when it would end later than this.
    """
    start_s = time.monotonic()
    profiler = Profiler(model, samples)
    runs: list[Run] = []
    rows: list[Row] = [Row(case) for case in CASES]
    profiles: list[Profile] = []
    try:
        profiles.append(profiler.measure())
        runs += [Run(model, case, planned(profiles[0], case)) for case in CASES]
        while len(profiles) <= turns:
            began_s = time.monotonic()
            for run, row in zip(runs, rows, strict=True):
                row.add(profiles[-1], run, chunks, profiler)
            now_s = time.monotonic()
            if len(profiles) == turns or now_s + (now_s - began_s) * 1.5 > start_s + limit_s:
                break
            profiles.append(profiler.measure())
    finally:
        profiler.close()
        for run in runs:
            run.pool.close()
    kept = sum(row.holds for row in rows)
    paces = [pace for row in rows for pace in row.paces]
    return {
        'model': model, 'bar': BAR, 'rounds': len(profiles),
        'plans': [row.as_dict() for row in rows], 'plans_within_bar': kept,
        'task_us': median([p.task_s for p in profiles]) * 1e6,
        'hop_us': median([p.link('cpu').hop_s for p in profiles]) * 1e6,
        'crowding': median([p.crowding for p in profiles]),
        'pace': {'p50': median(paces), 'least': min(paces), 'most': max(paces)},
        'took_s': time.monotonic() - start_s, 'holds': kept >= ENOUGH,
    }  # fmt: skip


class Row:
    """One case over all rounds: predicted and measured, seconds."""

    def __init__(self, case: Case) -> None:
        self.case = case
        self.period: list[tuple[float, float]] = []
        self.response: list[tuple[float, float]] = []
        self.paces: list[float] = []

    def add(self, profile: Profile, run: Run, chunks: int, profiler: Profiler) -> None:
        """Run, and predict from a profile for the pace that the machine had meanwhile."""
        paces = [profiler.pace()]
        interval_s = run.flat_out(chunks)
        paces.append(profiler.pace())
        plan = planned(profile, self.case, pace=sum(paces) / 2)
        self.period.append((plan.period_s, interval_s))
        period_s = planned(profile, self.case, pace=paces[-1]).period_s * _CALM
        response_s = run.paced(chunks, period_s)
        paces.append(profiler.pace())
        calm = planned(profile, self.case, period_s, sum(paces[1:]) / 2)
        self.response.append((calm.usual_response_s, response_s))
        self.paces += paces

    @property
    def off(self) -> dict[str, float]:
        """How far predictions are off, of what was measured."""
        return {
            'period': median([a / b - 1 for a, b in self.period]),
            'response': median([a / b - 1 for a, b in self.response]),
        }

    @property
    def holds(self) -> bool:
        """Whether both are within the bar."""
        return max(map(abs, self.off.values())) <= BAR

    def as_dict(self) -> dict[str, Any]:
        """Return its figures."""
        found: dict[str, Any] = {
            'plan': self.case.name, 'workers': self.case.workers, 'streams': self.case.streams,
        }  # fmt: skip
        for what, pairs in (('period', self.period), ('response', self.response)):
            predicted, measured = (median([pair[i] for pair in pairs]) * 1e3 for i in (0, 1))
            offs = [a / b - 1 for a, b in pairs]
            found[f'{what}_ms'] = {'predicted': predicted, 'measured': measured}
            found[f'{what}_off'] = self.off[what]
            found[f'{what}_off_range'] = [min(offs), max(offs)]
        return {**found, 'holds': self.holds}


def median(values: Sequence[float]) -> float:
    """Return the middle of a few values."""
    return float(np.median(values))


def line(row: dict[str, Any]) -> str:
    """Return one case for a person."""
    parts = []
    for what in ('period', 'response'):
        both, (low, high) = row[f'{what}_ms'], row[f'{what}_off_range']
        parts.append(
            f'{what} {both["predicted"]:6.2f} / {both["measured"]:6.2f} ms '
            f'{row[f"{what}_off"] * 100:+5.1f} % ({low * 100:+.0f} .. {high * 100:+.0f})'
        )
    return f'{row["plan"]:26}{"   ".join(parts)}{"" if row["holds"] else "   off"}'


def main() -> int:
    """Measure, print, judge."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument('--model', help='default: reach, or a random model of its size')
    parser.add_argument('--turns', type=int, default=5, help='rounds, at most')
    parser.add_argument('--chunks', type=int, default=24, help='of each stream in each round')
    parser.add_argument('--samples', type=int, default=30, help='for each timing of a profile')
    parser.add_argument('--limit-s', type=float, default=220.0, help='no round ends after this')
    parser.add_argument('--json', action='store_true')
    given = parser.parse_args()
    torch.set_num_threads(1)
    logging.disable(logging.WARNING)
    model = given.model or default_model()
    found = compare(model, given.turns, given.chunks, given.samples, given.limit_s)
    print(f'{read_spec(model).name}, {found["rounds"]} rounds: predicted / measured, range')
    for row in found['plans']:
        print(line(row))
    print(
        f'{found["plans_within_bar"]} of {len(CASES)} plans within {BAR:.0%}; engine '
        f'{found["task_us"]:.0f} us a task, hop {found["hop_us"]:.0f} us, crowding '
        f'{found["crowding"]:.2f}; the machine\'s pace {found["pace"]["least"]:.2f} to '
        f'{found["pace"]["most"]:.2f} of that of its profile; took {found["took_s"]:.0f} s'
    )
    if given.json:
        print(json.dumps(found))
    return 0 if found['holds'] else 1


if __name__ == '__main__':
    sys.exit(main())
