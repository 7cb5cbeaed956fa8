# SPDX-License-Identifier: Apache-2.0
"""
The ways to cut a model's stages into groups: steps x blocks, or runs of the chain.

The published schemes are among them by name. Only cutting; placing and judging is the plan's.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from physis_ros.engine.cost import ModelCost
from physis_ros.engine.grid import pipe_depth


@dataclass(frozen=True)
class Grouping:
    """
    How stages are cut: ``steps`` x ``blocks`` groups, or ``runs`` of the chain.

    :param scheme: the published name, or ``mixed``.
    :param runs: when > 0, the chain in so many balanced runs.
    """

    scheme: str
    steps: int
    blocks: int
    runs: int = 0

    @property
    def groups(self) -> int:
        """Groups of a stream."""
        return self.runs or self.steps * self.blocks

    @property
    def shape(self) -> str:
        """The cut in a word."""
        return f'{self.runs} runs' if self.runs else f'{self.steps}x{self.blocks}'

    def owner(self, model: ModelCost) -> tuple[int, ...]:
        """Return the group of each stage, in chain order."""
        if self.runs:
            return tuple(n * self.runs // model.stages for n in range(model.stages))
        return tuple(
            (step * self.steps // model.passes) * self.blocks + block * self.blocks // model.blocks
            for step in range(model.passes)
            for block in range(model.blocks)
        )


def groupings(model: ModelCost, devices: int) -> list[Grouping]:
    """List the ways to cut a model into at most ``devices`` groups."""
    found: dict[tuple[int, ...], Grouping] = {}
    # Without overlap all passes of a block stay together: they share its KV.
    for steps in range(1, (model.passes if model.overlaps else 1) + 1):
        for blocks in range(1, model.blocks + 1):
            if steps * blocks <= devices:
                cut = Grouping(_scheme(model, steps, blocks), steps, blocks)
                found.setdefault(cut.owner(model), cut)
    for runs in range(2, min(devices, model.stages) + 1 if model.overlaps else 0):
        cut = Grouping('stage', 0, 0, runs)
        found.setdefault(cut.owner(model), cut)
    return list(found.values())


def named(model: ModelCost, devices: int) -> list[tuple[Grouping, int]]:
    """
    Return the published schemes on at most so many devices, each with its rows in a batch.

    ``block`` runs the steps of a block in one batch, the others batch nothing.
    """
    found = [(Grouping('serial', 1, 1), 1)]
    if model.overlaps:
        found.append((Grouping('step', min(model.passes, devices), 1), 1))
    batch = model.passes if model.overlaps else 1
    found.append((Grouping('block', 1, min(model.blocks, devices)), batch))
    if model.overlaps:
        found.append((Grouping('stage', 0, 0, min(model.stages, devices)), 1))
    return found


def in_flight(model: ModelCost, hosts: Sequence[int], max_batch: int) -> int:
    """Return how many chunks of a stream fill its pipe."""
    return pipe_depth(len(set(hosts)), model.passes, max_batch, model.overlaps)


def _scheme(model: ModelCost, steps: int, blocks: int) -> str:
    if (steps, blocks) == (1, 1):
        return 'serial'
    if blocks == 1:
        return 'step'
    if steps == 1:
        return 'block'
    return 'stage' if (steps, blocks) == (model.passes, model.blocks) else 'mixed'
