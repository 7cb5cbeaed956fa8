# SPDX-License-Identifier: Apache-2.0
"""
What comes in for the model: images and joint states, and what is wrong with them.

A camera that is silent, of the wrong kind or out of reach looks the same to a model; a person is
told which it is, with the topic and the quality of service.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from rclpy.node import Node
from rclpy.subscription import Subscription
from sensor_msgs.msg import CompressedImage, Image, JointState

from physis_ros.clock import Clock
from physis_ros.errors import NamesError, ObservationError
from physis_ros.observation.compressed import decode_compressed
from physis_ros.observation.image import decode_image
from physis_ros.observation.joints import JointReading
from physis_ros.ros import conversions, qos
from physis_ros.ros.clock import seldom
from physis_ros.ros.qos import QosWatch
from physis_ros.ros.servo_report import apart
from physis_ros.ros.stream_config import StreamConfig, StreamNames
from physis_ros.session.producer import Producer
from physis_ros.types import ByteArray

SILENCE_NS = 2_500_000_000
SEEN_NAMES = 256


@dataclass
class Source:
    """
    One topic.

    :param heard_ns: steady time of the last message, at first of the subscription.
    :param refused: messages that could not be read.
    :param trouble: why its last message could not be used; empty when it could.
    :param apart_ns: how long ago, by our clock, its last stamp was.
    """

    topic: str
    subscription: Subscription
    heard_ns: int
    count: int = 0
    refused: int = 0
    trouble: str = ''
    apart_ns: int = 0


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
        self._node, self._clock, self._joints = node, clock, joints
        self.sink: Producer | None = None
        self.frame_id = f'{config.camera.lstrip("/")}_optical'
        self._names_seen: dict[str, None] = {}
        compressed = config.image_transport == 'compressed'
        topic = names.outside(f'{config.camera}/image_raw') + ('/compressed' if compressed else '')
        kind = CompressedImage if compressed else Image
        self.camera = self._source(watch, kind, topic, self._on_image)
        topic = names.outside('joint_states')
        self.states = self._source(watch, JointState, topic, self._on_joints)

    def _source(
        self, watch: QosWatch, kind: type, topic: str, callback: Callable[[Any], None]
    ) -> Source:
        """Subscribe."""
        subscription = watch.subscribe(kind, topic, callback, qos.SENSOR_IN)
        resolved = self._node.resolve_topic_name(topic)
        return Source(resolved, subscription, time.monotonic_ns())

    def close(self) -> None:
        """Unsubscribe."""
        self.sink = None
        for source in (self.camera, self.states):
            self._node.destroy_subscription(source.subscription)

    @property
    def refused(self) -> int:
        """Pictures that could not be read."""
        return self.camera.refused

    def complaints(self) -> list[str]:
        """Return what a person should know, worst first; empty when all is well."""
        found = [source.trouble for source in (self.camera, self.states) if source.trouble]
        found += [
            self._silence(source) for source in (self.camera, self.states) if self._silent(source)
        ]
        found += [
            f'{source.topic}: {apart(source.apart_ns)}'
            for source in (self.camera, self.states)
            if apart(source.apart_ns)
        ]
        missing = [name for name in self._joints if name not in self._names_seen]
        if self.states.count and missing:
            found.append(f'{self.states.topic}: {self._missing()}')
        return found

    def _missing(self) -> NamesError:
        """Return the two sets of names."""
        return NamesError('joints', self._joints, self._names_seen)

    def _silent(self, source: Source) -> bool:
        """Whether a topic has been silent for too long."""
        return time.monotonic_ns() - source.heard_ns > SILENCE_NS

    def _silence(self, source: Source) -> str:
        """Say of a silent topic who publishes it and how."""
        text = f'nothing on {source.topic} for {SILENCE_NS * 1e-9:g} s and more: '
        peers = self._node.get_publishers_info_by_topic(source.topic)
        if not peers:
            return f'{text}nobody publishes it; check name, namespace, remapping and ROS_DOMAIN_ID'
        offered = sorted(
            {f'{p.qos_profile.reliability.name}/{p.qos_profile.durability.name}' for p in peers}
        )
        profile = source.subscription.qos_profile
        asked = f'{profile.reliability.name}/{profile.durability.name}'
        return (
            f'{text}{len(peers)} publishers with QoS {offered}, asked for {asked}; if they do not '
            f'match set qos_overrides.{source.topic}, else the publisher itself is silent'
        )

    def _on_image(self, message: Image | CompressedImage) -> None:
        """Decode a picture and hand it on."""
        receive_ns = self._clock.now_ns()
        stamp_ns = self._heard(self.camera, message, receive_ns)
        self.frame_id = message.header.frame_id or self.frame_id
        if self.sink is None:
            return
        try:
            self.sink.frame(stamp_ns, receive_ns, _decoded(message))
            self.camera.trouble = ''
        except ObservationError as error:
            self._refuse(self.camera, str(error))

    def _on_joints(self, message: JointState) -> None:
        """Hand a joint state on."""
        receive_ns = self._clock.now_ns()
        stamp_ns = self._heard(self.states, message, receive_ns)
        if len(self._names_seen) < SEEN_NAMES:
            self._names_seen.update(dict.fromkeys(message.name))
        if self.sink is not None:
            reading = JointReading(
                stamp_ns, receive_ns, message.name, message.position, message.velocity
            )
            self.sink.joints(reading)

    def _heard(self, source: Source, message: Any, receive_ns: int) -> int:
        """Note that a topic lives and how far its clock is from ours; return the stamp [ns]."""
        source.heard_ns = time.monotonic_ns()
        source.count += 1
        stamp_ns: int = conversions.time_ns(message.header.stamp)
        # No stamp, or no time of our own yet, says nothing of a clock.
        source.apart_ns = receive_ns - stamp_ns if stamp_ns and receive_ns else 0
        return stamp_ns

    def _refuse(self, source: Source, why: str) -> None:
        """Remember and say why a message could not be used."""
        source.refused += 1
        source.trouble = f'{source.topic}: {why}'
        self._node.get_logger().error(source.trouble, **seldom(5.0))


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
