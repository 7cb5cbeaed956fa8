# SPDX-License-Identifier: Apache-2.0
"""
What a task needs at the ends of a step, beside its latent: an observation, encoded, and noise.

Observations are encoded once for each worker, all that a batch needs in one call, and ahead of
their tasks while there is nothing to run.
"""

from __future__ import annotations

import time
from collections.abc import Iterable, Mapping, Sequence

import torch
from torch import Tensor

from physis_ros.backbones.base import Decoded
from physis_ros.engine.board import Board, epoch_of
from physis_ros.engine.compute import Compute, Row
from physis_ros.engine.lane import Lane
from physis_ros.engine.noise import NoiseSource
from physis_ros.engine.task import Task
from physis_ros.errors import EngineError

# A stream's index and the version of one of its observations.
Seen = tuple[int, int]


class StepEnds:
    """
    The entry of steps, and the exit of the last. ``spent_ns`` counts the model's time at entries.

    :param compute: the model.
    :param board: where observations lie.
    :param lanes: the worker's streams by index; the loop's own, which changes.
    :param noise: where noise comes from.
    :param renew: take the newest observation shown to a chunk at each of its steps (E11).
    """

    def __init__(
        self,
        compute: Compute,
        board: Board,
        lanes: Mapping[int, Lane],
        noise: NoiseSource,
        renew: bool,
    ) -> None:
        self._compute, self._board, self._lanes = compute, board, lanes
        self._noise, self._renew = noise, renew
        self._names = [spec.name for spec in compute.spec.inputs]
        self.spent_ns = 0

    def rows(self, batch: Sequence[Task]) -> list[Row]:
        """
        Return what a batch at block 0 begins its steps with.

        :raises EngineError: when an observation was overwritten before it was used.
        """
        for task in batch:
            if self._renew and task.step < self._compute.spec.steps and not task.commit:
                task.observation = self._board.newest(task.stream, task.observation)
        fresh = self._encode({(task.stream, task.observation) for task in batch})
        return [self._row(task, fresh) for task in batch]

    def look_ahead(self) -> bool:
        """Encode and draw what later steps will need here; return whether there was something."""
        wanted = {
            (stream, version)
            for stream, lane in self._lanes.items()
            if lane.enters
            for version in self._board.all_newest(stream)
        }
        drew = [lane.noise.look_ahead(self._noise) for lane in self._lanes.values()]
        return bool(self._encode(wanted)) or any(drew)

    def inputs(self, stream: int, version: int) -> dict[str, Tensor]:
        """Return an observation on the worker's device, each input [1, *shape]."""
        inputs = self._board.inputs(stream, version)
        if self._compute.device == 'cpu':
            return inputs
        return {name: value.to(self._compute.device) for name, value in inputs.items()}

    def decode(self, task: Task, latent: Tensor) -> Decoded:
        """Turn the final latent into what the task's observation is answered with."""
        inputs = self.inputs(task.stream, task.observation)
        decoded = self._compute.decode(self._constrained(task, latent), inputs, task.frames)
        self.check(task)
        return decoded

    def check(self, task: Task) -> None:
        """
        Look whether the observation that a task has just used was still its own.

        :raises EngineError: when it was overwritten.
        """
        # The era last: what a reset has overwritten meanwhile belongs to a task that is dead.
        if self._board.holds(task.stream, task.observation):
            return
        if self._board.era(task.stream) == task.era:
            raise EngineError(
                f"observation {task.observation} of stream '{self._lanes[task.stream].name}' was "
                f'overwritten while chunk {task.chunk} used it'
            )

    def _row(self, task: Task, fresh: Mapping[Seen, Tensor]) -> Row:
        lane, seen = self._lanes[task.stream], (task.stream, task.observation)
        noise = lane.noise.draw(self._noise, epoch_of(task.era), task.chunk, task.step)
        if self._compute.device != 'cpu':
            noise = noise.to(self._compute.device)
        state = task.state
        if task.commit:
            state = self._compute.backbone.witness(self.inputs(*seen))
        elif state is not None:
            state = self._constrained(task, state)
        self.check(task)
        conditioning = fresh[seen] if seen in fresh else lane.conditioning(task.observation)
        return Row(task.step, state, conditioning, noise)

    def _constrained(self, task: Task, latent: Tensor) -> Tensor:
        """Hold an estimate to the committed actions of the task's observation, if it has any."""
        seen = (task.stream, task.observation)
        if not self._board.prefixed(*seen):
            return latent
        return self._compute.constrain(latent, self._board.inputs(*seen))

    def _encode(self, wanted: Iterable[Seen]) -> dict[Seen, Tensor]:
        """Encode what is not known yet, and remember what was whole to the end."""
        pairs = [p for p in sorted(wanted) if self._lanes[p[0]].conditioning(p[1]) is None]
        if not pairs:
            return {}
        started_ns = time.monotonic_ns()
        encoded = self._compute.backbone.encode(self._stacked(pairs))
        rows = (encoded,) if len(pairs) == 1 else encoded.split(1)
        fresh = dict(zip(pairs, rows, strict=True))
        for (stream, version), conditioning in fresh.items():
            if self._board.holds(stream, version):
                self._lanes[stream].keep(version, conditioning)
        self.spent_ns += time.monotonic_ns() - started_ns
        return fresh

    def _stacked(self, pairs: Sequence[Seen]) -> dict[str, Tensor]:
        found = [self.inputs(*pair) for pair in pairs]
        if len(found) == 1:
            return found[0]
        return {name: torch.cat([inputs[name] for inputs in found]) for name in self._names}
