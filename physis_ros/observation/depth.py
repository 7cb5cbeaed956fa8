# SPDX-License-Identifier: Apache-2.0
"""
Depth images to metres (REP 118).

``16UC1`` is millimetres with 0 for "no value", ``32FC1`` metres with NaN (some drivers: 0) for it.
Kept apart from colour: a depth image shown to a colour model is an error, not a grey picture.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from physis_ros.errors import ObservationError
from physis_ros.observation.image import Buffer, pixels

MILLIMETRES_PER_METRE = np.float32(1000)
DEPTH_ENCODINGS = ('16UC1', 'mono16', '32FC1')
DepthArray = npt.NDArray[np.float32]


def decode_depth(
    height: int, width: int, encoding: str, is_bigendian: bool, step: int, data: Buffer
) -> DepthArray:
    """
    Decode a depth image; parameters as :func:`decode_image`.

    :returns: float32 [height, width] in metres, NaN where there is no value; +inf (too far) and
        -inf (too near) stay, as REP 117 gives them.
    :raises ObservationError: naming the field, its rule and its value.
    """
    if encoding not in DEPTH_ENCODINGS:
        raise ObservationError(
            f'depth encoding must be one of {list(DEPTH_ENCODINGS)}, got {encoding!r}'
        )
    stored = pixels(height, width, encoding, is_bigendian, step, data)
    metres = np.array(stored, dtype=np.float32, order='C')
    if encoding != '32FC1':
        metres /= MILLIMETRES_PER_METRE
    metres[metres == 0] = np.nan
    return metres


def resize_depth(depth: DepthArray, height: int, width: int) -> DepthArray:
    """
    Scale a depth image by taking pixels: a mean over an edge would be a place where nothing is.

    :param depth: float32 [h, w], of the same aspect, not smaller than asked.
    :raises ObservationError: on another shape, type or aspect.
    """
    check_depth(depth)
    rows, columns = depth.shape
    if rows * width != columns * height or rows < height:
        raise ObservationError(
            f'depth must have the aspect {width}:{height} and be at least {width}x{height}, '
            f'got {columns}x{rows}'
        )
    # The pixel at the middle of each square; of four the lower right one.
    row = (np.arange(height) * 2 + 1) * rows // (2 * height)
    column = (np.arange(width) * 2 + 1) * columns // (2 * width)
    taken: DepthArray = depth[np.ix_(row, column)]
    return taken


def check_depth(depth: npt.NDArray[Any]) -> None:
    """
    Refuse what is no depth image.

    :raises ObservationError: naming shape and type.
    """
    if depth.dtype != np.float32 or depth.ndim != 2:
        got = f'{depth.dtype} {list(depth.shape)}'
        raise ObservationError(f'depth must be float32 [height, width], got {got}')
