# SPDX-License-Identifier: Apache-2.0
"""
A synthetic model whose blocks take a fixed time without the processor: for timing the engine.

As many of them can run at once as one likes, on however few cores: what a run takes longer than
its plan says is the engine's.
"""

from __future__ import annotations

import time
from collections.abc import Mapping

import torch
from torch import Tensor
from torch.nn import functional

from physis_ros.backbones.base import Decoded, KvWindow
from physis_ros.backbones.synthetic import SyntheticBackbone

_LATE_AT_MOST_S = 2e-4


class SleepingBackbone(SyntheticBackbone):
    """
    Stages that write their KV, hand on what came and sleep; the actions are where the joints are.

    A step's stage at block 0 begins with its entry. Parameters as those of the synthetic model,
    whose sizes say ``stage_ms``.
    """

    _began_s = _late_s = 0.0

    def encode(self, inputs: Mapping[str, Tensor]) -> Tensor:
        """Look at nothing; [B], as it came."""
        return inputs['delay']

    def enter(
        self, latent: Tensor | None, conditioning: Tensor, noise: Tensor, step: Tensor
    ) -> Tensor:
        """Widen the estimate, at first the noise, to a hidden state."""
        self._began_s = time.monotonic()
        state = noise if latent is None else latent
        return functional.pad(state, (0, self._spec.width - state.shape[-1]))

    def block(self, index: int, hidden: Tensor, step: Tensor, kv: KvWindow) -> Tensor:
        """Write the state as key and value, and sleep."""
        began_s = self._began_s if index == 0 else time.monotonic()
        written = hidden.view(*hidden.shape[:2], self._spec.heads, self._spec.head_dim)
        kv.extend(written, written)
        self._sleep_until(began_s + self._sizes.stage_ms / 1e3)
        return hidden

    def leave(self, hidden: Tensor, step: Tensor) -> Tensor:
        """Narrow the state to an estimate again."""
        return torch.narrow_copy(hidden, -1, 0, self._spec.latent_shape[-1])

    def decode(self, latent: Tensor, inputs: Mapping[str, Tensor], frames: bool) -> Decoded:
        """Stay; a frame is what a synthetic one is."""
        if frames:
            return super().decode(latent, inputs, frames)
        here = inputs['joints'][:, None, :2]
        return Decoded(here.expand(-1, self._spec.actions.horizon, -1), None)

    def _sleep_until(self, end_s: float) -> None:
        # Aims as much too early as sleeps have been ending late, and stays awake for the rest.
        aim_s = end_s - self._late_s
        if aim_s > time.monotonic():
            time.sleep(max(0.0, aim_s - time.monotonic()))
            late_s = min(time.monotonic() - aim_s, _LATE_AT_MOST_S)
            self._late_s += 0.1 * (late_s - self._late_s)
        while time.monotonic() < end_s:
            pass
