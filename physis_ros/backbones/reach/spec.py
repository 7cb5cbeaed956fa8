# SPDX-License-Identifier: Apache-2.0
"""
The sizes of the reach model, and what they mean to the engine.

Sizes are stored beside the weights; everything else about the model follows from them.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch

from physis_ros.backbones.base import (
    ActionSpec,
    FrameSpec,
    InputSpec,
    KvRule,
    ModelSpec,
    prefix_inputs,
)
from physis_ros.errors import ParameterError

JOINTS = ('shoulder', 'elbow')
DT_NS = 25_000_000
HISTORY_NS = (-100_000_000, -50_000_000, 0)
PREDICTED_STEPS = (0, 2)
IMAGE_PX = 64
PATCH_PX = 16
CHANNELS = 3


@dataclass(frozen=True)
class ReachSizes:
    """
    All free numbers of the network.

    :param width: columns of the hidden state.
    :param heads: attention heads; divides ``width`` into even parts.
    :param blocks: transformer blocks.
    :param mlp_ratio: hidden width of each block's MLP over ``width``.
    :param window: predecessor chunks a chunk attends to.
    :param horizon: control steps in a chunk.
    :param action_steps: control steps in one action token; divides ``horizon``.
    :param components: latent numbers for one 16x16 image patch.
    :param keypoints: soft-argmax channels of the stem.
    :param vision_tokens: tokens that carry what the stem saw.
    :param features: width of the stem's joint feature vector.
    :param waves: sinusoids of that vector, from which video tokens are drawn.
    :param max_delay_steps: the largest told delay.
    :param noise: share of noise in a step's entry latent, for each denoise step; the first is 1.
    """

    width: int = 96
    heads: int = 3
    blocks: int = 6
    mlp_ratio: int = 3
    window: int = 3
    horizon: int = 16
    action_steps: int = 2
    components: int = 128
    keypoints: int = 24
    vision_tokens: int = 4
    features: int = 256
    waves: int = 192
    max_delay_steps: int = 20
    noise: tuple[float, ...] = (1.0, 0.75, 0.45, 0.2)

    def __post_init__(self) -> None:
        """
        Refuse sizes that do not fit each other.

        :raises ParameterError: naming the size.
        """
        if self.width % (2 * self.heads):
            raise ParameterError('heads', f'a divisor of {self.width} / 2', self.heads)
        if self.horizon % self.action_steps:
            raise ParameterError('action_steps', f'a divisor of {self.horizon}', self.action_steps)
        if not self.noise or self.noise[0] != 1.0:
            raise ParameterError('noise', 'one share for each step, the first 1.0', self.noise)
        if not all(0 < share <= 1 for share in self.noise):
            raise ParameterError('noise', 'shares above 0, at most 1', self.noise)

    @property
    def patches(self) -> int:
        """Image patches in one frame."""
        return (IMAGE_PX // PATCH_PX) ** 2

    @property
    def video_tokens(self) -> int:
        """Tokens of all predicted frames."""
        return self.patches * len(PREDICTED_STEPS)

    @property
    def action_tokens(self) -> int:
        """Tokens of the chunk's actions."""
        return self.horizon // self.action_steps

    @property
    def action_numbers(self) -> int:
        """Latent numbers of one action token."""
        return self.action_steps * len(JOINTS)

    @property
    def video_numbers(self) -> int:
        """Latent numbers of all predicted frames."""
        return self.video_tokens * self.components

    @property
    def latent_numbers(self) -> int:
        """Latent numbers of a chunk: frames first, then actions."""
        return self.video_numbers + self.horizon * len(JOINTS)

    @property
    def tokens(self) -> int:
        """Rows of a chunk's hidden state: video, action, vision, joints, delay."""
        return self.video_tokens + self.action_tokens + self.vision_tokens + 2


def model_spec(sizes: ReachSizes, kv_rule: KvRule) -> ModelSpec:
    """Return what the engine needs to know of a reach model of these sizes."""
    name = 'reach' if kv_rule is KvRule.SAME_STEP else 'reach:clean'
    frames = (len(HISTORY_NS), IMAGE_PX, IMAGE_PX, CHANNELS)
    return ModelSpec(
        name=name,
        blocks=sizes.blocks,
        steps=len(sizes.noise),
        tokens=sizes.tokens,
        width=sizes.width,
        heads=sizes.heads,
        head_dim=sizes.width // sizes.heads,
        window=sizes.window,
        sink=0,
        kv_rule=kv_rule,
        latent_shape=(sizes.latent_numbers,),
        inputs=(
            InputSpec('frames', frames, torch.uint8),
            InputSpec('joints', (2 * len(JOINTS),), torch.float32),
            InputSpec('delay', (1,), torch.float32),
            *prefix_inputs(sizes.horizon, len(JOINTS)),
        ),
        actions=ActionSpec(JOINTS, 'rad', sizes.horizon, DT_NS),
        frames=FrameSpec(IMAGE_PX, IMAGE_PX, HISTORY_NS, PREDICTED_STEPS),
        max_delay_steps=sizes.max_delay_steps,
        commits=(
            InputSpec('future', (len(PREDICTED_STEPS), *frames[1:]), torch.uint8),
            InputSpec('actions', (sizes.horizon, len(JOINTS)), torch.float32),
        ),
    )
