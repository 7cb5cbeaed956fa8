# SPDX-License-Identifier: Apache-2.0
"""
Measuring a profile on the real device, through the same calls that a worker makes.

Resumable: timings already known are not measured again. Needs the model with all its blocks.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor

from physis_ros.backbones.base import Backbone, ModelSpec
from physis_ros.engine.compute import Compute, Row
from physis_ros.engine.kv import KvBatch, KvRing
from physis_ros.engine.profile import Profile, Sizes, Timing, spec_hash
from physis_ros.errors import ParameterError

_WARM = 3


@dataclass(frozen=True)
class Effort:
    """
    How much to measure.

    :param batches: sizes, the first is 1.
    :param samples: for each timing.
    """

    batches: tuple[int, ...] = (1, 2, 4, 8)
    samples: int = 100

    def __post_init__(self) -> None:
        """
        Refuse what gives no curve.

        :raises ParameterError: naming the parameter.
        """
        if (
            not self.batches
            or self.batches[0] != 1
            or sorted(set(self.batches)) != list(self.batches)
        ):
            raise ParameterError('batches', 'ascending from 1', self.batches)
        if self.samples < 2:
            raise ParameterError('samples', '>= 2', self.samples)


@dataclass(frozen=True)
class Work:
    """One timing to be measured."""

    kind: str
    batch: int
    kv_chunks: int


def works(spec: ModelSpec, effort: Effort) -> list[Work]:
    """List all timings of a profile."""
    kinds = [kind for kind, block in _block_of(spec).items() if block >= 0]
    lengths = sorted({1, spec.kv_slots})
    stages = [
        Work(kind, batch, length)
        for kind in kinds
        for batch in effort.batches
        for length in lengths
    ]
    return [*stages, Work('encode', 1, 1), Work('decode', 1, 1)]


def measure_profile(
    backbone: Backbone,
    weight_bytes: Sequence[int],
    device: str = 'cpu',
    device_name: str = 'cpu',
    versions: dict[str, str] | None = None,
    effort: Effort | None = None,
    known: Iterable[Timing] = (),
    progress: Callable[[int, int, Timing], None] = lambda done, total, timing: None,
) -> Profile:
    """
    Measure a model.

    :param weight_bytes: of each block.
    :param device: torch device the model lives on.
    :param device_name: what goes into the profile.
    :param known: timings of an earlier run that was cut short.
    :param progress: told after each timing how many of how many are there.
    """
    effort, spec = effort or Effort(), backbone.spec
    have = {Work(t.kind, t.batch, t.kv_chunks): t for t in known}
    todo = works(spec, effort)
    bench = _Bench(backbone, device, effort)
    with torch.inference_mode():
        for done, work in enumerate(todo, start=1):
            if work not in have:
                have[work] = bench.time(work)
            progress(done, len(todo), have[work])
        hop_s, rate = _hop(spec)
    return Profile(
        model=spec.name,
        spec_hash=spec_hash(spec),
        device=device_name,
        versions={'torch': torch.__version__, **(versions or {})},
        passes=spec.passes,
        blocks=spec.blocks,
        sizes=_sizes(spec, weight_bytes, device, max(effort.batches)),
        timings=tuple(have[work] for work in todo),
        hop_s=hop_s,
        hop_bytes_per_s=rate,
    )


class _Bench:
    """Rows and rings to run stages on; the numbers in them do not matter, their shapes do."""

    def __init__(self, backbone: Backbone, device: str, effort: Effort) -> None:
        self._spec, self._device, self._samples = backbone.spec, device, effort.samples
        self._compute = Compute(backbone, device)
        most = max(effort.batches)
        self._batch = KvBatch(self._spec, most, device)
        self._rings = [KvRing(self._spec, device) for _ in range(most)]
        self._inputs = {
            spec.name: torch.zeros((1, *spec.shape), dtype=spec.dtype, device=device)
            for spec in self._spec.inputs
        }
        self._conditioning = backbone.encode(self._inputs)
        noise = torch.Generator().manual_seed(0)
        self._latent = torch.randn((1, *self._spec.latent_shape), generator=noise).to(device)
        self._hidden = torch.randn((1, self._spec.tokens, self._spec.width), generator=noise).to(
            device, self._spec.dtype
        )

    def time(self, work: Work) -> Timing:
        seconds = self._stage(work) if work.kind in ('first', 'inner', 'last') else self._end(work)
        p50_s, p99_s = (float(q) for q in np.quantile(seconds, (0.5, 0.99)))
        return Timing(work.kind, work.batch, work.kv_chunks, p50_s, p99_s, len(seconds))

    def _stage(self, work: Work) -> list[float]:
        block = _block_of(self._spec)[work.kind]
        rings = self._rings[: work.batch]
        for ring in rings:
            ring.clear(0)
            for chunk in range(work.kv_chunks - 1):
                ring.begin(0, chunk)
                ring.finish(chunk)
        rows = [self._row(block, index) for index in range(work.batch)]
        chunk = work.kv_chunks - 1

        def once() -> None:
            for ring in rings:
                ring.begin(0, chunk)
            self._compute.run(block, rows, self._batch.over(rings))

        return self._seconds(once)

    def _row(self, block: int, index: int) -> Row:
        # Rows of one batch stand at different steps, as in a pipeline that runs full.
        step = index % self._spec.steps
        if block:
            return Row(step, self._hidden)
        if self._spec.steps == 1:
            return Row(0, None, self._conditioning, self._latent)
        return Row(max(step, 1), self._latent, self._conditioning, self._latent)

    def _end(self, work: Work) -> list[float]:
        backbone = self._compute.backbone
        if work.kind == 'encode':
            return self._seconds(lambda: backbone.encode(self._inputs))
        return self._seconds(lambda: backbone.decode(self._latent, self._inputs, True))

    def _seconds(self, once: Callable[[], object]) -> list[float]:
        for _ in range(_WARM):
            once()
        found = []
        for _ in range(self._samples):
            self._wait()
            start = time.perf_counter()
            once()
            self._wait()
            found.append(time.perf_counter() - start)
        return found

    def _wait(self) -> None:
        if self._device.startswith('cuda'):
            torch.cuda.synchronize(self._device)


def _block_of(spec: ModelSpec) -> dict[str, int]:
    return {
        'first': 0,
        'inner': 1 if spec.blocks > 2 else -1,
        'last': spec.blocks - 1 if spec.blocks > 1 else -1,
    }


def _sizes(spec: ModelSpec, weights: Sequence[int], device: str, rows: int) -> Sizes:
    if len(weights) != spec.blocks:
        raise ParameterError('weight_bytes', f'for {spec.blocks} blocks', len(weights))
    size = torch.empty((), dtype=spec.dtype).element_size()
    hidden = spec.tokens * spec.width * size
    kv = KvRing(spec, device).bytes
    # Gathered windows of one full batch, plus queries, scores and the widened MLP.
    activations = rows * (kv + 8 * hidden)
    peak = torch.cuda.max_memory_allocated(device) if device.startswith('cuda') else 0
    return Sizes(
        weights=tuple(int(w) for w in weights),
        kv=kv,
        hidden=hidden,
        latent=int(np.prod(spec.latent_shape)) * 4,
        activations=activations,
        workspace=max(0, peak - sum(weights)) or activations,
    )


def _hop(spec: ModelSpec) -> tuple[float, float]:
    """Time a copy of a small and of a large message; the rest of a hop is the mailbox's."""
    small, large = _copy_s(64), _copy_s(1 << 22)
    return small, (1 << 22) / max(large - small, 1e-9)


def _copy_s(size: int) -> float:
    source = torch.zeros(size, dtype=torch.uint8)
    target: Tensor = torch.empty_like(source)
    seconds = []
    for _ in range(50):
        start = time.perf_counter()
        target.copy_(source)
        seconds.append(time.perf_counter() - start)
    return float(np.median(seconds))
