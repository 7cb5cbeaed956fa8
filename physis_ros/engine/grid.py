# SPDX-License-Identifier: Apache-2.0
"""
The grid of (pass, block) stages, and who owns which of them.

Pure: sizes in, an assignment out, or a refusal that says what to change. Placing by measured cost
is the plan's business; here runs are balanced by count.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

from physis_ros.backbones.base import KvRule, ModelSpec
from physis_ros.errors import ParameterError, PlanError

SCHEMES = ('stage', 'step', 'block', 'serial')


class Stage(NamedTuple):
    """One pass through one block."""

    step: int
    block: int


@dataclass(frozen=True)
class Grouping:
    """
    Who runs which stage.

    :param scheme: the named plan it came from, or ``explicit``.
    :param passes: passes of a chunk through the blocks.
    :param steps: denoise steps; a chunk is decoded after this many passes.
    :param blocks: transformer blocks.
    :param workers: workers of the pool; a placed stream need not use them all.
    :param owner: the owning worker of each stage, in chain order.
    :param per_pass_kv: every pass has a KV ring of its own; else a block's passes share one.
    :param kv_rule: what outputs are marked with.
    """

    scheme: str
    passes: int
    steps: int
    blocks: int
    workers: int
    owner: tuple[int, ...]
    per_pass_kv: bool
    kv_rule: str

    @property
    def stages(self) -> tuple[Stage, ...]:
        """All stages in chain order."""
        return tuple(Stage(d, b) for d in range(self.passes) for b in range(self.blocks))

    def owner_of(self, step: int, block: int) -> int:
        """Return the worker that runs a stage."""
        return self.owner[step * self.blocks + block]

    def stages_of(self, worker: int) -> tuple[Stage, ...]:
        """Return what one worker runs, in chain order."""
        return tuple(s for s, w in zip(self.stages, self.owner, strict=True) if w == worker)

    def blocks_of(self, worker: int) -> tuple[int, ...]:
        """Return the blocks whose weights one worker needs."""
        return tuple(sorted({stage.block for stage in self.stages_of(worker)}))

    @property
    def used(self) -> tuple[int, ...]:
        """Return the workers with at least one stage."""
        return tuple(sorted(set(self.owner)))

    @property
    def entries(self) -> tuple[int, ...]:
        """Return the workers that begin a step; each needs the conditioning."""
        return tuple(sorted(set(self.owner[:: self.blocks])))

    @property
    def hops(self) -> tuple[tuple[int, int], ...]:
        """The (from, to) pairs of workers between which hidden states travel."""
        pairs = zip(self.owner, self.owner[1:], strict=False)
        return tuple(sorted({(a, b) for a, b in pairs if a != b}))

    @property
    def overlaps(self) -> bool:
        """Whether a chunk may enter before its predecessor is done."""
        return self.per_pass_kv


def pipe_depth(workers: int, passes: int, max_batch: int, overlaps: bool) -> int:
    """
    Return how many chunks of a stream fill its pipe.

    :param workers: those that carry it.
    :param max_batch: with batches, one chunk is at each pass.
    """
    if not overlaps:
        return 1
    return workers if max_batch == 1 else max(workers, passes)


def group(spec: ModelSpec, scheme: str, workers: int, override_kv_rule: bool = False) -> Grouping:
    """
    Place the stages by a named scheme.

    ``stage``: balanced runs of the chain. ``step``: whole steps. ``block``: whole blocks, all
    their steps. ``serial``: everything on one worker.

    :raises ParameterError: for an unknown scheme or ``workers`` < 1.
    :raises PlanError: when it cannot be done.
    """
    if scheme not in SCHEMES:
        raise ParameterError('grouping', f'one of {list(SCHEMES)}', scheme)
    if workers < 1:
        raise ParameterError('workers', '>= 1', workers)
    passes = _passes(spec, override_kv_rule)
    units = {'stage': passes * spec.blocks, 'step': passes, 'block': spec.blocks, 'serial': 1}
    if workers > units[scheme]:
        raise PlanError(
            f"workers must be <= {units[scheme]} for grouping '{scheme}' of {spec.name} "
            f'({passes} passes x {spec.blocks} blocks), got {workers}'
        )
    runs = _balanced(units[scheme], workers)
    stages = [Stage(d, b) for d in range(passes) for b in range(spec.blocks)]
    unit = {
        'stage': list(range(len(stages))),
        'step': [stage.step for stage in stages],
        'block': [stage.block for stage in stages],
        'serial': [0] * len(stages),
    }[scheme]
    owner = [runs[index] for index in unit]
    return _checked(spec, scheme, owner, override_kv_rule)


def assign(spec: ModelSpec, owner: Sequence[int], override_kv_rule: bool = False) -> Grouping:
    """
    Take an explicit owner for each stage, in chain order.

    :raises PlanError: when the list does not fit the model or leaves a worker without a stage.
    """
    _check_length(spec, owner, override_kv_rule)
    used = sorted(set(owner))
    if used != list(range(len(used))):
        raise PlanError(f'assignment must use workers 0..{max(owner)} each, got {used}')
    return _checked(spec, 'explicit', owner, override_kv_rule)


def place(
    spec: ModelSpec, owner: Sequence[int], workers: int, override_kv_rule: bool = False
) -> Grouping:
    """
    Take an explicit owner for each stage of one stream among several; some workers may be spared.

    :param workers: of the pool.
    :raises PlanError: when the list does not fit the model or the pool.
    """
    _check_length(spec, owner, override_kv_rule)
    if not all(0 <= worker < workers for worker in owner):
        raise PlanError(f'placement must use workers 0..{workers - 1}, got {sorted(set(owner))}')
    return _checked(spec, 'placed', owner, override_kv_rule, workers)


def _check_length(spec: ModelSpec, owner: Sequence[int], override: bool) -> None:
    expected = _passes(spec, override) * spec.blocks
    if len(owner) != expected:
        raise PlanError(f'assignment must name {expected} stages, got {len(owner)}')


def _checked(
    spec: ModelSpec, scheme: str, owner: Sequence[int], override: bool, workers: int = 0
) -> Grouping:
    clean = spec.kv_rule is KvRule.CLEAN
    grouping = Grouping(
        scheme=scheme,
        passes=_passes(spec, override),
        steps=spec.steps,
        blocks=spec.blocks,
        workers=workers or max(owner) + 1,
        owner=tuple(owner),
        per_pass_kv=not clean or override,
        kv_rule='override' if clean and override else spec.kv_rule.value,
    )
    if clean and not override:
        _refuse_split_blocks(grouping, spec.name)
    return grouping


def _refuse_split_blocks(grouping: Grouping, name: str) -> None:
    for block in range(grouping.blocks):
        owners = {grouping.owner_of(step, block) for step in range(grouping.passes)}
        if len(owners) > 1:
            raise PlanError(
                f'grouping must keep all passes of a block on one worker, because {name} declares '
                f'clean KV; got block {block} on workers {sorted(owners)}; use one worker or '
                f"grouping 'block', or override_kv_rule to pipeline it all the same"
            )


def _passes(spec: ModelSpec, override: bool) -> int:
    # Overridden clean weights read noisy KV of their own step: the clean pass has no reader.
    return spec.steps if override else spec.passes


def _balanced(units: int, workers: int) -> list[int]:
    return [unit * workers // units for unit in range(units)]
