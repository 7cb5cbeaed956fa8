# SPDX-License-Identifier: Apache-2.0
"""
What is asked of the network: clean latents at every step, and honest eyes.

The heads on the stem exist only in training. They make it find target and arm within hundreds of
iterations; without them localisation has to be discovered through the whole transformer.
"""

from __future__ import annotations

from typing import NamedTuple

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from physis_ros.backbones.reach.spec import JOINTS, ReachSizes
from physis_ros.backbones.reach.stem import VELOCITY_RAD_S
from physis_ros.training.data import Batch

ACTION_WEIGHT = 6.0
LATE_ACTION_WEIGHT = 0.4
HUBER = 0.1
SCENE_WEIGHT = 2.0
SCENE_SCALE = (0.25, 0.25, 0.5, 0.5)


class StemHeads(nn.Module):
    """
    Training-only heads: target state, joints, and the chunk's actions, straight from the stem.

    :param sizes: of the network.
    """

    def __init__(self, sizes: ReachSizes) -> None:
        super().__init__()
        self.scene = nn.Linear(sizes.features, 4 + 2 * len(JOINTS))
        self.actions = nn.Linear(sizes.features, sizes.horizon * len(JOINTS))

    def forward(self, feature: Tensor) -> tuple[Tensor, Tensor]:
        """Return what the stem thinks of the scene and of the actions."""
        return self.scene(feature), self.actions(feature)


class Parts(NamedTuple):
    """
    Loss parts for each row, [B].

    :param video: mean square latent error; 1 is about what copying the last frame costs.
    :param action: robust error of the normalised actions.
    :param scene: error of the stem's scene head.
    :param early: robust error of the stem's action head.
    """

    video: Tensor
    action: Tensor
    scene: Tensor
    early: Tensor

    @property
    def eyes(self) -> Tensor:
        """The number to descend while there are no blocks: the stem's own answers count most."""
        action = ACTION_WEIGHT * (self.early + 0.5 * self.action)
        return (self.video + action + SCENE_WEIGHT * self.scene).mean()

    @property
    def total(self) -> Tensor:
        """The number to descend, a scalar."""
        action = ACTION_WEIGHT * (self.action + 0.5 * self.early)
        return (self.video + action + SCENE_WEIGHT * self.scene).mean()


def robust(wrong: Tensor) -> Tensor:
    """Huber's loss over its bend: square when small, then as the absolute value."""
    return F.huber_loss(wrong, torch.zeros_like(wrong), reduction='none', delta=HUBER) / HUBER


def parts(
    estimate: Tensor, truth: Tensor, heads: tuple[Tensor, Tensor], batch: Batch, sizes: ReachSizes
) -> Parts:
    """
    Compare an estimate of the clean latent, and the stem's heads, with the truth.

    :param estimate: [B, latent_numbers].
    :param truth: the clean latent, the same shape.
    :param heads: from :class:`StemHeads`.
    """
    scene, early = (head.float() for head in heads)
    cut = sizes.video_numbers
    video = (estimate[:, :cut] - truth[:, :cut]).square().mean(1)
    # Early actions are played, late ones only when the next chunk is late.
    weight = torch.linspace(1, LATE_ACTION_WEIGHT, sizes.horizon).repeat_interleave(len(JOINTS))
    weight = weight / weight.mean()
    action = (robust(estimate[:, cut:] - truth[:, cut:]) * weight).mean(1)
    early = (robust(early - truth[:, cut:]) * weight).mean(1)
    position, velocity = batch.inputs['joints'].split(len(JOINTS), 1)
    wanted = torch.cat(
        [batch.target / torch.tensor(SCENE_SCALE), position, velocity / VELOCITY_RAD_S], 1
    )
    return Parts(video, action, robust(scene - wanted).mean(1), early)
