# SPDX-License-Identifier: Apache-2.0
"""
The reach model: conditioning, entry, blocks, exit, decoding.

The very same functions serve training (with gradients, over sequences) and the engine (stage by
stage). A chunk's tokens are video, action, vision, joints and delay; the conditioning goes through
the blocks as tokens like all others, and so into the keys and values that later chunks read.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from physis_ros.backbones.base import Decoded, KvRule, KvWindow
from physis_ros.backbones.reach.block import Block
from physis_ros.backbones.reach.codec import Codec
from physis_ros.backbones.reach.spec import HISTORY_NS, PREDICTED_STEPS, ReachSizes, model_spec
from physis_ros.backbones.reach.stem import DELAY_NUMBERS, JOINT_NUMBERS, Seen, Stem

WAVE_TURNS = 4.0


class Conditioned(NamedTuple):
    """
    What one observation says.

    :param tokens: [B, N, width]: what is added to video tokens (a sketch) and to action tokens (a
        plan); then tokens of their own: vision, joints, delay.
    :param seen: what the stem saw, for the training-only heads.
    """

    tokens: Tensor
    seen: Seen


class ReachNetwork(nn.Module):
    """
    A small world-action model.

    :param sizes: of the network.
    :param kv_rule: same-step or clean; clean has one more pass, at noise 0.
    :param blocks: the transformer blocks to hold; None for all.
    """

    shares: Tensor

    def __init__(
        self, sizes: ReachSizes, kv_rule: KvRule, blocks: frozenset[int] | None = None
    ) -> None:
        super().__init__()
        self.sizes, self.spec = sizes, model_spec(sizes, kv_rule)
        passes, width = self.spec.passes, sizes.width
        self.codec = Codec(sizes)
        self.stem = Stem(sizes)
        self.waves = nn.Linear(sizes.features, sizes.waves)
        self.canvas = nn.Linear(sizes.waves, sizes.video_tokens * width)
        self.patches = nn.Linear(len(HISTORY_NS) * sizes.components, width)
        self.plan = nn.Linear(sizes.features, sizes.action_tokens * width)
        self.vision = nn.Linear(sizes.features, sizes.vision_tokens * width)
        self.joints = nn.Linear(JOINT_NUMBERS, width)
        self.delay = nn.Linear(DELAY_NUMBERS, width)
        self.video_in = nn.Linear(sizes.components, width)
        self.action_in = nn.Linear(sizes.action_numbers, width)
        self.place = nn.Parameter(torch.zeros(sizes.tokens, width))
        # A first step's latent is pure noise: how much of a step's latent to take is a constant.
        shares = torch.tensor((*sizes.noise, 0.0)[:passes])
        self.trust = nn.Parameter((1 - shares).clamp(min=0.05))
        held = range(sizes.blocks) if blocks is None else sorted(blocks)
        self.blocks = nn.ModuleDict({str(i): Block(sizes, passes) for i in held})
        self.final = nn.Parameter(torch.zeros(passes, 2, width))
        self.video_out = nn.Linear(width, sizes.components)
        self.action_out = nn.Linear(width, sizes.action_numbers)
        self.register_buffer('shares', shares, persistent=False)

    def condition(self, inputs: Mapping[str, Tensor]) -> Conditioned:
        """Turn inputs (each [B, *shape]) into conditioning tokens and what the stem saw."""
        seen: Seen = self.stem(inputs['frames'], inputs['joints'], inputs['delay'])
        sketch = self._sketch(inputs['frames'], seen)
        plan = self.plan(seen.feature).unflatten(1, (self.sizes.action_tokens, -1))
        vision = self.vision(seen.feature).unflatten(1, (self.sizes.vision_tokens, -1))
        felt, told = self.joints(seen.joints)[:, None], self.delay(seen.delay)[:, None]
        return Conditioned(torch.cat([sketch, plan, vision, felt, told], 1), seen)

    def _sketch(self, frames: Tensor, seen: Seen) -> Tensor:
        """
        Draw what the scene may become, one row for each video token.

        Sinusoids of the feature vector let a thin layer place sharp things anywhere.
        """
        patches = self.patches(self.codec.seen(frames)) + seen.patches
        waves = torch.sin(WAVE_TURNS * self.waves(seen.feature))
        canvas = self.canvas(waves).unflatten(1, (self.sizes.video_tokens, -1))
        return torch.as_tensor(canvas + patches.repeat(1, len(PREDICTED_STEPS), 1))

    def encode(self, inputs: Mapping[str, Tensor]) -> Tensor:
        """Turn inputs (each [B, *shape]) into conditioning tokens."""
        return self.condition(inputs).tokens

    def renoised(self, latent: Tensor | None, noise: Tensor, step: Tensor) -> Tensor:
        """Return the estimate mixed with fresh noise by the step's share; step 0 is all noise."""
        if latent is None:
            return noise
        share = self.shares[step][:, None]
        return torch.where(share < 1, (1 - share) * latent + share * noise, noise)

    def enter(
        self, latent: Tensor | None, conditioning: Tensor, noise: Tensor, step: Tensor
    ) -> Tensor:
        """Begin a step: re-noise the estimate, embed it beside the conditioning."""
        sizes = self.sizes
        mixed = self.renoised(latent, noise, step) * self.trust[step][:, None]
        numbers, actions = mixed.tensor_split([sizes.video_numbers], 1)
        video = self.video_in(numbers.unflatten(1, (sizes.video_tokens, -1)))
        action = self.action_in(actions.unflatten(1, (sizes.action_tokens, -1)))
        rest = torch.zeros_like(conditioning[:, sizes.video_tokens + sizes.action_tokens :])
        # All tokens are about the moment the delay names.
        hidden = conditioning + self.place + conditioning[:, -1:]
        return hidden + torch.cat([video, action, rest], 1)

    def block(self, index: int, hidden: Tensor, step: Tensor, kv: KvWindow) -> Tensor:
        """Run transformer block ``index``."""
        return torch.as_tensor(self.blocks[str(index)](hidden, step, kv))

    def leave(self, hidden: Tensor, step: Tensor) -> Tensor:
        """End a step: the new estimate of the clean latent."""
        sizes = self.sizes
        shift, gain = self.final[step].unbind(1)
        latent_tokens = hidden[:, : sizes.video_tokens + sizes.action_tokens]
        normal = F.layer_norm(latent_tokens, latent_tokens.shape[-1:])
        normal = normal * (1 + gain[:, None]) + shift[:, None]
        video, action = normal.tensor_split([sizes.video_tokens], 1)
        numbers = [self.video_out(video).flatten(1), self.action_out(action).flatten(1)]
        return torch.cat(numbers, 1).float()

    def decode(self, latent: Tensor, inputs: Mapping[str, Tensor], frames: bool) -> Decoded:
        """Turn the final latent into actions and, when asked, frames."""
        actions = self.codec.actions(latent)
        if not frames:
            return Decoded(actions, None)
        return Decoded(actions, self.codec.frames(latent, inputs['frames'][:, -1]))


def initialise(network: ReachNetwork) -> None:
    """Give a fresh network weights from the present torch random state."""
    for module in network.modules():
        if isinstance(module, nn.Linear):
            nn.init.xavier_uniform_(module.weight)
            nn.init.zeros_(module.bias)
    for convolution in (network.stem.first, network.stem.second):
        nn.init.kaiming_normal_(convolution.weight, nonlinearity='relu')
    nn.init.xavier_normal_(network.stem.heat.weight)
    for name, parameter in network.named_parameters():
        if name.endswith(('out.weight', 'down.weight', 'place')):
            nn.init.normal_(parameter, std=0.02)
        elif name.endswith('_age'):
            nn.init.normal_(parameter, std=0.1)
    # The first estimate is the copied frame and the mean action.
    for head in (network.video_out, network.action_out):
        nn.init.zeros_(head.weight)
