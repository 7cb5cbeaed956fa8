# SPDX-License-Identifier: Apache-2.0
"""Pictures side by side with words around them, as one picture for a person. Pure."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import cv2
import numpy as np
import numpy.typing as npt

from physis_ros.types import ByteArray

HEIGHT_PX, LEAST_WIDTH_PX, GAP_PX = 240, 240, 8
LINE_PX, FONT, SCALE = 18, cv2.FONT_HERSHEY_SIMPLEX, 0.42
INK, DIM, PAPER = (235, 235, 235), (150, 150, 150), (24, 24, 28)


class Panel(NamedTuple):
    """
    One of the pictures.

    :param picture: uint8 [height, width, 3] RGB, or depth, float32 [height, width] in metres; None
        where there is none.
    :param title: what it shows; without a picture why there is none.
    """

    picture: npt.NDArray[Any] | None
    title: str


def drawn(panels: Sequence[Panel], lines: Sequence[str]) -> ByteArray:
    """Return panels side by side, each under its title, and lines of text below; RGB."""
    columns = [_column(panel) for panel in panels]
    gap = _empty(len(columns[0]), GAP_PX)
    row = np.hstack([part for column in columns for part in (column, gap)][:-1])
    written = [_line(line, row.shape[1], INK) for line in lines]
    return np.vstack([row, *written])


def coloured(picture: npt.NDArray[Any]) -> ByteArray:
    """Return a picture as RGB; depth as grey, near is bright, nothing measured is black."""
    if picture.dtype == np.uint8:
        return picture
    far = float(np.max(picture, initial=0.0, where=np.isfinite(picture)))
    measured = np.isfinite(picture) & (picture > 0.0)
    near = 1.0 - np.where(measured, picture, far) / (far or 1.0)
    grey: ByteArray = np.where(measured, 55.0 + 200.0 * near, 0.0).astype(np.uint8)
    return np.repeat(grey[..., np.newaxis], 3, axis=2)


def _column(panel: Panel) -> ByteArray:
    """Return a panel under its title."""
    picture = _empty(HEIGHT_PX, LEAST_WIDTH_PX)
    if panel.picture is not None:
        picture = _scaled(coloured(panel.picture))
    return np.vstack([_line(panel.title, picture.shape[1], DIM), picture])


def _scaled(picture: ByteArray) -> ByteArray:
    """Return a picture as high as all are, its aspect kept, with paper where it is narrow."""
    height, width = picture.shape[:2]
    wide = max(round(width * HEIGHT_PX / height), 1)
    # A small picture keeps its pixels: they are what the model sees.
    how = cv2.INTER_NEAREST if height < HEIGHT_PX else cv2.INTER_AREA
    paper = _empty(HEIGHT_PX, max(wide, LEAST_WIDTH_PX))
    paper[:, :wide] = cv2.resize(
        np.ascontiguousarray(picture), (wide, HEIGHT_PX), interpolation=how
    )
    return paper


def _line(text: str, width: int, ink: tuple[int, int, int]) -> ByteArray:
    """Return a line of text; it is drawn narrower where it would not fit."""
    paper = _empty(LINE_PX, width)
    (long, _), _ = cv2.getTextSize(text, FONT, SCALE, 1)
    scale = SCALE * min(1.0, (width - 8) / max(long, 1))
    cv2.putText(paper, text, (4, LINE_PX - 5), FONT, scale, ink, 1, cv2.LINE_AA)
    return paper


def _empty(height: int, width: int) -> ByteArray:
    """Return paper."""
    return np.full((height, width, 3), PAPER, dtype=np.uint8)
