# SPDX-License-Identifier: Apache-2.0
"""
A small transformer with random weights and any sizes: for property tests and timing.

Everything a real model has from the engine's view: KV over a window with sink, keys rotated by
age, conditioning, re-noising, actions and frames. It means nothing; it only has to be the same
however it is run.
"""

from __future__ import annotations

import hashlib
import math
from collections.abc import Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass, fields
from typing import Any

import torch
from torch import Tensor
from torch.nn import functional

from physis_ros.backbones.base import (
    DEPTH,
    FRAMES,
    ActionSpec,
    Decoded,
    FrameSpec,
    InputSpec,
    KvRule,
    KvWindow,
    ModelSpec,
    prefix_inputs,
)
from physis_ros.errors import ParameterError

_PREFIX = 'synthetic'
_CHANNELS = 4
_IMAGE = 8


@dataclass(frozen=True)
class Sizes:
    """
    What the URI may say: ``synthetic:blocks=4,steps=3,...``; what it leaves out is as here.

    :param cameras: 1, or more: then called ``eye_0``, ``eye_1``, ..
    :param depth: of a depth camera too, when 1.
    :param stage_ms: when > 0 a block takes this long, sleeping instead of computing; see
        :mod:`physis_ros.backbones.sleeping`.
    """

    blocks: int = 4
    steps: int = 3
    tokens: int = 8
    width: int = 32
    heads: int = 2
    window: int = 2
    sink: int = 0
    seed: int = 0
    kv_rule: str = 'same_step'
    conditioning: str = 'entry'
    cameras: int = 1
    depth: int = 0
    stage_ms: float = 0.0

    @classmethod
    def parse(cls, uri: str) -> Sizes:
        """
        Read the sizes out of a URI.

        :raises ParameterError: on another scheme, an unknown key or a bad value.
        """
        scheme, _, rest = uri.partition(':')
        if scheme != _PREFIX:
            raise ParameterError('model', f"a '{_PREFIX}:' URI", uri)
        types = {field.name: type(getattr(cls, field.name)) for field in fields(cls)}
        values: dict[str, Any] = {}
        for item in filter(None, rest.split(',')):
            key, _, text = item.partition('=')
            if key not in types:
                raise ParameterError('model', f'of keys {sorted(types)}', key)
            try:
                values[key] = types[key](text)
            except ValueError as error:
                raise ParameterError(key, types[key].__name__, text) from error
        return cls(**values)


def synthetic_spec(uri: str) -> ModelSpec:
    """
    Return the sizes of the model behind a URI.

    :raises ParameterError: when the URI is not right.
    """
    sizes = Sizes.parse(uri)
    if sizes.heads < 1 or sizes.width % (2 * sizes.heads):
        raise ParameterError('width', f'a multiple of 2 x heads = {2 * sizes.heads}', sizes.width)
    if sizes.cameras < 1:
        raise ParameterError('cameras', '>= 1', sizes.cameras)
    if sizes.kv_rule not in [rule.value for rule in KvRule]:
        raise ParameterError('kv_rule', "'same_step' or 'clean'", sizes.kv_rule)
    return ModelSpec(
        name=_PREFIX,
        blocks=sizes.blocks,
        steps=sizes.steps,
        tokens=sizes.tokens,
        width=sizes.width,
        heads=sizes.heads,
        head_dim=sizes.width // sizes.heads,
        window=sizes.window,
        sink=sizes.sink,
        kv_rule=KvRule(sizes.kv_rule),
        latent_shape=(sizes.tokens, _CHANNELS),
        inputs=(
            *_pictures(sizes),
            InputSpec('joints', (4,), torch.float32),
            InputSpec('delay', (), torch.int64),
            *prefix_inputs(4, 2),
        ),
        actions=ActionSpec(('a', 'b'), 'rad', horizon=4, dt_ns=25_000_000),
        frames=FrameSpec(_IMAGE, _IMAGE, history_ns=(0,), predicted_steps=(0,)),
        max_delay_steps=20,
        conditioning=sizes.conditioning,
        commits=(InputSpec('actions', (4, 2), torch.float32),),
    )


