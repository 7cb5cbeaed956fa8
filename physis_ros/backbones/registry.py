# SPDX-License-Identifier: Apache-2.0
"""
From a model's name to the model.

``reach`` and ``reach:clean`` are the weights that come with the package, ``reach:PATH`` are
others of the same kind, ``synthetic:...`` is a model of any size without a meaning, for measuring.
"""

from __future__ import annotations

from functools import partial
from pathlib import Path

from physis_ros.backbones.base import Backbone, KvRule, ModelSpec
from physis_ros.errors import ParameterError

KNOWN = "'reach', 'reach:clean', 'reach:FILE.safetensors' or 'synthetic:...'"


def open_backbone(uri: str, device: str = 'cpu', blocks: frozenset[int] | None = None) -> Backbone:
    """
    Load a model, ready to run.

    :param uri: see above.
    :param device: where it computes, as torch names it.
    :param blocks: the transformer blocks to hold; None for all.
    :raises CheckpointError: if its weights are missing or damaged.
    :raises ParameterError: if nothing has that name.
    """
    kind, rest = _parted(uri)
    if kind == 'synthetic':
        from physis_ros.backbones.synthetic import open_synthetic

        return open_synthetic(uri, device, blocks)
    from physis_ros.backbones.reach.backbone import ReachBackbone
    from physis_ros.backbones.reach.checkpoint import load_network

    load = partial(load_network, _reach_path(rest), device)
    return ReachBackbone(load(blocks), load)


def read_spec(uri: str) -> ModelSpec:
    """Return a model's sizes without loading it; same names and errors as above."""
    kind, rest = _parted(uri)
    if kind == 'synthetic':
        from physis_ros.backbones.synthetic import synthetic_spec

        return synthetic_spec(uri)
    from physis_ros.backbones.reach.checkpoint import read_header

    return read_header(_reach_path(rest)).spec


def _parted(uri: str) -> tuple[str, str]:
    """Split a name into kind and rest."""
    kind, _, rest = uri.partition(':')
    if kind not in ('reach', 'synthetic'):
        raise ParameterError('backbone', KNOWN, uri)
    return kind, rest


def _reach_path(rest: str) -> Path:
    """Return the weights file that the rest of a reach name means."""
    from physis_ros.backbones.reach.checkpoint import shipped_path

    shipped = {'': KvRule.SAME_STEP, **{rule.value: rule for rule in KvRule}}
    return shipped_path(shipped[rest]) if rest in shipped else Path(rest)
