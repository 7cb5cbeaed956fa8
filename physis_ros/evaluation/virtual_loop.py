# SPDX-License-Identifier: Apache-2.0
"""
One closed loop in virtual time: arm, producer, serial engine, player, without ROS and threads.

The very parts that run on the robot, on a clock moved in steps of a millisecond. What a chunk
takes is given, so the outcome is the same on every machine and depends on its load in nothing.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import NamedTuple, Protocol

import numpy as np
from numpy.typing import NDArray

from physis_ros.clock import ManualClock
from physis_ros.evaluation.serial_pool import SerialPool
from physis_ros.observation.joints import JointReading
from physis_ros.session.produced import Produced
from physis_ros.session.producer import Ports, Producer
from physis_ros.session.producer_config import ProducerConfig
from physis_ros.simulation.arm import JOINT_NAMES, STEP_NS, Arm
from physis_ros.types import ActionChunk, Command, FloatArray, Play

MS = 1_000_000
CAMERA_NS, WAY_NS, SERVO_NS, HAND_OVER_NS = 25 * MS, 2 * MS, 5 * MS, 1 * MS
# Nothing starts at zero: an unset stamp is that.
BEGIN_NS = 1_000 * MS


class Sink(Protocol):
    """What takes chunks and gives commands; a player, or what is compared with it."""

    def measured(self, position: FloatArray, stamp_ns: int) -> object:
        """Take the measured joints."""

    def offer(self, chunk: ActionChunk, now_ns: int) -> object:
        """Take a chunk."""

    def tick(self, now_ns: int, scheduled_ns: int) -> Command:
        """Return the command of a tick."""

    def wants(self, now_ns: int) -> bool:
        """Whether the next chunk may be begun."""


class Tick(NamedTuple):
    """
    One tick of the loop.

    :param joints: measured positions [rad].
    :param error_m: distance of tip and target.
    """

    command: Command
    joints: FloatArray
    error_m: float


@dataclass
class Trip:
    """
    One episode's log.

    :param ticks: one for each servo period.
    :param chunks: all that were delivered, in order.
    """

    ticks: list[Tick] = field(default_factory=list)
    chunks: list[Produced] = field(default_factory=list)


class VirtualLoop:
    """
    One episode. Single-threaded.

    :param pool: the engine, on ``clock``.
    :param clock: both the stream clock and the steady one.
    :param config: of the producer.
    :param sink: of the chunks.
    :param seed: of target and first pose.
    """

    def __init__(
        self, pool: SerialPool, clock: ManualClock, config: ProducerConfig, sink: Sink, seed: int
    ) -> None:
        self._pool, self._clock, self._sink = pool, clock, sink
        self._arm = Arm(seed=seed)
        self._trip = Trip()
        self._on_the_way: list[tuple[int, ActionChunk]] = []
        self._frames: list[tuple[int, NDArray[np.uint8]]] = []
        ports = Ports(self._deliver, steady=clock)
        self._producer = Producer(pool, 'arm', config, clock, ports)

    def run(self, seconds: float) -> Trip:
        """Run it to its end and return the log."""
        with self._arm:
            self._clock.set(BEGIN_NS)
            self._producer.begin()
            for _ in range(round(seconds * 1e9) // STEP_NS):
                self._step()
                self._arm.advance()
                self._clock.advance(STEP_NS)
        self._producer.stop()
        return self._trip

    def _step(self) -> None:
        """Do everything that happens in this millisecond."""
        now_ns = self._clock.now_ns()
        if now_ns % SERVO_NS == 0:
            self._feel(now_ns)
        if now_ns % CAMERA_NS == 0:
            self._frames.append((now_ns, self._arm.render()))
        if self._frames and now_ns >= self._frames[0][0] + WAY_NS:
            stamp_ns, image = self._frames.pop(0)
            self._producer.frame(stamp_ns, now_ns, image)
        while (result := self._pool.next_result(0.0)) is not None:
            self._producer.on_result(result)
        while self._on_the_way and now_ns >= self._on_the_way[0][0]:
            self._sink.offer(self._on_the_way.pop(0)[1], now_ns)
        if self._sink.wants(now_ns):
            self._producer.turn()
        if now_ns % SERVO_NS == 0:
            self._command(now_ns)

    def _feel(self, now_ns: int) -> None:
        position, velocity = self._arm.joint_position_rad, self._arm.joint_velocity_rad_s
        self._sink.measured(position, now_ns)
        reading = JointReading(now_ns, now_ns, list(JOINT_NAMES), list(position), list(velocity))
        self._producer.joints(reading)

    def _command(self, now_ns: int) -> None:
        arm = self._arm
        error_m = float(np.linalg.norm(arm.tip_position_m - arm.target_position_m))
        command = self._sink.tick(now_ns, now_ns)
        self._trip.ticks.append(Tick(command, arm.joint_position_rad, error_m))
        if command.play is not Play.SILENT:
            arm.command(command.position)

    def _deliver(self, done: Produced) -> None:
        self._trip.chunks.append(done)
        self._on_the_way.append((self._clock.now_ns() + HAND_OVER_NS, done.chunk))
