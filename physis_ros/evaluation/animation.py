# SPDX-License-Identifier: Apache-2.0
"""``predicted.gif``: what the camera saw, beside the frame that had been predicted for then."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise
from pathlib import Path

import numpy as np
from PIL import Image, ImageDraw, ImageFont

from physis_ros.evaluation.frames import Compared
from physis_ros.evaluation.scores import psnr_db, square_error
from physis_ros.types import ByteArray

MOST_FRAMES = 120
GIF_STEP_MS = 10
GAP_PX, BAND_PX = 8, 34
TILE_PX = 192
BACKGROUND, INK, SOFT = (15, 23, 42), (241, 245, 249), (148, 163, 184)
ERROR_GAIN = 3


def write_animation(path: Path, frames: Sequence[Compared]) -> Path:
    """
    Write the comparison as an endless animation, in real time as far as GIF allows.

    :param frames: at least one; the first few seconds are shown.
    """
    shown = sorted(frames, key=lambda frame: frame.about_ns)[:MOST_FRAMES]
    pictures = [_picture(frame) for frame in shown]
    times_ms = [frame.about_ns // 1_000_000 for frame in shown]
    durations = [
        min(max(after - before, 2 * GIF_STEP_MS), 500)
        for before, after in pairwise(times_ms)
    ]
    # One palette for all: with a palette each, flat areas flicker.
    palette = pictures[len(pictures) // 2].quantize(128)
    first, *rest = [
        picture.quantize(palette=palette, dither=Image.Dither.NONE) for picture in pictures
    ]
    first.save(
        path,
        save_all=True,
        append_images=rest,
        duration=[*durations, 500],
        loop=0,
        optimize=True,
    )
    return path


def strip(frames: Sequence[Compared], count: int = 4) -> Image.Image:
    """Return some frames below each other, evenly picked, for the report."""
    picked = [frames[round(i)] for i in np.linspace(0, len(frames) - 1, min(count, len(frames)))]
    pictures = [_picture(frame, tile_px=160) for frame in picked]
    width, height = pictures[0].size
    sheet = Image.new('RGB', (width, height * len(pictures)), BACKGROUND)
    for index, picture in enumerate(pictures):
        sheet.paste(picture, (0, index * height))
    return sheet


def _picture(frame: Compared, tile_px: int = TILE_PX) -> Image.Image:
    """Draw one comparison: seen, predicted, copied last, and the prediction's error."""
    tiles = {
        'camera': frame.seen,
        'predicted': frame.predicted,
        'last frame it had': frame.copied,
        f'error x {ERROR_GAIN}': _error(frame),
    }
    width = len(tiles) * tile_px + (len(tiles) + 1) * GAP_PX
    picture = Image.new('RGB', (width, tile_px + GAP_PX + BAND_PX), BACKGROUND)
    draw = ImageDraw.Draw(picture)
    font, small = ImageFont.load_default(14), ImageFont.load_default(12)
    predicted_db = _db(frame.predicted, frame.seen)
    notes = {
        'predicted': f'{frame.ahead_ns // 1_000_000} ms ahead, {predicted_db}',
        'last frame it had': _db(frame.copied, frame.seen),
    }
    for index, (name, tile) in enumerate(tiles.items()):
        left = GAP_PX + index * (tile_px + GAP_PX)
        picture.paste(_enlarged(tile, tile_px), (left, BAND_PX))
        draw.text((left, 2), name, fill=INK, font=font)
        draw.text((left, 18), notes.get(name, ''), fill=SOFT, font=small)
    return picture


def _error(frame: Compared) -> ByteArray:
    """Return the prediction's absolute error, brightened."""
    error = np.abs(frame.predicted.astype(np.int16) - frame.seen.astype(np.int16)) * ERROR_GAIN
    return np.clip(error, 0, 255).astype(np.uint8)


def _db(image: ByteArray, truth: ByteArray) -> str:
    """Return how close a picture is to the truth."""
    value = psnr_db([square_error(image, truth)])
    return 'exact' if value is None or value == float('inf') else f'{value:.1f} dB'


def _enlarged(tile: ByteArray, tile_px: int) -> Image.Image:
    """Return a tile at the size shown, its pixels visible."""
    return Image.fromarray(tile).resize((tile_px, tile_px), Image.Resampling.NEAREST)
