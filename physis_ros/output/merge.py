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
from dataclasses import dataclass
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
        if not math.isfinite(self.decay):
            raise ParameterError('decay', 'finite', self.decay)

    def seam(
        self, switch_ns: int, step_ns: int, old: Curve, new: Curve, kinds: Kinds
    ) -> Curve | None:
        """
        Return the offset that fades after a switch from ``old`` to ``new``; None for no fade.

        Cubic joints promise a continuous velocity, so under ``replace`` they too spend one control
        step on the seam. Step joints never fade.
        """
        if self.policy is Merge.REPLACE:
            mask, duration_ns = kinds.cubic, step_ns
        else:
            mask, duration_ns = ~kinds.step, self.blend_ns
        if not mask.any():
            return None
        position, velocity = old.at(switch_ns)
        new_position, new_velocity = new.at(switch_ns)
        offset = State(
            switch_ns, (position - new_position) * mask, (velocity - new_velocity) * mask
        )
        return fading(offset, duration_ns)


@dataclass(frozen=True)
class Voice:
    """
    One chunk's part in an ensemble.

    :param chunk: its sequence number.
    :param from_ns: since when it counts.
    :param to_ns: until when.
    """

    chunk: int
    from_ns: int
    to_ns: int
    curve: Curve


def weights(voices: Sequence[Voice], time_ns: int, config: MergeConfig) -> list[float]:
    """
    Return the weight of each voice at ``time_ns``, summing to 1.

    A voice fades in over ``blend_ns`` and out before its end, so that a chunk's coming and going
    leaves no step. The last voice alone counts where all others are silent.
    """
    oldest = voices[0].chunk
    raw = [
        math.exp(-config.decay * (voice.chunk - oldest))
        * _smooth((time_ns - voice.from_ns) / config.blend_ns)
        * _smooth((voice.to_ns - time_ns) / config.blend_ns)
        for voice in voices
    ]
    total = sum(raw)
    if total <= 0.0:
        return [0.0] * (len(voices) - 1) + [1.0]
    return [weight / total for weight in raw]


def slopes(voices: Sequence[Voice], time_ns: int, config: MergeConfig) -> list[float]:
    """Return the rate of change of each weight [1/s], by a difference over 2 us."""
    before = weights(voices, time_ns - 1000, config)
    after = weights(voices, time_ns + 1000, config)
    return [(late - early) / (2000 * NS) for early, late in zip(before, after, strict=True)]


def ensemble(
    voices: Sequence[Voice], time_ns: int, config: MergeConfig, kinds: Kinds
) -> tuple[FloatArray, FloatArray]:
    """Return the weighted position and velocity; step joints follow the newest voice alone."""
    states = [voice.curve.at(time_ns) for voice in voices]
    newest = states[-1]
    if len(voices) == 1:
        return newest
    share, change = weights(voices, time_ns, config), slopes(voices, time_ns, config)
    position = sum((w * state[0] for w, state in zip(share, states, strict=True)), np.zeros(1))
    velocity = sum(
        (
            w * state[1] + rate * state[0]
            for w, rate, state in zip(share, change, states, strict=True)
        ),
        np.zeros(1),
    )
    return np.where(kinds.step, newest[0], position), np.where(kinds.step, 0.0, velocity)


def _smooth(u: float) -> float:
    """Return the smoothstep of ``u``: 0 below 0, 1 above 1."""
    u = min(max(u, 0.0), 1.0)
    return u * u * (3.0 - 2.0 * u)
