# SPDX-License-Identifier: Apache-2.0
"""
Training episodes: what the arm saw and felt, and what the expert would have commanded.

The arm is driven by the expert and led astray on purpose (a far first pose, late commands, frozen
commands, a smooth disturbance), so the data holds the states that a late or wrong model gets into.
The labels stay the expert's, which do not depend on what the arm did.
"""

from __future__ import annotations

import math
from contextlib import AbstractContextManager
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from physis_ros.errors import ParameterError
from physis_ros.simulation.arm import Arm
from physis_ros.simulation.expert import Expert, ExpertConfig
from physis_ros.simulation.randomness import EXPLORATION, generator
from physis_ros.simulation.scene import ArmConfig
from physis_ros.simulation.target import TargetConfig

Floats = NDArray[np.float64]
Times = NDArray[np.int64]

CAMERA_NS = 25_000_000
COMMAND_NS = 5_000_000
COMMANDS_PER_FRAME = CAMERA_NS // COMMAND_NS
LABEL_MARGIN = 60


@dataclass(frozen=True)
class ExplorationConfig:
    """
    How the arm is led astray; each part is drawn for each episode on its own.

    :param away: probability of a first pose that has nothing to do with the target.
    :param late: probability that the arm follows the expert late.
    :param late_s: greatest lateness.
    :param frozen: probability that the commands freeze from time to time.
    :param frozen_s: longest freeze.
    :param disturbed: probability of a smooth disturbance of the commands.
    :param disturbed_rad: greatest amplitude of the disturbance.
    """

    away: float = 0.5
    late: float = 0.5
    late_s: float = 0.5
    frozen: float = 0.25
    frozen_s: float = 0.8
    disturbed: float = 0.5
    disturbed_rad: float = 0.4

    def __post_init__(self) -> None:
        """Refuse what is no probability or no amount."""
        for name in ('away', 'late', 'frozen', 'disturbed'):
            if not 0 <= getattr(self, name) <= 1:
                raise ParameterError(name, 'from 0 to 1', getattr(self, name))
        for name in ('late_s', 'frozen_s', 'disturbed_rad'):
            value = getattr(self, name)
            if not (math.isfinite(value) and value >= 0):
                raise ParameterError(name, 'finite and 0 or greater', value)


@dataclass(frozen=True)
class Episode:
    """
    One run of ``n`` camera instants, 25 ms apart, the first at time 0.

    :param frames: halved camera images, uint8 [n, 64, 64, 3].
    :param joints: joint positions [rad] and velocities [rad/s] at the frames, float32 [n, 4].
    :param labels: the expert's commands [rad] at the frames and on, float32 [n + 60, 2].
    :param target: position [m] and velocity [m/s] of the target, the truth, float32 [n, 4].
    """

    frames: NDArray[np.uint8]
    joints: NDArray[np.float32]
    labels: NDArray[np.float32]
    target: NDArray[np.float32]


def halved(image: NDArray[np.uint8]) -> NDArray[np.uint8]:
    """
    Return the image at half size: the mean of each 2x2 square, halves rounded up.

    :param image: height and width even, [h, w, 3].
    """
    wide = image.astype(np.uint16)
    rows = wide[0::2] + wide[1::2]
    return ((rows[:, 0::2] + rows[:, 1::2] + 2) >> 2).astype(np.uint8)


class EpisodeRecorder(AbstractContextManager['EpisodeRecorder']):
    """
    Records episodes one after another with one arm and one renderer.

    :param arm: body, drives and camera.
    :param target: region and pace of the target.
    :param exploration: how the arm is led astray.
    """

    def __init__(
        self,
        arm: ArmConfig | None = None,
        target: TargetConfig | None = None,
        exploration: ExplorationConfig | None = None,
    ) -> None:
        self._arm = Arm(arm, target_config=target)
        self._expert = Expert(ExpertConfig(link_m=self._arm.config.link_m))
        self._exploration = exploration or ExplorationConfig()

    def record(self, seed: int, seconds: float) -> Episode:
        """
        Run one episode.

        :param seed: decides everything in it.
        :param seconds: how long; a whole number of camera periods.
        """
        count = round(seconds * 1e9 / CAMERA_NS)
        if count < 1 or abs(count * CAMERA_NS - seconds * 1e9) > 1:
            raise ParameterError('seconds', 'a whole number of 0.025, from 1 on', seconds)
        arm, random = self._arm, generator(seed, EXPLORATION)
        arm.reset(seed)
        if random.random() >= self._exploration.away:
            arm.reset(seed, self._expert.command(0, arm.target))
        commands = self._commands(count * COMMANDS_PER_FRAME, random)
        frames, joints = [], []
        for index in range(count):
            frames.append(halved(arm.render()))
            joints.append(np.concatenate([arm.joint_position_rad, arm.joint_velocity_rad_s]))
            for command in commands[index * COMMANDS_PER_FRAME : (index + 1) * COMMANDS_PER_FRAME]:
                arm.command(command)
                arm.advance(COMMAND_NS // 1_000_000)
        times = np.arange(count + LABEL_MARGIN, dtype=np.int64) * CAMERA_NS
        return Episode(
            frames=np.stack(frames),
            joints=np.stack(joints).astype(np.float32),
            labels=self._expert.commands(times, arm.target).astype(np.float32),
            target=arm.target.states(times[:count]).astype(np.float32),
        )

    def close(self) -> None:
        """Give the graphics context back."""
        self._arm.close()

    def __exit__(self, *_: object) -> None:
        """Close."""
        self.close()

    def _commands(self, count: int, random: np.random.Generator) -> Floats:
        """Return what the arm is told at 200 Hz, [count, 2]."""
        explore = self._exploration
        times: Times = np.arange(count, dtype=np.int64) * COMMAND_NS
        if random.random() < explore.late:
            times = np.maximum(times - round(random.uniform(0, explore.late_s) * 1e9), 0)
        if random.random() < explore.frozen:
            times = _with_freezes(times, random, explore.frozen_s)
        commands = self._expert.commands(times, self._arm.target)
        if random.random() < explore.disturbed:
            amplitude = random.uniform(0, explore.disturbed_rad)
            commands = commands + _disturbance(count, random, amplitude)
        return commands


def _with_freezes(times_ns: Times, random: np.random.Generator, longest_s: float) -> Times:
    """Return the times with stretches held at their first value, about one in two seconds."""
    frozen = times_ns.copy()
    longest = max(2, round(longest_s * 1e9 / COMMAND_NS))
    start = int(random.integers(0, 400))
    while start < len(frozen):
        length = int(random.integers(1, longest))
        frozen[start : start + length] = frozen[start]
        start += length + int(random.integers(1, 400))
    return frozen


def _disturbance(count: int, random: np.random.Generator, amplitude_rad: float) -> Floats:
    """Return a smooth wave per joint, three sines of unrelated pace, [count, 2]."""
    time_s = np.arange(count)[:, None, None] * (COMMAND_NS * 1e-9)
    rate_hz = random.uniform(0.1, 1.5, (1, 3, 2))
    phase = random.uniform(0, 2 * math.pi, (1, 3, 2))
    waves = np.sin(2 * math.pi * rate_hz * time_s + phase)
    return np.asarray(amplitude_rad * waves.mean(axis=1) * math.sqrt(3))
