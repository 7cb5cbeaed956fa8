# SPDX-License-Identifier: Apache-2.0
"""
Compressed depth (``sensor_msgs/CompressedImage`` on ``.../compressedDepth``) to metres.

As ``compressed_depth_image_transport`` writes it: a header of 12 bytes, then a png of 16 bits. Of
``16UC1`` that holds millimetres; of ``32FC1`` the inverse of the distance, in steps that the
header tells. Kept apart from colour like raw depth.
"""

from __future__ import annotations

import struct

import cv2
import numpy as np
import numpy.typing as npt

from physis_ros.errors import ObservationError
from physis_ros.observation.depth import MILLIMETRES_PER_METRE, DepthArray
from physis_ros.observation.image import Buffer

# int32 kind of compression, of no use; float32 A and B: distance = A / (value - B).
HEADER = struct.Struct('<iff')
TRANSPORT = 'compressedDepth'
PNG = 'png'
ENCODINGS = ('16UC1', 'mono16', '32FC1')


def depth_encoding(text: str) -> str:
    """
    Parse a format string: ``16UC1; compressedDepth png``; older writers leave the codec out.

    :returns: the encoding before compression.
    :raises ObservationError: on colour, and on a codec that is not understood.
    """
    encoding, _, tail = text.partition(';')
    encoding, words = encoding.strip(), tail.split()
    if encoding not in ENCODINGS or (words and words[0] != TRANSPORT):
        raise ObservationError(
            f'compressed depth format must be one of {list(ENCODINGS)} as "16UC1; {TRANSPORT} '
            f'{PNG}", got {text!r}'
        )
    if words[1:] not in ([], [PNG]):
        raise ObservationError(
            f'compressed depth codec must be {PNG}, got {text!r}; set the parameter '
            f'<topic>.{TRANSPORT}.format of the camera driver to {PNG}'
        )
    return encoding


def decode_compressed_depth(format_text: str, data: Buffer) -> DepthArray:
    """
    Decode a compressed depth image.

    :param format_text: the message's format field.
    :param data: header and png.
    :returns: float32 [height, width] in metres, NaN where there is no value.
    :raises ObservationError: on another format or damaged data.
    """
    encoding = depth_encoding(format_text)
    raw = np.frombuffer(data, dtype=np.uint8)
    stored = _decode(raw[HEADER.size :])
    if stored is None:
        raise ObservationError(
            f'compressed depth must be {HEADER.size} bytes of header and a whole {PNG} of 16 bits '
            f'and one channel, got {raw.size} bytes that are not (format {format_text!r})'
        )
    if encoding != '32FC1':
        metres = stored.astype(np.float32) / MILLIMETRES_PER_METRE
    else:
        metres = _distances(stored, raw)
    metres[stored == 0] = np.nan
    return metres


def _distances(stored: npt.NDArray[np.uint16], raw: npt.NDArray[np.uint8]) -> DepthArray:
    """Return the distances whose inverse was stored."""
    _, scale, offset = HEADER.unpack(raw[: HEADER.size].tobytes())
    if not (np.isfinite(offset) and np.isfinite(scale) and scale > 0):
        raise ObservationError(
            f'compressed depth header must hold finite A > 0 and B, got {scale} and {offset}'
        )
    with np.errstate(divide='ignore'):
        metres = np.float32(scale) / (stored.astype(np.float32) - np.float32(offset))
    # Nothing lies behind the camera: such a value was never written.
    metres[metres <= 0] = np.nan
    found: DepthArray = metres
    return found


def _decode(raw: npt.NDArray[np.uint8]) -> npt.NDArray[np.uint16] | None:
    """Return what OpenCV makes of the bytes; it answers damage with None or with an error."""
    if not raw.size:
        return None
    try:
        image = cv2.imdecode(raw, cv2.IMREAD_UNCHANGED)
    except cv2.error:
        return None
    if image is None or image.dtype != np.uint16 or image.ndim != 2:
        return None
    return np.asarray(image, dtype=np.uint16)
