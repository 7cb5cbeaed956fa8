# SPDX-License-Identifier: Apache-2.0
"""
Depth images to metres (REP 118).

``16UC1`` is millimetres with 0 for "no value", ``32FC1`` metres with NaN (some drivers: 0) for it.
Kept apart from colour: a depth image shown to a colour model is an error, not a grey picture.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from physis_ros.errors import ObservationError
from physis_ros.observation.image import Buffer, pixels

MILLIMETRES_PER_METRE = np.float32(1000)
DEPTH_ENCODINGS = ('16UC1', 'mono16', '32FC1')


def decode_depth(
    height: int, width: int, encoding: str, is_bigendian: bool, step: int, data: Buffer
) -> npt.NDArray[np.float32]:
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
