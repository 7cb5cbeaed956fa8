# SPDX-License-Identifier: Apache-2.0
"""What the servo node hears while it is configured: chunks and joint states, for its player."""

from __future__ import annotations

from collections import OrderedDict
from contextlib import ExitStack
from typing import Any

from rclpy.node import Node
from sensor_msgs.msg import JointState

from physis_ros.errors import ChunkError
from physis_ros.msg import ActionChunk as ActionChunkMessage
from physis_ros.msg import ChunkTimes as ChunkTimesMessage
from physis_ros.observation.config import Timeline
from physis_ros.output.figures import Phase
from physis_ros.ros import conversions, qos
from physis_ros.ros.clock import RosClock, seldom
from physis_ros.ros.peers import publishers
from physis_ros.ros.qos import QosWatch
from physis_ros.ros.servo_config import ServoConfig
from physis_ros.ros.servo_joints import ServoJoints
from physis_ros.ros.skew import Skews
from physis_ros.session.player import Player
from physis_ros.types import Reason

# What is waited for, by the reason why nothing is played.
WAITED = {Reason.NO_OBSERVATION: 'joint_states', Reason.NO_CHUNK: 'action_chunk'}
KEPT_CHUNKS = 64
NONE_YET = (-1, -1)


class ServoInputs:
    """
    Reads what comes, and hands it to the player. Single-threaded.

    :param node: the owner.
    :param clock: the stream clock.
    :param config: whose chunks, which joints.
    :param player: takes them.
    """

    def __init__(self, node: Node, clock: RosClock, config: ServoConfig, player: Player) -> None:
        self.stream = config.stream
        self.joints = ServoJoints(config.robot, config.player.state_age_ns)
        self.skews = Skews()
        # How long ago, by our clock, the last chunk was published.
        self.apart_ns = 0
        self._config, self._clock, self._player = config, clock, player
        self._node, self._log = node, node.get_logger()
        self._newest = NONE_YET
        self._engines, self._other_engine = 0, False
        self._times: OrderedDict[tuple[int, int], ChunkTimesMessage] = OrderedDict()

    def open(self, node: Node, watch: QosWatch, closing: ExitStack) -> None:
        """Subscribe, until ``closing`` is closed."""
        for subscription in (
            watch.subscribe(
                ActionChunkMessage, 'action_chunk', self._on_chunk, qos.CHUNK, self._on_engine
            ),
            watch.subscribe(JointState, 'joint_states', self._on_joints, qos.SENSOR_IN),
        ):
            closing.callback(node.destroy_subscription, subscription)

    def reconfigure(self, config: ServoConfig) -> None:
        """Go on with parameters that were set."""
        self._config, self.joints.age_ns = config, config.player.state_age_ns

    def lack(self, reason: Reason) -> str:
        """Say who publishes what is waited for; nothing when the reason is another one."""
        if (name := WAITED.get(reason)) is None:
            return ''
        return publishers(self._node, self._node.resolve_topic_name(name))

    def times(self, epoch: int, chunk: int) -> ChunkTimesMessage | None:
        """Return where a chunk's time went; None of one that is not known any more."""
        return self._times.get((epoch, chunk))

    def _on_chunk(self, message: ActionChunkMessage) -> None:
        """Offer a chunk to the player."""
        if self._config.stream and message.stream != self._config.stream:
            return
        try:
            chunk = conversions.chunk(message)
        except ChunkError as error:
            self._player.account.malformed()
            self._refused(f'{message.stream} {message.epoch}/{message.chunk}', str(error))
            return
        number = chunk.epoch, chunk.chunk
        if self._other_engine and number < self._newest:
            self._begin_anew()
        self.stream = chunk.stream
        now_ns = self._clock.now_ns()
        self.apart_ns = now_ns - chunk.times.publish_ns
        self.skews.add('action_chunk', chunk.times.publish_ns, now_ns)
        verdict = self._player.offer(chunk, now_ns)
        if verdict.accepted:
            self._newest = max(self._newest, number)
        elif self._player.account.phase is not Phase.INACTIVE:
            self._refused(f'{chunk.stream} {chunk.epoch}/{chunk.chunk}', verdict.detail)
        self._remember(number, message.times)

    def _on_engine(self, info: Any) -> None:
        """
        Note that an engine has come; it may count from 0 again.

        Noted until it does: what the last one had sent may still come after this. The first one
        to come is no other one, even when this is told after its first chunk.
        """
        another = 0 < self._engines < info.total_count
        self._engines = info.total_count
        self._other_engine |= another and self._newest != NONE_YET

    def _begin_anew(self) -> None:
        """Forget the last engine's epochs; motion and account go on, and so does a pause."""
        self._log.info('another engine has begun: going on from the last command')
        self._newest, self._other_engine = NONE_YET, False
        self._player.begin_anew()

    def _refused(self, chunk: str, why: str) -> None:
        """Say why a chunk was refused."""
        self._log.warning(f'chunk {chunk} refused: {why}', **seldom(2.0))

    def _remember(self, number: tuple[int, int], times: ChunkTimesMessage) -> None:
        """Keep where a chunk's time went, for the account of its ticks."""
        self._times[number] = times
        while len(self._times) > KEPT_CHUNKS:
            self._times.popitem(last=False)

    def _on_joints(self, message: JointState) -> None:
        """Tell the player where the joints are."""
        now_ns, stamp_ns = self._clock.now_ns(), conversions.time_ns(message.header.stamp)
        by_header = self._config.timeline == Timeline.HEADER.value and stamp_ns
        state = self.joints.read(message, stamp_ns if by_header else now_ns)
        if self.joints.trouble:
            self._log.error(f'joint_states: {self.joints.trouble}', **seldom(5.0))
        if state is not None:
            self.skews.add('joint_states', stamp_ns, now_ns)
            self._player.measured(*state)
