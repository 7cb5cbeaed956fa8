# SPDX-License-Identifier: Apache-2.0
"""
Closed loop without ROS: arm simulator and model in simulated time, many episodes side by side.

An observation is taken every period; its chunk is there when the told delay is over, and is played
from then on at 200 Hz until the next one takes over. Deterministic by seed.
"""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from physis_ros.backbones.reach.network import ReachNetwork
from physis_ros.backbones.reach.spec import DT_NS, PREDICTED_STEPS
from physis_ros.simulation.arm import Arm
from physis_ros.simulation.episode import halved
from physis_ros.simulation.expert import Expert
from physis_ros.training.data import DT_S, HISTORY_STEPS
from physis_ros.training.forward import run_chunk
from physis_ros.training.memory import SerialMemory
from physis_ros.training.validate import psnr_db

Floats = NDArray[np.float64]
TICK_NS = 5_000_000
TICKS_PER_STEP = DT_NS // TICK_NS
FIRST_STEP = -HISTORY_STEPS[0]


@dataclass(frozen=True)
class LoopConfig:
    """
    One experiment.

    :param delay_steps: told delay, which is also the response time.
    :param period_steps: steps between observations.
    :param episodes: how many, side by side.
    :param seconds: length of each.
    :param skipped_s: beginning that is not scored.
    :param seed: of the first episode and of the noise.
    """

    delay_steps: int = 5
    period_steps: int = 4
    episodes: int = 8
    seconds: float = 6.0
    skipped_s: float = 1.0
    seed: int = 777_000


@dataclass
class LoopResult:
    """
    What came of it; errors are distances of tip and target [m], one row for each episode.

    :param error_m: of the model, [episodes, ticks].
    :param expert_m: of the expert with perfect knowledge.
    :param hold_m: of an arm that stays in its first pose.
    :param frame_square: mean squared errors of predicted frames, for each instant [episodes].
    :param copy_square: the same for the last observed frame.
    """

    error_m: Floats
    expert_m: Floats
    hold_m: Floats
    frame_square: list[Floats] = field(default_factory=list)
    copy_square: list[Floats] = field(default_factory=list)

    def figures(self) -> dict[str, float]:
        """Return the figures that are reported."""
        predicted = psnr_db(float(np.mean(self.frame_square)))
        copied = psnr_db(float(np.mean(self.copy_square)))
        return {
            'track_error_m': float(self.error_m.mean()),
            'track_error_p95_m': float(np.quantile(self.error_m, 0.95)),
            'expert_track_error_m': float(self.expert_m.mean()),
            'hold_track_error_m': float(self.hold_m.mean()),
            'frame_psnr_db': predicted,
            'copy_last_psnr_db': copied,
            'frame_gain_db': predicted - copied,
        }


