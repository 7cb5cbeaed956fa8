# SPDX-License-Identifier: Apache-2.0
"""
Camera size to model size.

Whole factors by an exact area mean in integers, halves rounded up, so that live images equal the
training images bit for bit; other factors by OpenCV's area interpolation. Never distorts.
"""

from __future__ import annotations

from typing import Any

import cv2
import numpy as np
import numpy.typing as npt

from physis_ros.errors import ObservationError
from physis_ros.types import ByteArray


def resize(image: ByteArray, height: int, width: int) -> ByteArray:
    """
    Scale an image to ``height`` x ``width``.

    :param image: uint8 [h, w, 3], not smaller than asked.
    :returns: uint8 [height, width, 3]; ``image`` itself when the size is right already.
    :raises ObservationError: when the aspect differs, or the image is too small.
    """
    check_image(image)
    rows, columns = image.shape[:2]
    if (rows, columns) == (height, width):
        return image
    if rows * width != columns * height:
        raise ObservationError(
            f'image aspect must be {width}:{height} (the model takes {width}x{height}), '
            f'got {columns}x{rows}; crop it or set the camera to another size'
        )
    if rows < height:
        raise ObservationError(
            f'image must be at least {width}x{height}, got {columns}x{rows}; '
            f'set the camera to a larger size'
        )
    if rows % height == 0:
        return area_mean(image, rows // height)
    scaled = cv2.resize(image, (width, height), interpolation=cv2.INTER_AREA)
    return np.asarray(scaled, dtype=np.uint8)


def area_mean(image: ByteArray, factor: int) -> ByteArray:
    """
    Average squares of ``factor`` x ``factor`` pixels, halves rounded up.

    :param image: uint8 [h, w, 3]; h and w whole multiples of ``factor``.
    """
    # Strided additions: several times faster than a reshape and a mean over two axes.
    wide = image.astype(np.uint16 if factor <= 16 else np.uint32)
    rows = sum_of([wide[start::factor] for start in range(factor)])
    total = sum_of([rows[:, start::factor] for start in range(factor)])
    count = factor * factor
    return ((total + count // 2) // count).astype(np.uint8)


def sum_of(parts: list[npt.NDArray[Any]]) -> npt.NDArray[Any]:
    """Add arrays of one shape."""
    total = parts[0].copy()
    for part in parts[1:]:
        total += part
    return total


def check_image(image: ByteArray) -> None:
    """
    Refuse what is no RGB image.

    :raises ObservationError: naming shape and type (HWC uint8 is meant, not CHW float).
    """
    if image.dtype != np.uint8 or image.ndim != 3 or image.shape[2] != 3:
        raise ObservationError(
            f'image must be uint8 [height, width, 3], got {image.dtype} {list(image.shape)}'
        )
