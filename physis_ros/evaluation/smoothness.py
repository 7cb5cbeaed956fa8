# SPDX-License-Identifier: Apache-2.0
"""
How smoothly one virtual episode was driven, and how well: one number for each figure.

A seam is a tick whose newest chunk is another than that of the tick before. What the two chunks
disagree on there is told apart from what the command made of it: hiding the one is what merging is
for. Jerk is the third difference of positions at the servo rate.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, fields

import numpy as np
from numpy.typing import NDArray

from physis_ros.evaluation.virtual_loop import SERVO_NS, Tick, Trip
from physis_ros.types import ActionChunk, FloatArray, Play

# Ticks before and after a seam that count as near: one control step.
NEAR = 5
PERIOD_S = SERVO_NS * 1e-9


@dataclass(frozen=True)
class Smoothness:
    """
    Figures of one episode, or means of many.

    :param track_mm: mean distance of tip and target.
    :param gap_mrad: mean over seams of the greatest difference of a joint's position between the
        old chunk and the new one, at the instant of the switch.
    :param gap_rad_s: the same for the velocity, over the control step that follows.
    :param jump_mrad: mean over seams of the greatest jump of a commanded position that its
        velocities do not explain, as the account of the servo has it.
    :param jump_rad_s: the same for the commanded velocity, from one tick to the next.
    :param jerk: RMS over all ticks of the commanded jerk [rad/s^3].
    :param jerk_seams: the same within one control step of a seam.
    :param jerk_arm: RMS of the jerk that the arm's measured joints had.
    :param underrun_percent: ticks without a new action, of all.
    :param age_ms: mean age of the oldest observation that has part in a command; where a chunk was
        drawn to committed actions (real-time chunking), that of the chunk before has.
    """

    track_mm: float
    gap_mrad: float
    gap_rad_s: float
    jump_mrad: float
    jump_rad_s: float
    jerk: float
    jerk_seams: float
    jerk_arm: float
    underrun_percent: float
    age_ms: float

    @classmethod
    def names(cls) -> tuple[str, ...]:
        """Return the names of the figures."""
        return tuple(field.name for field in fields(cls))


def smoothness(trip: Trip, skipped_s: float = 1.0) -> Smoothness:
    """
    Score an episode.

    :param skipped_s: its beginning, which is not scored: the arm starts anywhere.
    """
    later = trip.ticks[round(skipped_s / PERIOD_S) :]
    ticks = [tick for tick in later if len(tick.command.position)]
    chunks = {done.chunk.chunk: done.chunk for done in trip.chunks}
    number = np.array([tick.command.chunk for tick in ticks])
    changes = (number[1:] != number[:-1]) & (number[1:] >= 0) & (number[:-1] >= 0)
    seams = np.flatnonzero(changes) + 1
    gaps = [_gap(chunks[number[k - 1]], chunks[number[k]], ticks[k]) for k in seams]
    jumps = [_jump(ticks[k - 1], ticks[k]) for k in seams]
    commanded = _jerk([tick.command.position for tick in ticks])
    near = np.zeros(len(ticks), dtype=np.bool_)
    for k in seams:
        near[max(k - NEAR, 0) : k + NEAR] = True
    ages = [tick.command.age_ns for tick in ticks if tick.command.age_ns is not None]
    return Smoothness(
        track_mm=1e3 * float(np.mean([tick.error_m for tick in ticks])),
        gap_mrad=1e3 * _mean([gap for gap, _ in gaps]),
        gap_rad_s=_mean([gap for _, gap in gaps]),
        jump_mrad=1e3 * _mean([jump for jump, _ in jumps]),
        jump_rad_s=_mean([jump for _, jump in jumps]),
        jerk=_rms(commanded),
        jerk_seams=_rms(commanded[near[2:-1]]),
        jerk_arm=_rms(_jerk([tick.joints for tick in ticks])),
        underrun_percent=100 * _mean([tick.command.play is not Play.PLAYING for tick in ticks]),
        age_ms=1e-6 * _mean(ages),
    )


def _gap(old: ActionChunk, new: ActionChunk, tick: Tick) -> tuple[float, float]:
    """Return what two chunks disagree on at a tick: position [rad], velocity [rad/s]."""
    now_ns = tick.command.stamp_ns
    here, ahead = (_at(new, at_ns) - _at(old, at_ns) for at_ns in (now_ns, now_ns + new.dt_ns))
    return float(np.abs(here).max()), float(np.abs(ahead - here).max() / (new.dt_ns * 1e-9))


def _at(chunk: ActionChunk, now_ns: int) -> FloatArray:
    """Return what a chunk says about an instant: linear, its ends held, [A]."""
    place = (now_ns - chunk.start_ns) / chunk.dt_ns
    steps = np.arange(len(chunk.actions))
    return np.array([np.interp(place, steps, column) for column in chunk.actions.T])


def _jump(before: Tick, after: Tick) -> tuple[float, float]:
    """Return a jump in position and in velocity, as :mod:`physis_ros.output.seams` measures it."""
    old, new = before.command, after.command
    explained = (old.velocity + new.velocity) * (PERIOD_S / 2)
    position = np.abs(new.position - old.position - explained).max()
    return float(position), float(np.abs(new.velocity - old.velocity).max())


def _jerk(positions: Sequence[FloatArray]) -> NDArray[np.float64]:
    """Return the jerk of all joints together at each tick, three fewer [rad/s^3]."""
    jerk: NDArray[np.float64] = np.linalg.norm(
        np.diff(np.array(positions), 3, axis=0) / PERIOD_S**3, axis=1
    )
    return jerk


def _rms(values: NDArray[np.float64]) -> float:
    return float(np.sqrt(np.mean(values**2))) if len(values) else 0.0


def _mean(values: Sequence[float]) -> float:
    return float(np.mean(values)) if values else 0.0
