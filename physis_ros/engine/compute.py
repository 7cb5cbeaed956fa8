# SPDX-License-Identifier: Apache-2.0
"""
One stage, for a batch of rows: the only place where the engine calls a model's blocks.

Workers and the serial oracle both come through here, so they differ in when, never in what.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import NamedTuple

import torch
from torch import Tensor

from physis_ros.backbones.base import PREFIX, PREFIX_WEIGHT, Backbone, Decoded, KvWindow

# Mixes of steps in a batch whose tensors are kept.
STEPS_KEPT = 256


class Row(NamedTuple):
    """
    What one task brings to a stage, each with a batch axis of one.

    :param step: its pass.
    :param state: the hidden state; at block 0 the latent of the last step, None at step 0.
    :param conditioning: only at block 0.
    :param noise: only at block 0.
    """

    step: int
    state: Tensor | None
    conditioning: Tensor | None = None
    noise: Tensor | None = None


class Compute:
    """
    Runs the stages of one model in one process.

    :param backbone: the model, with the blocks that will be asked for.
    :param device: where it lives.
    """

    def __init__(self, backbone: Backbone, device: str) -> None:
        self.backbone, self.device = backbone, device
        self.spec = backbone.spec
        self._steps: dict[tuple[int, ...], Tensor] = {}

    def run(self, block: int, rows: Sequence[Row], kv: KvWindow) -> list[Tensor | None]:
        """
        Run one block; at its ends also the step's entry and exit.

        :returns: for each row the hidden state [1, N, width], after the last block the latent
            [1, *latent_shape], or None when the pass served only the KV.
        """
        step = self._step([row.step for row in rows])
        hidden = self._enter(rows) if block == 0 else _stack([row.state for row in rows])
        hidden = self.backbone.block(block, hidden, step, kv)
        if block == self.spec.blocks - 1:
            return self._leave(hidden, rows)
        return _split(hidden, len(rows))

    def constrain(self, latent: Tensor, inputs: Mapping[str, Tensor]) -> Tensor:
        """
        Hold an estimate to the committed actions, where the model takes and the inputs have some.

        To be done to what enters each later step, and to what is decoded.

        :param inputs: of the observation used last, each [B, *shape].
        """
        if not self.spec.takes_prefix or PREFIX not in inputs or not inputs[PREFIX_WEIGHT].any():
            return latent
        prefix, weight = (inputs[name].to(self.device) for name in (PREFIX, PREFIX_WEIGHT))
        return self.backbone.constrain(latent, prefix, weight)

    def decode(self, latent: Tensor, inputs: Mapping[str, Tensor], frames: bool) -> Decoded:
        """Turn the final latent into actions and, when asked, frames."""
        return self.backbone.decode(latent, inputs, frames)

    def _enter(self, rows: Sequence[Row]) -> Tensor:
        # Rows from pure noise and rows with an estimate are different calls of the model.
        first = [i for i, row in enumerate(rows) if row.state is None]
        if not first or len(first) == len(rows):
            return self._enter_alike(rows)
        later = [i for i, row in enumerate(rows) if row.state is not None]
        entered = [self._enter_alike([rows[i] for i in part]) for part in (first, later)]
        order = first + later
        if order == list(range(len(rows))):
            return torch.cat(entered)
        back = sorted(range(len(rows)), key=order.__getitem__)
        return torch.cat(entered)[back]

    def _enter_alike(self, rows: Sequence[Row]) -> Tensor:
        latent = None if rows[0].state is None else _stack([row.state for row in rows])
        return self.backbone.enter(
            latent,
            _stack([row.conditioning for row in rows]),
            _stack([row.noise for row in rows]),
            self._step([row.step for row in rows]),
        )

    def _leave(self, hidden: Tensor, rows: Sequence[Row]) -> list[Tensor | None]:
        wanted = [i for i, row in enumerate(rows) if row.step < self.spec.steps]
        latents: list[Tensor | None] = [None] * len(rows)
        if not wanted:
            return latents
        if len(wanted) < len(rows):
            hidden = hidden[wanted]
        step = self._step([rows[i].step for i in wanted])
        out = self.backbone.leave(hidden, step).float()
        for i, latent in zip(wanted, _split(out, len(wanted)), strict=True):
            latents[i] = latent
        return latents

    def _step(self, steps: Sequence[int]) -> Tensor:
        key = tuple(steps)
        found = self._steps.get(key)
        if found is None:
            # Rows mix in more ways than there is memory for; what is common stays quick.
            if len(self._steps) == STEPS_KEPT:
                del self._steps[next(iter(self._steps))]
            found = torch.tensor(key, dtype=torch.int64, device=self.device)
            self._steps[key] = found
        return found


def _stack(parts: Sequence[Tensor | None]) -> Tensor:
    present = [part for part in parts if part is not None]
    return present[0] if len(present) == 1 else torch.cat(present)


def _split(batch: Tensor, rows: int) -> list[Tensor | None]:
    return [batch] if rows == 1 else [batch[row : row + 1] for row in range(rows)]
