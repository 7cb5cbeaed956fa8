# SPDX-License-Identifier: Apache-2.0
"""
A profile: what one model costs on one device, as a readable JSON file (E8).

Measured by :mod:`physis_ros.engine.measure`, turned into a :class:`ModelCost` for plans. A profile
of another model, device or version is refused with the reason. No torch here.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from itertools import pairwise
from pathlib import Path
from typing import TYPE_CHECKING, Any

from physis_ros.engine.cost import MOST_ROWS, BatchCurve, ModelCost
from physis_ros.engine.fields import made
from physis_ros.errors import ParameterError, PlanError

if TYPE_CHECKING:
    from physis_ros.backbones.base import ModelSpec

FORMAT = 3
KINDS = ('first', 'inner', 'last', 'encode', 'decode')
KV_RULES = ('same_step', 'clean')


@dataclass(frozen=True)
class Timing:
    """
    Time of one piece of work.

    :param kind: ``first`` (block 0 with the step's entry), ``inner``, ``last`` (with its exit);
        ``encode`` and ``decode`` once a chunk. A model of one block has ``first`` only.
    :param batch: rows.
    :param kv_chunks: chunks in the KV window, own one included.
    :param samples: measurements behind it.
    :param chunk_s: its share of a chunk: the median over chunks of the mean over all times that
        one chunk needs this piece. What a chunk takes is the sum of these, not of medians: times
        are skewed, and their skew adds up.
    """

    kind: str
    batch: int
    kv_chunks: int
    p50_s: float
    p99_s: float
    samples: int
    chunk_s: float


@dataclass(frozen=True)
class Sizes:
    """
    Bytes.

    :param weights: for each block.
    :param kv: of one (stream, pass, block).
    :param activations: the most that one batch of the largest size needs beside its inputs.
    :param workspace: what a worker needs once, whatever it runs.
    :param shared: weights that every worker holds, whatever its blocks.
    """

    weights: tuple[int, ...]
    kv: int
    hidden: int
    latent: int
    activations: int
    workspace: int
    shared: int = 0

    @property
    def reserve(self) -> int:
        """What a device needs before it carries anything."""
        return self.shared + self.activations + self.workspace


@dataclass(frozen=True)
class Link:
    """
    The way of messages from the device to another one of its machine.

    :param to: the kind of the other, as ``cpu`` or ``cuda``.
    :param hop_s: handing one message over, beyond its bytes.
    :param bytes_per_s: of its bytes.
    """

    to: str
    hop_s: float
    bytes_per_s: float


@dataclass(frozen=True)
class Profile:
    """
    One measured model on one device.

    :param device: what the device calls itself.
    :param versions: of what the times depend on, by name.
    :param spec_hash: of the model's sizes, see :func:`spec_hash`.
    :param hop_s: handing one message over from the pool to the device.
    :param links: to a device of each kind on its machine, its own kind first.
    :param task_s: the engine's own time for each task, part of all times that :meth:`curve` gives.
    :param deliver_s: a result's way from its worker to whoever collects it.
    :param turn_s: from a chunk's delivery to the entry of one that waited for its place.
    :param crowding: time of a stage beside a busy neighbour on the same machine over time alone.
    :param kv_rule: what a chunk reads of its predecessors; ``clean`` lets no two chunks overlap.
    :param wanted: timings that make it whole.
    """

    model: str
    spec_hash: str
    device: str
    versions: Mapping[str, str]
    passes: int
    blocks: int
    sizes: Sizes
    timings: tuple[Timing, ...]
    hop_s: float
    links: tuple[Link, ...]
    task_s: float = 0.0
    deliver_s: float | None = None
    turn_s: float = 0.0
    crowding: float = 1.0
    kv_rule: str = 'same_step'
    wanted: int = 0

    @property
    def complete(self) -> bool:
        """Tell whether nothing is left to be measured."""
        return len(self.timings) >= self.wanted

    def curve(self, kind: str, quantile: str = 'p99') -> BatchCurve:
        """
        Return the batch curve of a kind at its fullest KV window.

        Batches between the measured ones lie on the straight line between them.

        :param quantile: ``p50`` or ``p99`` of single times, or ``chunk``: :attr:`Timing.chunk_s`.
        :raises PlanError: when the kind was not measured.
        """
        times_s = _filled(self._points(kind, quantile))
        return BatchCurve(tuple(t + self.task_s * n for n, t in enumerate(times_s, start=1)))

    def cost(self, quantile: str = 'p99') -> ModelCost:
        """Return what plans and admission need; p99 unless told otherwise, see :meth:`curve`."""
        inner = 'inner' if self.blocks > 2 else 'first'
        kinds = ['first', *[inner] * (self.blocks - 2), 'last'][: self.blocks]
        return ModelCost(
            name=self.model,
            passes=self.passes,
            weight_bytes=self.sizes.weights,
            kv_bytes=self.sizes.kv,
            hidden_bytes=self.sizes.hidden,
            latent_bytes=self.sizes.latent,
            curves=tuple(self.curve(kind, quantile) for kind in kinds),
            entry_s=self._points('encode', quantile).get(1, 0.0),
            exit_s=self._points('decode', quantile).get(1, 0.0),
            overlaps=self.kv_rule == 'same_step',
            crowding=self.crowding,
            deliver_s=self.deliver_s,
            turn_s=self.turn_s,
        )

    def link(self, to: str = '') -> Link:
        """
        Return the link to a kind of device.

        :param to: as :attr:`Link.to`; empty: the device's own.
        :raises PlanError: when it was not measured.
        """
        for link in self.links:
            if to in ('', link.to):
                return link
        raise PlanError(
            f'profile of {self.model} on {self.device} must hold the link to '
            f'{to or "its own kind"!r}, got {[link.to for link in self.links]}; measure it again'
        )

    def _points(self, kind: str, quantile: str) -> dict[int, float]:
        mine = [t for t in self.timings if t.kind == kind]
        if not mine:
            raise PlanError(
                f'profile of {self.model} must hold times of {kind!r}; measure it again'
            )
        longest = max(t.kv_chunks for t in mine)
        return {t.batch: getattr(t, f'{quantile}_s') for t in mine if t.kv_chunks == longest}

    def save(self, path: Path) -> None:
        """Write the file; readable, one link or timing a line."""
        content = {'format': FORMAT, **asdict(self)}
        tables = [(name, content.pop(name)) for name in ('links', 'timings')]
        head = json.dumps(content, indent=1)[:-2]
        told = [
            f' "{name}": [\n  ' + ',\n  '.join(map(json.dumps, rows)) + '\n ]'
            for name, rows in tables
        ]
        # Never half a file, whenever it is cut short.
        draft = path.with_name(f'{path.name}.new')
        draft.write_text(',\n'.join((head, *told)) + '\n}\n')
        draft.replace(path)


def spec_hash(spec: ModelSpec) -> str:
    """Return a short name for a model's sizes; another size gives another hash."""
    return hashlib.sha256(repr(spec).encode()).hexdigest()[:16]


def load(path: Path, partial: bool = False) -> Profile:
    """
    Read a profile.

    :param partial: one that was cut short will do.
    :raises PlanError: saying what is wrong with the file.
    """
    try:
        content = json.loads(path.read_text())
    except (OSError, ValueError, RecursionError) as error:
        raise PlanError(f'profile {path} cannot be read: {error}') from error
    found = content.get('format') if isinstance(content, dict) else None
    if found != FORMAT:
        raise PlanError(f'profile {path} must have format {FORMAT}, got {found}; measure it again')
    try:
        profile = _parse(content)
    except ParameterError as error:
        raise PlanError(f'profile {path} is damaged: {error}; measure it again') from error
    if not partial and not profile.complete:
        raise PlanError(
            f'profile {path} must be whole, got {len(profile.timings)} of {profile.wanted} '
            'timings; go on with physis profile'
        )
    return profile


def check(
    profile: Profile, spec: ModelSpec, device: str = '', versions: Mapping[str, str] | None = None
) -> None:
    """
    Refuse a profile that says nothing about this model here and now.

    :param device: the device it is to be used on; empty: any.
    :param versions: those that run now; only names in the profile are compared.
    :raises PlanError: naming what differs.
    """
    if profile.model != spec.name:
        raise PlanError(f'profile must be of model {spec.name!r}, got {profile.model!r}')
    if profile.spec_hash != spec_hash(spec):
        raise PlanError(
            f'profile must be of the present sizes of {spec.name} ({spec_hash(spec)}), '
            f'got {profile.spec_hash}; measure it again'
        )
    if device and profile.device != device:
        raise PlanError(f'profile must be of device {device!r}, got {profile.device!r}')
    for name, version in (versions or {}).items():
        old = profile.versions.get(name, version)
        if old != version:
            raise PlanError(
                f'profile must be measured with {name} {version}, got {old}; measure it again'
            )


def _parse(content: dict[str, Any]) -> Profile:
    """
    Return a profile of which every value is what it is meant to be.

    :raises ParameterError: naming the one that is not.
    """
    profile = made(Profile, {key: value for key, value in content.items() if key != 'format'})
    for name, least in (('passes', 1), ('blocks', 1), ('crowding', 1.0)):
        if getattr(profile, name) < least:
            raise ParameterError(name, f'>= {least}', getattr(profile, name))
    if profile.kv_rule not in KV_RULES:
        raise ParameterError('kv_rule', f'one of {list(KV_RULES)}', profile.kv_rule)
    for link in profile.links:
        if not link.bytes_per_s > 0:
            raise ParameterError('link', 'of bytes_per_s > 0', link)
    for timing in profile.timings:
        rows = 1 <= timing.batch <= MOST_ROWS and timing.kv_chunks >= 1
        if timing.kind not in KINDS or not rows:
            rule = f'of one of {list(KINDS)}, batch 1 .. {MOST_ROWS}, kv_chunks >= 1'
            raise ParameterError('timing', rule, timing)
        if not 0 < timing.p50_s <= timing.p99_s or not timing.chunk_s > 0:
            raise ParameterError('timing', 'of 0 < p50_s <= p99_s and chunk_s > 0', timing)
    if len(profile.sizes.weights) != profile.blocks:
        raise ParameterError('weights', f'for {profile.blocks} blocks', len(profile.sizes.weights))
    return profile


def _filled(points: Mapping[int, float]) -> tuple[float, ...]:
    batches = sorted(points)
    if batches[0] != 1:
        raise PlanError(f'profile must hold the time of a batch of 1, got batches {batches}')
    times = [points[1]]
    for low, high in pairwise(batches):
        slope = (points[high] - points[low]) / (high - low)
        times += [points[low] + slope * (n - low) for n in range(low + 1, high + 1)]
    return tuple(times)
