# SPDX-License-Identifier: Apache-2.0
"""
How the engine comes by a model: through a registry module named in text.

The engine knows the protocol only; whoever adds a model, here or elsewhere, gives a module with
``open_backbone(uri, device, blocks)`` and ``read_spec(uri)``.
"""

from __future__ import annotations

import importlib
from typing import Protocol, cast

from physis_ros.backbones.base import Backbone, ModelSpec

REGISTRY = 'physis_ros.backbones.registry'


class Registry(Protocol):
    """What such a module offers."""

    def open_backbone(self, uri: str, device: str, blocks: frozenset[int] | None) -> Backbone:
        """Load the model with these blocks, None for all."""

    def read_spec(self, uri: str) -> ModelSpec:
        """Read a model's sizes without its weights."""


def registry(name: str = REGISTRY) -> Registry:
    """Import a registry module."""
    return cast(Registry, importlib.import_module(name))
