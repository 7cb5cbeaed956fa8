# SPDX-License-Identifier: Apache-2.0
"""What comes in for the model: images and joint states, and what is wrong with them."""

from __future__ import annotations

from functools import partial

from rclpy.node import Node
from sensor_msgs.msg import CompressedImage, Image, JointState

from physis_ros.clock import Clock
from physis_ros.errors import NamesError, ObservationError
from physis_ros.observation.compressed import decode_compressed
from physis_ros.observation.image import decode_image
from physis_ros.observation.joints import JointReading
from physis_ros.ros.qos import QosWatch
from physis_ros.ros.source import Complaint, Source
from physis_ros.ros.stream_config import StreamConfig, StreamNames
from physis_ros.session.producer import Producer
from physis_ros.types import ByteArray

SEEN_NAMES = 256


class WamInputs:
    """
    The subscriptions of one stream.

    :param node: the owner.
    :param watch: makes the subscriptions.
    :param config: of the stream.
    :param names: of its topics.
    :param clock: the stream clock.
    :param joints: what the robot calls the model's joints.
    """

    def __init__(
        self,
        node: Node,
        watch: QosWatch,
        config: StreamConfig,
        names: StreamNames,
        clock: Clock,
        joints: tuple[str, ...],
    ) -> None:
        self._joints = joints
        self.sink: Producer | None = None
        self.frame_id = f'{config.camera.lstrip("/")}_optical'
        self._names_seen: dict[str, None] = {}
        compressed = config.image_transport == 'compressed'
        topic = names.outside(f'{config.camera}/image_raw') + ('/compressed' if compressed else '')
        kind = CompressedImage if compressed else Image
        subscribe = partial(Source, node, watch, clock)
        self.camera = subscribe(kind, topic, self._on_image, 'no_frame')
        self.states = subscribe(
            JointState, names.outside('joint_states'), self._on_joints, 'no_joints'
        )

    def close(self) -> None:
        """Unsubscribe."""
        self.sink = None
        for source in (self.camera, self.states):
            source.close()

    @property
    def refused(self) -> int:
        """Pictures that could not be read."""
        return self.camera.refused

    def complaints(self) -> list[Complaint]:
        """Return what a person should know, worst first; empty when all is well."""
        found = [*self.camera.complaints(), *self.states.complaints()]
        missing = [name for name in self._joints if name not in self._names_seen]
        if self.states.count and missing:
            error = NamesError('joints', self._joints, self._names_seen)
            found.append(Complaint('joint_names', f'{self.states.topic}: {error}'))
        return found

    def _on_image(
        self, source: Source, message: Image | CompressedImage, stamp_ns: int, receive_ns: int
    ) -> None:
        """Decode a picture and hand it on."""
        self.frame_id = message.header.frame_id or self.frame_id
        if self.sink is None:
            return
        try:
            self.sink.frame(stamp_ns, receive_ns, _decoded(message))
            source.trouble = ''
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
                stamp_ns, receive_ns, message.name, message.position, message.velocity
            )
            self.sink.joints(reading)


def _decoded(message: Image | CompressedImage) -> ByteArray:
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
