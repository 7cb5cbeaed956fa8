# SPDX-License-Identifier: Apache-2.0
"""
A training run on disk, so that it can be stopped at any moment and go on as if nothing was.

One safetensors file holds network, averaged network, heads, optimiser moments and generator
states; numbers that are not tensors sit in its header. It is replaced in one rename.
"""

from __future__ import annotations

import copy
import json
import os
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch
from safetensors import SafetensorError, safe_open
from safetensors.torch import save_file
from torch import Tensor, nn

from physis_ros.backbones.base import KvRule
from physis_ros.backbones.reach.network import ReachNetwork, initialise
from physis_ros.backbones.reach.spec import ReachSizes
from physis_ros.errors import CheckpointError
from physis_ros.training.loss import StemHeads

KIND = 'reach training state'
FORMAT = '1'
DECAY = 0.998


@dataclass
class Progress:
    """
    Where a run stands; grows while it trains.

    :param iteration: optimiser steps done.
    :param seconds: time spent, over all runs.
    """

    iteration: int = 0
    seconds: float = 0.0


class TrainingState:
    """
    Everything that changes while training.

    :param sizes: of the network.
    :param kv_rule: what it is trained for.
    :param seed: of weights, data and noise.
    """

    def __init__(self, sizes: ReachSizes, kv_rule: KvRule, seed: int) -> None:
        self.seed, self.progress = seed, Progress()
        with torch.random.fork_rng(devices=()):
            torch.manual_seed(seed)
            self.network = ReachNetwork(sizes, kv_rule)
            initialise(self.network)
            self.heads = StemHeads(sizes)
        self.average = copy.deepcopy(self.network).requires_grad_(False)
        self.random = np.random.default_rng([seed, 3])
        self.generator = torch.Generator().manual_seed(seed)
        self._trained = [*self.network.parameters(), *self.heads.parameters()]
        decayed = [p for p in self._trained if p.ndim >= 2]
        others = [p for p in self._trained if p.ndim < 2]
        self.optimiser = torch.optim.AdamW(
            [{'params': decayed, 'weight_decay': 0.02}, {'params': others, 'weight_decay': 0.0}],
            betas=(0.9, 0.98),
            foreach=True,
        )

    @property
    def trained(self) -> list[nn.Parameter]:
        """All parameters under training, heads included."""
        return self._trained

    def follow(self) -> None:
        """Move the averaged network a little towards the present one; fast at first."""
        decay = min(DECAY, (1 + self.progress.iteration) / (10 + self.progress.iteration))
        ours: list[Tensor] = list(self.average.parameters())
        theirs = [parameter.detach() for parameter in self.network.parameters()]
        torch._foreach_lerp_(ours, theirs, 1 - decay)

    def save(self, path: Path) -> None:
        """Write all of it; whoever reads sees the old file or the new one."""
        tensors: dict[str, Tensor] = {'generator': self.generator.get_state()}
        for part in ('network', 'average', 'heads'):
            for name, value in getattr(self, part).state_dict().items():
                tensors[f'{part}.{name}'] = value
        for index, parameter in enumerate(self._trained):
            for name, value in self.optimiser.state[parameter].items():
                tensors[f'optimiser.{index}.{name}'] = value
        header = {
            'format': FORMAT,
            'kind': KIND,
            'kv_rule': self.network.spec.kv_rule.value,
            'sizes': json.dumps(asdict(self.network.sizes)),
            'seed': str(self.seed),
            'progress': json.dumps(asdict(self.progress)),
            'random': json.dumps(self.random.bit_generator.state),
        }
        partial = path.with_name(f'.{path.name}.{os.getpid()}')
        save_file({name: value.contiguous() for name, value in tensors.items()}, partial, header)
        partial.replace(path)

    def load(self, path: Path) -> None:
        """
        Go on where a saved run stopped.

        :raises CheckpointError: if the file is damaged or of another model, rule or seed.
        """
        header, tensors = _read(path)
        wanted = {
            'format': FORMAT,
            'kv_rule': self.network.spec.kv_rule.value,
            'sizes': json.dumps(asdict(self.network.sizes)),
            'seed': str(self.seed),
        }
        for name, value in wanted.items():
            if header.get(name) != value:
                raise CheckpointError(
                    f'{path} has {name} {header.get(name)}, not {value}; '
                    f'train with the same settings or into another folder'
                )
        self._restore(tensors, header)

    @classmethod
    def open(cls, path: Path) -> TrainingState:
        """
        Return a saved run as it was, whatever its settings.

        :raises CheckpointError: if the file is damaged or something else.
        """
        header, tensors = _read(path)
        sizes = json.loads(header['sizes'])
        sizes['noise'] = tuple(sizes['noise'])
        state = cls(ReachSizes(**sizes), KvRule(header['kv_rule']), int(header['seed']))
        state._restore(tensors, header)
        return state

    def _restore(self, tensors: dict[str, Tensor], header: dict[str, Any]) -> None:
        """Put everything back."""
        for part in ('network', 'average', 'heads'):
            start = f'{part}.'
            own = {n[len(start) :]: v for n, v in tensors.items() if n.startswith(start)}
            getattr(self, part).load_state_dict(own)
        for index, parameter in enumerate(self._trained):
            start = f'optimiser.{index}.'
            own = {n[len(start) :]: v for n, v in tensors.items() if n.startswith(start)}
            self.optimiser.state[parameter] = own
        self.generator.set_state(tensors['generator'])
        self.random.bit_generator.state = json.loads(header['random'])
        self.progress = Progress(**json.loads(header['progress']))


def _read(path: Path) -> tuple[dict[str, str], dict[str, Tensor]]:
    """Read a saved run's header and tensors."""
    try:
        with safe_open(path, 'pt') as file:
            header: dict[str, str] = file.metadata() or {}
            tensors = {name: file.get_tensor(name) for name in file.keys()}  # noqa: SIM118
    except (OSError, SafetensorError) as error:
        raise CheckpointError(
            f'training state {path} cannot be read: {error}; train without --resume'
        ) from error
    if header.get('kind') != KIND:
        raise CheckpointError(
            f'training state {path} must be of kind {KIND!r}, got {header.get("kind")!r}; '
            f'give the folder of a training run'
        )
    return header, tensors
