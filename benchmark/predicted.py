#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""
Whether plans come true: predicted against measured period and response on this machine (E8).

Profiles the model, plans named groupings on one and two workers for one to three streams, then
runs each for real: flat out for the period; a little slower, as planned, for the response. Figures
are medians on both sides. It needs a machine that does nothing else: profile and runs are minutes
apart.
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
from physis_ros.engine.cost import ModelCost
from physis_ros.engine.devices import Device, DevicePool
from physis_ros.engine.groupings import Grouping
from physis_ros.engine.handover import measure_handover
from physis_ros.engine.measure import Effort, begin_profile, measure_profile
from physis_ros.engine.plan import Plan, Targets, predict
from physis_ros.engine.pool import Pool
from physis_ros.engine.profile import Profile
from physis_ros.engine.weights import weigh

BAR = 0.10
# Room between beats, as a share of the period: what a stream at its SLO has, too.
ROOM = 1.15
_BYTES = 10**9
_VARIED = 16


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
        self.case, self.plan = case, plan
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
        self.periods_s: list[float] = []
        self.responses_s: list[float] = []

    def flat_out(self, chunks: int) -> None:
        """Keep every stream's pipe full; add the mean interval of the slowest stream."""
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
        spans = [(s[chunks + fill - 1] - s[fill - 1]) / chunks for s in stamps.values()]
        self.periods_s.append(max(spans) / 1e9)
        self._empty()

    def paced(self, chunks: int, pace_s: float) -> None:
        """Let chunks in on beats, streams one after another; add the median response."""
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
        self.responses_s.append(float(np.median(spans[len(self.names) * 2 :])) / 1e9)

    def _enter(self, name: str, entered: Counter[str]) -> None:
        values = self.values[entered[name] % _VARIED]
        # The time allowed is what orders tasks; the same in virtual time.
        self.pool.enter(name, values, time.monotonic_ns() + 10**9, True)
        entered[name] += 1

    def _empty(self) -> None:
        """Take out whatever is still in the pipe."""
        while self.pool.next_result(0.2) is not None:
            pass


def profiled(model: str, samples: int) -> Profile:
    """Measure the model and what is around it."""
    backbone, effort = open_backbone(model), Effort(samples=samples)
    spec = backbone.spec
    weights = weigh(lambda blocks: open_backbone(model, 'cpu', blocks), spec.blocks)
    handover = measure_handover(model, spec.blocks)
    begun = begin_profile(spec, weights, handover, effort=effort)
    return measure_profile(backbone, begun, effort=effort)


def planned(cost: ModelCost, hop_s: float, case: Case, pace_s: float = 0.0) -> Plan:
    """Predict one case."""
    devices = DevicePool(tuple(Device(f'cpu{i}', _BYTES) for i in range(case.workers)), hop_s)
    targets = Targets(streams=case.streams, slo_s=pace_s, max_batch=case.rows)
    plan = predict(cost, devices, targets, case.grouping, case.rows)
    if plan is None:
        raise RuntimeError(f'{case.name} must fit in {_BYTES} bytes')
    return plan


def compare(model: str, turns: int, chunks: int, samples: int) -> dict[str, Any]:
    """Profile, plan, run, compare."""
    profile = profiled(model, samples)
    cost = profile.cost('p50')
    rows = []
    for case in CASES:
        plan = planned(cost, profile.hop_s, case)
        pace_s = plan.period_s * ROOM
        calm = planned(cost, profile.hop_s, case, pace_s)
        run = Run(model, case, plan)
        try:
            for _ in range(turns):
                run.flat_out(chunks)
                run.paced(chunks, pace_s)
        finally:
            run.pool.close()
        rows.append(judged(case, plan, calm, run))
        print(line(rows[-1]), flush=True)
    kept = sum(row['holds'] for row in rows)
    return {
        'model': model, 'bar': BAR, 'plans': rows, 'plans_within_bar': kept,
        'task_us': profile.task_s * 1e6, 'hop_us': profile.hop_s * 1e6,
        'crowding': profile.crowding, 'holds': kept >= 6 and kept == len(rows),
    }  # fmt: skip


def judged(case: Case, plan: Plan, calm: Plan, run: Run) -> dict[str, Any]:
    """Return figures of one case."""
    period_s, response_s = median(run.periods_s), median(run.responses_s)
    off = (plan.period_s / period_s - 1, calm.response_s / response_s - 1)
    return {
        'plan': case.name, 'workers': case.workers, 'streams': case.streams,
        'period_ms': {'predicted': plan.period_s * 1e3, 'measured': period_s * 1e3},
        'response_ms': {'predicted': calm.response_s * 1e3, 'measured': response_s * 1e3},
        'period_off': off[0], 'response_off': off[1], 'holds': max(map(abs, off)) <= BAR,
    }  # fmt: skip


def median(values: Sequence[float]) -> float:
    """Return the middle of a few values."""
    return float(np.median(values))


def line(row: dict[str, Any]) -> str:
    """Return one case for a person."""
    parts = [
        f'{what} {row[f"{what}_ms"]["predicted"]:7.2f} / {row[f"{what}_ms"]["measured"]:7.2f} ms '
        f'{row[f"{what}_off"] * 100:+6.1f} %'
        for what in ('period', 'response')
    ]
    return f'{row["plan"]:28}{"   ".join(parts)}{"" if row["holds"] else "   off"}'


def main() -> int:
    """Measure, print, judge."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument('--model', help='default: reach, or a random model of its size')
    parser.add_argument('--turns', type=int, default=5)
    parser.add_argument('--chunks', type=int, default=30, help='of each stream in each turn')
    parser.add_argument('--samples', type=int, default=150, help='for each timing of the profile')
    parser.add_argument('--json', action='store_true')
    given = parser.parse_args()
    torch.set_num_threads(1)
    logging.disable(logging.WARNING)
    model = given.model or default_model()
    print(f'{read_spec(model).name}: predicted / measured')
    found = compare(model, given.turns, given.chunks, given.samples)
    print(
        f'{found["plans_within_bar"]} of {len(CASES)} plans within {BAR:.0%}; engine '
        f'{found["task_us"]:.0f} us a task, hop {found["hop_us"]:.0f} us, crowding '
        f'{found["crowding"]:.2f}'
    )
    if given.json:
        print(json.dumps(found))
    return 0 if found['holds'] else 1


if __name__ == '__main__':
    sys.exit(main())
