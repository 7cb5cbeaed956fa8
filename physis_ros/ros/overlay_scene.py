# SPDX-License-Identifier: Apache-2.0
"""
What an overlay shows: a frame of the camera, the frame that was predicted of it, figures. Pure.

Of all predictions the one is shown that is about the instant nearest to the camera's frame, and of
those the newest.
"""

from __future__ import annotations

import math
from collections import deque
from typing import Any, NamedTuple

import numpy.typing as npt

from physis_ros.ros.conversions import duration_ns
from physis_ros.ros.overlay_picture import Panel
from physis_ros.session.produced import Produced
from physis_ros.types import ActionChunk, PredictedFrame

KEPT_FRAMES = 64
MS = 1e-6


class Seen(NamedTuple):
    """
    A frame of the camera.

    :param picture: as it was decoded.
    """

    stamp_ns: int
    receive_ns: int
    picture: npt.NDArray[Any]


class Scene:
    """Gathers what there is to show. Single-threaded: its owner's lock is around all calls."""

    def __init__(self) -> None:
        self._frames: deque[PredictedFrame] = deque(maxlen=KEPT_FRAMES)
        self._chunk: ActionChunk | None = None
        self.seen: Seen | None = None
        # The status of the servo that plays the stream, a message; None before the first.
        self.playback: Any | None = None

    def produced(self, produced: Produced) -> None:
        """Take a chunk and the frames that it expects to see."""
        chunk = produced.chunk
        if self._chunk is not None and self._chunk.epoch != chunk.epoch:
            self._frames.clear()
        self._chunk = chunk
        self._frames.extend(produced.frames)

    def panels(self, seen: Seen) -> tuple[Panel, Panel]:
        """Return the camera's frame and what was predicted of it."""
        way_ms = (seen.receive_ns - seen.stamp_ns) * MS
        camera = Panel(seen.picture, f'camera, {way_ms:.0f} ms on its way')
        if not self._frames:
            return camera, Panel(None, 'nothing predicted yet')
        frame = min(reversed(self._frames), key=lambda one: abs(one.about_ns - seen.stamp_ns))
        ahead_ms = (frame.about_ns - frame.observed_ns) * MS
        apart_ms = round((frame.about_ns - seen.stamp_ns) * MS)
        when = 'later' if apart_ms > 0 else 'earlier'
        other = f', of {abs(apart_ms)} ms {when}' if apart_ms else ''
        return camera, Panel(frame.image, f'predicted {ahead_ms:.0f} ms ahead{other}')

    def lines(self) -> tuple[str, ...]:
        """Return the figures in words."""
        return _chunk_line(self._chunk), *_playback_lines(self.playback)


def _chunk_line(chunk: ActionChunk | None) -> str:
    """Say of the last chunk how far it reaches and how long it took."""
    if chunk is None:
        return 'no chunk yet'
    times = chunk.times
    horizon_ms = chunk.horizon * chunk.dt_ns * MS
    took_ms = (times.publish_ns - times.receive_ns) * MS
    age_ms = (times.publish_ns - chunk.observed_ns) * MS
    return (
        f'chunk {chunk.epoch}/{chunk.chunk}: horizon {horizon_ms:.0f} ms, took {took_ms:.0f} ms, '
        f'{age_ms:.0f} ms old when it was out'
    )


def _playback_lines(status: Any | None) -> tuple[str, str]:
    """Say what the servo makes of the chunks."""
    if status is None:
        return 'no servo heard that plays this stream', ''
    last_ms = duration_ns(status.last_age) * MS
    last = '-' if last_ms < 0 else f'{last_ms:.0f} ms'
    p50, p99 = status.action_age.p50, status.action_age.p99
    usual = '' if math.isnan(p50) else f', p50 {p50:.0f} ms, p99 {p99:.0f} ms'
    age = f'action age {last}{usual}'
    missed = (
        f'missed {status.deadline_misses} of {status.deadline_due}, '
        f'underruns {status.underruns}, chunks late {status.chunks_late}, '
        f'refused {status.chunks_rejected}'
    )
    return age, missed
