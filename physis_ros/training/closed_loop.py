# SPDX-License-Identifier: Apache-2.0
"""
Closed loop without ROS: arm simulator and model in simulated time, many episodes side by side.

An observation is taken every period; its chunk is there when the told delay is over, and is played
from then on at 200 Hz until the next one takes over. Where the conditioning is renewed on the way,
a later denoise step sees a newer observation and is told so much less. Deterministic by seed.
"""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from physis_ros.backbones.reach.network import ReachNetwork
from physis_ros.backbones.reach.spec import DT_NS, PREDICTED_STEPS
from physis_ros.errors import ParameterError
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
    :param newer_steps: for each denoise step, by how much its observation is newer than that at
        entry (E11), never less than the step before; empty: all see that at entry.
    :param period_steps: steps between observations.
    :param episodes: how many, side by side.
    :param seconds: length of each.
    :param skipped_s: beginning that is not scored.
    :param seed: of the first episode and of the noise.
    """

    delay_steps: int = 5
    newer_steps: tuple[int, ...] = ()
    period_steps: int = 4
    episodes: int = 8
    seconds: float = 6.0
    skipped_s: float = 1.0
    seed: int = 777_000

    def __post_init__(self) -> None:
        """
        Refuse observations that come too late.

        :raises ParameterError: naming the parameter.
        """
        newer = (0, *self.newer_steps)
        if list(newer) != sorted(newer) or newer[-1] > self.delay_steps:
            rule = f'rising, from 0 to delay_steps = {self.delay_steps}'
            raise ParameterError('newer_steps', rule, self.newer_steps)

    @property
    def ready_steps(self) -> int:
        """Steps after its entry at which a chunk has seen all it will see."""
        return max(self.newer_steps, default=0)


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
        self._joints: list[Floats] = []
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
            entered = step - self._config.ready_steps
            if entered >= FIRST_STEP and (entered - FIRST_STEP) % self._config.period_steps == 0:
                self._decide(entered)
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
        joints = [
            np.concatenate([a.joint_position_rad, a.joint_velocity_rad_s]) for a in self._arms
        ]
        self._joints.append(np.stack(joints))
        seen = torch.from_numpy(self._frames[-1]).float()
        for predicted, last in self._about.pop(step, []):
            if step * DT_S >= self._config.skipped_s:
                result.frame_square.append(_square(predicted, seen))
                result.copy_square.append(_square(last, seen))

    def _decide(self, step: int) -> None:
        """Make the chunk of each episode that entered at a step."""
        network, config = self._network, self._config
        start = step + config.delay_steps
        seen = [self._inputs(step + newer, start) for newer in config.newer_steps or (0,)]
        shape = (config.episodes, *network.spec.latent_shape)
        noise = [torch.randn(shape, generator=self._generator) for _ in range(network.spec.steps)]
        conditioning = [network.encode(inputs) for inputs in seen]
        latent = run_chunk(network, conditioning, noise, self._memory)[-1]
        decoded = network.decode(latent, seen[-1], frames=True)
        assert decoded.frames is not None
        self._chunks.append((start, decoded.actions.double().numpy()))
        for index, offset in enumerate(PREDICTED_STEPS):
            pair = (decoded.frames[:, index], seen[-1]['frames'][:, -1])
            self._about.setdefault(start + offset, []).append(pair)

    def _inputs(self, step: int, start: int) -> dict[str, Tensor]:
        """Return what was seen at a step, and how long before the first action that is."""
        history = np.stack([self._frames[step + offset] for offset in HISTORY_STEPS], 1)
        return {
            'frames': torch.from_numpy(history),
            'joints': torch.from_numpy(self._joints[step]).float(),
            'delay': torch.full((self._config.episodes, 1), (start - step) * DT_S),
        }

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
