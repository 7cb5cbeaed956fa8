# SPDX-License-Identifier: Apache-2.0
"""
A day of production and playing in minutes: the real classes, driven through time.

Time is an argument everywhere, so the producer, the player and their accounts go through the same
hours as on a robot. Every hour has the same events: an epoch, a paused clock, a camera that is
silent, broken and repeated chunks, broken joint states. So every hour must have the same figures.
"""

from __future__ import annotations

import os
from collections import deque
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from itertools import pairwise
from typing import Any

import numpy as np
import numpy.typing as npt

from endurance.process import Usage, usage
from physis_ros.backbones.base import ActionSpec
from physis_ros.backbones.synthetic import synthetic_spec
from physis_ros.clock import ManualClock
from physis_ros.engine.result import ChunkResult
from physis_ros.observation.joints import JointReading
from physis_ros.output.figures import Figures
from physis_ros.session.collector import Collector
from physis_ros.session.player import Player
from physis_ros.session.player_config import PlayerConfig
from physis_ros.session.produced import Produced
from physis_ros.session.producer import Ports, Producer
from physis_ros.session.producer_config import ProducerConfig
from physis_ros.session.producer_status import ProducerState, ResetReason
from physis_ros.types import ActionChunk

MS = 1_000_000
TICK_NS, FRAME_NS, SAMPLE_NS, STATUS_NS = 50 * MS, 100 * MS, 60_000 * MS, 10_000 * MS
WAY_NS, ENGINE_NS = 5 * MS, 90 * MS
START_NS = 1_700_000_000_000 * MS
NAMES = ('a', 'b')
PAUSED_TICKS, SILENCE_NS = 20, 2_000 * MS


@dataclass(frozen=True)
class Hour:
    """What had been counted at the end of an hour."""

    figures: Figures
    produced: Mapping[str, int]


class Pipe:
    """A pool that finishes each chunk a set time after it entered (``session/pool_port.py``)."""

    renewals = 0

    def __init__(self, steady: ManualClock) -> None:
        actions = ActionSpec(NAMES, 'rad', horizon=16, dt_ns=25 * MS)
        spec = synthetic_spec('synthetic:')
        inputs = tuple(item for item in spec.inputs if item.name in ('frames', 'joints', 'delay'))
        self.spec = replace(spec, actions=actions, inputs=inputs, commits=())
        self._steady, self._epoch, self._chunk = steady, 0, 0
        self._running: deque[tuple[int, int, int]] = deque()

    def ready(self, stream: str, /) -> bool:
        """Two chunks may be under way."""
        return len(self._running) < 2

    def enter(
        self, stream: str, inputs: Mapping[str, npt.NDArray[Any]], deadline: int, frames: bool, /
    ) -> int:
        """Take the next chunk."""
        number, self._chunk = self._chunk, self._chunk + 1
        self._running.append((self._steady.now_ns(), self._epoch, number))
        return number

    def observe(
        self, stream: str, chunk: int, inputs: Mapping[str, npt.NDArray[Any]], /
    ) -> int | None:
        """Take no newer observation."""
        return None

    def reset(self, stream: str, /) -> int:
        """Begin an epoch."""
        self._epoch, self._chunk = self._epoch + 1, 0
        self._running.clear()
        return self._epoch

    def next_result(self, timeout_s: float, /) -> ChunkResult | None:
        """Return the oldest chunk when its time has come."""
        now_ns = self._steady.now_ns()
        if not self._running or now_ns - self._running[0][0] < ENGINE_NS:
            return None
        entered_ns, epoch, number = self._running.popleft()
        phase = np.arange(16)[:, None] * 0.1 + number * 0.4 + np.arange(2)
        actions = np.sin(phase).astype(np.float32)
        return ChunkResult(
            'robot', epoch, number, actions, None, 'same_step', 0, entered_ns, *[now_ns] * 3
        )


