# SPDX-License-Identifier: Apache-2.0
"""
Figures from arrays: quantiles, intervals, rates, tracking error, image error.

Pure functions of numbers, no files and no ROS. Every figure carries its number of samples; a
quantile that the samples cannot support is None, never a guess.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from physis_ros.errors import ParameterError
from physis_ros.types import ByteArray, FloatArray

Times = npt.NDArray[np.int64]
MS_NS = 1_000_000


@dataclass(frozen=True)
class Spread:
    """
    How one figure is distributed, in the unit of its samples; None when there are none.

    :param n: number of samples.
    """

    n: int
    mean: float | None
    p50: float | None
    p95: float | None
    p99: float | None
    max: float | None

    def as_dict(self, *names: str) -> dict[str, float | int | None]:
        """Return the named figures, rounded to what can be read."""
        return {name: rounded(getattr(self, name)) for name in names}


def spread(values: npt.ArrayLike) -> Spread:
    """
    Return how the values are distributed; quantiles are order statistics, nearest rank.

    :param values: samples, any shape, all finite.
    """
    flat = np.sort(np.asarray(values, dtype=np.float64).ravel())
    if not flat.size:
        return Spread(0, None, None, None, None, None)
    ranks = [max(0, math.ceil(part * flat.size) - 1) for part in (0.5, 0.95, 0.99)]
    p50, p95, p99 = (float(flat[rank]) for rank in ranks)
    return Spread(flat.size, float(flat.mean()), p50, p95, p99, float(flat[-1]))


def rounded(value: float | int | None, digits: int = 5) -> float | int | None:
    """Return the value with so many significant digits; whole numbers and None as they are."""
    if value is None or isinstance(value, int) or not math.isfinite(value):
        return value
    return float(f'{value:.{digits}g}')


def rate_hz(stamps_ns: Times) -> float | None:
    """
    Return how often something happened, from the first to the last time.

    :param stamps_ns: when, non-decreasing [n].
    """
    if len(stamps_ns) < 2 or stamps_ns[-1] <= stamps_ns[0]:
        return None
    return float((len(stamps_ns) - 1) / ((stamps_ns[-1] - stamps_ns[0]) * 1e-9))


def pooled_rate_hz(groups: Sequence[Times]) -> float | None:
    """
    Return the rate over several stretches, the gaps between them left out.

    :param groups: instants of each stretch, non-decreasing.
    """
    kept = [stamps for stamps in groups if len(stamps) > 1]
    duration_ns = sum(int(stamps[-1] - stamps[0]) for stamps in kept)
    if duration_ns <= 0:
        return None
    return sum(len(stamps) - 1 for stamps in kept) / (duration_ns * 1e-9)


def at_times(times_ns: Times, stamps_ns: Times, values: FloatArray) -> FloatArray:
    """
    Return values at other times, linear in between, the end values outside.

    :param times_ns: wanted [n].
    :param stamps_ns: of the values, increasing [m].
    :param values: [m, k].
    """
    base = int(stamps_ns[0])
    wanted, known = (times_ns - base).astype(np.float64), (stamps_ns - base).astype(np.float64)
    columns = [np.interp(wanted, known, values[:, column]) for column in range(values.shape[1])]
    return np.stack(columns, axis=1)


def distance_m(tip_m: FloatArray, target_m: FloatArray) -> FloatArray:
    """Return the distance of two paths at the same instants, [n] from [n, k] or [k]."""
    distance: FloatArray = np.linalg.norm(tip_m - target_m, axis=1)
    return distance


def shrunk(image: ByteArray, height: int, width: int) -> ByteArray:
    """
    Return an image reduced by whole factors: the mean of each cell, halves rounded up.

    :param image: [h, w, 3].
    :param height: wanted; divides h.
    :param width: wanted; divides w.
    """
    rows, columns = image.shape[0], image.shape[1]
    if not height or not width or rows % height or columns % width:
        raise ParameterError(
            'image size', f'a multiple of {height} x {width}', (rows, columns)
        )
    tall, wide = rows // height, columns // width
    cells = image.astype(np.uint32).reshape(height, tall, width, wide, -1)
    area = tall * wide
    return np.asarray((cells.sum(axis=(1, 3)) + area // 2) // area, dtype=np.uint8)


def square_error(image: ByteArray, other: ByteArray) -> float:
    """Return the mean square difference of two images in levels of 0 to 255."""
    difference = image.astype(np.float64) - other.astype(np.float64)
    return float(np.mean(difference * difference))


def psnr_db(square_errors: npt.ArrayLike) -> float | None:
    """
    Return the peak signal-to-noise ratio of many images as one: that of their mean square error.

    :param square_errors: one for each image. Taking the mean of the errors, not of the decibels,
        keeps one perfect image from making the whole figure infinite.
    """
    errors = np.asarray(square_errors, dtype=np.float64)
    if not errors.size:
        return None
    mean = float(errors.mean())
    return math.inf if mean == 0 else 10 * math.log10(255**2 / mean)
