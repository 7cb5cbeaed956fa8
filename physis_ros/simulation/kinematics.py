# SPDX-License-Identifier: Apache-2.0
"""
Forward and inverse kinematics of a planar two-link arm.

Pure functions over the last axis, so one call serves a pose or a whole path. The inverse has one
branch, elbow bent to positive angles, and never jumps by a turn inside the forward half of the
plane and well beyond it (the cut lies straight behind the shoulder, where nothing is sent).
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]


def tip_position(joint_rad: Floats, link_m: tuple[float, float]) -> Floats:
    """
    Return where the tip is [m], shoulder at the origin.

    :param joint_rad: shoulder and elbow, [..., 2].
    :param link_m: lengths of upper arm and forearm.
    """
    upper, fore = link_m
    shoulder, forearm = joint_rad[..., 0], joint_rad[..., 0] + joint_rad[..., 1]
    x = upper * np.cos(shoulder) + fore * np.cos(forearm)
    y = upper * np.sin(shoulder) + fore * np.sin(forearm)
    return np.stack([x, y], axis=-1)


def joint_position(tip_m: Floats, link_m: tuple[float, float]) -> Floats:
    """
    Return the joint angles [rad] that put the tip there; the nearest pose if out of reach.

    :param tip_m: wanted tip position, [..., 2].
    :param link_m: lengths of upper arm and forearm.
    """
    upper, fore = link_m
    x, y = tip_m[..., 0], tip_m[..., 1]
    cosine = (x * x + y * y - upper**2 - fore**2) / (2 * upper * fore)
    elbow = np.arccos(np.clip(cosine, -1.0, 1.0))
    offset = np.arctan2(fore * np.sin(elbow), upper + fore * np.cos(elbow))
    return np.stack([np.arctan2(y, x) - offset, elbow], axis=-1)
