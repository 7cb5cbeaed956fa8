# SPDX-License-Identifier: Apache-2.0
"""A producer on clocks moved by hand, and a pipe whose chunks are finished by the test."""

from __future__ import annotations

import time
from collections.abc import Mapping
from typing import Any

import numpy as np

from physis_ros.backbones.base import ModelSpec
from physis_ros.backbones.synthetic import synthetic_spec
from physis_ros.clock import ManualClock
from physis_ros.engine.result import ChunkResult
from physis_ros.errors import EngineError
from physis_ros.observation.joints import JointReading
from physis_ros.session.collector import Collector
from physis_ros.session.produced import Produced
from physis_ros.session.producer import Ports, Producer
from physis_ros.session.producer_config import ProducerConfig
from physis_ros.session.producer_status import ProducerState
from physis_ros.types import ByteArray

MS = 1_000_000
BASE = 5_000 * MS


class Pipe:
    """A pool whose chunks are finished by the test."""

    def __init__(self, steady: ManualClock, depth: int = 2, renewals: int = 0) -> None:
        self.spec: ModelSpec = synthetic_spec('synthetic:')
        self.entered: list[tuple[int, int, Mapping[str, Any], int, bool]] = []
        self.in_flight: dict[str, list[tuple[int, int, bool]]] = {}
        self.epochs: dict[str, int] = {}
        self.depth, self.steady, self.renewals = depth, steady, renewals
        self.shown: list[tuple[int, int, Mapping[str, Any]]] = []
        self.failure: EngineError | None = None
        self.results: list[ChunkResult] = []

    def ready(self, stream: str, /) -> bool:
        self._alive()
        return len(self.in_flight.get(stream, [])) < self.depth

    def enter(
        self, stream: str, inputs: Mapping[str, Any], deadline_steady_ns: int,
        decode_frames: bool, /,
    ) -> int:  # fmt: skip
        epoch = self.epochs.get(stream, 0)
        chunk = sum(entry[0] == epoch for entry in self.entered)
        self.entered.append((epoch, chunk, inputs, deadline_steady_ns, decode_frames))
        self.in_flight.setdefault(stream, []).append((epoch, chunk, decode_frames))
        return chunk

    def observe(self, stream: str, chunk: int, inputs: Mapping[str, Any], /) -> int | None:
        epoch = self.epochs.get(stream, 0)
        if not any(inside[:2] == (epoch, chunk) for inside in self.in_flight.get(stream, [])):
            return None
        self.shown.append((epoch, chunk, inputs))
        return 100 + len(self.shown)

    def reset(self, stream: str, /) -> int:
        self._alive()
        self.epochs[stream] = self.epochs.get(stream, 0) + 1
        self.in_flight[stream] = []
        return self.epochs[stream]

    def next_result(self, timeout_s: float, /) -> ChunkResult | None:
        self._alive()
        if self.results:
            return self.results.pop(0)
        time.sleep(timeout_s)
        return None

    def finish(
        self, denoised_ns: int, decoded_ns: int, stream: str = 'arm', observation: int = 1
    ) -> ChunkResult:
        """Finish the oldest chunk; times are steady."""
        epoch, chunk, frames = self.in_flight[stream].pop(0)
        image = np.full((1, 8, 8, 3), chunk, np.uint8)
        return ChunkResult(
            stream, epoch, chunk, np.full((4, 2), chunk + 0.5, np.float32),
            image if frames else None, 'same_step', observation, 0, denoised_ns, decoded_ns,
            decoded_ns,
        )  # fmt: skip

    def _alive(self) -> None:
        if self.failure is not None:
            raise self.failure


class Bench:
    """A producer on hand-moved clocks; stream time starts at BASE, steady time at 0."""

    def __init__(self, renewals: int = 0, **changes: Any) -> None:
        self.clock, self.steady = ManualClock(BASE), ManualClock(0)
        self.pipe = Pipe(self.steady, renewals=renewals)
        self.got: list[Produced] = []
        self.wanted = False
        config = ProducerConfig(**{'warmup_chunks': 0, **changes})
        ports = Ports(self.got.append, lambda: self.wanted, self.steady)
        self.collector = Collector(self.pipe)
        self.producer = Producer(self.pipe, 'arm', config, self.clock, ports, self.collector)
        # Turns are taken by the test, so the entry thread is not started; the epoch is the pool's.
        self.producer._state = ProducerState.RUNNING

    def at(self, time_ms: float) -> None:
        """Move both clocks to ``time_ms`` after the start."""
        self.clock.set(BASE + round(time_ms * MS))
        self.steady.set(round(time_ms * MS))

    def see(self, time_ms: float, way_ms: float = 2, turn: bool = True) -> None:
        """Joints and a frame taken at ``time_ms`` come ``way_ms`` later."""
        self.at(time_ms + way_ms)
        stamp, now = BASE + round(time_ms * MS), self.clock.now_ns()
        self.producer.joints(JointReading(stamp, now, ['a', 'b'], [1.0, 2.0], [0.1, 0.2]))
        self.producer.frame(stamp, now, image())
        if turn:
            self.producer.turn()


def image(value: int = 7) -> ByteArray:
    """Return an even picture of twice the model's size."""
    return np.full((16, 16, 3), value, np.uint8)
