# SPDX-License-Identifier: Apache-2.0
"""
The serial engine as a pool on a clock that is moved by hand: what a chunk takes is given.

For closed loops in virtual time, whose outcome does not depend on how busy this machine is.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
import numpy.typing as npt
import torch

from physis_ros.backbones.base import Backbone, ModelSpec
from physis_ros.clock import ManualClock
from physis_ros.engine.result import ChunkResult
from physis_ros.engine.serial import SerialEngine
from physis_ros.errors import EngineError


class SerialPool:
    """
    A :class:`physis_ros.session.pool_port.PoolPort` for one stream. Single-threaded.

    :param backbone: the model, with all its blocks.
    :param clock: the steady clock.
    :param response_ns: gives the time that the next chunk takes [ns].
    :param in_flight: most chunks at once; with more than one, as in a pipeline, the response is
        longer than the interval.
    :param seed: of the noise.
    """

    def __init__(
        self,
        backbone: Backbone,
        clock: ManualClock,
        response_ns: Callable[[], int],
        in_flight: int = 1,
        seed: int = 0,
    ) -> None:
        self._engine, self._clock = SerialEngine(backbone, seed), clock
        self._spec, self._response_ns, self._most = backbone.spec, response_ns, in_flight
        self._inside: deque[ChunkResult] = deque()
        self._epochs: dict[str, int] = {}
        self._entered = 0

    @property
    def spec(self) -> ModelSpec:
        """The model's sizes."""
        return self._spec

    @property
    def renewals(self) -> int:
        """None: a chunk is computed when it enters."""
        return 0

    def ready(self, stream: str, /) -> bool:
        """Whether the stream's next chunk may enter now."""
        return len(self._inside) < self._most

    def enter(
        self,
        stream: str,
        inputs: Mapping[str, npt.NDArray[Any]],
        deadline_steady_ns: int,
        decode_frames: bool,
        /,
    ) -> int:
        """
        Enter the stream's next chunk and return its number within the epoch.

        :raises EngineError: when not :meth:`ready`.
        """
        if not self.ready(stream):
            raise EngineError(f'at most {self._most} chunks may be in flight, got one more')
        tensors = {name: torch.from_numpy(np.asarray(value))[None]
                   for name, value in inputs.items()}  # fmt: skip
        decoded = self._engine.run(stream, tensors, decode_frames)
        now_ns = self._clock.now_ns()
        out_ns = now_ns + self._response_ns()
        if self._inside:
            out_ns = max(out_ns, self._inside[-1].delivered_steady_ns)
        result = ChunkResult(
            stream, self._epochs[stream], self._entered, decoded.actions[0].numpy(),
            None if decoded.frames is None else decoded.frames[0].numpy(),
            self._spec.kv_rule.value, self._entered + 1, now_ns, out_ns, out_ns, out_ns,
        )  # fmt: skip
        self._inside.append(result)
        self._entered += 1
        return result.chunk

    def observe(
        self, stream: str, chunk: int, inputs: Mapping[str, npt.NDArray[Any]], /
    ) -> int | None:
        """Refuse: see :attr:`renewals`."""
        raise EngineError('newer observations for one chunk must be at most 0, got one more')

    def reset(self, stream: str, /) -> int:
        """Begin the next epoch and return its number; the first call opens the stream."""
        if stream not in self._epochs:
            self._engine.open(stream)
            self._epochs[stream] = 0
        else:
            self._epochs[stream] = self._engine.reset(stream)
        self._inside.clear()
        self._entered = 0
        return self._epochs[stream]

    def next_result(self, timeout_s: float, /) -> ChunkResult | None:
        """Return the chunk that is out by now; does not wait, for its clock does not move."""
        if self._inside and self._inside[0].delivered_steady_ns <= self._clock.now_ns():
            return self._inside.popleft()
        return None
