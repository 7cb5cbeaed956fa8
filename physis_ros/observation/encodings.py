# SPDX-License-Identifier: Apache-2.0
"""
The image encodings that are understood, as one table.

How a row of bytes is laid out and how it becomes RGB. Names are those of
``sensor_msgs/image_encodings.hpp``. Used by the decoders; knows no message type.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType

import cv2

from physis_ros.errors import ObservationError


@dataclass(frozen=True)
class Encoding:
    """
    One pixel layout.

    :param bits: of one channel value: 8, 16 or 32 (float).
    :param channels: values per pixel as stored.
    :param to_rgb: OpenCV colour conversion; None where the values are RGB already.
    :param depth: the values are distances, not light.
    """

    bits: int
    channels: int
    to_rgb: int | None = None
    depth: bool = False

    @property
    def kind(self) -> str:
        """The numpy kind and size, without byte order."""
        return 'f4' if self.bits == 32 else f'u{self.bits // 8}'

    @property
    def pixel_bytes(self) -> int:
        """Bytes of one pixel."""
        return self.channels * self.bits // 8


def _bayer(bits: int) -> dict[str, Encoding]:
    codes = {
        'rggb': cv2.COLOR_BayerRGGB2RGB,
        'bggr': cv2.COLOR_BayerBGGR2RGB,
        'gbrg': cv2.COLOR_BayerGBRG2RGB,
        'grbg': cv2.COLOR_BayerGRBG2RGB,
    }
    return {f'bayer_{name}{bits}': Encoding(bits, 1, code) for name, code in codes.items()}


# 8UC3 carries no colour meaning; it is taken as it is, like cv_bridge does when asked for rgb8.
ENCODINGS: Mapping[str, Encoding] = MappingProxyType(
    {
        'rgb8': Encoding(8, 3),
        'bgr8': Encoding(8, 3, cv2.COLOR_BGR2RGB),
        'rgba8': Encoding(8, 4, cv2.COLOR_RGBA2RGB),
        'bgra8': Encoding(8, 4, cv2.COLOR_BGRA2RGB),
        'rgb16': Encoding(16, 3),
        'bgr16': Encoding(16, 3, cv2.COLOR_BGR2RGB),
        'mono8': Encoding(8, 1, cv2.COLOR_GRAY2RGB),
        'mono16': Encoding(16, 1, cv2.COLOR_GRAY2RGB),
        '8UC1': Encoding(8, 1, cv2.COLOR_GRAY2RGB),
        '8UC3': Encoding(8, 3),
        'yuv422': Encoding(8, 2, cv2.COLOR_YUV2RGB_UYVY),
        'yuv422_yuy2': Encoding(8, 2, cv2.COLOR_YUV2RGB_YUY2),
        '16UC1': Encoding(16, 1, depth=True),
        '32FC1': Encoding(32, 1, depth=True),
        **_bayer(8),
        **_bayer(16),
    }
)


def encoding_of(name: str) -> Encoding:
    """
    Look an encoding up.

    :raises ObservationError: listing what is understood.
    """
    found = ENCODINGS.get(name)
    if found is None:
        raise ObservationError(
            f'image encoding must be one of {sorted(ENCODINGS)}, got {name!r}; '
            f'set the camera driver to one of them'
        )
    return found
