# SPDX-License-Identifier: Apache-2.0
"""What a session needs of an engine pool; :class:`physis_ros.engine.pool.Pool` gives it."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Protocol

import numpy as np
import numpy.typing as npt

from physis_ros.backbones.base import ModelSpec


class ChunkResult(Protocol):
    """One chunk as it leaves the pipe; ``steady`` times are CLOCK_MONOTONIC."""

    @property
    def stream(self) -> str:
        """The stream's name."""

    @property
    def epoch(self) -> int:
        """The epoch it entered in."""

    @property
    def chunk(self) -> int:
        """Its number within the epoch."""

    @property
    def actions(self) -> npt.NDArray[np.float32]:
        """float32 [H, A]."""

    @property
    def frames(self) -> npt.NDArray[np.uint8] | None:
        """uint8 [F, height, width, 3], or None when they were not asked for."""

    @property
    def kv_rule(self) -> str:
        """``same_step``, ``clean`` or ``override``."""

    @property
    def observation(self) -> int:
        """Version of the observation used last."""

    @property
    def denoised_steady_ns(self) -> int:
        """End of the last denoise step."""

    @property
    def decoded_steady_ns(self) -> int:
        """End of the decoding."""


class PoolPort(Protocol):
    """The pool, seen from one stream. ``enter`` and ``next_result`` run in different threads."""

    @property
    def spec(self) -> ModelSpec:
        """The model's sizes."""

    @property
    def renewals(self) -> int:
        """Newer observations that a chunk in the pipe may be shown; 0 for none."""

    def ready(self, stream: str, /) -> bool:
        """Whether the stream's next chunk may enter now."""

    def enter(
        self,
        stream: str,
        inputs: Mapping[str, npt.NDArray[Any]],
        deadline_steady_ns: int,
        decode_frames: bool,
        /,
    ) -> int:
        """
        Enter the stream's next chunk and return its number within the epoch; does not wait.

        :raises EngineError: when the pipe is full, or stream or pool are gone (then ``ready``
            raises it too).
        """

    def observe(
        self, stream: str, chunk: int, inputs: Mapping[str, npt.NDArray[Any]], /
    ) -> int | None:
        """
        Show a newer observation to a chunk in the pipe; does not wait.

        :returns: its version; None when the chunk is out.
        :raises EngineError: when it has been shown as many as it may be, or stream or pool are
            gone.
        """

    def reset(self, stream: str, /) -> int:
        """Begin the next epoch and return its number."""

    def next_result(self, timeout_s: float, /) -> ChunkResult | None:
        """
        Return the next finished chunk of any stream; None when none came in time.

        :raises StreamLost: once for each stream that ended with a worker; the others go on.
        :raises EngineError: when the pool is gone.
        """
