# SPDX-License-Identifier: Apache-2.0
"""
How a new chunk takes over from the old ones.

``replace`` switches at the new chunk's first future step. ``blend`` does the same and lets the
difference of the two curves fade, so that position and velocity stay continuous. ``ensemble``
plays a weighted mean of all chunks that cover an instant.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from enum import Enum

import numpy as np

from physis_ros.errors import ParameterError
from physis_ros.output.interpolate import NS, Curve, Kinds, State, fading
from physis_ros.types import FloatArray


class Merge(Enum):
    """The merge policies."""

    REPLACE = 'replace'
    BLEND = 'blend'
    ENSEMBLE = 'ensemble'


@dataclass(frozen=True)
class MergeConfig:
    """
    How chunks are merged.

    :param blend_ns: how long a seam fades (``blend``) or a chunk's weight takes to grow
        (``ensemble``).
    :param decay: ``ensemble`` weight of a chunk is ``exp(-decay * i)`` with i = 0 for the oldest,
        as in ACT; negative values favour the newest.
    """

    policy: Merge = Merge.BLEND
    blend_ns: int = 100_000_000
    decay: float = 0.01

    def __post_init__(self) -> None:
        """Refuse what cannot be followed."""
        if self.blend_ns <= 0:
            raise ParameterError(
                'blend_ns', '> 0', self.blend_ns, "use merge 'replace' for no fade"
            )
        if not -10.0 <= self.decay <= 10.0:
            raise ParameterError('ensemble_decay', 'in -10..10', self.decay)

    def seam(self, old: State, new: State, step_ns: int, kinds: Kinds) -> Curve | None:
        """
        Return the offset that fades after a switch from ``old`` to ``new``; None for no fade.

        Cubic joints promise a continuous velocity, so under ``replace`` they too spend one control
        step on the seam. Step joints never fade.
        """
        if self.policy is Merge.REPLACE:
            mask, duration_ns = kinds.cubic, step_ns
        else:
            mask, duration_ns = ~kinds.step, self.blend_ns
        apart = (old.position - new.position) * mask
        turned = (old.velocity - new.velocity) * mask
        if not (apart.any() or turned.any()):
            return None
        return fading(State(old.time_ns, apart, turned), duration_ns)


@dataclass(frozen=True)
class Voice:
    """
    One chunk's part in an ensemble.

    :param place: among the chunks, counted as they come.
    :param from_ns: since when it counts.
    :param to_ns: until when; it fades out before that.
    :param cut_ns: it is silent from then on, without a fade of its own; None: never.
    """

    place: int
    from_ns: int
    to_ns: int
    curve: Curve
    cut_ns: int | None = None

    def sings(self, time_ns: int) -> bool:
        """Whether it counts at an instant."""
        ended = self.cut_ns is not None and time_ns >= self.cut_ns
        return self.from_ns <= time_ns <= self.to_ns and not ended

    def cut(self, time_ns: int) -> Voice:
        """Return it silent from an instant on, if it is not before."""
        return replace(self, cut_ns=time_ns if self.cut_ns is None else min(self.cut_ns, time_ns))

    def uncut(self, from_ns: int, to_ns: int) -> Voice:
        """Return it uncut if it was cut in a span of time, the end excluded."""
        inside = self.cut_ns is not None and from_ns <= self.cut_ns < to_ns
        return replace(self, cut_ns=None) if inside else self

    def outlasts(self, time_ns: int) -> bool:
        """Whether it counts beyond an instant."""
        return self.to_ns > time_ns and self.cut_ns is None


def weights(
    voices: Sequence[Voice], time_ns: int, config: MergeConfig
) -> tuple[list[float], list[float]]:
    """
    Return the weight of each voice at ``time_ns``, summing to 1, and its rate of change [1/s].

    A voice fades in over ``blend_ns`` and out before its end, so that a chunk's coming and going
    leaves no step; the one that lasts longest has nobody to fade out to. The last voice alone
    counts where all are silent.
    """
    raw, change = [], []
    longest_ns = max(voice.to_ns for voice in voices)
    for voice in voices:
        rank = math.exp(-config.decay * (voice.place - voices[0].place))
        rise, rising = _smooth((time_ns - voice.from_ns) / config.blend_ns)
        fall, falling = 1.0, 0.0
        if voice.to_ns < longest_ns:
            fall, falling = _smooth((voice.to_ns - time_ns) / config.blend_ns)
        raw.append(rank * rise * fall)
        change.append(rank * (rising * fall - rise * falling) / (config.blend_ns * NS))
    total, drift = sum(raw), sum(change)
    if total <= 0.0:
        return [0.0] * (len(voices) - 1) + [1.0], [0.0] * len(voices)
    share = [weight / total for weight in raw]
    return share, [(rate - part * drift) / total for rate, part in zip(change, share, strict=True)]


def ensemble(
    voices: Sequence[Voice], time_ns: int, config: MergeConfig, kinds: Kinds
) -> tuple[FloatArray, FloatArray]:
    """Return the weighted position and velocity; step joints follow the newest voice alone."""
    states = [voice.curve.at(time_ns) for voice in voices]
    newest = states[-1]
    if len(voices) == 1:
        return newest
    share, change = weights(voices, time_ns, config)
    positions = np.array([state[0] for state in states])
    velocities = np.array([state[1] for state in states])
    position = np.dot(share, positions)
    velocity = np.dot(share, velocities) + np.dot(change, positions)
    return np.where(kinds.step, newest[0], position), np.where(kinds.step, 0.0, velocity)


def _smooth(u: float) -> tuple[float, float]:
    """Return the smoothstep of ``u``, 0 below 0 and 1 above 1, and its slope."""
    u = min(max(u, 0.0), 1.0)
    return u * u * (3.0 - 2.0 * u), 6.0 * u * (1.0 - u)
