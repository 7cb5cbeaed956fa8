# SPDX-License-Identifier: Apache-2.0
"""What comes in for the model: images and joint states, and what is wrong with them."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Any

import numpy.typing as npt
from rclpy.node import Node
from sensor_msgs.msg import CompressedImage, Image, JointState

from physis_ros.errors import NamesError, ObservationError
from physis_ros.observation.compressed import decode_compressed
from physis_ros.observation.compressed_depth import decode_compressed_depth
from physis_ros.observation.config import AlignConfig
from physis_ros.observation.depth import DepthArray, decode_depth
from physis_ros.observation.image import decode_image
from physis_ros.observation.joints import JointReading
from physis_ros.ros.clock import RosClock
from physis_ros.ros.joint_map import JointMap
from physis_ros.ros.qos import SENSOR_IN, QosWatch, images_in
from physis_ros.ros.source import Complaint, Source
from physis_ros.ros.stream_config import StreamConfig, StreamNames
from physis_ros.session.producer import Producer
from physis_ros.types import JOINTS, ByteArray

SEEN_NAMES = 256
RAW = 'raw'


class WamInputs:
    """
    The subscriptions of one stream.

    :param node: the owner.
    :param watch: makes the subscriptions.
    :param config: of the stream.
    :param names: of its topics.
    :param clock: the stream clock.
    :param robot: what joint states call the model's joints, and their units.
    :param cameras: what the robot calls each of the model's cameras.
    :param history: pictures of each camera that the model looks at.
    """

    def __init__(
        self,
        node: Node,
        watch: QosWatch,
        config: StreamConfig,
        names: StreamNames,
        clock: RosClock,
        robot: JointMap,
        cameras: Mapping[str, str],
        history: int,
    ) -> None:
        self._robot, self._joints, self._config = robot, robot.robot_names, config
        self._pictures = images_in(history)
        self.sink: Producer | None = None
        # Shown every picture of the first camera that the producer takes.
        self.viewer: Callable[[int, int, npt.NDArray[Any]], None] | None = None
        self._first, topic = next(iter(cameras.items()))
        self.frame_id = f'{topic.lstrip("/")}_optical'
        self._names_seen: dict[str, None] = {}
        self._subscribe = partial(Source, node, watch, clock)
        self.cameras = {
            camera: self._camera(camera, names.outside(f'{topic}/image_raw'))
            for camera, topic in cameras.items()
        }
        self.states = [
            self._subscribe(
                JointState, names.outside(topic), self._on_joints, 'no_joints', SENSOR_IN
            )
            for topic in config.joint_topics
        ]

    def _camera(self, camera: str, topic: str) -> Source:
        """Subscribe to a camera, of colour or of depth, as it is transported."""
        depth = AlignConfig.is_depth(camera)
        transport = self._config.depth_transport if depth else self._config.image_transport
        kind, topic = (
            (Image, topic) if transport == RAW else (CompressedImage, f'{topic}/{transport}')
        )
        take = partial(self._on_image, camera, depth_of if depth else colour_of)
        return self._subscribe(kind, topic, take, 'no_frame', self._pictures)

    def close(self) -> None:
        """Unsubscribe."""
        self.sink = None
        for source in (*self.cameras.values(), *self.states):
            source.close()

    @property
    def refused(self) -> int:
        """Pictures that could not be read."""
        return sum(source.refused for source in self.cameras.values())

    @property
    def lost(self) -> dict[str, int]:
        """Messages of each topic that never came; of one that two read, what both missed."""
        return {source.topic: source.lost for source in (*self.cameras.values(), *self.states)}

    def complaints(self) -> list[Complaint]:
        """Return what a person should know, worst first; empty when all is well."""
        sources = (*self.cameras.values(), *self.states)
        found = [complaint for source in sources for complaint in source.complaints()]
        missing = [name for name in self._joints if name not in self._names_seen]
        if missing and all(source.count for source in self.states):
            error = NamesError('joints', self._joints, self._names_seen)
            topics = ', '.join(source.topic for source in self.states)
            found.append(Complaint('joint_names', f'{topics}: {error}'))
        return found

    def _on_image(
        self,
        camera: str,
        decoded: Callable[[Any], npt.NDArray[Any]],
        source: Source,
        message: Image | CompressedImage,
        stamp_ns: int,
        receive_ns: int,
    ) -> None:
        """Decode a picture and hand it on."""
        if camera == self._first:
            self.frame_id = message.header.frame_id or self.frame_id
        if self.sink is None:
            return
        try:
            frame = decoded(message)
            self.sink.frame(stamp_ns, receive_ns, frame, camera)
            source.trouble = ''
            if camera == self._first and self.viewer is not None:
                self.viewer(stamp_ns, receive_ns, frame)
        except ObservationError as error:
            source.refuse(str(error))

    def _on_joints(
        self, source: Source, message: JointState, stamp_ns: int, receive_ns: int
    ) -> None:
        """Hand a joint state on."""
        if len(self._names_seen) < SEEN_NAMES:
            self._names_seen.update(dict.fromkeys(message.name))
        if self.sink is not None:
            reading = JointReading(
                stamp_ns,
                receive_ns,
                message.name,
                *self._robot.heard(message.name, message.position, message.velocity),
                self._publisher(message.name),
            )
            self.sink.joints(reading)

    def _publisher(self, names: Sequence[str]) -> str:
        """Return what a publisher of joint states is called: by the first of our joints."""
        ours = [name for name in self._joints if name in names]
        return JOINTS if len(ours) in (0, len(self._joints)) else f'{JOINTS}.{ours[0]}'


def depth_of(message: Image | CompressedImage) -> DepthArray:
    """Return a picture as metres."""
    if isinstance(message, CompressedImage):
        return decode_compressed_depth(message.format, message.data)
    return decode_depth(
        message.height,
        message.width,
        message.encoding,
        bool(message.is_bigendian),
        message.step,
        message.data,
    )


def colour_of(message: Image | CompressedImage) -> ByteArray:
    """Return a picture as RGB."""
    if isinstance(message, CompressedImage):
        return decode_compressed(message.format, message.data)
    return decode_image(
        message.height,
        message.width,
        message.encoding,
        bool(message.is_bigendian),
        message.step,
        message.data,
    )
