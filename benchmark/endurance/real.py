# SPDX-License-Identifier: Apache-2.0
"""
The nodes of the demo under its load, for as long as is wanted, watched from outside.

The arm, the model with its workers, the player; somebody looks at the predicted frames and every
tick. Every few seconds what each process uses is read from /proc.
"""

from __future__ import annotations

import os
import statistics
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import rclpy
from rclpy.node import Node
from rclpy.signals import SignalHandlerOptions
from sensor_msgs.msg import Image

from endurance.process import Usage, children, usage
from physis_ros.evaluation.definitions import shared_file
from physis_ros.msg import Playback, PlaybackStatus
from physis_ros.ros import qos
from physis_ros.ros.demo_processes import Children
from physis_ros.ros.executor import make_executor

DOMAINS = range(102, 202)
SERVO_HZ = 250
PERIOD_NS = 10**9 // SERVO_HZ
SAMPLE_S, STOP_S = 2.0, 10.0
# Each episode begins with a reset of the model and of the player.
EPISODES = {'episodes': 10_000, 'seconds': 20.0}
# A run begins when commands are played, which loading precedes.
PATIENCE_S = 300.0


@dataclass
class Heard:
    """
    What the servo said.

    :param off_grid: ticks that were not due at a whole number of periods after the first.
    :param ages_ms: hours since the start, median age of what was played since the one before.
    :param lost: hours since the start, periods of the grid since the one before in which no tick
        was heard.
    """

    first_ns: int = 0
    last_ns: int = 0
    ticks: int = 0
    off_grid: int = 0
    frames: int = 0
    status: PlaybackStatus | None = None
    ages_ms: list[tuple[float, float]] = field(default_factory=list)
    lost: list[tuple[float, int]] = field(default_factory=list)
    _ages_ms: list[float] = field(default_factory=list)
    _lost: int = 0

    def tick(self, message: Playback) -> None:
        """Hold a tick against the grid; the hold at a reset is one between two ticks."""
        due_ns = int(message.scheduled_steady_ns)
        if due_ns == message.ticked_steady_ns and message.reason == Playback.REASON_INACTIVE:
            return
        self.first_ns = self.first_ns or due_ns
        if self.last_ns:
            self._lost += max((due_ns - self.last_ns) // PERIOD_NS - 1, 0)
        self.last_ns = due_ns
        self.ticks += 1
        self.off_grid += (due_ns - self.first_ns) % PERIOD_NS != 0
        if message.play == Playback.PLAY_PLAYING:
            self._ages_ms.append(message.age.sec * 1e3 + message.age.nanosec * 1e-6)

    def sample(self, hour: float) -> None:
        """Note what was heard since the last time."""
        if self._ages_ms:
            self.ages_ms.append((hour, statistics.median(self._ages_ms)))
        self.lost.append((hour, self._lost))
        self._ages_ms, self._lost = [], 0


@dataclass(frozen=True)
class Run:
    """
    A run.

    :param samples: of each process by name: hours since the start, what it used.
    :param codes: exit codes that were not 0.
    """

    heard: Heard
    samples: Mapping[str, list[tuple[float, Usage]]]
    codes: Mapping[str, int]


def run(minutes: float, workers: int, folder: Path, say: Callable[[str], None]) -> Run:
    """Start the nodes, watch them for a while, stop them."""
    # Alone: who comes and goes in the same domain takes memory in every node.
    os.environ.setdefault('ROS_DOMAIN_ID', str(DOMAINS[os.getpid() % len(DOMAINS)]))
    nodes = Children(folder, {**os.environ, 'PYTHONUNBUFFERED': '1'})
    context = rclpy.Context()
    rclpy.init(context=context, signal_handler_options=SignalHandlerOptions.NO)
    executor = make_executor(context)
    probe: Any = Node('soak', context=context)
    executor.add_node(probe)
    heard = Heard()
    _listen(probe, heard)
    samples: dict[str, list[tuple[float, Usage]]] = {}
    try:
        _start(nodes, workers)
        deadline_s = time.monotonic() + PATIENCE_S
        while not (heard.ticks and heard.status and heard.status.chunks_accepted):
            executor.spin_once(timeout_sec=0.1)
            nodes.check()
            if time.monotonic() > deadline_s:
                said = '\n'.join(f'{child.name}: {child.tail()}' for child in nodes)
                raise TimeoutError(f'no chunk was played in {PATIENCE_S:g} s\n{said}')
        began_s = next_s = time.monotonic()
        while (passed_s := time.monotonic() - began_s) < minutes * 60:
            executor.spin_once(timeout_sec=0.05)
            if time.monotonic() < next_s:
                continue
            next_s += SAMPLE_S
            nodes.check()
            _sample(nodes, passed_s / 3600, samples)
            heard.sample(passed_s / 3600)
            if len(heard.lost) % 30 == 0:
                say(f'{passed_s / 60:.0f} min: {_line(samples)}')
    finally:
        nodes.ask('servo', 'wam', 'arm')
        nodes.wait(('servo', 'wam', 'arm'), STOP_S)
        nodes.kill()
        probe.destroy_node()
        executor.shutdown()
        rclpy.try_shutdown(context=context)
    return Run(heard, samples, nodes.failures())


def _listen(probe: Any, heard: Heard) -> None:
    """Take every tick, the status and the predicted frames."""

    def frame(message: Image) -> None:
        heard.frames += 1

    def status(message: PlaybackStatus) -> None:
        heard.status = message

    probe.create_subscription(Playback, 'servo_node/playback', heard.tick, qos.PLAYBACK)
    probe.create_subscription(PlaybackStatus, 'servo_node/playback_status', status, qos.LATCHED)
    probe.create_subscription(Image, 'wam_node/predicted_image', frame, qos.SENSOR_IN)


def _start(nodes: Children, workers: int) -> None:
    """Start what the demo starts, without a recorder."""
    common = ('--params-file', str(shared_file('config/arm.yaml')))
    nodes.start('wam', 'physis_ros.ros.wam_node', {'workers': workers}, *common)
    nodes.start('arm', 'physis_ros.ros.arm_node', EPISODES, *common)
    nodes.start(
        'servo', 'physis_ros.ros.servo_node', {'servo_rate_hz': float(SERVO_HZ)},
        *common, '-r', 'action_chunk:=wam_node/action_chunk', '-r', '~/command:=command',
    )  # fmt: skip


def _sample(
    nodes: Children, hour: float, samples: dict[str, list[tuple[float, Usage]]]
) -> None:
    """Read what every process uses; workers are named in the order of their start."""
    for child in nodes:
        pid = child.process.pid
        samples.setdefault(child.name, []).append((hour, usage(pid)))
        for index, worker in enumerate(children(pid)):
            name = f'{child.name} child {index}'
            samples.setdefault(name, []).append((hour, usage(worker)))


def _line(samples: Mapping[str, list[tuple[float, Usage]]]) -> str:
    """Return what is used now, for a person."""
    return ', '.join(
        f'{name} {taken[-1][1].private_kib / 1024:.1f} MiB' for name, taken in samples.items()
    )
