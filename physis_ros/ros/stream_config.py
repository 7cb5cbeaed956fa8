# SPDX-License-Identifier: Apache-2.0
"""The parameters of one stream of the model node, and what they mean for its producer."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass

from physis_ros.errors import NamesError, ParameterError
from physis_ros.observation.compressed_depth import TRANSPORT
from physis_ros.observation.config import Timeline
from physis_ros.observation.joints import JointMatch
from physis_ros.ros.joint_map import JointMap
from physis_ros.ros.parameters import QOS_PREFIX, check_topic, parameter
from physis_ros.session.producer_config import Pacing, ProducerConfig

MS_NS = 1e6
PRODUCER = ProducerConfig
NAME = re.compile(r'[A-Za-z](_?[A-Za-z0-9])*')


@dataclass(frozen=True)
class StreamConfig:
    """
    How the observations of one stream become chunks.

    Each is a parameter of the node for all of its streams, and ``<stream>.<name>`` for one.
    """

    camera: str = parameter(
        'camera', "Images come from <camera>/image_raw; '/' first: not below the stream's name."
    )
    cameras: tuple[str, ...] = parameter(
        (),
        "Several cameras, or depth: 'camera=what the model calls it'; leave out for one. Depth is "
        "what the model calls 'depth' or 'depth.<camera>'.",
    )
    camera_tolerance_ms: float = parameter(
        PRODUCER.camera_tolerance_ns / MS_NS,
        "With several cameras: how far from the first one's frame another's may lie [ms].",
        low=0.0,
        high=10_000.0,
        dynamic=True,
    )
    image_transport: str = parameter(
        'raw',
        'raw: sensor_msgs/Image; compressed: sensor_msgs/CompressedImage on .../compressed.',
        choices=('raw', 'compressed'),
    )
    depth_transport: str = parameter(
        'raw',
        'Of depth cameras; raw: sensor_msgs/Image; compressedDepth: sensor_msgs/CompressedImage '
        'on .../compressedDepth, in png.',
        choices=('raw', TRANSPORT),
    )
    joint_topics: tuple[str, ...] = parameter(
        ('joint_states',), 'Topics of joint states; each may carry any of the joints.'
    )
    joint_names: tuple[str, ...] = parameter(
        PRODUCER.joint_names, "The model's joints in its order; leave out for the model's own."
    )
    joint_aliases: tuple[str, ...] = parameter(
        (), "Where names differ: 'robot_joint=model_joint'."
    )
    joint_units: tuple[str, ...] = parameter(
        (),
        "Where joint states are not in rad or m: 'model_joint=deg' or 'model_joint=mm'. Chunks "
        'stay in rad and m; so the servo node has these too.',
    )
    joint_scales: tuple[str, ...] = parameter(
        (),
        "What they were multiplied by after that, not 0 [1]: 'model_joint=-1.0' for one that "
        'turns the other way.',
    )
    joint_offsets: tuple[str, ...] = parameter(
        (), "What was added to them last [robot's unit]: 'model_joint=90.0'."
    )
    pacing: str = parameter(
        PRODUCER.pacing.value,
        'beat: a chunk every period_ms, made ahead for when it will be played. lockstep: look, '
        'think, act, in turns: the next picture is one from after the end of the last chunk, the '
        'model is told no delay, and nothing needs tuning; the robot waits meanwhile.',
        choices=[item.value for item in Pacing],
    )
    period_ms: float = parameter(
        PRODUCER.period_ns / MS_NS,
        'Promised interval between chunks [ms]: what admission must hold.',
        low=1.0,
        high=60_000.0,
        dynamic=True,
    )
    max_response_ms: float = parameter(
        0.0,
        'Longest response latency that admission must hold [ms]; 0: none is asked for.',
        low=0.0,
        high=60_000.0,
    )
    expected_response_ms: float = parameter(
        PRODUCER.expected_response_ns / MS_NS,
        'Time from entry to publishing, until it has been measured [ms].',
        low=0.0,
        high=60_000.0,
    )
    margin_ms: float = parameter(
        PRODUCER.margin_ns / MS_NS,
        'Time allowed for the way from here to the player [ms].',
        low=0.0,
        high=10_000.0,
        dynamic=True,
    )
    frame_tolerance_ms: float = parameter(
        PRODUCER.frame_tolerance_ns / MS_NS,
        'How far from its wanted time an earlier frame may lie [ms].',
        low=0.0,
        high=10_000.0,
        dynamic=True,
    )
    joint_tolerance_ms: float = parameter(
        PRODUCER.joint_tolerance_ns / MS_NS,
        'How far from the frame a joint state may lie [ms].',
        low=0.0,
        high=10_000.0,
        dynamic=True,
    )
    joint_match: str = parameter(
        PRODUCER.joint_match.value,
        'Which joint state belongs to a frame: interpolate between the two around it; asof: the '
        'last one that is not newer; nearest.',
        choices=[item.value for item in JointMatch],
        dynamic=True,
    )
    max_observation_age_ms: float = parameter(
        PRODUCER.max_age_ns / MS_NS,
        'A frame older than this makes no observation [ms].',
        low=1.0,
        high=60_000.0,
        dynamic=True,
    )
    rtc_frozen_ms: float = parameter(
        PRODUCER.rtc_frozen_ns / MS_NS,
        'Real-time chunking: so long from its start a chunk keeps the actions that are committed '
        'already [ms]; below period_ms. For servo nodes with merge: replace or blend. Both 0: '
        'off.',
        low=0.0,
        high=60_000.0,
    )
    rtc_soft_ms: float = parameter(
        PRODUCER.rtc_soft_ns / MS_NS,
        'Real-time chunking: after that, so long a chunk is drawn to them, less and less [ms].',
        low=0.0,
        high=60_000.0,
    )
    timeline: str = parameter(
        PRODUCER.timeline.value,
        'Which time places a message: its header, or when it was received.',
        choices=[item.value for item in Timeline],
    )

    def __post_init__(self) -> None:
        """
        Refuse what is no name, and aliases of another form.

        :raises ParameterError: naming the parameter.
        """
        for text in self.joint_aliases:
            robot, _, model = text.partition('=')
            if not robot.strip() or not model.strip():
                raise ParameterError('joint_aliases', "a list of 'robot_joint=model_joint'", text)
        if not self.camera:
            raise ParameterError('camera', 'a name', self.camera)
        if not self.joint_topics:
            raise ParameterError('joint_topics', 'one or more topics', list(self.joint_topics))
        called = [text.partition('=') for text in self.cameras]
        if not all(topic.strip() and (model.strip() or not sign) for topic, sign, model in called):
            raise ParameterError('cameras', "a list of 'camera=model camera'", list(self.cameras))
        for name, topics in (
            ('camera', (self.camera,)),
            ('cameras', [topic.strip() for topic, _, _ in called]),
            ('joint_topics', self.joint_topics),
        ):
            for topic in topics:
                check_topic(name, topic)

    def camera_topics(self, wanted: Sequence[str]) -> dict[str, str]:
        """
        Return the robot's name of each of the model's cameras, in the model's order.

        :param wanted: the model's cameras.
        :raises NamesError: when they are not the same.
        """
        if len(wanted) == 1 and not self.cameras:
            return {wanted[0]: self.camera}
        pairs = (text.partition('=') for text in self.cameras or (self.camera,))
        topics = {(model or topic).strip(): topic.strip() for topic, _, model in pairs}
        if set(topics) != set(wanted):
            raise NamesError('cameras', wanted, topics)
        return {name: topics[name] for name in wanted}

    def robot(self, joints: Sequence[str]) -> JointMap:
        """
        Return what joint states call the model's joints, and their units.

        :param joints: the model's.
        :raises ParameterError: naming both sets where the parameters name others.
        """
        return JointMap.of(
            joints, self.joint_aliases, self.joint_units, self.joint_scales, self.joint_offsets
        )

    @property
    def aliases(self) -> dict[str, str]:
        """Robot's joint name -> model's joint name."""
        pairs = (text.partition('=') for text in self.joint_aliases)
        return {robot.strip(): model.strip() for robot, _, model in pairs}

    @property
    def producer(self) -> ProducerConfig:
        """The session's part."""
        return ProducerConfig(
            period_ns=round(self.period_ms * MS_NS),
            expected_response_ns=round(self.expected_response_ms * MS_NS),
            margin_ns=round(self.margin_ms * MS_NS),
            joint_names=self.joint_names,
            aliases=self.aliases,
            camera_tolerance_ns=round(self.camera_tolerance_ms * MS_NS),
            frame_tolerance_ns=round(self.frame_tolerance_ms * MS_NS),
            joint_tolerance_ns=round(self.joint_tolerance_ms * MS_NS),
            joint_match=JointMatch(self.joint_match),
            pacing=Pacing(self.pacing),
            max_age_ns=round(self.max_observation_age_ms * MS_NS),
            rtc_frozen_ns=round(self.rtc_frozen_ms * MS_NS),
            rtc_soft_ns=round(self.rtc_soft_ms * MS_NS),
            timeline=Timeline(self.timeline),
        )


@dataclass(frozen=True)
class StreamNames:
    """
    What a stream's topics and services are called.

    :param stream: its name.
    :param plain: they do not lie below it: the node is for this stream alone.
    """

    stream: str
    plain: bool = False

    def outside(self, name: str) -> str:
        """Return a topic of the robot."""
        return name if self.plain or name.startswith('/') else f'{self.stream}/{name}'

    def own(self, name: str) -> str:
        """Return a topic or a service of the node."""
        return f'~/{name}' if self.plain else f'~/{self.stream}/{name}'

    def task(self, name: str) -> str:
        """Return a task on /diagnostics."""
        return name if self.plain else f'{self.stream} {name}'


def check_name(stream: str) -> None:
    """
    Refuse what cannot be a part of the names of topics and parameters.

    :raises ParameterError: saying what can.
    """
    if not NAME.fullmatch(stream) or f'{stream}.' == QOS_PREFIX:
        rule = "letters, digits and single '_', a letter first"
        raise ParameterError('stream', rule, stream)
