# SPDX-License-Identifier: Apache-2.0
"""
What the engine knows of a model: its sizes, and what one stage computes.

A model turns inputs into an action chunk (and frames) in D denoise steps through L blocks. The
engine decides where and when each (step, block) stage runs and owns the KV memory; the model
only computes. Rows of a batch are independent: they may differ in step, stream and KV length.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass
from enum import Enum
from typing import NamedTuple, Protocol

import torch
from torch import Tensor

from physis_ros.errors import ParameterError


class KvRule(Enum):
    """
    What a chunk reads of its predecessors; a property of the weights (E10).

    ``SAME_STEP``: the KV they wrote at the same, still noisy, denoise step. ``CLEAN``: the KV of
    their fully denoised latent, written by one extra pass after the last step.
    """

    SAME_STEP = 'same_step'
    CLEAN = 'clean'


class InputSpec(NamedTuple):
    """
    One model input of a stream: fixed shape and dtype, without the batch axis.

    :param optional: may be left out, and is all zero then.
    """

    name: str
    shape: tuple[int, ...]
    dtype: torch.dtype
    optional: bool = False


# What the cameras saw: ``frames`` of the only camera, or ``frames.<camera>`` of each of several,
# uint8 [K, height, width, 3] RGB; ``depth`` or ``depth.<camera>``, float32 [K, height, width] in
# metres with NaN where it is not known.
FRAMES, DEPTH = 'frames', 'depth'
CAMERA = 'camera'


def camera_of(name: str) -> str | None:
    """Return whose pictures an input is: a camera, ``depth`` or ``depth.<camera>``; else None."""
    kind, _, camera = name.partition('.')
    if kind == FRAMES:
        return camera or CAMERA
    return name if kind == DEPTH else None


# What a chunk should agree with (real-time chunking): actions that are committed, and how much
# each of them counts, 1 for frozen to 0 for free.
PREFIX, PREFIX_WEIGHT = 'prefix', 'prefix_weight'


def prefix_inputs(horizon: int, columns: int) -> tuple[InputSpec, InputSpec]:
    """Return the inputs of a model that takes a committed prefix."""
    return (
        InputSpec(PREFIX, (horizon, columns), torch.float32, optional=True),
        InputSpec(PREFIX_WEIGHT, (horizon,), torch.float32, optional=True),
    )


@dataclass(frozen=True)
class ActionSpec:
    """
    The actions of a chunk.

    :param names: one name for each action column, in order.
    :param unit: the unit of all columns ("rad").
    :param horizon: control steps H in a chunk.
    :param dt_ns: distance of control steps.
    """

    names: tuple[str, ...]
    unit: str
    horizon: int
    dt_ns: int


@dataclass(frozen=True)
class FrameSpec:
    """
    What the camera must give and what is predicted.

    :param height: rows of a model image.
    :param width: columns of a model image.
    :param history_ns: capture times of the frames needed, relative to the newest (<= 0), oldest
        first; the last is 0.
    :param predicted_steps: for each predicted frame, control steps after the chunk's start.
    """

    height: int
    width: int
    history_ns: tuple[int, ...]
    predicted_steps: tuple[int, ...]


@dataclass(frozen=True)
class ModelSpec:
    """
    Sizes of a model; everything a plan needs to know.

    :param blocks: transformer blocks L.
    :param steps: denoise steps D.
    :param tokens: rows N of a chunk's hidden state.
    :param width: columns of the hidden state.
    :param heads: attention heads.
    :param head_dim: columns of one head's key and value.
    :param window: predecessor chunks a chunk attends to.
    :param sink: first chunks of an epoch that stay visible for ever.
    :param latent_shape: shape of the latent that goes from step to step.
    :param inputs: the tensors one chunk needs at entry; a model that can be held to a committed
        prefix has those of :func:`prefix_inputs` among them.
    :param commits: what tells, beside the inputs, what really happened to a chunk (E13); empty
        where the model replaces no history.
    :param max_delay_steps: the largest told delay between observation and first action.
    :param conditioning: ``entry``, or ``step`` where weights allow renewal at each step (E11).
    """

    name: str
    blocks: int
    steps: int
    tokens: int
    width: int
    heads: int
    head_dim: int
    window: int
    sink: int
    kv_rule: KvRule
    latent_shape: tuple[int, ...]
    inputs: tuple[InputSpec, ...]
    actions: ActionSpec
    frames: FrameSpec
    max_delay_steps: int
    conditioning: str = 'entry'
    commits: tuple[InputSpec, ...] = ()
    dtype: torch.dtype = torch.float32

    def __post_init__(self) -> None:
        """
        Refuse impossible sizes.

        :raises ParameterError: naming the size.
        """
        for name in ('blocks', 'steps', 'tokens', 'width', 'heads', 'head_dim'):
            if getattr(self, name) < 1:
                raise ParameterError(name, '>= 1', getattr(self, name))
        for name in ('window', 'sink', 'max_delay_steps'):
            if getattr(self, name) < 0:
                raise ParameterError(name, '>= 0', getattr(self, name))
        if self.conditioning not in ('entry', 'step'):
            raise ParameterError('conditioning', "'entry' or 'step'", self.conditioning)

    @property
    def passes(self) -> int:
        """Passes of one chunk through the blocks: D, or D + 1 under the clean rule."""
        return self.steps + (self.kv_rule is KvRule.CLEAN)

    @property
    def cameras(self) -> tuple[str, ...]:
        """What the cameras are called, see :func:`camera_of`; the first sets the instant."""
        found = (camera_of(spec.name) for spec in self.inputs)
        return tuple(name for name in found if name is not None)

    @property
    def takes_prefix(self) -> bool:
        """Whether its estimates can be held to committed actions."""
        return any(spec.name == PREFIX for spec in self.inputs)

    @property
    def kv_slots(self) -> int:
        """Chunks one KV ring holds: sink, window and the chunk itself."""
        return self.sink + self.window + 1


class KvRead(NamedTuple):
    """
    Everything one attention reads, own chunk included.

    :param key: [B, S, N, heads, head_dim], un-rotated, S = ``kv_slots``.
    :param value: the same shape.
    :param age: int64 [B, S], chunks back from the own one (0 = own); sink slots are given their
        window-relative age, capped at ``window + 1``.
    :param valid: bool [B, S]; slots not yet written are False.
    """

    key: Tensor
    value: Tensor
    age: Tensor
    valid: Tensor


class KvWindow(Protocol):
    """The KV memory of one batch at one stage; owned by the engine (E3)."""

    def extend(self, key: Tensor, value: Tensor) -> KvRead:
        """
        Write this chunk's own key and value, return what to attend to.

        :param key: [B, N, heads, head_dim], un-rotated.
        :param value: the same shape.
        """


class Decoded(NamedTuple):
    """
    What a chunk is for the world.

    :param actions: float32 [B, H, A] in the unit of the action spec.
    :param frames: uint8 [B, F, height, width, 3], or None when they were not asked for.
    """

    actions: Tensor
    frames: Tensor | None


class Backbone(Protocol):
    """
    A model as the engine sees it. Not thread-safe; one worker owns it.

    ``step`` is int64 [B]: the row's pass, 0 .. ``spec.passes - 1``. All calls run without grad.
    """

    @property
    def spec(self) -> ModelSpec:
        """The sizes."""

    def encode(self, inputs: Mapping[str, Tensor]) -> Tensor:
        """
        Turn inputs (each [B, *shape]) into conditioning [B, ...], once per observation.

        Pure: the same inputs give the same conditioning on every worker.
        """

    def enter(
        self, latent: Tensor | None, conditioning: Tensor, noise: Tensor, step: Tensor
    ) -> Tensor:
        """
        Begin a step: re-noise the estimate, embed it beside the conditioning.

        :param latent: [B, *latent_shape], the last step's estimate of the clean latent; None at
            step 0, which starts from pure noise.
        :param noise: [B, *latent_shape], drawn by the engine from (seed, stream, epoch, chunk,
            step).
        :returns: hidden [B, N, width].
        """

    def block(self, index: int, hidden: Tensor, step: Tensor, kv: KvWindow) -> Tensor:
        """Run transformer block ``index``; calls ``kv.extend`` exactly once."""

    def leave(self, hidden: Tensor, step: Tensor) -> Tensor:
        """End a step: the new estimate of the clean latent, [B, *latent_shape]."""

    def constrain(self, latent: Tensor, prefix: Tensor, weight: Tensor) -> Tensor:
        """
        Draw the actions of an estimate to committed ones; its frames stay as they are.

        Called between steps and before decoding, only where the spec ``takes_prefix``. Weight 0
        changes no value.

        :param prefix: float32 [B, H, A], in the unit of the action spec.
        :param weight: float32 [B, H]: 1 puts the committed action in its place.
        """

    def decode(self, latent: Tensor, inputs: Mapping[str, Tensor], frames: bool) -> Decoded:
        """Turn the final latent into actions and, when asked, frames."""

    def witness(self, inputs: Mapping[str, Tensor]) -> Tensor:
        """
        Return the clean latent of what really happened, [B, *latent_shape] (E13).

        :param inputs: the spec's inputs and ``commits``, each [B, *shape]; called only where the
            spec has ``commits``.
        """

    def hold(self, blocks: Collection[int]) -> None:
        """
        Load what is not there yet of these blocks; may run beside calls that use others.

        :raises CheckpointError: if their weights are missing or damaged.
        """

    def drop(self, blocks: Collection[int]) -> None:
        """Free the weights of those of these blocks that it has; nobody runs them any more."""
