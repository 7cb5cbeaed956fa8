# SPDX-License-Identifier: Apache-2.0
"""
The door of a running pool: which streams are taken on, and which workers carry them (E9).

Admission in terms of the pool: costs from a profile, one device for each worker. Not thread-safe.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from physis_ros.backbones.base import ModelSpec
from physis_ros.engine.admission import Admitter
from physis_ros.engine.config import PoolConfig
from physis_ros.engine.cost import BatchCurve, ModelCost
from physis_ros.engine.demand import Demand, demand
from physis_ros.engine.devices import Device, DevicePool, device_kind, usable_bytes
from physis_ros.engine.grid import Grouping, group, place
from physis_ros.engine.profile import Profile, check
from physis_ros.engine.refusal import Refusal
from physis_ros.errors import AdmissionRefused, ParameterError, PlanError

HEADROOM = 0.1


class Door:
    """
    Decides for one model on one pool.

    :param cost: of the model.
    :param devices: one for each worker, in their order.
    :param headroom: share of each device's time that stays free.
    """

    def __init__(self, cost: ModelCost, devices: DevicePool, headroom: float = HEADROOM) -> None:
        self._cost, self._admitter = cost, Admitter(devices, headroom)

    @property
    def workers(self) -> int:
        """Workers it reckons with."""
        return len(self._admitter.pool)

    def group(self, spec: ModelSpec, config: PoolConfig) -> Grouping:
        """
        Return a grouping for what all streams have in common; where each runs is its own.

        :raises ParameterError: or
        :raises PlanError: when the pool is not the one this reckons with.
        """
        config.check_model(spec)
        if self.workers != config.workers:
            raise ParameterError('workers', f'{self.workers}, as admission has it', config.workers)
        override = config.override_kv_rule
        whole = group(spec, 'serial', 1, override)
        if whole.passes != self._cost.passes:
            raise PlanError(
                f'admission reckons with {self._cost.passes} passes of {spec.name}, the pool runs '
                f'{whole.passes}; a profile cannot be used with override_kv_rule'
            )
        return place(spec, whole.owner, self.workers, override)

    def admit(self, stream: str, slo_s: float, response_s: float = 0.0) -> tuple[int, ...]:
        """
        Take a stream on; return the worker of each of its stages, in chain order.

        :param slo_s: longest interval between its chunks, > 0.
        :param response_s: longest time from entry to output alone; 0: any.
        :raises AdmissionRefused: naming what binds and what would fit.
        """
        asked = self._demand(stream, slo_s, response_s)
        verdict = self._admitter.admit(asked)
        if isinstance(verdict, Refusal):
            raise AdmissionRefused(verdict)
        return tuple(verdict.placement.hosts[rank] for rank in asked.owner)

    def leave(self, stream: str) -> None:
        """Free what a stream held."""
        self._admitter.leave(stream)

    def retire(self, worker: int) -> None:
        """Place nothing more on a worker, which is gone; its streams leave as ever."""
        self._admitter.ledger.retire(worker)

    def restore(self, worker: int) -> None:
        """Place streams on a worker again: there is a new one."""
        self._admitter.ledger.restore(worker)

    def what_if(self, count: int, slo_s: float, response_s: float = 0.0) -> list[str]:
        """
        Tell what would be answered to so many more streams; nothing changes.

        :returns: for each an empty text when it were taken on, else the refusal.
        """
        asked = [self._demand(f'what if {n + 1}', slo_s, response_s) for n in range(count)]
        verdicts = self._admitter.what_if(asked)
        return [str(v) if isinstance(v, Refusal) else '' for v in verdicts]

    def _demand(self, stream: str, slo_s: float, response_s: float) -> Demand:
        return demand(stream, self._cost, slo_s, response_s=response_s)


def open_door(
    profile: Profile,
    spec: ModelSpec,
    config: PoolConfig,
    memory_bytes: Sequence[int],
    headroom: float = HEADROOM,
) -> Door:
    """
    Make the door of a pool.

    :param memory_bytes: what each worker's device has for it.
    :raises PlanError: when the profile is of another model, or lacks a link.
    :raises ParameterError: when a device has no room for what the model needs at all.
    """
    check(profile, spec)
    cost, reserve = profile.cost('p99'), profile.sizes.reserve
    names = [config.device(worker) for worker in range(config.workers)]
    if names.count('cpu') > 1:
        cost = crowded(cost)
    cost = replace(limited(cost, config.max_batch), mailbox_depth=config.mailbox_depth)
    links = [profile.link(device_kind(name)) for name in names]
    devices = tuple(
        Device(
            name=f'worker {worker}',
            memory_bytes=usable_bytes(f'worker {worker}', have, reserve),
            # Workers on one accelerator take turns; those on a processor have cores of their own.
            speed=1.0 if name == 'cpu' else 1.0 / names.count(name),
            link_bytes_per_s=link.bytes_per_s,
            hop_s=link.hop_s,
        )
        for worker, (name, link, have) in enumerate(zip(names, links, memory_bytes, strict=True))
    )
    return Door(cost, DevicePool(devices, profile.hop_s), headroom)


def limited(cost: ModelCost, rows: int) -> ModelCost:
    """Return the cost where no batch has more than so many rows."""
    return replace(cost, curves=tuple(BatchCurve(c.times_s[:rows]) for c in cost.curves))


def crowded(cost: ModelCost) -> ModelCost:
    """Return the cost beside a busy neighbour, as it is when workers share one processor."""
    slow = cost.crowding
    curves = tuple(BatchCurve(tuple(slow * t for t in c.times_s)) for c in cost.curves)
    return replace(
        cost, curves=curves, entry_s=slow * cost.entry_s, exit_s=slow * cost.exit_s, crowding=1.0
    )
