# SPDX-License-Identifier: Apache-2.0
"""
The joint states of the last moments, joint by joint, and their value at an instant.

Publishers may carry any subset of the joints in any order, so each joint has a track of its own.
Between two samples the value is interpolated; after the last one it is held, never extrapolated:
a held value has an honest stamp, an extrapolated one would pretend to be young.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass
from enum import Enum
from typing import NamedTuple

# Beyond any joint [rad or m, per second]; more does not fit a model's 32-bit numbers.
GREATEST = 1e9


class JointMatch(Enum):
    """
    Which state belongs to a frame.

    Interpolated between the two around it; the last one that is not newer, as a robot knows it at
    that instant; or the nearest one, as many data sets were put together.
    """

    INTERPOLATE = 'interpolate'
    ASOF = 'asof'
    NEAREST = 'nearest'


def usable(value: float) -> bool:
    """Whether a value is finite and small enough to reckon with."""
    return abs(value) <= GREATEST


@dataclass(frozen=True)
class JointReading:
    """
    One joint state message: any subset of the joints, in any order.

    :param stamp_ns: when it was measured, as its header says.
    :param receive_ns: when it came, stream clock.
    :param position: one for each name [rad or m].
    :param velocity: one for each name [rad/s or m/s], or empty: then it is differentiated.
    :param source: names the publisher where there are several, for the skew estimate.
    """

    stamp_ns: int
    receive_ns: int
    names: Sequence[str]
    position: Sequence[float]
    velocity: Sequence[float] = ()
    source: str = 'joints'

    @property
    def well_formed(self) -> bool:
        """Whether there are as many values as names."""
        count = len(self.names)
        return len(self.position) == count and len(self.velocity) in (0, count)


class Sample(NamedTuple):
    """
    One joint at one instant.

    :param position: [rad or m].
    :param velocity: [rad/s or m/s]; None when the publisher gives none.
    """

    stamp_ns: int
    receive_ns: int
    position: float
    velocity: float | None


class JointValue(NamedTuple):
    """
    One joint as of an instant.

    :param stamp_ns: the instant itself where it lies between samples, else the sample's stamp.
    :param receive_ns: when the last sample used was received.
    """

    stamp_ns: int
    receive_ns: int
    position: float
    velocity: float


class JointTrack:
    """
    Samples of one joint in rising order of their stamps. Single-threaded.

    :param max_samples: the most samples kept.
    """

    def __init__(self, max_samples: int) -> None:
        self._samples: deque[Sample] = deque(maxlen=max_samples)

    @property
    def newest_ns(self) -> int | None:
        """Stamp of the last sample."""
        return self._samples[-1].stamp_ns if self._samples else None

    def append(self, sample: Sample) -> None:
        """Take a sample newer than all before."""
        self._samples.append(sample)

    def clear(self) -> None:
        """Forget all samples."""
        self._samples.clear()

    def at(
        self,
        instant_ns: int,
        tolerance_ns: int,
        match: JointMatch = JointMatch.INTERPOLATE,
    ) -> JointValue | None:
        """
        Return the value as of an instant.

        Interpolated between two samples at most twice the tolerance apart, where that is asked
        for; else the last sample not newer, or the nearer one, where that is asked for; else the
        first one newer; None when neither lies within the tolerance.
        """
        before, after, earlier = self._around(instant_ns)
        if before is not None and after is not None and before.stamp_ns != instant_ns:
            gap_ns = after.stamp_ns - before.stamp_ns
            if match is JointMatch.INTERPOLATE and gap_ns <= 2 * tolerance_ns:
                return _between(before, after, instant_ns)
            nearer = after.stamp_ns - instant_ns < instant_ns - before.stamp_ns
            if (
                match is JointMatch.NEAREST
                and nearer
                and after.stamp_ns - instant_ns <= tolerance_ns
            ):
                return _held(after, before)
        if before is not None and instant_ns - before.stamp_ns <= tolerance_ns:
            return _held(before, earlier or after)
        if after is not None and after.stamp_ns - instant_ns <= tolerance_ns:
            return _held(after, before)
        return None

    def _around(self, instant_ns: int) -> tuple[Sample | None, Sample | None, Sample | None]:
        """Return the last sample not newer, the one after it, and the one before it."""
        after = before = None
        for sample in reversed(self._samples):
            if sample.stamp_ns > instant_ns:
                after = sample
            elif before is None:
                before = sample
            else:
                return before, after, sample
        return before, after, None


def _between(before: Sample, after: Sample, instant_ns: int) -> JointValue:
    """Interpolate linearly; without velocities the slope between the two stands in."""
    part = (instant_ns - before.stamp_ns) / (after.stamp_ns - before.stamp_ns)
    if before.velocity is None or after.velocity is None:
        velocity = _slope(before, after)
    else:
        velocity = before.velocity + part * (after.velocity - before.velocity)
    position = before.position + part * (after.position - before.position)
    return JointValue(instant_ns, after.receive_ns, position, velocity)


def _held(sample: Sample, neighbour: Sample | None) -> JointValue:
    """Take a sample as it is; without velocity the slope to its neighbour, or rest."""
    velocity = sample.velocity
    if velocity is None:
        velocity = _slope(sample, neighbour) if neighbour is not None else 0.0
    return JointValue(sample.stamp_ns, sample.receive_ns, sample.position, velocity)


def _slope(one: Sample, other: Sample) -> float:
    """Return the velocity between two samples of different stamps [1/s]."""
    return (other.position - one.position) / ((other.stamp_ns - one.stamp_ns) * 1e-9)
