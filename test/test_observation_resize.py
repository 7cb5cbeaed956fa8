# SPDX-License-Identifier: Apache-2.0
"""Model-size images: exact, equal to the training data, never distorted."""

from __future__ import annotations

import numpy as np
import pytest

from physis_ros.errors import ObservationError
from physis_ros.observation.resize import resize
from physis_ros.simulation.episode import halved


def test_halves_are_rounded_up() -> None:
    squares = [[0, 0, 1, 1, 255, 255], [0, 1, 0, 0, 255, 254]]  # means 0.25, 0.5, 254.75
    image = np.repeat(np.array(squares, np.uint8)[..., None], 3, axis=2)
    assert resize(image, 1, 3)[..., 0].tolist() == [[0, 1, 255]]


def test_equals_the_training_data() -> None:
    image = np.random.default_rng(1).integers(0, 256, (128, 128, 3), np.uint8)
    np.testing.assert_array_equal(resize(image, 64, 64), halved(image))


@pytest.mark.parametrize('factor', [3, 4, 17, 20])
def test_whole_factors_are_the_exact_mean(factor: int) -> None:
    image = np.random.default_rng(2).integers(0, 256, (2 * factor, 3 * factor, 3), np.uint8)
    squares = image.reshape(2, factor, 3, factor, 3).astype(np.int64).sum(axis=(1, 3))
    count = factor * factor
    np.testing.assert_array_equal(resize(image, 2, 3), (squares + count // 2) // count)
    white = np.full((2 * factor, 3 * factor, 3), 255, np.uint8)
    assert (resize(white, 2, 3) == 255).all()


def test_other_factors_keep_a_flat_image_flat() -> None:
    image = np.full((96, 96, 3), [3, 100, 200], np.uint8)
    small = resize(image, 64, 64)
    assert small.shape == (64, 64, 3)
    assert (small == [3, 100, 200]).all()


def test_right_size_costs_nothing() -> None:
    image = np.zeros((4, 4, 3), np.uint8)
    assert resize(image, 4, 4) is image


@pytest.mark.parametrize(
    ('shape', 'dtype', 'message'),
    [
        ((480, 640, 3), np.uint8, 'aspect must be 64:64 .* got 640x480'),
        ((32, 32, 3), np.uint8, 'at least 64x64, got 32x32'),
        ((3, 128, 128), np.float32, r'uint8 \[height, width, 3\], got float32 \[3, 128, 128\]'),
        ((128, 128), np.uint8, r'got uint8 \[128, 128\]'),
    ],
)
def test_I8_wrong_images_are_refused(
    shape: tuple[int, ...], dtype: type[np.generic], message: str
) -> None:
    """I8: CHW floats where HWC bytes are meant are an error, not a crash further on."""
    with pytest.raises(ObservationError, match=message):
        resize(np.zeros(shape, dtype), 64, 64)
