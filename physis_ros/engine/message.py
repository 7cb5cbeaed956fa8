# SPDX-License-Identifier: Apache-2.0
"""
What crosses from process to process: a fixed header, then a payload of known layout (E4).

No pickle: a header is a packed struct, a payload is raw tensor bytes or short UTF-8 text.
"""

from __future__ import annotations

import struct
from enum import IntEnum
from typing import NamedTuple

from physis_ros.errors import EngineError

VERSION = 1
# Bits of a header's flags.
FRAMES, COMMIT = 1, 2
_STRUCT = struct.Struct('=HHIiiIIqqqqqqqqq')
BYTES = 128


class Kind(IntEnum):
    """What a message means."""

    ENTER = 1
    HIDDEN = 2
    LATENT = 3
    RESULT = 4
    DONE = 5
    OPEN = 6
    CLOSE = 7
    READY = 8
    OPENED = 9
    CLOSED = 10
    FAILED = 11
    NOT_OPENED = 12
    COMMIT = 13


class Header(NamedTuple):
    """
    The fixed part; the fields are packed in this order.

    :param flags: bit 0: predicted frames wanted; bit 1: a commit, not a chunk.
    :param bytes: size of the payload.
    :param era: life and epoch of the stream.
    :param turn: place in the order of the stream's chunks and commits.
    :param observation: version of the inputs in use.
    :param created_ns: when the chunk entered the pool, steady.
    :param sent_ns: when what it carries was ready to be sent, steady; a full mailbox shows here.
    """

    kind: int
    flags: int = 0
    stream: int = -1
    step: int = 0
    block: int = 0
    bytes: int = 0
    era: int = 0
    chunk: int = 0
    turn: int = 0
    deadline_ns: int = 0
    observation: int = 0
    created_ns: int = 0
    sent_ns: int = 0
    denoised_ns: int = 0
    decoded_ns: int = 0

    def pack_into(self, buffer: memoryview, offset: int) -> None:
        """Write it at ``offset``."""
        _STRUCT.pack_into(buffer, offset, VERSION, *self)


def unpack(buffer: memoryview, offset: int) -> Header:
    """
    Read the header at ``offset``.

    :raises EngineError: when it is of another version.
    """
    version, *fields = _STRUCT.unpack_from(buffer, offset)
    if version != VERSION:
        raise EngineError(f'message version must be {VERSION}, got {version}')
    return Header._make(fields)
