# SPDX-License-Identifier: Apache-2.0
"""
Raw image bytes to RGB.

Takes the plain fields of a ``sensor_msgs/Image``; row step (padding) and byte order are honoured,
short data is refused. What is RGB already is handed out as it lies there, everything else is
converted in one pass. First stop of a camera frame.
"""

from __future__ import annotations

from typing import Any

import cv2
import numpy as np
import numpy.typing as npt

from physis_ros.errors import ObservationError
from physis_ros.observation.encodings import Encoding, encoding_of
from physis_ros.types import ByteArray

Buffer = bytes | bytearray | memoryview | npt.NDArray[np.uint8] | Any  # array.array('B') too


def decode_image(
    height: int, width: int, encoding: str, is_bigendian: bool, step: int, data: Buffer
) -> ByteArray:
    """
    Decode a colour or grey image.

    16-bit values are scaled to 8 bits by 255/65535, rounded.

    :param step: bytes from one row to the next, >= the bytes of a row.
    :param data: at least ``step * (height - 1)`` bytes and one row.
    :returns: uint8 [height, width, 3] RGB, C-contiguous. Of ``rgb8`` and ``8UC3`` without padding
        it is a view of ``data``, not to be written, and right as long as nobody writes ``data``
        (nobody does with that of a message); otherwise it shares nothing.
    :raises ObservationError: naming the field, its rule and its value.
    """
    layout = encoding_of(encoding)
    if layout.depth:
        raise ObservationError(
            f'image encoding must be a colour or grey one, got {encoding!r}, which is depth; '
            f'give it to the depth input or choose another topic'
        )
    return to_rgb(pixels(height, width, encoding, is_bigendian, step, data), layout)


def pixels(
    height: int, width: int, encoding: str, is_bigendian: bool, step: int, data: Buffer
) -> npt.NDArray[Any]:
    """
    View the bytes as an array, without a copy.

    :returns: [height, width] or [height, width, channels] in the stored channel order and byte
        order; it lives on the memory of ``data``.
    :raises ObservationError: when the fields contradict each other.
    """
    layout = encoding_of(encoding)
    if height < 1 or width < 1:
        raise ObservationError(f'image size must be >= 1x1, got {height}x{width} ({encoding})')
    row = width * layout.pixel_bytes
    if step < row:
        raise ObservationError(
            f'image step must be >= {row} for {width} pixels of {encoding}, got {step}'
        )
    flat = np.frombuffer(data, dtype=np.uint8)
    needed = step * (height - 1) + row
    if flat.size < needed:
        raise ObservationError(
            f'image data must be >= {needed} bytes for {height} rows of step {step} '
            f'({encoding}), got {flat.size}'
        )
    order = '>' if is_bigendian else '<'
    item = layout.bits // 8
    channels = (layout.channels,) if layout.channels > 1 else ()
    strides = (step, layout.pixel_bytes, item) if channels else (step, item)
    return np.ndarray((height, width, *channels), order + layout.kind, flat, 0, strides)


def to_rgb(stored: npt.NDArray[Any], layout: Encoding) -> ByteArray:
    """Turn stored pixels into a uint8 RGB image, their own memory where they are one already."""
    if layout.bits == 16:
        # Bayer is interpolated at full depth, everything else may be narrowed first.
        if layout.channels == 1 and layout.to_rgb not in (None, cv2.COLOR_GRAY2RGB):
            return _narrow(_convert(_native(stored), layout.to_rgb))
        stored = _narrow(_native(stored))
    return _convert(stored, layout.to_rgb)


def _convert(stored: npt.NDArray[Any], code: int | None) -> npt.NDArray[Any]:
    if code is None:
        return _read_only(np.ascontiguousarray(stored))
    try:
        return cv2.cvtColor(stored, code)
    except cv2.error as error:
        raise ObservationError(
            f'image size must suit its encoding (even for bayer and yuv), got '
            f'{stored.shape[0]}x{stored.shape[1]}'
        ) from error


def _read_only(values: npt.NDArray[Any]) -> npt.NDArray[Any]:
    """Return a view that cannot be written by mistake."""
    view = values.view()
    view.flags.writeable = False
    return view


def _native(stored: npt.NDArray[Any]) -> npt.NDArray[Any]:
    """Return the values in this machine's byte order, aligned (a view when they are)."""
    # A step may be no whole number of values.
    return np.require(stored.astype(stored.dtype.newbyteorder('='), copy=False), requirements='A')


def _narrow(values: npt.NDArray[Any]) -> ByteArray:
    """Scale 16 bits to 8, rounded: v * 255 / 65535 = v / 257, never a tie, so floats will do."""
    return np.asarray(cv2.convertScaleAbs(values, alpha=1 / 257), dtype=np.uint8)