class _Loop:
    """The episodes of one experiment, in lock step."""

    def __init__(self, network: ReachNetwork, config: LoopConfig) -> None:
        self._network, self._config = network, config
        self._memory = SerialMemory(network.spec)
        self._arms = [Arm(seed=config.seed + index) for index in range(config.episodes)]
        self._held = np.stack([arm.joint_position_rad for arm in self._arms])
        self._frames: list[NDArray[np.uint8]] = []
        self._chunks: list[tuple[int, Floats]] = []
        self._about: dict[int, list[tuple[Tensor, Tensor]]] = {}
        self._generator = torch.Generator().manual_seed(config.seed)

    def run(self) -> LoopResult:
        """Run all episodes to their end."""
        steps = round(self._config.seconds / DT_S)
        errors = []
        result = LoopResult(np.zeros(0), *self._references(steps))
        for step in range(steps):
            self._look(step, result)
            if step >= FIRST_STEP and (step - FIRST_STEP) % self._config.period_steps == 0:
                self._decide(step)
            for tick in range(TICKS_PER_STEP):
                errors.append(self._tick(step + tick / TICKS_PER_STEP))
        result.error_m = np.stack(errors, 1)[:, self._skipped :]
        for arm in self._arms:
            arm.close()
        return result

    @property
    def _skipped(self) -> int:
        """Ticks that are not scored."""
        return round(self._config.skipped_s / DT_S) * TICKS_PER_STEP

    def _references(self, steps: int) -> tuple[Floats, Floats]:
        """Return what the expert and an arm that stays would do, on arms of their own."""
        expert, rows = Expert(), ([], [])  # type: tuple[Expert, tuple[list[Floats], list[Floats]]]
        with Arm() as arm:
            for index in range(self._config.episodes):
                for row, active in zip(rows, (True, False), strict=True):
                    arm.reset(self._config.seed + index)
                    row.append(_follow(arm, expert if active else None, steps * TICKS_PER_STEP))
        expert_m, hold_m = (np.stack(row)[:, self._skipped :] for row in rows)
        return expert_m, hold_m

    def _look(self, step: int, result: LoopResult) -> None:
        """Take all pictures of this instant; compare them with those predicted for it."""
        self._frames.append(np.stack([halved(arm.render()) for arm in self._arms]))
        seen = torch.from_numpy(self._frames[-1]).float()
        for predicted, last in self._about.pop(step, []):
            if step * DT_S >= self._config.skipped_s:
                result.frame_square.append(_square(predicted, seen))
                result.copy_square.append(_square(last, seen))

    def _decide(self, step: int) -> None:
        """Make each episode's next chunk."""
        network, config = self._network, self._config
        history = np.stack([self._frames[step + offset] for offset in HISTORY_STEPS], 1)
        joints = [
            np.concatenate([a.joint_position_rad, a.joint_velocity_rad_s]) for a in self._arms
        ]
        inputs = {
            'frames': torch.from_numpy(history),
            'joints': torch.from_numpy(np.stack(joints)).float(),
            'delay': torch.full((config.episodes, 1), config.delay_steps * DT_S),
        }
        shape = (config.episodes, *network.spec.latent_shape)
        noise = [torch.randn(shape, generator=self._generator) for _ in range(network.spec.steps)]
        latent = run_chunk(network, network.encode(inputs), noise, self._memory)[-1]
        decoded = network.decode(latent, inputs, frames=True)
        assert decoded.frames is not None
        start = step + config.delay_steps
        self._chunks.append((start, decoded.actions.double().numpy()))
        for index, offset in enumerate(PREDICTED_STEPS):
            pair = (decoded.frames[:, index], inputs['frames'][:, -1])
            self._about.setdefault(start + offset, []).append(pair)

    def _tick(self, now: float) -> Floats:
        """Command and advance all arms by one tick; return how far they were off before."""
        begun = [chunk for chunk in self._chunks if chunk[0] <= now]
        commands = _at(*begun[-1], now) if begun else self._held
        errors = []
        for arm, command in zip(self._arms, commands, strict=True):
            errors.append(np.linalg.norm(arm.tip_position_m - arm.target_position_m))
            arm.command(command)
            arm.advance(TICK_NS // 1_000_000)
        return np.array(errors)


def run_closed_loop(network: ReachNetwork, config: LoopConfig) -> LoopResult:
    """Let a network drive the arm."""
    with torch.no_grad():
        return _Loop(network, config).run()


def _square(image: Tensor, seen: Tensor) -> Floats:
    """Return each episode's mean squared error, [episodes]."""
    square: Floats = (image.double() - seen.double()).square().flatten(1).mean(1).numpy()
    return square


def _follow(arm: Arm, expert: Expert | None, ticks: int) -> Floats:
    """Return the tip's distance from the target at each tick, [ticks] [m]."""
    errors = []
    for tick in range(ticks):
        errors.append(np.linalg.norm(arm.tip_position_m - arm.target_position_m))
        if expert is not None:
            arm.command(expert.command(tick * TICK_NS, arm.target))
        arm.advance(TICK_NS // 1_000_000)
    return np.array(errors)


def _at(start: int, actions: Floats, now: float) -> Floats:
    """Return all episodes' commands at a time in steps: linear, the last one held."""
    place = min(now - start, actions.shape[1] - 1.0)
    low = int(place)
    high = min(low + 1, actions.shape[1] - 1)
    return actions[:, low] + (place - low) * (actions[:, high] - actions[:, low])
