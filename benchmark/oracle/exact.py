# SPDX-License-Identifier: Apache-2.0
"""
The exact optimum of admission by CP-SAT: the oracle of ``benchmark/admission.py``.

The same three rules as the engine's books (memory with shared weights and buffers between devices,
batch time in a period), written as an integer programme. Needs OR-tools.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace
from itertools import pairwise

from ortools.sat.python import cp_model

from physis_ros.engine.demand import Demand
from physis_ros.engine.devices import DevicePool

# Times in whole units of the period: what is within rounding of the limit counts as fitting.
_UNITS = 10_000_000


class Programme:
    """
    The integer programme of one instance.

    :param pool: its devices, all of one node with links that never bind.
    :param demands: streams, all with the same SLO.
    """

    def __init__(self, pool: DevicePool, demands: Sequence[Demand]) -> None:
        self.model = cp_model.CpModel()
        self.pool, self.demands = pool, demands
        self.admitted = [self.model.new_bool_var(d.stream) for d in demands]
        self.on = [
            [[self.model.new_bool_var('') for _ in pool.devices] for _ in d.ranks] for d in demands
        ]
        for admitted, ranks in zip(self.admitted, self.on, strict=True):
            for devices in ranks:
                self.model.add(sum(devices) == admitted)
        self._break_symmetry()
        used = [self._memory_and_time(device) for device in range(len(pool))]
        for i, (a, b) in enumerate(pairwise(pool.devices)):
            if replace(a, name='') == replace(b, name=''):
                self.model.add(used[i] >= used[i + 1])
        self.model.maximize(sum(self.admitted))

    def _break_symmetry(self) -> None:
        last: dict[str, int] = {}
        for i, demand in enumerate(self.demands):
            if demand.model.name in last:
                self.model.add(self.admitted[last[demand.model.name]] >= self.admitted[i])
            last[demand.model.name] = i

    def _memory_and_time(self, device: int) -> cp_model.LinearExprT:
        memory, busy = [], []
        for name in sorted({demand.model.name for demand in self.demands}):
            mine = [i for i, demand in enumerate(self.demands) if demand.model.name == name]
            for block in range(self.demands[mine[0]].model.blocks):
                weights, time = self._block(device, mine, block)
                memory.append(weights)
                busy.append(time)
        for i, demand in enumerate(self.demands):
            memory += [
                rank.kv_bytes * self.on[i][r][device] for r, rank in enumerate(demand.ranks)
            ]
            memory += self._buffers(i, demand, device)
        self.model.add(sum(memory) <= self.pool.devices[device].memory_bytes)
        self.model.add(sum(busy) <= _UNITS)
        return sum(memory)

    def _block(
        self, device: int, mine: Sequence[int], block: int
    ) -> tuple[cp_model.LinearExprT, cp_model.LinearExprT]:
        """Return bytes and time of one block on one device."""
        demand = self.demands[mine[0]]
        terms, most = [], 0
        for i in mine:
            for r, rank in enumerate(self.demands[i].ranks):
                if block in rank.blocks:
                    rows = rank.rows[rank.blocks.index(block)]
                    terms.append(rows * self.on[i][r][device])
                    most += rows
        rows_var = self.model.new_int_var(0, most, '')
        self.model.add(rows_var == sum(terms))
        present = self.model.new_bool_var('')
        self.model.add(rows_var <= most * present)
        scale = self.pool.devices[device].speed * demand.slo_s
        table = demand.model.tables(most)[block] / scale * _UNITS
        # An overfull device is refused whatever its exact figure.
        units = [min(math.floor(value), 2 * _UNITS) for value in table]
        time = self.model.new_int_var(0, max(units), '')
        self.model.add_element(rows_var, units, time)
        return demand.model.weight_bytes[block] * present, time

    def _buffers(self, i: int, demand: Demand, device: int) -> list[cp_model.LinearExprT]:
        terms: list[cp_model.LinearExprT] = []
        for crossing in demand.crossings:
            if crossing.buffer_bytes:
                here, there = (
                    self.on[i][crossing.target][device],
                    self.on[i][crossing.source][device],
                )
                apart = self.model.new_bool_var('')
                self.model.add(apart >= here - there)
                terms.append(crossing.buffer_bytes * apart)
        return terms


def optimum(
    pool: DevicePool, demands: Sequence[Demand], found: int, limit_s: float
) -> tuple[int, bool]:
    """
    Return the most streams that fit, and whether that is proven.

    Unproven, it is the bound above the optimum: it never flatters what is compared with it.

    :param found: streams known to fit.
    :param limit_s: in the solver's deterministic seconds, so that a loaded machine proves as much.
    """
    programme = Programme(pool, demands)
    programme.model.add(sum(programme.admitted) >= found)
    solver = cp_model.CpSolver()
    solver.parameters.max_deterministic_time = limit_s
    solver.parameters.num_workers = 1
    solver.parameters.random_seed = 1
    status = solver.solve(programme.model)
    if status == cp_model.OPTIMAL:
        return round(solver.objective_value), True
    if status == cp_model.INFEASIBLE:
        raise RuntimeError(f'{found} streams were placed where the exact programme finds no room')
    return math.floor(solver.best_objective_bound + 1e-6), False
