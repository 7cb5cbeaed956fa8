# SPDX-License-Identifier: Apache-2.0
"""
What one stream asks of a pool: its virtual ranks, and what travels between them.

A virtual rank is a group of one stream's stages with their KV. Ranks are named in chain order;
which device carries which is the placement's business.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import pairwise
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from physis_ros.engine.cost import ModelCost
from physis_ros.errors import ParameterError, PlanError


class Crossing(NamedTuple):
    """
    What goes from one rank to another in one period.

    :param source: rank that sends.
    :param target: rank that receives.
    :param bytes: each period.
    :param buffer_bytes: receive slots at the target, needed when the two are on two devices.
    """

    source: int
    target: int
    bytes: int
    buffer_bytes: int


@dataclass(frozen=True)
class Rank:
    """
    A group of stages of one stream.

    :param blocks: the blocks it needs, ascending.
    :param rows: for each of them, how many of its passes the rank runs each period.
    :param kv_bytes: KV memory of all its stages.
    :param extra_s: entry and exit work each period, on a device of speed 1.
    """

    blocks: tuple[int, ...]
    rows: tuple[int, ...]
    kv_bytes: int
    extra_s: float = 0.0

    @cached_property
    def single(self) -> int:
        """The block, when it is only one; else -1. One block is the common case, and quicker."""
        return self.blocks[0] if len(self.blocks) == 1 else -1

    @cached_property
    def index(self) -> int | npt.NDArray[np.intp]:
        """The blocks as an index into an array."""
        return self.single if self.single >= 0 else np.array(self.blocks, dtype=np.intp)

    @cached_property
    def amount(self) -> int | npt.NDArray[np.intp]:
        """The rows of :attr:`index`."""
        return self.rows[0] if self.single >= 0 else np.array(self.rows, dtype=np.intp)

    @cached_property
    def by_rows(self) -> tuple[tuple[int, npt.NDArray[np.intp]], ...]:
        """Blocks that run equally many rows, together."""
        return tuple(
            (rows, np.array([b for b, n in zip(self.blocks, self.rows, strict=True) if n == rows]))
            for rows in sorted(set(self.rows))
        )


@dataclass(frozen=True)
class Demand:
    """
    A stream that wants to be carried.

    :param stream: its name.
    :param slo_s: longest interval between two chunks; also the period it enters at.
    :param owner: rank of each stage, in chain order.
    :param ranks: the groups.
    :param crossings: between ranks.
    :param response_s: longest time from entry to output when the pool is its own; 0: any.
    """

    stream: str
    model: ModelCost
    slo_s: float
    owner: tuple[int, ...]
    ranks: tuple[Rank, ...]
    crossings: tuple[Crossing, ...]
    response_s: float = 0.0

    @property
    def limit_s(self) -> float:
        """Longest time from entry to output when alone; 0: any. Without overlap it is a period."""
        limits = [self.response_s] if self.response_s else []
        if not self.model.overlaps:
            limits.append(self.slo_s)
        return min(limits, default=0.0)

    @cached_property
    def inbound(self) -> tuple[tuple[Crossing, ...], ...]:
        """For each rank, the crossings whose other end comes before it in chain order."""
        found: list[list[Crossing]] = [[] for _ in self.ranks]
        for crossing in self.crossings:
            found[max(crossing.source, crossing.target)].append(crossing)
        return tuple(tuple(crossings) for crossings in found)


def demand(
    stream: str,
    model: ModelCost,
    slo_s: float,
    owner: Sequence[int] = (),
    response_s: float = 0.0,
) -> Demand:
    """
    Describe a stream.

    :param owner: rank of each stage in chain order; empty: one rank for each block with all its
        passes, the finest grouping that copies no weights, or a single one for a model whose
        chunks do not overlap. The placement joins ranks again by putting neighbours on one device.
    :raises ParameterError: for an SLO that is not above zero.
    :raises PlanError: when ``owner`` does not fit the model.
    """
    if not 0 < slo_s < float('inf'):
        raise ParameterError('slo_s', '> 0', slo_s)
    if not response_s >= 0:
        raise ParameterError('response_s', '>= 0', response_s)
    if not owner:
        # Without overlap, devices would only wait for each other.
        one_pass = range(model.blocks) if model.overlaps else [0] * model.blocks
        owner = tuple(one_pass) * model.passes
    owner = tuple(owner)
    if len(owner) != model.stages:
        raise PlanError(f'owner must name {model.stages} stages of {model.name}, got {len(owner)}')
    if set(owner) != set(range(max(owner) + 1)):
        raise PlanError(f'owner must use ranks 0..{max(owner)} each, got {sorted(set(owner))}')
    ranks = _ranks(model, owner)
    return Demand(stream, model, slo_s, owner, ranks, _crossings(model, owner), response_s)


def _ranks(model: ModelCost, owner: Sequence[int]) -> tuple[Rank, ...]:
    rows: list[Counter[int]] = [Counter() for _ in range(max(owner) + 1)]
    for stage, rank in enumerate(owner):
        rows[rank][stage % model.blocks] += 1
    extra = [0.0] * len(rows)
    # Whoever enters a step needs the conditioning, and encodes it for itself.
    for rank in set(owner[:: model.blocks]):
        extra[rank] += model.entry_s
    extra[owner[-1]] += model.exit_s
    return tuple(
        Rank(
            blocks=tuple(sorted(count)),
            rows=tuple(count[block] for block in sorted(count)),
            kv_bytes=model.kv_bytes * count.total(),
            extra_s=extra_s,
        )
        for count, extra_s in zip(rows, extra, strict=True)
    )


def _crossings(model: ModelCost, owner: Sequence[int]) -> tuple[Crossing, ...]:
    travel: Counter[tuple[int, int]] = Counter()
    largest: dict[tuple[int, int], int] = {}
    for stage, (a, b) in enumerate(pairwise(owner), start=1):
        if a != b:
            size = model.hidden_bytes if stage % model.blocks else model.latent_bytes
            travel[a, b] += size
            largest[a, b] = max(size, largest.get((a, b), 0))
    return tuple(
        Crossing(a, b, size, largest[a, b] * model.mailbox_depth)
        for (a, b), size in sorted(travel.items())
    )
