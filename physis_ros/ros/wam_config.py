# SPDX-License-Identifier: Apache-2.0
"""The parameters of the model node and its engine; those of its streams are in stream_config."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from physis_ros.engine.config import PoolConfig
from physis_ros.engine.grid import SCHEMES
from physis_ros.errors import ParameterError
from physis_ros.ros.parameters import autostart, parameter
from physis_ros.ros.stream_config import check_name

POOL = PoolConfig


@dataclass(frozen=True)
class WamConfig:
    """Which streams there are, and the engine that carries them; its defaults are its own."""

    model: str = parameter(
        'reach', 'Model: reach, reach:clean, reach:FILE.safetensors or synthetic:...'
    )
    stream: str = parameter('robot', 'Name of the only stream; carried by every chunk.')
    streams: tuple[str, ...] = parameter(
        (),
        'Names of several streams; the topics of each lie below its name, <stream>.<parameter> is '
        'for one of them. Leave out for one stream.',
    )
    autostart: bool = autostart()
    workers: int = parameter(POOL.workers, 'Worker processes [1].', low=1, high=256)
    grouping: str = parameter(
        POOL.grouping, 'How stages are placed on workers.', choices=list(SCHEMES)
    )
    assignment: tuple[int, ...] = parameter(
        POOL.assignment,
        'Worker of each stage, step by step, instead of grouping: what `physis plan --json` calls '
        'hosts. Leave out for grouping.',
        low=0,
        high=255,
    )
    devices: tuple[str, ...] = parameter(
        POOL.devices, 'torch device of each worker, such as cuda:0; leave out for processors.'
    )
    threads_per_worker: int = parameter(
        POOL.threads_per_worker, 'Compute threads of each worker [1].', low=1, high=256
    )
    in_flight: int = parameter(
        POOL.in_flight,
        'Most chunks in the pipe [1]; 0: as many as workers, with batches at least one for each '
        'pass.',
        low=0,
        high=64,
    )
    max_streams: int = parameter(
        POOL.max_streams,
        'Most streams at once [1]; memory is laid out for them at start.',
        low=1,
        high=256,
    )
    max_batch: int = parameter(
        POOL.max_batch,
        'Most tasks of one batch, over steps, chunks and streams [1]; 1: no batches.',
        low=1,
        high=256,
    )
    batch_wait_us: float = parameter(
        POOL.batch_wait_us,
        'Longest wait of a batch for company, within the slack of its members [us].',
        low=0.0,
        high=1e6,
    )
    memory_mb: float = parameter(
        POOL.memory_mb,
        'Most memory of each device for weights and KV [MB], shared by the workers on it; of an '
        'accelerator no more is taken for anything. 0: all there is.',
        low=0.0,
        high=1e9,
    )
    profile: str = parameter(
        '',
        'What the model costs here: a file of `physis profile`. Streams are then admitted and '
        'placed by it, grouping aside; empty: as long as there are places.',
    )
    conditioning: str = parameter(
        POOL.conditioning,
        'entry: a chunk keeps the observation it entered with; step: it takes the newest at every '
        'denoise step, where the weights allow that.',
        choices=('entry', 'step'),
    )
    override_kv_rule: bool = parameter(
        POOL.override_kv_rule, 'Pipeline clean weights against their rule; marks every chunk.'
    )
    seed: int = parameter(POOL.seed, 'Of the noise.', low=0)
    hop_timeout_s: float = parameter(
        POOL.hop_timeout_s, 'Longest silence of a worker [s].', low=0.1, high=600.0
    )
    trace: str = parameter('', 'File for a trace that Perfetto opens; empty for none.')
    start_timeout_s: float = parameter(
        120.0, 'Longest time for loading and warming up [s].', low=1.0, high=3600.0
    )
    on_worker_death: str = parameter(
        'restart',
        'restart: start a new worker, or load all again where every stream needed the dead one; '
        'who was lost goes on in a new epoch. exit: end the node with code 1.',
        choices=('restart', 'exit'),
    )
    status_rate_hz: float = parameter(
        2.0, 'Messages on each stream_status per second [Hz].', low=0.1, high=20.0
    )
    statistics: bool = parameter(
        False, 'Mean, greatest value and count of the figures on /statistics too.'
    )
    metrics_port: int = parameter(
        0, 'Port on 127.0.0.1 where Prometheus finds the figures; 0: none.', low=0, high=65535
    )

    def __post_init__(self) -> None:
        """
        Refuse names that are none, are given twice, or are too many.

        :raises ParameterError: naming the parameter.
        """
        for name in self.names:
            try:
                check_name(name)
            except ParameterError as error:
                listed = 'streams' if self.streams else 'stream'
                raise ParameterError(listed, error.rule, error.value) from error
        if len(set(self.names)) < len(self.names):
            raise ParameterError('streams', 'names that differ', list(self.names))
        if len(self.names) > self.max_streams:
            rule = f'at most max_streams = {self.max_streams} names'
            raise ParameterError('streams', rule, list(self.names), 'raise max_streams')

    @property
    def names(self) -> tuple[str, ...]:
        """The streams that are opened at start."""
        return self.streams or (self.stream,)

    @property
    def pool(self) -> PoolConfig:
        """The engine's part."""
        return PoolConfig(
            model=self.model,
            workers=self.workers,
            grouping=self.grouping,
            assignment=self.assignment,
            seed=self.seed,
            devices=self.devices,
            threads_per_worker=self.threads_per_worker,
            hop_timeout_s=self.hop_timeout_s,
            open_timeout_s=self.start_timeout_s,
            max_streams=self.max_streams,
            in_flight=self.in_flight,
            max_batch=self.max_batch,
            batch_wait_us=self.batch_wait_us,
            conditioning=self.conditioning,
            override_kv_rule=self.override_kv_rule,
            memory_mb=self.memory_mb,
            trace=Path(self.trace) if self.trace else None,
        )
