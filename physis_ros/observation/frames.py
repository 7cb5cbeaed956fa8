# SPDX-License-Identifier: Apache-2.0
"""
The camera frames of the last moments, by capture time.

Bounded in time (what the history needs) and in count. Knows nothing of joints or of now.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt


class Frame(NamedTuple):
    """
    One camera frame.

    :param image: uint8 [height, width, 3] RGB, or float32 [height, width] depth; model size.
    """

    stamp_ns: int
    receive_ns: int
    image: npt.NDArray[Any]


class History(NamedTuple):
    """
    The frames a model wants at one instant.

    :param images: [K, height, width, 3] or [K, height, width], oldest first.
    :param stamps_ns: capture time of each, as it really was.
    :param missing: how many had to be replaced by the nearest frame there is.
    :param receive_ns: when the last of them was received.
    """

    images: npt.NDArray[Any]
    stamps_ns: tuple[int, ...]
    missing: int
    receive_ns: int


class FrameRing:
    """
    Frames in rising order of their stamps. Single-threaded.

    :param offsets_ns: wanted capture times relative to the newest, oldest first, last one 0.
    :param tolerance_ns: how far from a wanted time a frame still counts as that one.
    :param max_frames: the most frames kept, whatever their stamps.
    :param keep_ns: frames are kept so much longer than the history of the newest one needs.
    """

    def __init__(
        self, offsets_ns: tuple[int, ...], tolerance_ns: int, max_frames: int, keep_ns: int = 0
    ) -> None:
        self._offsets_ns = offsets_ns
        self.reconfigure(tolerance_ns, keep_ns)
        self._frames: deque[Frame] = deque(maxlen=max_frames)

    def reconfigure(self, tolerance_ns: int, keep_ns: int) -> None:
        """Change how far a frame may lie from its time, and how long it is kept."""
        self._tolerance_ns = tolerance_ns
        self._span_ns = tolerance_ns - self._offsets_ns[0] + keep_ns

    @property
    def newest(self) -> Frame | None:
        """The frame with the greatest stamp."""
        return self._frames[-1] if self._frames else None

    def newest_first(self) -> Iterator[Frame]:
        """Yield all frames."""
        yield from reversed(self._frames)

    def near(self, instant_ns: int, tolerance_ns: int) -> bool:
        """Whether a frame lies no further than the tolerance from an instant."""
        return any(abs(f.stamp_ns - instant_ns) <= tolerance_ns for f in reversed(self._frames))

    def __len__(self) -> int:
        return len(self._frames)

    def append(self, frame: Frame) -> None:
        """Take a frame newer than all before; drop those no history needs any more."""
        self._frames.append(frame)
        while self._frames[0].stamp_ns < frame.stamp_ns - self._span_ns:
            self._frames.popleft()

    def clear(self) -> None:
        """Forget all frames."""
        self._frames.clear()

    def history(self, anchor_ns: int) -> History:
        """
        Pick the nearest frame for each wanted time; there must be one frame at least.

        :param anchor_ns: what the offsets count from.

        At the start of an epoch the past is missing: the oldest frame is repeated, as in training.
        """
        wanted_ns = [anchor_ns + offset for offset in self._offsets_ns]
        picked = [self._nearest(instant) for instant in wanted_ns]
        missing = sum(
            abs(frame.stamp_ns - instant) > self._tolerance_ns
            for frame, instant in zip(picked, wanted_ns, strict=True)
        )
        images = np.stack([frame.image for frame in picked])
        stamps_ns = tuple(frame.stamp_ns for frame in picked)
        return History(images, stamps_ns, missing, max(frame.receive_ns for frame in picked))

    def _nearest(self, instant_ns: int) -> Frame:
        return min(self._frames, key=lambda frame: abs(frame.stamp_ns - instant_ns))
