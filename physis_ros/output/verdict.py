# SPDX-License-Identifier: Apache-2.0
"""
What became of an offered chunk, and why.

A chunk is taken whole or not at all; each refusal has one reason that the account counts.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum


class ChunkReject(Enum):
    """Why a chunk was not taken."""

    INACTIVE = 'inactive'
    MALFORMED = 'malformed'
    WRONG_WIDTH = 'wrong_width'
    WRONG_NAMES = 'wrong_names'
    WRONG_DT = 'wrong_dt'
    NON_FINITE = 'non_finite'
    STALE_EPOCH = 'stale_epoch'
    DUPLICATE = 'duplicate'
    OUT_OF_ORDER = 'out_of_order'
    FUTURE_INPUT = 'future_input'
    FAR_FUTURE = 'far_future'
    ALL_PAST = 'all_past'
    EXPIRED = 'expired'
    POSITION_LIMIT = 'position_limit'
    VELOCITY_LIMIT = 'velocity_limit'
    ACCELERATION_LIMIT = 'acceleration_limit'
    JERK_LIMIT = 'jerk_limit'
    OVERFULL = 'overfull'


@dataclass(frozen=True)
class Verdict:
    """
    The timeline's answer to one chunk.

    :param reject: why it was refused; None when it was taken.
    :param detail: what to tell a person about a refusal; empty when taken.
    :param skipped: steps never played because their time had passed.
    :param clamped: steps moved onto a position limit.
    :param new_epoch: it began a new epoch; everything older was dropped.
    :param from_ns: the instant from which it is played; -1 when refused.
    """

    reject: ChunkReject | None = None
    detail: str = ''
    skipped: int = 0
    clamped: int = 0
    new_epoch: bool = False
    from_ns: int = -1

    @property
    def accepted(self) -> bool:
        """Whether the chunk is on the timeline."""
        return self.reject is None

    @property
    def late(self) -> bool:
        """Taken, though some of its steps had passed already: playing late beats starving."""
        return self.reject is None and self.skipped > 0
