# SPDX-License-Identifier: Apache-2.0
"""Recorded images as arrays, of the encodings that scores need."""

from __future__ import annotations

from typing import Any

import numpy as np

from physis_ros.errors import BagError
from physis_ros.types import ByteArray

CHANNELS = {'rgb8': (3, (0, 1, 2)), 'bgr8': (3, (2, 1, 0)), 'mono8': (1, (0, 0, 0))}


def image(message: Any) -> ByteArray:
    """
    Return an ``Image`` message as RGB, [height, width, 3].

    :raises BagError: for an encoding that scores do not need, naming it.
    """
    if message.encoding not in CHANNELS:
        raise BagError(
            f'recorded image encoding must be one of {sorted(CHANNELS)}, got {message.encoding!r}'
        )
    channels, order = CHANNELS[message.encoding]
    rows = np.asarray(message.data, dtype=np.uint8).reshape(message.height, message.step)
    pixels = rows[:, : message.width * channels].reshape(message.height, message.width, channels)
    return np.ascontiguousarray(pixels[:, :, list(order)])
