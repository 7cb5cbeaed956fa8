# SPDX-License-Identifier: Apache-2.0
"""
What the timeline is made of, and what it says: stretches of time, and samples of an instant.

Both remember the chunks and inputs behind them, so that a command can tell its age.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace

from physis_ros.output.interpolate import Curve
from physis_ros.types import ActionChunk, FloatArray


@dataclass(frozen=True)
class Sample:
    """
    What the timeline says about one instant.

    :param chunk: the newest chunk behind it.
    :param chunks: every chunk behind it, oldest first.
    :param observed_ns: the oldest input behind it.
    :param input_stamps_ns: the oldest stamp behind it for each input.
    """

    time_ns: int
    position: FloatArray
    velocity: FloatArray
    epoch: int
    chunk: int
    chunks: tuple[int, ...]
    observed_ns: int
    input_stamps_ns: Mapping[str, int]


@dataclass(frozen=True)
class Origin:
    """
    What a stretch remembers of its chunks; older inputs win where two meet.

    :param before: what is behind the chunk until ``before_until_ns``, where its first steps were
        taken over from another; None when none were.
    """

    chunks: tuple[int, ...]
    observed_ns: int
    input_stamps_ns: Mapping[str, int]
    step_ns: int
    before: Origin | None = None
    before_until_ns: int = 0

    @classmethod
    def of(cls, chunk: ActionChunk) -> Origin:
        """Keep what a command needs to know of ``chunk``."""
        number, stamps, taken = (chunk.chunk,), chunk.input_stamps_ns, chunk.taken_over_stamps_ns
        own = cls(number, chunk.observed_ns, dict(stamps), chunk.dt_ns)
        if not chunk.taken_over:
            return own
        before = own.joined(cls(number, min(taken.values()), taken, chunk.dt_ns))
        until_ns = chunk.start_ns + chunk.taken_over * chunk.dt_ns
        return replace(own, before=before, before_until_ns=until_ns)

    def at(self, time_ns: int) -> Origin:
        """Return what is behind an instant: a step taken over is as old as what it was."""
        if self.before is None or time_ns >= self.before_until_ns:
            return self
        return self.before

    def fresh_ns(self, from_ns: int, age_ns: int) -> int:
        """Return until when it is at most so old, played from an instant on."""
        before_ns = self.at(from_ns).observed_ns + age_ns
        return before_ns if before_ns < self.before_until_ns else self.observed_ns + age_ns

    def joined(self, other: Origin) -> Origin:
        """Return the origin of something made of both."""
        stamps = dict(self.input_stamps_ns)
        for name, stamp_ns in other.input_stamps_ns.items():
            stamps[name] = min(stamp_ns, stamps.get(name, stamp_ns))
        return Origin(
            tuple(sorted({*self.chunks, *other.chunks})),
            min(self.observed_ns, other.observed_ns),
            stamps,
            max(self.step_ns, other.step_ns),
        )


@dataclass(frozen=True)
class Stretch:
    """A curve and the time in which it is played, both ends included."""

    from_ns: int
    to_ns: int
    curve: Curve
    origin: Origin

    def covers(self, time_ns: int) -> bool:
        """Whether it says something about ``time_ns``."""
        return self.from_ns <= time_ns <= self.to_ns


@dataclass(frozen=True)
class Fade:
    """
    An offset that goes to zero after a seam, and what it was made of.

    :param origin: None where it comes from no chunk but from where the robot was.
    """

    from_ns: int
    to_ns: int
    curve: Curve
    origin: Origin | None
