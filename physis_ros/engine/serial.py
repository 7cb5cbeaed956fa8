# SPDX-License-Identifier: Apache-2.0
"""
The serial engine: one process, one chunk after the other. The oracle of every other plan (E2).

Also the plain way to run a model where nothing need overlap: training checks, evaluation.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from physis_ros.backbones.base import Backbone, Decoded
from physis_ros.engine.compute import Compute, Row
from physis_ros.engine.grid import group
from physis_ros.engine.kv import KvRing
from physis_ros.engine.noise import NoiseSource
from physis_ros.errors import EngineError


@dataclass
class _Stream:
    rings: list[KvRing]
    epoch: int = 0
    chunk: int = 0
    turn: int = 0


class SerialEngine:
    """
    Runs whole chunks of any number of streams. Not thread-safe.

    :param backbone: the model, with all its blocks.
    :param seed: of the noise; the same as a pool's gives the same outputs.
    :param device: where the model lives.
    :param override_kv_rule: run clean weights as if they were same-step.
    """

    def __init__(
        self,
        backbone: Backbone,
        seed: int = 0,
        device: str = 'cpu',
        override_kv_rule: bool = False,
    ) -> None:
        self._compute = Compute(backbone, device)
        self._spec = backbone.spec
        self._device = device
        self._plan = group(self._spec, 'serial', 1, override_kv_rule)
        self._noise = NoiseSource(seed, self._spec.latent_shape)
        self._streams: dict[str, _Stream] = {}

    def open(self, stream: str) -> None:
        """
        Begin a stream at epoch 0.

        :raises EngineError: when it is open.
        """
        if stream in self._streams:
            raise EngineError(f"stream '{stream}' is already open")
        rings = self._plan.blocks * (self._plan.passes if self._plan.per_pass_kv else 1)
        self._streams[stream] = _Stream([KvRing(self._spec, self._device) for _ in range(rings)])

    def close(self, stream: str) -> None:
        """End a stream and free its KV."""
        self._of(stream)
        del self._streams[stream]

    def reset(self, stream: str) -> int:
        """Begin the next epoch and return its number."""
        state = self._of(stream)
        state.epoch, state.chunk, state.turn = state.epoch + 1, 0, 0
        return state.epoch

    def run(
        self, stream: str, inputs: Mapping[str, Tensor], decode_frames: bool = False
    ) -> Decoded:
        """
        Compute the stream's next chunk.

        :param inputs: each [1, *shape], as the model's input specs say.
        """
        return self.run_renewed(stream, [inputs] * self._spec.steps, decode_frames)

    def run_renewed(
        self, stream: str, shown: Sequence[Mapping[str, Tensor]], decode_frames: bool = False
    ) -> Decoded:
        """
        Compute the stream's next chunk, of which each step takes an observation of its own (E11).

        :param shown: the inputs of each denoise step, as for :meth:`run`.
        """
        state = self._of(stream)
        with torch.inference_mode():
            decoded = self._chunk(stream, state, shown, decode_frames)
        state.chunk += 1
        return decoded

    def commit(self, stream: str, chunk: int, inputs: Mapping[str, Tensor]) -> None:
        """
        Replace an earlier chunk's KV by that of what really happened (E13).

        :param chunk: still within the window, or a sink chunk.
        :param inputs: those of a chunk and the model's ``commits``, each [1, *shape].
        """
        state, backbone = self._of(stream), self._compute.backbone
        with torch.inference_mode():
            conditioning, latent = backbone.encode(inputs), backbone.witness(inputs)
            for step in range(self._plan.passes):
                noise = self._draw(stream, state, chunk, step)
                self._pass(state, chunk, Row(step, latent, conditioning, noise), commit=True)
        state.turn += 1

    def _chunk(
        self, stream: str, state: _Stream, shown: Sequence[Mapping[str, Tensor]], frames: bool
    ) -> Decoded:
        encoded, inputs = None, shown[0]
        latent: Tensor | None = None
        for step in range(self._plan.passes):
            # The clean pass after the last step takes what that took.
            before, inputs = inputs, shown[min(step, len(shown) - 1)]
            if encoded is None or inputs is not before:
                encoded = self._compute.backbone.encode(inputs)
            noise = self._draw(stream, state, state.chunk, step)
            held = None if latent is None else self._compute.constrain(latent, inputs)
            left = self._pass(state, state.chunk, Row(step, held, encoded, noise))
            latent = latent if left is None else left
        if latent is None:
            raise EngineError(f'{self._spec.name} left no latent')
        state.turn += 1
        return self._compute.decode(self._compute.constrain(latent, inputs), inputs, frames)

    def _draw(self, stream: str, state: _Stream, chunk: int, step: int) -> Tensor:
        return self._noise.draw(stream, state.epoch, chunk, step).to(self._device)

    def _pass(self, state: _Stream, chunk: int, row: Row, commit: bool = False) -> Tensor | None:
        out: Tensor | None = None
        for block in range(self._plan.blocks):
            own = row.step if self._plan.per_pass_kv else 0
            ring = state.rings[own * self._plan.blocks + block]
            ring.begin(state.epoch, state.turn, chunk, commit)
            (out,) = self._compute.run(block, [row], ring)
            if self._plan.per_pass_kv or row.step == self._plan.passes - 1:
                ring.finish(state.turn)
            row = Row(row.step, out)
        return out

    def _of(self, stream: str) -> _Stream:
        found = self._streams.get(stream)
        if found is None:
            raise EngineError(f"stream '{stream}' is not open; open are {sorted(self._streams)}")
        return found
