# SPDX-License-Identifier: Apache-2.0
"""
The training loop: draw, descend, average, note, save.

It can be stopped at any iteration (a signal sets a flag) and resumed exactly. What ships is the
average of the weights, which is good at any moment, not only at the end of the schedule.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path

import torch
from torch import Tensor

from physis_ros.training.data import Batch, SequenceData
from physis_ros.training.forward import glance, train_pass
from physis_ros.training.log import TrainingLog
from physis_ros.training.loss import Parts, parts
from physis_ros.training.schedule import Budget, LearningRate
from physis_ros.training.state import TrainingState

STATE_FILE = 'state.safetensors'
BLOCKS_WARMUP = 0.01


@dataclass(frozen=True)
class TrainerConfig:
    """
    How to train.

    :param budget: when it ends.
    :param rate: the learning rate over the budget.
    :param sequences: sequences in one iteration.
    :param first_step: share of sequences at the first denoise step; the others share the rest.
    :param told: share of later-step sequences that start from the truth, not the own estimate.
    :param eyes: part of the budget without the blocks, which is cheap; they build on it.
    :param eyes_rate: learning rate of that part, relative to the usual one.
    :param clip: greatest gradient norm.
    :param half: compute in bfloat16 where it is safe.
    :param note_every: iterations between lines of the log.
    :param save_every_s: seconds between saves.
    :param check_every_s: seconds between validations.
    """

    budget: Budget
    rate: LearningRate = field(default_factory=LearningRate)
    sequences: int = 5
    first_step: float = 0.55
    told: float = 0.1
    eyes: float = 0.12
    eyes_rate: float = 2.5
    clip: float = 1.0
    half: bool = True
    note_every: int = 50
    save_every_s: float = 120.0
    check_every_s: float = 600.0


class Trainer:
    """
    One run.

    :param state: where it begins.
    :param data: what it learns from.
    :param config: how.
    :param folder: where it saves.
    :param log: where it notes.
    :param check: called with the state from time to time; its figures go to the log.
    """

    def __init__(
        self,
        state: TrainingState,
        data: SequenceData,
        config: TrainerConfig,
        folder: Path,
        log: TrainingLog,
        check: Callable[[TrainingState], dict[str, float]],
    ) -> None:
        self._state, self._data, self._config = state, data, config
        self._folder, self._log, self._check = folder, log, check
        self._stopped = False

    def stop(self) -> None:
        """End after the present iteration; may be called from a signal handler."""
        self._stopped = True

    def run(self, progress: Callable[[float, str], None]) -> None:
        """
        Train until the budget is used up or :meth:`stop` is called; saves at the end either way.

        :param progress: called with the used part of the budget and a word on the loss.
        """
        state, config, now = self._state, self._config, time.monotonic
        begun = now() - state.progress.seconds
        saved = checked = now()
        part = config.budget.part(state.progress.seconds, state.progress.iteration)
        while part < 1 and not self._stopped:
            rate = config.rate.at(part, state.progress.iteration)
            eyes = part < config.eyes
            # Blocks begin when the eyes are done, and need a warm-up of their own.
            warm = min(1.0, (part - config.eyes) / BLOCKS_WARMUP + 0.1)
            step, losses = self._iterate(rate * (config.eyes_rate if eyes else warm), eyes)
            state.progress.iteration += 1
            state.progress.seconds = now() - begun
            part = config.budget.part(state.progress.seconds, state.progress.iteration)
            self._log.add(step, losses)
            if state.progress.iteration % config.note_every == 0:
                progress(part, self._log.note(state.progress, rate))
            if now() - checked > config.check_every_s:
                self._log.check(state.progress, self._check(state))
                checked = now()
            if now() - saved > config.save_every_s:
                state.save(self._folder / STATE_FILE)
                saved = now()
        state.save(self._folder / STATE_FILE)

    def _iterate(self, rate: float, eyes: bool) -> tuple[Tensor, Parts]:
        """Do one optimiser step; return each sequence's denoise step and all rows' losses."""
        state, config = self._state, self._config
        batch = self._data.draw(state.random, config.sequences)
        step, told = self._drawn()
        with torch.autocast('cpu', torch.bfloat16, enabled=config.half, cache_enabled=False):
            losses = self._losses(batch, step, told, eyes)
        for group in state.optimiser.param_groups:
            group['lr'] = rate
        state.optimiser.zero_grad()
        (losses.eyes if eyes else losses.total).backward()
        torch.nn.utils.clip_grad_norm_(state.trained, config.clip)
        state.optimiser.step()
        state.follow()
        return step, Parts(*(part.detach() for part in losses))

    def _losses(self, batch: Batch, step: Tensor, told: Tensor, eyes: bool) -> Parts:
        """Run the network and compare."""
        state = self._state
        network = state.network
        with torch.no_grad(), torch.autocast('cpu', enabled=False):
            truth = network.codec.write(batch.inputs['frames'][:, -1], batch.future, batch.actions)
        seen = network.condition(batch.inputs)
        run = glance if eyes else train_pass
        estimate = run(network, seen, truth, step, told, batch.chunks, state.generator)
        return parts(estimate, truth, state.heads(seen.seen.feature), batch, network.sizes)

    def _drawn(self) -> tuple[Tensor, Tensor]:
        """Draw each sequence's denoise step, and whether it starts from the truth."""
        config, random = self._config, self._state.random
        steps = self._state.network.spec.steps
        shares = [config.first_step] + [(1 - config.first_step) / (steps - 1)] * (steps - 1)
        step = random.choice(steps, config.sequences, p=shares)
        told = (random.random(config.sequences) < config.told) & (step > 0)
        return torch.from_numpy(step), torch.from_numpy(told)
