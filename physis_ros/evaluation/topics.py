# SPDX-License-Identifier: Apache-2.0
"""Which topic of a recording holds what: by message type where that tells, else by name."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from physis_ros.errors import BagError
from physis_ros.evaluation.bag import Bag

CONFIGURATION = '/demo/configuration'
# Of the recorder: what it has missed.
MISSING = '/recorder/missing'
CHUNKS = 'physis_ros/msg/ActionChunk'
# Pictures that no camera took.
PREDICTED = 'predicted_image'
MADE = (PREDICTED, 'overlay')


@dataclass(frozen=True)
class Topics:
    """
    Topic names; empty where the recording has no such topic.

    :param chunks: ActionChunk.
    :param playback: Playback.
    :param status: PlaybackStatus.
    :param predicted: Image, stamped with the time it is about.
    :param camera: Image.
    :param joints: JointState, measured.
    :param tip: PointStamped, the truth.
    :param target: PointStamped, the truth.
    :param episode: Int32, the running episode or -1.
    :param configuration: String, JSON, what the run was started with.
    :param stages: String, JSON, one chunk's stages by worker.
    :param missing: String, JSON, what the recorder has missed since its start, by topic.
    """

    chunks: str
    playback: str
    status: str = ''
    predicted: str = ''
    camera: str = ''
    joints: str = ''
    tip: str = ''
    target: str = ''
    episode: str = ''
    configuration: str = ''
    stages: str = ''
    missing: str = ''


def streams(bag: Bag) -> tuple[str, ...]:
    """Return the streams of a recording, by the part before their chunks; one has no name here."""
    found = _recorded(bag, CHUNKS)
    return tuple(topic.rsplit('/', 2)[-2] for topic in found) if len(found) > 1 else ('',)


def find(bag: Bag, stream: str = '') -> Topics:
    """
    Find the topics of one stream.

    :param stream: its name is a part of the names of all of its topics; empty: it is the only one.
    :raises BagError: when there is not exactly one topic of chunks and one of ticks.
    """
    images = _of(bag.of_type('sensor_msgs/msg/Image'), stream)
    predicted = [name for name in images if name.rsplit('/', 1)[-1] == PREDICTED]
    cameras = [name for name in images if name.rsplit('/', 1)[-1] not in MADE]
    joints = _of(bag.of_type('sensor_msgs/msg/JointState'), stream)
    return Topics(
        chunks=_only(bag, CHUNKS, stream),
        playback=_only(bag, 'physis_ros/msg/Playback', stream),
        status=_first(_of(bag.of_type('physis_ros/msg/PlaybackStatus'), stream)),
        predicted=_first(predicted),
        camera=_first(cameras),
        joints=_first([name for name in joints if name.endswith('joint_states')]),
        tip=_named(bag, 'tip', stream),
        target=_named(bag, 'target', stream),
        episode=_named(bag, 'episode', stream),
        configuration=CONFIGURATION if CONFIGURATION in bag.topics else '',
        stages=_named(bag, 'stages', stream),
        missing=MISSING if MISSING in bag.topics else '',
    )


def _recorded(bag: Bag, msgtype: str) -> list[str]:
    """Return the topics of a type that hold something."""
    return [name for name in bag.of_type(msgtype) if bag.counts[name]]


def _of(names: Iterable[str], stream: str) -> list[str]:
    """Return the names that are of a stream."""
    return [name for name in names if not stream or stream in name.split('/')]


def _only(bag: Bag, msgtype: str, stream: str) -> str:
    """Return the one topic of a type."""
    found = _of(_recorded(bag, msgtype), stream)
    if len(found) != 1:
        whose = f' for stream {stream!r}' if stream else ''
        raise BagError(
            f'recording {bag.path} must hold one topic of {msgtype}{whose}, got '
            f'{found or "none"} among {sorted(bag.topics)}'
        )
    return found[0]


def _first(names: list[str]) -> str:
    """Return the first name, or nothing."""
    return names[0] if names else ''


def _named(bag: Bag, last: str, stream: str) -> str:
    """Return the topic whose last part is ``last``, or nothing."""
    names = sorted(name for name in bag.topics if name.rsplit('/', 1)[-1] == last)
    return _first(_of(names, stream))