def _pictures(sizes: Sizes) -> Iterator[InputSpec]:
    """Yield what the cameras give."""
    several = sizes.cameras > 1
    for name in [f'{FRAMES}.eye_{i}' for i in range(sizes.cameras)] if several else [FRAMES]:
        yield InputSpec(name, (1, _IMAGE, _IMAGE, 3), torch.uint8)
    if sizes.depth:
        yield InputSpec(DEPTH, (1, _IMAGE, _IMAGE), torch.float32)


def open_synthetic(
    uri: str, device: str = 'cpu', blocks: Iterable[int] | None = None
) -> SyntheticBackbone:
    """Make the model behind a URI, with the weights of these blocks; None for all."""
    spec = synthetic_spec(uri)
    own, sizes = range(spec.blocks) if blocks is None else blocks, Sizes.parse(uri)
    if sizes.stage_ms:
        from physis_ros.backbones.sleeping import SleepingBackbone

        return SleepingBackbone(spec, sizes, device, own)
    return SyntheticBackbone(spec, sizes, device, own)


class SyntheticBackbone:
    """
    The model; see :class:`physis_ros.backbones.base.Backbone`.

    :param spec: its sizes as the engine sees them.
    :param sizes: what the URI said.
    :param device: where its weights go.
    :param blocks: which blocks it has.
    """

    def __init__(self, spec: ModelSpec, sizes: Sizes, device: str, blocks: Iterable[int]) -> None:
        self._spec, self._sizes = spec, sizes
        self._seed, self._device = sizes.seed, device
        width, latent = spec.width, spec.tokens * _CHANNELS
        pixels = _IMAGE * _IMAGE * 3
        self._w = {
            'joints': self._weight('joints', 4, width),
            'delay': self._weight('delay', 1, width),
            'in': self._weight('in', _CHANNELS, width),
            'place': self._weight('place', spec.tokens, width),
            'step': self._weight('step', spec.passes, width),
            'out': self._weight('out', width, _CHANNELS),
            'action': self._weight('action', latent, spec.actions.horizon * 2),
            'frame': self._weight('frame', latent, pixels),
        }
        # The only camera's weights bear the name that they always had.
        self._eyes = {
            spec.name: self._weight(
                spec.name.replace(FRAMES, 'image'), math.prod(spec.shape), width
            )
            for spec in _pictures(sizes)
        }
        self._blocks = {index: self._block_weights(index) for index in blocks}
        half = spec.head_dim // 2
        self._rate = 2.0 ** -torch.arange(half, dtype=torch.float32, device=device)

    @property
    def spec(self) -> ModelSpec:
        """The sizes."""
        return self._spec

    def encode(self, inputs: Mapping[str, Tensor]) -> Tensor:
        """Project all inputs onto one vector, [B, width]."""
        seen = [self._seen(inputs[name]) @ eye for name, eye in self._eyes.items()]
        delay = inputs['delay'].float()[:, None]
        joints = inputs['joints'] @ self._w['joints']
        return torch.stack(seen).sum(0) + joints + delay @ self._w['delay']

    @staticmethod
    def _seen(picture: Tensor) -> Tensor:
        """Return a picture as numbers around 0; a distance that is not known counts as 0."""
        if picture.dtype == torch.uint8:
            return picture.float().flatten(1) / 255.0 - 0.5
        return picture.nan_to_num(0.0, 0.0, 0.0).flatten(1)

    def enter(
        self, latent: Tensor | None, conditioning: Tensor, noise: Tensor, step: Tensor
    ) -> Tensor:
        """Mix estimate and noise as the step has it, embed beside the conditioning."""
        level = (1.0 - step / self._spec.steps).clamp(min=0.0)[:, None, None]
        mixed = noise if latent is None else (1.0 - level) * latent + level * noise
        offset = conditioning + self._w['step'][step]
        return mixed @ self._w['in'] + self._w['place'] + offset[:, None]

    def block(self, index: int, hidden: Tensor, step: Tensor, kv: KvWindow) -> Tensor:
        """Attend over the window, then a two-layer perceptron; both residual."""
        weights = self._blocks[index]
        hidden = hidden + self._attend(hidden + self._w['step'][step][:, None], weights, kv)
        inner = functional.gelu(self._norm(hidden) @ weights['up'])
        return hidden + inner @ weights['down']

    def leave(self, hidden: Tensor, step: Tensor) -> Tensor:
        """Project onto the latent."""
        return torch.tanh(self._norm(hidden) @ self._w['out'])

    def constrain(self, latent: Tensor, prefix: Tensor, weight: Tensor) -> Tensor:
        """Draw all of the latent to that of the committed actions, by their mean weight."""
        wanted = self.witness({'actions': prefix})
        return torch.lerp(latent, wanted, weight.mean(1)[:, None, None])

    def decode(self, latent: Tensor, inputs: Mapping[str, Tensor], frames: bool) -> Decoded:
        """Project onto actions around the joints, and onto an image."""
        rows = latent.shape[0]
        flat = latent.flatten(1)
        actions = (flat @ self._w['action']).view(rows, self._spec.actions.horizon, 2)
        actions = actions + inputs['joints'][:, None, :2]
        if not frames:
            return Decoded(actions, None)
        image = torch.sigmoid(flat @ self._w['frame']) * 255.0
        return Decoded(actions, image.to(torch.uint8).view(rows, 1, _IMAGE, _IMAGE, 3))

    def witness(self, inputs: Mapping[str, Tensor]) -> Tensor:
        """Project the executed actions onto the latent."""
        actions = inputs['actions'].flatten(1)
        flat = torch.tanh(actions @ self._w['action'].T)
        return flat.view(len(flat), *self._spec.latent_shape)

    def hold(self, blocks: Collection[int]) -> None:
        """Make what is not there yet of these blocks."""
        for index in set(blocks) - set(self._blocks):
            self._blocks[index] = self._block_weights(index)

    def drop(self, blocks: Collection[int]) -> None:
        """Free the weights of those of these blocks that it has."""
        for index in blocks:
            self._blocks.pop(index, None)

    def _attend(self, hidden: Tensor, weights: Mapping[str, Tensor], kv: KvWindow) -> Tensor:
        rows, tokens, width = hidden.shape
        heads, head_dim = self._spec.heads, self._spec.head_dim
        qkv = (self._norm(hidden) @ weights['qkv']).view(rows, tokens, 3, heads, head_dim)
        query, key, value = qkv.unbind(2)
        read = kv.extend(key, value)
        keys = self._rotate(read.key, read.age).flatten(1, 2)
        mask = read.valid.repeat_interleave(tokens, dim=1)[:, None, None]
        out = functional.scaled_dot_product_attention(
            query.transpose(1, 2),
            keys.transpose(1, 2),
            read.value.flatten(1, 2).transpose(1, 2),
            attn_mask=mask,
        )
        return out.transpose(1, 2).reshape(rows, tokens, width) @ weights['o']

    def _rotate(self, key: Tensor, age: Tensor) -> Tensor:
        angle = (age[..., None] * self._rate)[:, :, None, None]
        first, second = key.chunk(2, dim=-1)
        cos, sin = angle.cos(), angle.sin()
        return torch.cat((first * cos - second * sin, first * sin + second * cos), dim=-1)

    def _norm(self, hidden: Tensor) -> Tensor:
        return functional.layer_norm(hidden, hidden.shape[-1:])

    def _block_weights(self, index: int) -> dict[str, Tensor]:
        width = self._spec.width
        return {
            'qkv': self._weight(f'{index}.qkv', width, 3 * width),
            'o': self._weight(f'{index}.o', width, width),
            'up': self._weight(f'{index}.up', width, 4 * width),
            'down': self._weight(f'{index}.down', 4 * width, width),
        }

    def _weight(self, name: str, rows: int, columns: int) -> Tensor:
        # Seeded by name: a worker with a few blocks has the same weights as one with all.
        digest = hashlib.blake2b(f'{self._seed}/{name}'.encode(), digest_size=8).digest()
        generator = torch.Generator().manual_seed(int.from_bytes(digest, 'little', signed=True))
        drawn = torch.randn((rows, columns), generator=generator) / math.sqrt(rows)
        return drawn.to(self._device)
