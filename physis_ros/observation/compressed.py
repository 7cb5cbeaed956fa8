# SPDX-License-Identifier: Apache-2.0
"""
Compressed images (``sensor_msgs/CompressedImage``) to RGB.

The format string is parsed as ``compressed_image_transport`` writes it: ``jpeg`` from plain
drivers, ``rgb8; jpeg compressed bgr8`` from the transport. OpenCV decodes to BGR; this module
gives RGB in every case.
"""

from __future__ import annotations

from typing import NamedTuple

import cv2
import numpy as np

from physis_ros.errors import ObservationError
from physis_ros.observation.encodings import ENCODINGS
from physis_ros.observation.image import Buffer
from physis_ros.types import ByteArray

CODECS = {'jpeg': 'jpeg', 'jpg': 'jpeg', 'png': 'png'}


class CompressedFormat(NamedTuple):
    """
    A parsed format string.

    :param codec: ``jpeg`` or ``png``.
    :param encoding: of the image before compression; empty when not said.
    :param swapped: the channels were stored in RGB order where the codec takes BGR.
    """

    codec: str
    encoding: str
    swapped: bool


def parse_format(text: str) -> CompressedFormat:
    """
    Parse a format string.

    :raises ObservationError: on depth and on codecs that are not understood.
    """
    head, separator, tail = text.partition(';')
    encoding = head.strip() if separator else ''
    words = (tail if separator else head).lower().split()
    known = ENCODINGS.get(encoding)
    if 'compresseddepth' in words or (known is not None and known.depth):
        raise ObservationError(
            f'compressed format must be colour or grey, got {text!r}, which is depth'
        )
    codec = CODECS.get(words[0]) if words else None
    if codec is None:
        raise ObservationError(
            f'compressed format must be jpeg or png, got {text!r}; '
            f'set the image transport of the camera to one of them'
        )
    return CompressedFormat(codec, encoding, words[1:] in (['compressed', 'rgb8'],))


def decode_compressed(format_text: str, data: Buffer) -> ByteArray:
    """
    Decode a jpeg or png.

    :param format_text: the message's format field.
    :param data: the file's bytes.
    :returns: uint8 [height, width, 3] RGB. EXIF orientation is ignored: a camera does not turn.
    :raises ObservationError: on another format or damaged data.
    """
    parsed = parse_format(format_text)
    raw = np.frombuffer(data, dtype=np.uint8)
    image = _decode(raw) if raw.size else None
    if image is None:
        raise ObservationError(
            f'compressed image must be a whole {parsed.codec}, got {raw.size} bytes that do not '
            f'decode (format {format_text!r})'
        )
    rgb = image if parsed.swapped else cv2.cvtColor(image, cv2.COLOR_BGR2RGB)
    return np.asarray(rgb, dtype=np.uint8)


def _decode(raw: ByteArray) -> ByteArray | None:
    """Return what OpenCV makes of the bytes; it answers damage with None or with an error."""
    try:
        image = cv2.imdecode(raw, cv2.IMREAD_COLOR | cv2.IMREAD_IGNORE_ORIENTATION)
    except cv2.error:
        return None
    return None if image is None else np.asarray(image, dtype=np.uint8)