class Day:
    """
    One robot and its stream. Single-threaded.

    :param hours: how long.
    """

    def __init__(self, hours: int) -> None:
        self._hours = hours
        self.clock, self.steady = ManualClock(START_NS), ManualClock(0)
        self._pipe = Pipe(self.steady)
        self._producer = Producer(
            self._pipe, 'robot', ProducerConfig(), self.clock,
            Ports(self._deliver, steady=self.steady), Collector(self._pipe),
        )  # fmt: skip
        self.player = Player(PlayerConfig(NAMES, servo_rate_hz=1e9 / TICK_NS))
        self._image = np.zeros((8, 8, 3), np.uint8)
        self._last: ActionChunk | None = None
        self._silent_until_ns = 0
        self._events: dict[int, Callable[[], None]] = {
            10: self._reset,
            20: self._pause,
            30: self._silence,
            40: self._hostile,
        }
        self.hours: list[Hour] = []
        self.samples: list[tuple[float, Usage]] = []

    def _reset(self) -> None:
        """Begin an epoch."""
        self._producer.reset(ResetReason.EPISODE)

    def _pause(self) -> None:
        """Let the clock stand still."""
        for _ in range(PAUSED_TICKS):
            self._producer.turn()
            self.player.tick(self.clock.now_ns(), self.clock.now_ns())

    def _silence(self) -> None:
        """Let the camera be silent for a while, longer than chunks reach."""
        self._silent_until_ns = self.clock.now_ns() + SILENCE_NS

    def _hostile(self) -> None:
        """Repeat a chunk, break one, and a joint state."""
        now_ns = self.clock.now_ns()
        if self._last is not None:
            self.player.offer(self._last, now_ns)
            broken = np.full_like(self._last.actions, np.nan)
            self.player.offer(replace(self._last, actions=broken), now_ns)
            self.player.offer(replace(self._last, names=('a', 'c')), now_ns)
        self._producer.joints(JointReading(now_ns, now_ns, NAMES, (np.nan, 1.0), ()))
        self._producer.joints(JointReading(now_ns, now_ns, NAMES, (1.0,), ()))

    def _deliver(self, produced: Produced) -> None:
        """Hand a chunk over."""
        self._last = produced.chunk
        self.player.offer(produced.chunk, self.clock.now_ns())

    def run(self, say: Callable[[str], None]) -> None:
        """Let all hours pass."""
        # Turns are taken here, in step with the time, so the producer's own thread is not started.
        self._producer._state = ProducerState.RUNNING
        self.player.activate(START_NS)
        for hour in range(self._hours):
            for minute in range(60):
                if minute in self._events:
                    self._events[minute]()
                self._minute()
                self.samples.append((hour + (minute + 1) / 60, usage(os.getpid())))
            status = self._producer.status()
            self.hours.append(Hour(self.player.account.figures(), dict(status.counts)))
            say(f'{hour + 1} h: {self.samples[-1][1].private_kib / 1024:.1f} MiB')

    def same(self) -> bool:
        """Whether every hour but the first counted exactly the same as the one before."""
        counted = [_counted(hour) for hour in self.hours]
        grown = [
            {name: late[name] - early.get(name, 0) for name in late}
            for early, late in pairwise(counted)
        ]
        return all(hour == grown[0] for hour in grown)

    def drift(self) -> float:
        """Return by how much age and interval differ at most, second hour to last [1]."""
        early, late = _quantiles(self.hours[1]), _quantiles(self.hours[-1])
        return max(abs(b - a) / a for a, b in zip(early, late, strict=True))

    def _minute(self) -> None:
        """Let a minute pass."""
        for _ in range(SAMPLE_NS // TICK_NS):
            self.clock.advance(TICK_NS)
            self.steady.advance(TICK_NS)
            self._tick(self.clock.now_ns())

    def _tick(self, now_ns: int) -> None:
        """Let everything happen that is due at one servo tick."""
        stamp_ns = now_ns - WAY_NS
        position = (0.1, 0.2)
        self._producer.joints(JointReading(stamp_ns, now_ns, NAMES, position, (0.0, 0.0)))
        self.player.measured(np.array(position), stamp_ns)
        if now_ns % FRAME_NS == 0 and now_ns >= self._silent_until_ns:
            self._producer.frame(stamp_ns, now_ns, self._image)
        self._producer.turn()
        result = self._pipe.next_result(0.0)
        if result is not None:
            self._producer.on_result(result)
        self.player.tick(now_ns, now_ns)
        if now_ns % STATUS_NS == 0:
            self.player.account.figures()
            self._producer.status()


def _counted(hour: Hour) -> dict[str, int]:
    """Return everything that is counted."""
    figures = hour.figures
    return {
        **{f'produced {name}': count for name, count in hour.produced.items()},
        **{f'missed for {name}': count for name, count in figures.misses_by_cause.items()},
        **{f'rejected for {name}': count for name, count in figures.chunks.rejected.items()},
        'window': figures.window,
        'ticks': figures.ticks,
        'due': figures.due,
        'warm-up': figures.warmup_ticks,
        'paused': figures.paused_ticks,
        'underruns': figures.underruns.count,
        'underrun time': figures.underruns.time_ns,
        'accepted': figures.chunks.accepted,
        'late': figures.chunks.late,
        'superseded': figures.chunks.superseded,
    }


def _quantiles(hour: Hour) -> list[float]:
    """Return quantiles that do not go to zero."""
    age, interval = hour.figures.age_ms.worst, hour.figures.chunks.interval_ms
    return [
        value for item in (age, interval) for value in (item.p50, item.p99, item.p999) if value
    ]
