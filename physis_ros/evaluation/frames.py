# SPDX-License-Identifier: Apache-2.0
"""
Predicted frames against what the camera really saw at the instant they are about.

Two passes over the bag: predictions first, then only those camera frames that a comparison needs,
shrunk to the prediction's size. The yardstick is copying the last frame the model had seen.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from physis_ros.evaluation import pictures
from physis_ros.evaluation.bag import Bag
from physis_ros.evaluation.recording import Recording
from physis_ros.evaluation.scores import psnr_db, shrunk, square_error
from physis_ros.evaluation.topics import Topics
from physis_ros.session import decode
from physis_ros.types import ActionChunk, ByteArray


@dataclass(frozen=True)
class Compared:
    """
    One predicted frame beside the truth.

    :param about_ns: the instant it is about.
    :param observed_ns: capture of the newest frame that it was made from.
    :param predicted: [h, w, 3].
    :param seen: what the camera saw at ``about_ns``, same size.
    :param copied: what it had seen at ``observed_ns``, same size.
    """

    about_ns: int
    observed_ns: int
    predicted: ByteArray
    seen: ByteArray
    copied: ByteArray

    @property
    def ahead_ns(self) -> int:
        """How far ahead the frame was predicted."""
        return self.about_ns - self.observed_ns


@dataclass(frozen=True)
class FrameFigures:
    """
    How good the predicted frames are.

    :param n: frames compared.
    :param unmatched: predicted frames for whose instants no camera frame was recorded.
    :param frame_psnr_db: predicted against seen.
    :param copy_last_psnr_db: the last observed frame against seen.
    """

    n: int
    unmatched: int
    frame_psnr_db: float | None
    copy_last_psnr_db: float | None


@dataclass(frozen=True)
class _Prediction:
    about_ns: int
    observed_ns: int
    image: ByteArray


def compared(bag: Bag, topics: Topics, recording: Recording) -> tuple[list[Compared], int]:
    """
    Return the comparable frames within the episodes, and how many could not be compared.

    :raises BagError: when a picture does not decode.
    """
    if not topics.predicted or not topics.camera:
        return [], 0
    predictions = _predictions(bag, topics.predicted, recording)
    if not predictions:
        return [], 0
    wanted = {p.about_ns for p in predictions} | {p.observed_ns for p in predictions}
    height, width = predictions[0].image.shape[:2]
    seen = _seen(bag, topics.camera, wanted, height, width)
    found = [
        Compared(p.about_ns, p.observed_ns, p.image, seen[p.about_ns], seen[p.observed_ns])
        for p in predictions
        if p.about_ns in seen and p.observed_ns in seen
    ]
    return found, len(predictions) - len(found)


def figures(frames: Sequence[Compared], unmatched: int) -> FrameFigures:
    """Return the quality of the frames as one figure each."""
    return FrameFigures(
        n=len(frames),
        unmatched=unmatched,
        frame_psnr_db=psnr_db([square_error(f.predicted, f.seen) for f in frames]),
        copy_last_psnr_db=psnr_db([square_error(f.copied, f.seen) for f in frames]),
    )


def _predictions(bag: Bag, topic: str, recording: Recording) -> list[_Prediction]:
    """Return the predicted frames whose whole story lies within one episode."""
    found = []
    position = 0
    for record in bag.records(topic):
        about_ns = decode.time_ns(record.message.header.stamp)
        while (
            position < len(recording.chunks)
            and recording.chunk_log_ns[position] <= record.log_ns
        ):
            position += 1
        chunk = _maker(recording.chunks, position, about_ns)
        if chunk is None or 'camera' not in chunk.input_stamps_ns:
            continue
        observed_ns = chunk.input_stamps_ns['camera']
        if any(e.start_ns <= observed_ns and about_ns < e.end_ns for e in recording.episodes):
            found.append(_Prediction(about_ns, observed_ns, pictures.image(record.message)))
    return found


def _maker(chunks: Sequence[ActionChunk], position: int, about_ns: int) -> ActionChunk | None:
    """
    Return the chunk that a frame belongs to: the one whose steps the instant comes first in.

    Chunks overlap, but a frame is about one of the first steps of its own. Chunk and frames are
    published together, in either order, so the chunks just before and just after are asked.

    :param position: chunks received up to the frame.
    """
    near = chunks[max(position - 2, 0) : position + 1]
    fitting = [
        chunk
        for chunk in near
        if chunk.start_ns <= about_ns <= chunk.end_ns
        and (about_ns - chunk.start_ns) % chunk.dt_ns == 0
    ]
    return max(fitting, key=lambda chunk: chunk.start_ns, default=None)


def _seen(
    bag: Bag, topic: str, wanted: set[int], height: int, width: int
) -> dict[int, ByteArray]:
    """Return the wanted camera frames by capture instant, shrunk."""
    found: dict[int, ByteArray] = {}
    for record in bag.records(topic):
        stamp_ns = decode.time_ns(record.message.header.stamp)
        if stamp_ns in wanted and stamp_ns not in found:
            found[stamp_ns] = shrunk(pictures.image(record.message), height, width)
    return found
