# SPDX-License-Identifier: Apache-2.0
"""The reach network as the engine sees it: the same functions, without gradients."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping

import torch
from torch import Tensor

from physis_ros.backbones.base import Decoded, KvWindow, ModelSpec
from physis_ros.backbones.reach.network import ReachNetwork


class ReachBackbone:
    """
    A loaded reach model; see :class:`physis_ros.backbones.base.Backbone` for the contract.

    :param network: ready to run.
    :param load: reads the network again with other blocks.
    """

    def __init__(
        self, network: ReachNetwork, load: Callable[[frozenset[int]], ReachNetwork]
    ) -> None:
        self._network, self._load = network, load

    @property
    def spec(self) -> ModelSpec:
        """The sizes."""
        return self._network.spec

    @torch.no_grad()
    def encode(self, inputs: Mapping[str, Tensor]) -> Tensor:
        """Turn inputs into conditioning tokens."""
        return self._network.encode(inputs)

    @torch.no_grad()
    def enter(
        self, latent: Tensor | None, conditioning: Tensor, noise: Tensor, step: Tensor
    ) -> Tensor:
        """Begin a step: re-noise the estimate, embed it beside the conditioning."""
        return self._network.enter(latent, conditioning, noise, step)

    @torch.no_grad()
    def block(self, index: int, hidden: Tensor, step: Tensor, kv: KvWindow) -> Tensor:
        """Run transformer block ``index``."""
        return self._network.block(index, hidden, step, kv)

    @torch.no_grad()
    def leave(self, hidden: Tensor, step: Tensor) -> Tensor:
        """End a step: the new estimate of the clean latent."""
        return self._network.leave(hidden, step)

    @torch.no_grad()
    def constrain(self, latent: Tensor, prefix: Tensor, weight: Tensor) -> Tensor:
        """Draw the actions of an estimate to committed ones."""
        return self._network.codec.drawn(latent, prefix, weight)

    @torch.no_grad()
    def decode(self, latent: Tensor, inputs: Mapping[str, Tensor], frames: bool) -> Decoded:
        """Turn the final latent into actions and, when asked, frames."""
        return self._network.decode(latent, inputs, frames)

    @torch.no_grad()
    def witness(self, inputs: Mapping[str, Tensor]) -> Tensor:
        """Write the frames that came and the actions that were executed as a clean latent."""
        last = inputs['frames'][:, -1]
        return self._network.codec.write(last, inputs['future'], inputs['actions'])

    def hold(self, blocks: Collection[int]) -> None:
        """Load what is not there yet of these blocks."""
        own = self._network.blocks
        missing = frozenset(block for block in blocks if str(block) not in own)
        if missing:
            own.update(dict(self._load(missing).blocks.items()))

    def drop(self, blocks: Collection[int]) -> None:
        """Free the weights of those of these blocks that it has."""
        own = self._network.blocks
        for block in blocks:
            if str(block) in own:
                own.pop(str(block))
