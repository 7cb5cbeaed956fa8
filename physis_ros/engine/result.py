# SPDX-License-Identifier: Apache-2.0
"""What a pool delivers."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt


@dataclass(frozen=True)
class ChunkResult:
    """
    One finished chunk; times are steady nanoseconds and never decrease.

    :param stream: the stream's name.
    :param epoch: its epoch, still the current one when this was handed out.
    :param chunk: number within the epoch, from 0.
    :param actions: float32 [H, A] in the model's unit.
    :param frames: uint8 [F, height, width, 3] RGB, or None when not asked for.
    :param kv_rule: ``same_step``, ``clean`` or ``override``.
    :param observation: version of the observation used last, as ``enter`` or ``observe`` made it.
    :param entered_steady_ns: when it entered the pool.
    :param denoised_steady_ns: when its last denoise step was done.
    :param decoded_steady_ns: when actions and frames were decoded.
    :param delivered_steady_ns: when the pool had it.
    """

    stream: str
    epoch: int
    chunk: int
    actions: npt.NDArray[np.float32]
    frames: npt.NDArray[np.uint8] | None
    kv_rule: str
    observation: int
    entered_steady_ns: int
    denoised_steady_ns: int
    decoded_steady_ns: int
    delivered_steady_ns: int
