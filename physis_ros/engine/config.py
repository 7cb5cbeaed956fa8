# SPDX-License-Identifier: Apache-2.0
"""What a pool is asked to be; frozen, checked once."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from physis_ros.backbones.base import ModelSpec
from physis_ros.engine.cost import MAILBOX_DEPTH
from physis_ros.engine.grid import SCHEMES, Grouping, assign, group
from physis_ros.errors import ParameterError


@dataclass(frozen=True)
class PoolConfig:
    """
    A pool of workers around one model.

    :param model: URI of the model.
    :param workers: worker processes.
    :param grouping: how stages are placed: ``stage``, ``step``, ``block`` or ``serial``.
    :param assignment: an explicit worker for each stage in chain order; overrides ``grouping``
        and must use exactly ``workers`` workers.
    :param seed: of the noise.
    :param devices: torch device of each worker; empty: all on the processor.
    :param threads_per_worker: compute threads of each worker.
    :param mailbox_depth: slots of each mailbox between two workers.
    :param hop_timeout_s: longest wait on a full mailbox, and longest silence of a worker.
    :param open_timeout_s: longest time for a stream to be opened or closed, weights included.
    :param max_streams: most streams at once; memory is laid out for them at start.
    :param in_flight: most chunks of a stream in the pipe; 0: as many as workers carry it, with
        batches at least one for each pass, so that none waits inside with an ageing observation.
        One more gives the last percents of throughput at the price of age.
    :param max_batch: most rows of one batch; 1 switches batching off.
    :param batch_wait_us: longest time a batch that is not full waits for company, within its
        members' slack; only worth it where other workers or streams bring company soon. 0: none.
    :param conditioning: ``entry``: a chunk keeps the observation it entered with. ``step``: it
        takes the newest at every step, where the weights allow that (E11).
    :param override_kv_rule: pipeline clean weights all the same; marks every output.
    :param memory_mb: most memory of each device for weights and KV, shared by the workers on it;
        0: all there is.
    :param trace: file for a trace that Perfetto opens.
    """

    model: str
    workers: int = 2
    grouping: str = 'stage'
    assignment: tuple[int, ...] = ()
    seed: int = 0
    devices: tuple[str, ...] = ()
    threads_per_worker: int = 1
    mailbox_depth: int = MAILBOX_DEPTH
    hop_timeout_s: float = 10.0
    open_timeout_s: float = 120.0
    max_streams: int = 4
    in_flight: int = 0
    max_batch: int = 1
    batch_wait_us: float = 0.0
    conditioning: str = 'entry'
    override_kv_rule: bool = False
    memory_mb: float = 0.0
    trace: Path | None = None

    def __post_init__(self) -> None:
        """
        Refuse what cannot be.

        :raises ParameterError: naming the parameter.
        """
        for name in ('workers', 'threads_per_worker', 'mailbox_depth', 'max_streams', 'max_batch'):
            if getattr(self, name) < 1:
                raise ParameterError(name, '>= 1', getattr(self, name))
        if self.in_flight < 0:
            raise ParameterError('in_flight', '>= 0', self.in_flight)
        if not self.batch_wait_us >= 0:
            raise ParameterError('batch_wait_us', '>= 0', self.batch_wait_us)
        if not self.memory_mb >= 0:
            raise ParameterError('memory_mb', '>= 0', self.memory_mb)
        for name in ('hop_timeout_s', 'open_timeout_s'):
            if not getattr(self, name) > 0:
                raise ParameterError(name, '> 0', getattr(self, name))
        if self.grouping not in SCHEMES:
            raise ParameterError('grouping', f'one of {list(SCHEMES)}', self.grouping)
        if self.conditioning not in ('entry', 'step'):
            raise ParameterError('conditioning', "'entry' or 'step'", self.conditioning)
        if self.devices and len(self.devices) != self.workers:
            rule = f'one for each of {self.workers} workers'
            raise ParameterError('devices', rule, self.devices)

    def group(self, spec: ModelSpec) -> Grouping:
        """
        Return which worker runs which stage of every stream.

        :raises ParameterError: and
        :raises PlanError: when the model does not allow what is asked.
        """
        self.check_model(spec)
        if not self.assignment:
            return group(spec, self.grouping, self.workers, self.override_kv_rule)
        found = assign(spec, self.assignment, self.override_kv_rule)
        if found.workers != self.workers:
            raise ParameterError('workers', f'{found.workers} as assigned', self.workers)
        return found

    def check_model(self, spec: ModelSpec) -> None:
        """
        Refuse what the model does not allow.

        :raises ParameterError: naming the parameter.
        """
        if self.conditioning == 'step' and spec.conditioning != 'step':
            rule = f"'entry' for {spec.name}, whose weights do not allow renewal"
            raise ParameterError('conditioning', rule, 'step')

    def memory_bytes(self, worker: int) -> int:
        """Return what a worker may hold; 0: any."""
        names = [self.device(index) for index in range(self.workers)]
        return int(self.memory_mb * 1e6) // names.count(self.device(worker))

    def device(self, worker: int) -> str:
        """Return the torch device of a worker."""
        return self.devices[worker] if self.devices else 'cpu'
