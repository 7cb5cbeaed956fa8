# SPDX-License-Identifier: Apache-2.0
"""
Weights on disk: one safetensors file, the sizes and what the weights allow in its header.

The header is enough for a plan; tensors are read only by whoever computes, and only those blocks
that it holds.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

import torch
from safetensors import SafetensorError, safe_open
from safetensors.torch import load_file, save_file
from torch import Tensor

from physis_ros.backbones.base import KvRule, ModelSpec
from physis_ros.backbones.reach.network import ReachNetwork
from physis_ros.backbones.reach.spec import ReachSizes, model_spec
from physis_ros.errors import CheckpointError, ParameterError

KIND = 'physis reach weights'
FORMAT = '1'
SHIPPED = Path(__file__).parent / 'weights'


@dataclass(frozen=True)
class Header:
    """
    What a file says of itself.

    :param kv_rule: what the weights were trained for.
    :param sizes: of the network.
    :param training: where they come from: iterations, seconds, seed and the like.
    :param conditioning: ``step`` when it may be renewed at each step (E11), else ``entry``.
    """

    kv_rule: KvRule
    sizes: ReachSizes
    training: Mapping[str, Any]
    conditioning: str = 'entry'

    def __post_init__(self) -> None:
        """
        Refuse what the engine does not know.

        :raises ParameterError: naming the value.
        """
        if self.conditioning not in ('entry', 'step'):
            raise ParameterError('conditioning', "'entry' or 'step'", self.conditioning)

    @property
    def spec(self) -> ModelSpec:
        """What the engine needs to know of them."""
        return replace(model_spec(self.sizes, self.kv_rule), conditioning=self.conditioning)


def shipped_path(kv_rule: KvRule) -> Path:
    """Return where the weights are that come with the package."""
    return SHIPPED / f'{kv_rule.value}.safetensors'


def save_weights(path: Path, network: ReachNetwork, training: Mapping[str, Any]) -> None:
    """
    Write a whole network.

    :param training: where the weights come from, kept in the header.
    """
    header = {
        'kind': KIND,
        'format': FORMAT,
        'kv_rule': network.spec.kv_rule.value,
        'sizes': json.dumps(asdict(network.sizes)),
        'training': json.dumps(dict(training)),
        'conditioning': network.spec.conditioning,
    }
    tensors = {name: value.contiguous() for name, value in network.state_dict().items()}
    _write(path, tensors, header)


def declare_renewal(path: Path) -> None:
    """
    Declare that weights allow their conditioning to be renewed at each step; tensors stay as is.

    :raises CheckpointError: if the file is missing, damaged or something else.
    """
    with _opened(path) as file:
        raw = file.metadata() or {}
        _header(path, raw)
    _write(path, load_file(path), {**raw, 'conditioning': 'step'})


def _write(path: Path, tensors: Mapping[str, Tensor], header: Mapping[str, str]) -> None:
    """Write a file; whoever reads sees the old one or the new one."""
    path.parent.mkdir(parents=True, exist_ok=True)
    partial = path.with_name(f'.{path.name}')
    save_file(dict(tensors), partial, dict(header))
    partial.chmod(0o644)  # It is made for its owner only.
    partial.replace(path)


def read_header(path: Path) -> Header:
    """
    Read what a file says of itself, no tensors.

    :raises CheckpointError: if the file is missing, damaged or something else.
    """
    with _opened(path) as file:
        return _header(path, file.metadata() or {})


def load_network(
    path: Path, device: str = 'cpu', blocks: frozenset[int] | None = None
) -> ReachNetwork:
    """
    Read a network, ready to run.

    :param blocks: the transformer blocks to hold; None for all.
    :raises CheckpointError: if the file is missing, damaged or something else.
    """
    with _opened(path) as file:
        header = _header(path, file.metadata() or {})
        if blocks is not None and not blocks <= set(range(header.sizes.blocks)):
            raise ParameterError('blocks', f'below {header.sizes.blocks}', sorted(blocks))
        network = ReachNetwork(header.sizes, header.kv_rule, blocks)
        expected = network.state_dict()
        stored = {name: file.get_tensor(name) for name in file.keys() if name in expected}  # noqa: SIM118
    _check(path, header, expected, stored)
    network.load_state_dict(stored)
    network.spec = header.spec
    return network.requires_grad_(False).eval().to(torch.device(device))


@contextmanager
def _opened(path: Path) -> Iterator[Any]:
    """Open a file; whatever is wrong with it becomes one kind of error."""
    if not path.is_file():
        rule = path.stem if path.parent == SHIPPED else KvRule.SAME_STEP.value
        raise CheckpointError(
            f'weights {path} do not exist; give the path of a file, or make them with '
            f'`physis train-reach --kv-rule {rule}`'
        )
    try:
        with safe_open(path, 'pt') as file:
            yield file
    except (OSError, SafetensorError) as error:
        raise CheckpointError(
            f'weights {path} are damaged ({error}); fetch the file again, or make it with '
            f'`physis train-reach`'
        ) from error


def _header(path: Path, raw: Mapping[str, str]) -> Header:
    """Read the header, or say what the file is not."""
    if raw.get('kind') != KIND:
        raise CheckpointError(
            f'weights {path} must be of kind {KIND!r}, got {raw.get("kind")!r}; '
            f'give a file written by `physis train-reach`'
        )
    if raw.get('format') != FORMAT:
        raise CheckpointError(
            f'weights {path} must be of format {FORMAT}, got {raw.get("format")!r}; '
            f'use the version of this package that wrote them'
        )
    try:
        sizes = json.loads(raw['sizes'])
        sizes['noise'] = tuple(sizes['noise'])
        return Header(
            KvRule(raw['kv_rule']), ReachSizes(**sizes), json.loads(raw.get('training', '{}')),
            raw.get('conditioning', 'entry'),
        )  # fmt: skip
    except (KeyError, TypeError, ValueError) as error:
        raise CheckpointError(
            f'weights {path} have a header that makes no sense ({error}); fetch the file again'
        ) from error


def _check(
    path: Path, header: Header, expected: Mapping[str, Tensor], stored: Mapping[str, Tensor]
) -> None:
    """Refuse tensors that are missing, of another shape, or not finite."""
    rule = header.kv_rule.value
    for name, value in expected.items():
        got = stored.get(name)
        if got is None or got.shape != value.shape:
            shape = None if got is None else tuple(got.shape)
            raise CheckpointError(
                f'weights {path} ({rule}): {name} must be of shape {tuple(value.shape)}, '
                f'got {shape}; fetch the file again, or train anew'
            )
        if not bool(torch.isfinite(got).all()):
            raise CheckpointError(
                f'weights {path} ({rule}): {name} must be finite; fetch the file again'
            )
