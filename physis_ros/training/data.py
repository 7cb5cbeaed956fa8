# SPDX-License-Identifier: Apache-2.0
"""
Sequences of consecutive chunks, cut from recorded episodes.

Which episodes, where in them and with what delays is drawn from a generator that the trainer owns
and saves, so a resumed run sees what an unbroken one would have seen.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from physis_ros.backbones.reach.spec import DT_NS, HISTORY_NS, PREDICTED_STEPS
from physis_ros.errors import ParameterError
from physis_ros.simulation.dataset import load_shard
from physis_ros.simulation.episode import Episode

Indices = NDArray[np.int64]

DT_S = DT_NS * 1e-9
HISTORY_STEPS = tuple(offset // DT_NS for offset in HISTORY_NS)


@dataclass(frozen=True)
class SequenceConfig:
    """
    How sequences are drawn. Steps are control steps, which are camera frames.

    :param chunks: consecutive chunks of one sequence.
    :param horizon: actions of a chunk.
    :param spacing: usual steps from one observation to the next.
    :param jittered: probability that a sequence has irregular spacing.
    :param spacing_jitter: smallest and largest irregular spacing.
    :param delay: smallest and largest usual told delay in steps.
    :param wide: probability of any delay up to ``max_delay``.
    :param max_delay: largest told delay in steps.
    :param delay_jitter: greatest difference of one chunk's delay from its sequence's.
    """

    chunks: int = 5
    horizon: int = 16
    spacing: int = 4
    jittered: float = 0.3
    spacing_jitter: tuple[int, int] = (3, 6)
    delay: tuple[int, int] = (2, 8)
    wide: float = 0.3
    max_delay: int = 20
    delay_jitter: int = 1


class Batch(NamedTuple):
    """
    B sequences of S chunks each, rows flattened: row ``b * S + s``.

    :param inputs: the model's inputs, each [B * S, *shape].
    :param future: uint8 [B * S, F, 64, 64, 3], what the camera saw at the predicted times.
    :param actions: float32 [B * S, H, 2] [rad], the expert's.
    :param target: float32 [B * S, 4], where the target was at the observation, and its velocity.
    :param chunks: S.
    """

    inputs: dict[str, Tensor]
    future: Tensor
    actions: Tensor
    target: Tensor
    chunks: int

    def rows(self, chosen: Tensor) -> Batch:
        """Return some sequences only (indices into B)."""
        index = (chosen[:, None] * self.chunks + torch.arange(self.chunks)).flatten()
        inputs = {name: value[index] for name, value in self.inputs.items()}
        return Batch(
            inputs, self.future[index], self.actions[index], self.target[index], self.chunks
        )


class SequenceData:
    """
    A data set folder as a source of batches. Shards are mapped, not read.

    :param folder: made by ``simulation.dataset``.
    :param config: how sequences are drawn.
    """

    def __init__(self, folder: Path, config: SequenceConfig | None = None) -> None:
        self.config = config or SequenceConfig()
        paths = sorted(folder.glob('shard_*'))
        if not paths:
            raise ParameterError('data', 'a folder with shards', str(folder))
        self.shards: list[Episode] = [load_shard(path) for path in paths]
        self._counts = [len(shard.frames) for shard in self.shards]

    @property
    def episodes(self) -> int:
        """Episodes in all."""
        return sum(self._counts)

    def draw(self, random: np.random.Generator, sequences: int, delay: int | None = None) -> Batch:
        """
        Draw a batch.

        :param random: decides all of it.
        :param sequences: B.
        :param delay: one told delay for all chunks, in steps, instead of drawn ones.
        """
        ends = np.cumsum(self._counts)
        episodes = random.integers(0, ends[-1], sequences)
        parts = []
        for episode in episodes:
            shard = int(np.searchsorted(ends, episode, side='right'))
            row = int(episode - (ends[shard] - self._counts[shard]))
            length = self.shards[shard].frames.shape[1]
            observed, delays = self._instants(random, length, delay)
            parts.append(self._cut(shard, row, observed, delays))
        columns = [torch.from_numpy(np.concatenate(column)) for column in zip(*parts, strict=True)]
        frames, joints, told, future, actions, target = columns
        inputs = {'frames': frames, 'joints': joints, 'delay': told}
        return Batch(inputs, future, actions, target, self.config.chunks)

    def _instants(
        self, random: np.random.Generator, length: int, delay: int | None
    ) -> tuple[Indices, Indices]:
        """Draw the frames at which a sequence observes, and each chunk's delay."""
        config = self.config
        gaps: Indices = np.full(config.chunks - 1, config.spacing)
        if random.random() < config.jittered:
            low, high = config.spacing_jitter
            gaps = random.integers(low, high + 1, config.chunks - 1)
        delays = self._delays(random) if delay is None else np.full(config.chunks, delay)
        first = -HISTORY_STEPS[0]
        last = length - 1 - int(gaps.sum()) - int(delays.max()) - PREDICTED_STEPS[-1]
        start = random.integers(first, last + 1)
        return start + np.concatenate([[0], gaps.cumsum()]), delays

    def _delays(self, random: np.random.Generator) -> Indices:
        """Draw one sequence's delays: one for the sequence, and a little jitter."""
        config = self.config
        low, high = config.delay
        if random.random() < config.wide:
            low, high = 0, config.max_delay
        jitter = random.integers(-config.delay_jitter, config.delay_jitter + 1, config.chunks)
        return np.clip(random.integers(low, high + 1) + jitter, 0, config.max_delay)

    def _cut(
        self, shard: int, row: int, observed: Indices, delays: Indices
    ) -> tuple[NDArray[np.generic], ...]:
        """Read one sequence: frames, joints, delay, future, actions, target."""
        episode = self.shards[shard]
        start = observed + delays
        history = observed[:, None] + np.array(HISTORY_STEPS)
        horizon = start[:, None] + np.arange(self.config.horizon)
        return (
            episode.frames[row][history],
            episode.joints[row][observed],
            (delays * DT_S).astype(np.float32)[:, None],
            episode.frames[row][start[:, None] + np.array(PREDICTED_STEPS)],
            episode.labels[row][horizon],
            episode.target[row][observed],
        )
