# SPDX-License-Identifier: Apache-2.0
"""
Latent numbers <-> actions and frames.

A future frame is the last observed one plus a change; the change of each 16x16 patch is written
in an orthonormal basis, so an error of the latent is an error of pixels and the zero latent is
the copied frame. Actions are written in units of their spread over the training data. They are
absolute: what the expert commands depends on the target alone, not on where the arm is.
"""

from __future__ import annotations

import torch
from torch import Tensor, nn

from physis_ros.backbones.reach.spec import CHANNELS, IMAGE_PX, JOINTS, PATCH_PX, ReachSizes

SIDE = IMAGE_PX // PATCH_PX
PATCH_NUMBERS = PATCH_PX * PATCH_PX * CHANNELS
# About what an empty table looks like, so that an empty patch is about zero.
BACKGROUND = 38.0


def to_patches(image: Tensor) -> Tensor:
    """Cut images [..., 64, 64, 3] into patches [..., 16, 768]."""
    lead = image.shape[:-3]
    cut = image.reshape(*lead, SIDE, PATCH_PX, SIDE, PATCH_PX, CHANNELS).movedim(-4, -3)
    return cut.reshape(*lead, SIDE * SIDE, PATCH_NUMBERS)


def to_image(patches: Tensor) -> Tensor:
    """Put patches [..., 16, 768] together to images [..., 64, 64, 3]."""
    lead = patches.shape[:-2]
    cut = patches.reshape(*lead, SIDE, SIDE, PATCH_PX, PATCH_PX, CHANNELS).movedim(-4, -3)
    return cut.reshape(*lead, IMAGE_PX, IMAGE_PX, CHANNELS)


class Codec(nn.Module):
    """
    The fixed part of the model: fitted to the training data once, never trained.

    :param sizes: how many latent numbers there are.
    """

    basis: Tensor
    scale: Tensor
    action_mean: Tensor
    action_spread: Tensor

    def __init__(self, sizes: ReachSizes) -> None:
        super().__init__()
        self._sizes = sizes
        self.register_buffer('basis', torch.zeros(PATCH_NUMBERS, sizes.components))
        self.register_buffer('scale', torch.ones(()))
        self.register_buffer('action_mean', torch.zeros(len(JOINTS)))
        self.register_buffer('action_spread', torch.ones(len(JOINTS)))

    def write(self, last: Tensor, future: Tensor, actions: Tensor) -> Tensor:
        """
        Return the clean latent of a chunk, [B, latent_numbers].

        :param last: uint8 [B, 64, 64, 3], the newest observed frame.
        :param future: uint8 [B, F, 64, 64, 3].
        :param actions: [B, H, 2] [rad].
        """
        change = to_patches(future.float() - last.float()[:, None])
        video = change @ self.basis / self.scale
        spread = (actions - self.action_mean) / self.action_spread
        return torch.cat([video.flatten(1), spread.flatten(1)], 1)

    def seen(self, frames: Tensor) -> Tensor:
        """
        Write observed frames in the same basis, [B, 16, K * components].

        What is to vanish from a frame is then a linear matter.

        :param frames: uint8 [B, K, 64, 64, 3].
        """
        numbers = to_patches(frames.float() - BACKGROUND) @ self.basis / self.scale
        return numbers.transpose(1, 2).flatten(2)

    def actions(self, latent: Tensor) -> Tensor:
        """Return the actions in a latent, [B, H, 2] [rad]."""
        numbers = latent[:, self._sizes.video_numbers :]
        spread = numbers.reshape(len(latent), self._sizes.horizon, len(JOINTS))
        return spread * self.action_spread + self.action_mean

    def drawn(self, latent: Tensor, actions: Tensor, weight: Tensor) -> Tensor:
        """
        Return a latent whose actions are drawn to others: 0 leaves, 1 replaces them.

        :param actions: [B, H, 2] [rad].
        :param weight: [B, H], for each step.
        """
        video, numbers = latent.tensor_split([self._sizes.video_numbers], 1)
        wanted = (actions - self.action_mean) / self.action_spread
        mixed = torch.lerp(numbers.reshape(wanted.shape), wanted, weight[..., None])
        return torch.cat([video, mixed.flatten(1)], 1)

    def frames(self, latent: Tensor, last: Tensor) -> Tensor:
        """
        Return the frames in a latent, uint8 [B, F, 64, 64, 3].

        :param last: uint8 [B, 64, 64, 3], the newest observed frame.
        """
        sizes = self._sizes
        numbers = latent[:, : sizes.video_numbers]
        video = numbers.reshape(len(latent), -1, sizes.patches, sizes.components)
        change = to_image(video @ self.basis.T * self.scale)
        return (last.float()[:, None] + change).round().clamp(0, 255).to(torch.uint8)
