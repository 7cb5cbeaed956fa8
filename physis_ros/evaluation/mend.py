# SPDX-License-Identifier: Apache-2.0
"""
Mends an mcap file whose recorder was killed: cuts the torn record off and adds the end it lacks.

What was written whole stays as it is; the index is left out, which readers do without.
"""

from __future__ import annotations

import struct
from pathlib import Path
from typing import BinaryIO

from physis_ros.errors import BagError

MAGIC = b'\x89MCAP0\r\n'
HEADER, FOOTER, DATA_END = 0x01, 0x02, 0x0F
LENGTH = struct.Struct('<Q')


def is_whole(path: Path) -> bool:
    """Tell whether the file ends as an mcap file must."""
    with path.open('rb') as file:
        file.seek(0, 2)
        if file.tell() < 2 * len(MAGIC):
            return False
        file.seek(-len(MAGIC), 2)
        return file.read() == MAGIC


def mend(path: Path) -> int:
    """
    Make a torn file readable, in place.

    :param path: an ``.mcap`` file that nobody writes any more.
    :returns: bytes cut off; 0 for a whole file, which is left alone.
    :raises BagError: when it is no mcap file or holds not one whole record.
    """
    if is_whole(path):
        return 0
    with path.open('r+b') as file:
        if file.read(len(MAGIC)) != MAGIC:
            raise BagError(f'{path} must be an mcap file, starts otherwise')
        size = path.stat().st_size
        end = _end_of_data(file, size)
        if end == len(MAGIC):
            raise BagError(f'{path} must hold at least one whole record, got {size} bytes')
        file.seek(end)
        file.truncate()
        file.write(bytes([DATA_END]) + LENGTH.pack(4) + bytes(4))
        file.write(bytes([FOOTER]) + LENGTH.pack(20) + bytes(20) + MAGIC)
    return size - end


def _end_of_data(file: BinaryIO, size: int) -> int:
    """Return where the last whole data record ends."""
    end = len(MAGIC)
    while end + 9 <= size:
        file.seek(end)
        kind = file.read(1)[0]
        following = end + 9 + LENGTH.unpack(file.read(8))[0]
        if kind in (DATA_END, FOOTER) or not HEADER <= kind <= DATA_END or following > size:
            break
        end = following
    return end
