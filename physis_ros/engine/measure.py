# SPDX-License-Identifier: Apache-2.0
"""
Measuring a profile on the real device, through the same calls that a worker makes.

Resumable: timings already known are not measured again, and the profile as far as it has come is
given out after each round. Needs the model with all its blocks.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import product

import numpy as np
import torch

from physis_ros.backbones.base import Backbone, KvRule, ModelSpec
from physis_ros.engine.cost import MOST_ROWS
from physis_ros.engine.handover import Handover
from physis_ros.engine.kv import KvRing
from physis_ros.engine.profile import Profile, Sizes, Timing, spec_hash
from physis_ros.engine.sweep import Sweeper, kind_of, kinds
from physis_ros.engine.weights import Weights
from physis_ros.errors import ParameterError


@dataclass(frozen=True)
class Effort:
    """
    How much to measure.

    :param batches: sizes, the first is 1.
    :param samples: sweeps over all blocks for each batch size and KV length.
    """

    batches: tuple[int, ...] = (1, 2, 3, 4, 6, 8)
    samples: int = 100

    def __post_init__(self) -> None:
        """
        Refuse what gives no curve.

        :raises ParameterError: naming the parameter.
        """
        ascending = sorted(set(self.batches)) == list(self.batches)
        first, last = self.batches[:1], self.batches[-1:]
        if first != (1,) or last > (MOST_ROWS,) or not ascending:
            raise ParameterError('batches', f'ascending from 1, at most {MOST_ROWS}', self.batches)
        if self.samples < 2:
            raise ParameterError('samples', '>= 2', self.samples)


@dataclass(frozen=True)
class Round:
    """
    What is measured at once.

    :param batch: rows; 0: the ends, encoding and decoding.
    """

    batch: int
    kv_chunks: int

    def kinds(self, spec: ModelSpec) -> list[str]:
        """Return the kinds of timings it gives."""
        return kinds(spec) if self.batch else ['encode', 'decode']

    def times(self, spec: ModelSpec, kind: str) -> int:
        """Return how many times one chunk needs a kind."""
        found = [kind_of(spec, block) for block in range(spec.blocks)].count(kind)
        return max(1, found * spec.passes)


def rounds(spec: ModelSpec, effort: Effort) -> list[Round]:
    """List all rounds of a profile."""
    lengths = sorted({1, spec.kv_slots})
    sweeps = [Round(batch, length) for batch, length in product(effort.batches, lengths)]
    return [*sweeps, Round(0, 1)]


def begin_profile(
    spec: ModelSpec,
    weights: Weights,
    handover: Handover,
    device: str = 'cpu',
    device_name: str = 'cpu',
    versions: Mapping[str, str] | None = None,
    effort: Effort | None = None,
) -> Profile:
    """
    Return a profile without a timing yet.

    :param weights: of the model.
    :param handover: costs around the model.
    :param device: torch device the model lives on.
    :param device_name: what goes into the profile.
    :param versions: beside torch's own.
    """
    effort = effort or Effort()
    return Profile(
        model=spec.name,
        spec_hash=spec_hash(spec),
        device=device_name,
        versions=present_versions(versions),
        passes=spec.passes,
        blocks=spec.blocks,
        sizes=_sizes(spec, weights, device, max(effort.batches)),
        timings=(),
        hop_s=handover.hop_s,
        links=handover.links,
        task_s=handover.task_s,
        deliver_s=handover.deliver_s,
        turn_s=handover.turn_s,
        crowding=handover.crowding,
        kv_rule=spec.kv_rule.value,
        wanted=sum(len(round_.kinds(spec)) for round_ in rounds(spec, effort)),
    )


def widened(begun: Profile, spec: ModelSpec, device: str, effort: Effort) -> Profile:
    """
    Return a profile that wants whatever an effort asks for beside what it holds already.

    :param begun: of the same model, whole or cut short.
    :param device: torch device the model lives on.
    """
    have = {(t.kind, t.batch, t.kv_chunks) for t in begun.timings}
    asked = {
        (kind, *_key(round_)) for round_ in rounds(spec, effort) for kind in round_.kinds(spec)
    }
    sizes, rows = begun.sizes, max(effort.batches)
    most = _sizes(spec, Weights(sizes.weights, sizes.shared), device, rows)
    sizes = replace(
        sizes,
        activations=max(sizes.activations, most.activations),
        workspace=max(sizes.workspace, most.workspace),
    )
    return replace(begun, sizes=sizes, wanted=len(have | asked))


def present_versions(more: Mapping[str, str] | None = None) -> dict[str, str]:
    """Return what runs now and a profile depends on."""
    return {'torch': torch.__version__, **(more or {})}


def measure_profile(
    backbone: Backbone,
    begun: Profile,
    device: str = 'cpu',
    effort: Effort | None = None,
    progress: Callable[[Profile], None] = lambda profile: None,
) -> Profile:
    """
    Measure what a profile still lacks.

    :param begun: by :func:`begin_profile`, or one that was cut short.
    :param progress: given the profile as far as it has come, after each round.
    """
    effort, spec = effort or Effort(), backbone.spec
    have = {(t.kind, t.batch, t.kv_chunks): t for t in begun.timings}
    sweeper = Sweeper(backbone, device, max(effort.batches))
    profile = begun
    with torch.inference_mode():
        for round_ in rounds(spec, effort):
            wanted = [(kind, *_key(round_)) for kind in round_.kinds(spec)]
            if any(key not in have for key in wanted):
                seconds = _measure(sweeper, round_, effort.samples)
                for kind, found in seconds.items():
                    each = round_.times(spec, kind)
                    made = timing(kind, round_, found, each)
                    have[kind, made.batch, made.kv_chunks] = made
            profile = replace(profile, timings=tuple(have.values()))
            progress(profile)
    return _with_workspace(profile, device)


def _key(round_: Round) -> tuple[int, int]:
    return (max(1, round_.batch), round_.kv_chunks)


def _measure(sweeper: Sweeper, round_: Round, samples: int) -> dict[str, list[float]]:
    if not round_.batch:
        return sweeper.ends(samples)
    return sweeper.sweep(round_.batch, round_.kv_chunks, samples)


def timing(kind: str, round_: Round, seconds: Sequence[float], each: int) -> Timing:
    """
    Sum up what was measured.

    :param each: how many times one chunk needs it.
    """
    p50_s, p99_s = (float(q) for q in np.quantile(seconds, (0.5, 0.99)))
    chunks = [seconds[at : at + each] for at in range(0, len(seconds), each)]
    # What is left over at the end is no whole chunk, unless it is all there is.
    whole = [chunk for chunk in chunks if len(chunk) == each] or chunks
    chunk_s = float(np.median([np.mean(chunk) for chunk in whole]))
    return Timing(kind, *_key(round_), p50_s, p99_s, len(seconds), chunk_s)


def _sizes(spec: ModelSpec, weights: Weights, device: str, rows: int) -> Sizes:
    if len(weights.blocks) != spec.blocks:
        raise ParameterError('weights', f'for {spec.blocks} blocks', len(weights.blocks))
    size = torch.empty((), dtype=spec.dtype).element_size()
    hidden = spec.tokens * spec.width * size
    ring = KvRing(spec, device).bytes
    # Under the clean rule all passes of a block share one ring.
    kv = ring if spec.kv_rule is KvRule.SAME_STEP else ring // spec.passes
    # Rotated keys of a window, the values beside them; queries, keys, values and a widened MLP.
    activations = rows * (ring + 8 * hidden)
    return Sizes(
        weights=weights.blocks,
        kv=kv,
        hidden=hidden,
        latent=int(np.prod(spec.latent_shape)) * 4,
        activations=activations,
        # Where rows of several streams are gathered: KvBatch.
        workspace=rows * ring,
        shared=weights.shared,
    )


def _with_workspace(profile: Profile, device: str) -> Profile:
    """Take the device's own word for the most memory used, where it keeps count."""
    if not device.startswith('cuda'):
        return profile
    sizes = profile.sizes
    peak = torch.cuda.max_memory_allocated(device) - sum(sizes.weights) - sizes.shared
    return replace(profile, sizes=replace(sizes, workspace=max(sizes.workspace, peak)))
