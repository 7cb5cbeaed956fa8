# SPDX-License-Identifier: Apache-2.0
"""The parameters of the model node, and what they mean for pool and producer."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from physis_ros.engine.config import PoolConfig
from physis_ros.engine.grid import SCHEMES
from physis_ros.errors import ParameterError
from physis_ros.observation.config import Timeline
from physis_ros.ros.parameters import parameter
from physis_ros.session.producer_config import ProducerConfig

MS_NS = 1e6
POOL = PoolConfig
PRODUCER = ProducerConfig


@dataclass(frozen=True)
class WamConfig:
    """How observations become chunks; the defaults of engine and production are their own."""

    model: str = parameter(
        'reach', 'Model: reach, reach:clean, reach:FILE.safetensors or synthetic:...'
    )
    stream: str = parameter('robot', 'Name of the stream; carried by every chunk.')
    autostart: bool = parameter(
        True, 'Configure and activate at start; false leaves it to an operator or a manager.'
    )
    camera: str = parameter('camera', 'Name of the camera; images come from <camera>/image_raw.')
    image_transport: str = parameter(
        'raw',
        'raw: sensor_msgs/Image; compressed: sensor_msgs/CompressedImage on .../compressed.',
        choices=('raw', 'compressed'),
    )
    joint_names: tuple[str, ...] = parameter(
        PRODUCER.joint_names, "The model's joints in its order; leave out for the model's own."
    )
    joint_aliases: tuple[str, ...] = parameter(
        (), "Where names differ: 'robot_joint=model_joint'."
    )
    period_ms: float = parameter(
        PRODUCER.period_ns / MS_NS,
        'Promised interval between chunks [ms].',
        low=1.0,
        high=60_000.0,
    )
    expected_response_ms: float = parameter(
        PRODUCER.expected_response_ns / MS_NS,
        'Time from entry to publishing, until it has been measured [ms].',
        low=0.0,
        high=60_000.0,
    )
    margin_ms: float = parameter(
        PRODUCER.margin_ns / MS_NS,
        'Time allowed for the way from here to the player [ms].',
        low=0.0,
        high=10_000.0,
    )
    frame_tolerance_ms: float = parameter(
        PRODUCER.frame_tolerance_ns / MS_NS,
        'How far from its wanted time an earlier frame may lie [ms].',
        low=0.0,
        high=10_000.0,
    )
    joint_tolerance_ms: float = parameter(
        PRODUCER.joint_tolerance_ns / MS_NS,
        'How far from the frame a joint state may lie [ms].',
        low=0.0,
        high=10_000.0,
    )
    max_observation_age_ms: float = parameter(
        PRODUCER.max_age_ns / MS_NS,
        'A frame older than this makes no observation [ms].',
        low=1.0,
        high=60_000.0,
    )
    timeline: str = parameter(
        PRODUCER.timeline.value,
        'Which time places a message: its header, or when it was received.',
        choices=[item.value for item in Timeline],
    )
    workers: int = parameter(POOL.workers, 'Worker processes [1].', low=1, high=256)
    grouping: str = parameter(
        POOL.grouping, 'How stages are placed on workers.', choices=list(SCHEMES)
    )
    devices: tuple[str, ...] = parameter(
        POOL.devices, 'torch device of each worker, such as cuda:0; leave out for processors.'
    )
    threads_per_worker: int = parameter(
        POOL.threads_per_worker, 'Compute threads of each worker [1].', low=1, high=256
    )
    in_flight: int = parameter(
        POOL.in_flight, 'Most chunks in the pipe [1]; 0: as many as workers.', low=0, high=64
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
        'restart: load again and go on in a new epoch; exit: end the node with code 1.',
        choices=('restart', 'exit'),
    )
    status_rate_hz: float = parameter(
        2.0, 'Messages on ~/stream_status per second [Hz].', low=0.1, high=20.0
    )

    def __post_init__(self) -> None:
        """
        Refuse aliases of another form.

        :raises ParameterError: naming the parameter.
        """
        for text in self.joint_aliases:
            robot, _, model = text.partition('=')
            if not robot.strip() or not model.strip():
                raise ParameterError('joint_aliases', "a list of 'robot_joint=model_joint'", text)
        if not self.stream:
            raise ParameterError('stream', 'a name', self.stream)

    @property
    def aliases(self) -> dict[str, str]:
        """Robot's joint name -> model's joint name."""
        pairs = (text.partition('=') for text in self.joint_aliases)
        return {robot.strip(): model.strip() for robot, _, model in pairs}

    @property
    def pool(self) -> PoolConfig:
        """The engine's part."""
        return PoolConfig(
            model=self.model,
            workers=self.workers,
            grouping=self.grouping,
            seed=self.seed,
            devices=self.devices,
            threads_per_worker=self.threads_per_worker,
            hop_timeout_s=self.hop_timeout_s,
            in_flight=self.in_flight,
            override_kv_rule=self.override_kv_rule,
            trace=Path(self.trace) if self.trace else None,
        )

    @property
    def producer(self) -> ProducerConfig:
        """The session's part."""
        return ProducerConfig(
            period_ns=round(self.period_ms * MS_NS),
            expected_response_ns=round(self.expected_response_ms * MS_NS),
            margin_ns=round(self.margin_ms * MS_NS),
            joint_names=self.joint_names,
            aliases=self.aliases,
            frame_tolerance_ns=round(self.frame_tolerance_ms * MS_NS),
            joint_tolerance_ns=round(self.joint_tolerance_ms * MS_NS),
            max_age_ns=round(self.max_observation_age_ms * MS_NS),
            timeline=Timeline(self.timeline),
        )
