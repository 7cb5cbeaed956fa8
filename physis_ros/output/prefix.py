# SPDX-License-Identifier: Apache-2.0
"""
The committed prefix: what will be played before a chunk can be ready, offered to the model.

Real-time chunking (Black, Galliker and Levine, 2025, arXiv 2506.07339): steps that are committed
are frozen, later ones are matched the less the later they are, and the last ones are left to the
model. The model's side is its own; this only reads a timeline.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass

import numpy as np

from physis_ros.errors import ParameterError
from physis_ros.output.timeline import Timeline
from physis_ros.types import FloatArray


@dataclass(frozen=True)
class Horizon:
    """
    The steps a chunk being made is about.

    :param start_ns: the instant of its first action.
    :param dt_ns: distance of steps.
    :param steps: how many, H.
    :param free: the last steps are free, s: at least so many are not matched.
    """

    start_ns: int
    dt_ns: int
    steps: int
    free: int = 0

    def __post_init__(self) -> None:
        """Refuse horizons without steps."""
        if self.dt_ns <= 0:
            raise ParameterError('dt_ns', '> 0', self.dt_ns)
        if self.steps <= 0:
            raise ParameterError('steps', '> 0', self.steps)
        if not 0 <= self.free <= self.steps:
            raise ParameterError('free', f'in 0..{self.steps}', self.free)


@dataclass(frozen=True)
class Prefix:
    """
    What a chunk should agree with.

    :param actions: float64 [H, A] [rad or m]; zero where ``weights`` is.
    :param weights: float64 [H]: 1 for frozen steps, falling to 0 for free ones.
    :param frozen: number of frozen steps, d.
    :param stamps_ns: oldest capture time of each input behind the steps that are not free.
    """

    actions: FloatArray
    weights: FloatArray
    frozen: int
    stamps_ns: Mapping[str, int]

    @property
    def taken(self) -> int:
        """Number of steps, from the first on, that are not free."""
        return int(np.count_nonzero(self.weights))


def committed(timeline: Timeline, horizon: Horizon, ready_ns: int) -> Prefix:
    """
    Return what ``timeline`` has for the steps of ``horizon``.

    :param ready_ns: when the chunk will be on the timeline: steps before it are frozen.
    """
    joints = len(timeline.config.gate.names)
    actions = np.zeros((horizon.steps, joints))
    stamps = _known(timeline, horizon, actions)
    known = len(stamps)
    ahead_ns = ready_ns - horizon.start_ns
    frozen = min(max(-(-ahead_ns // horizon.dt_ns), 0), known)
    matched = min(known, horizon.steps - horizon.free)
    weights = soft_mask(horizon.steps, frozen, matched)
    return Prefix(actions, weights, frozen, _oldest(stamps[: np.count_nonzero(weights)]))


def _known(
    timeline: Timeline, horizon: Horizon, actions: FloatArray
) -> list[Mapping[str, int]]:
    """Fill in the steps the timeline covers, from the first on; return the inputs of each."""
    stamps = []
    for index in range(horizon.steps):
        sample = timeline.at(horizon.start_ns + index * horizon.dt_ns)
        if sample is None:
            break
        actions[index] = sample.position
        stamps.append(sample.input_stamps_ns)
    return stamps


def _oldest(stamps: Iterable[Mapping[str, int]]) -> dict[str, int]:
    """Return the oldest stamp of each input."""
    oldest: dict[str, int] = {}
    for inputs in stamps:
        for name, stamp_ns in inputs.items():
            oldest[name] = min(stamp_ns, oldest.get(name, stamp_ns))
    return oldest


def soft_mask(steps: int, frozen: int, matched: int) -> FloatArray:
    """
    Return the weights [H] of real-time chunking.

    Its equation 5; ``get_prefix_weights(frozen, matched, steps, 'exp')`` gives the same in the
    authors' code (Physical-Intelligence/real-time-chunking-kinetix on GitHub, src/model.py).
    With d frozen and e = H - s matched steps the weight of step i is 1 below d, 0 from e on, and
    between them ``c (exp(c) - 1) / (exp(1) - 1)`` with ``c = (e - i) / (e - d + 1)``.
    """
    index = np.arange(steps, dtype=np.float64)
    closeness = np.clip((matched - index) / max(matched - frozen + 1, 1), 0.0, 1.0)
    mask: FloatArray = closeness * np.expm1(closeness) / math.expm1(1.0)
    mask[index < frozen] = 1.0
    return mask
