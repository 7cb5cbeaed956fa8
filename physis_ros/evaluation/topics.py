# SPDX-License-Identifier: Apache-2.0
"""Which topic of a recording holds what: by message type where that tells, else by name."""

from __future__ import annotations

from dataclasses import dataclass

from physis_ros.errors import BagError
from physis_ros.evaluation.bag import Bag

CONFIGURATION = '/demo/configuration'


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


def find(bag: Bag) -> Topics:
    """
    Find the topics of one stream.

    :raises BagError: when there is not exactly one topic of chunks and one of ticks.
    """
    images = bag.of_type('sensor_msgs/msg/Image')
    predicted = [name for name in images if name.endswith('predicted_image')]
    cameras = [name for name in images if name not in predicted]
    joints = bag.of_type('sensor_msgs/msg/JointState')
    return Topics(
        chunks=_only(bag, 'physis_ros/msg/ActionChunk'),
        playback=_only(bag, 'physis_ros/msg/Playback'),
        status=_first(bag.of_type('physis_ros/msg/PlaybackStatus')),
        predicted=_first(predicted),
        camera=_first(cameras),
        joints=_first([name for name in joints if name.endswith('joint_states')]),
        tip=_named(bag, 'tip'),
        target=_named(bag, 'target'),
        episode=_named(bag, 'episode'),
        configuration=CONFIGURATION if CONFIGURATION in bag.topics else '',
        stages=_named(bag, 'stages'),
    )


def _only(bag: Bag, msgtype: str) -> str:
    """Return the one topic of a type."""
    found = [name for name in bag.of_type(msgtype) if bag.counts[name]]
    if len(found) != 1:
        raise BagError(
            f'recording {bag.path} must hold one topic of {msgtype}, got {found or "none"} among '
            f'{sorted(bag.topics)}'
        )
    return found[0]


def _first(names: list[str]) -> str:
    """Return the first name, or nothing."""
    return names[0] if names else ''


def _named(bag: Bag, last: str) -> str:
    """Return the topic whose last part is ``last``, or nothing."""
    return _first(sorted(name for name in bag.topics if name.rsplit('/', 1)[-1] == last))
