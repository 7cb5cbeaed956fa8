# SPDX-License-Identifier: Apache-2.0
"""
What the camera, the joints and the told delay say, before any transformer block.

A small convolutional net, shared by all frames, ends in soft-argmax keypoints: positions finer
than a pixel from the first hundred iterations on, where patches fed straight to a transformer
need hours. A coarse map of the newest frame goes along, so that video tokens know what to change.
"""

from __future__ import annotations

import math
from typing import NamedTuple

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from physis_ros.backbones.reach.spec import HISTORY_NS, JOINTS, ReachSizes

MAP_PX = 32
DELAY_SPAN_S = 0.5
BACKGROUND = 0.15
VELOCITY_RAD_S = 5.0
DELAY_NUMBERS = 7
JOINT_NUMBERS = 3 * len(JOINTS) + len(JOINTS)
POINT_NUMBERS = 3
# Sharpens the soft-argmax; with a flat one, no gradient tells a channel where to look.
SHARPNESS = 10.0


class Seen(NamedTuple):
    """
    What the stem makes of one observation.

    :param feature: [B, features], everything the stem knows.
    :param patches: [B, 16, width], the newest frame, patch by patch.
    :param joints: [B, JOINT_NUMBERS].
    :param delay: [B, DELAY_NUMBERS].
    """

    feature: Tensor
    patches: Tensor
    joints: Tensor
    delay: Tensor


def delay_numbers(delay_s: Tensor) -> Tensor:
    """Spread a delay [B, 1] over waves, [B, DELAY_NUMBERS]."""
    part = delay_s / DELAY_SPAN_S
    phases = [math.pi * part * turns for turns in (0.5, 1.0, 2.0)]
    return torch.cat([part, *map(torch.sin, phases), *map(torch.cos, phases)], 1)


def joint_numbers(joints: Tensor) -> Tensor:
    """Spread joint positions and velocities [B, 4] for the net, [B, JOINT_NUMBERS]."""
    position, velocity = joints.split(len(JOINTS), 1)
    return torch.cat([position, position.sin(), position.cos(), velocity / VELOCITY_RAD_S], 1)


class Stem(nn.Module):
    """
    Frames, joints and delay to features.

    :param sizes: of the network.
    """

    places: Tensor

    def __init__(self, sizes: ReachSizes) -> None:
        super().__init__()
        self.first = nn.Conv2d(3, 16, 3, stride=2, padding=1)
        self.second = nn.Conv2d(16, 32, 3, padding=1)
        self.heat = nn.Conv2d(32, sizes.keypoints, 1)
        self.third = nn.Conv2d(32, 48, 4, stride=4)
        self.patch = nn.Conv2d(48, sizes.width, 2, stride=2)
        points = len(HISTORY_NS) * sizes.keypoints * POINT_NUMBERS
        self.mix = nn.Sequential(
            nn.Linear(points + JOINT_NUMBERS + DELAY_NUMBERS, sizes.features),
            nn.GELU(),
            nn.Linear(sizes.features, sizes.features),
            nn.GELU(),
        )
        axis = torch.linspace(-1, 1, MAP_PX)
        down, across = torch.meshgrid(axis, axis, indexing='ij')
        places = torch.stack([across.flatten(), down.flatten()], 1)
        self.register_buffer('places', places, persistent=False)

    def forward(self, frames: Tensor, joints: Tensor, delay: Tensor) -> Seen:
        """
        Look at one observation.

        :param frames: uint8 [B, K, 64, 64, 3], oldest first.
        :param joints: [B, 4], positions and velocities.
        :param delay: [B, 1] [s].
        """
        rows, history = frames.shape[:2]
        image = frames.flatten(0, 1).permute(0, 3, 1, 2).float()
        image = image.mul_(2 / 255).sub_(2 * BACKGROUND)
        low = F.relu_(self.second(F.relu_(self.first(image))))
        points = self._points(low).reshape(rows, -1)
        newest = low.unflatten(0, (rows, history))[:, -1]
        patches = self.patch(F.relu_(self.third(newest))).flatten(2).transpose(1, 2)
        told, felt = delay_numbers(delay), joint_numbers(joints)
        feature = self.mix(torch.cat([points, felt, told], 1))
        return Seen(feature, patches, felt, told)

    def _points(self, low: Tensor) -> Tensor:
        """
        Return where each channel of the heat map is hottest, and how clearly.

        The map is a convolution of one pixel: as a product it lies as the softmax wants it.

        :param low: [rows, 32, MAP_PX, MAP_PX].
        :returns: [rows, channels, 3]: across and down in -1 .. 1, and the peak.
        """
        pixels = low.permute(0, 2, 3, 1).flatten(1, 2)
        heat = (SHARPNESS * self.heat.weight.flatten(1)) @ pixels.transpose(1, 2)
        if self.heat.bias is not None:
            heat = heat + SHARPNESS * self.heat.bias[:, None]
        weight = heat.float().softmax(2)
        return torch.cat([weight @ self.places, weight.amax(2, keepdim=True)], 2)
