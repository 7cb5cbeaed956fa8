# SPDX-License-Identifier: Apache-2.0
"""
A real model node, a real engine behind it, to which hostile messages are given at its callbacks.

The model takes colour, depth and joints; time comes from /clock alone, hostile times included.
Whatever comes: no exception, nothing goes out that is not finite, each message is counted, taken
or refused for the right reason, and after all of it good messages bring chunks again.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
from endurance.spinning import spin_until
from hypothesis import strategies as st
from rclpy.node import Node
from rclpy.parameter import Parameter
from std_msgs.msg import String

from hostile.messages import (
    JOINTS,
    LATELY,
    SECOND_NS,
    SIDE,
    ClockRecipe,
    CompressedRecipe,
    ImageRecipe,
    JointRecipe,
    Strategy,
    TextRecipe,
    When,
    clocks,
    compressed,
    compressed_depths,
    depths,
    images,
    joints,
    texts,
)
from hostile.servo import Counts
from physis_ros.errors import ObservationError
from physis_ros.msg import ActionChunk
from physis_ros.observation.depth import resize_depth
from physis_ros.observation.joints import GREATEST
from physis_ros.observation.resize import resize
from physis_ros.ros import qos
from physis_ros.ros.clock import LATEST_NS
from physis_ros.ros.executor import make_executor
from physis_ros.ros.wam import WamNode
from physis_ros.ros.wam_diagnosis import stream_report
from physis_ros.ros.wam_inputs import colour_of, depth_of
from physis_ros.session.decode import time_ns

TOPICS = (
    *('image', 'image/compressed', 'depth', 'depth/compressedDepth'),
    *('joint_states', 'instruction', 'clock'),
)
# A small model of random weights; its pictures are 8 x 8.
MODEL, MODEL_SIDE = 'synthetic:depth=1,blocks=2,steps=2,width=8,heads=1', 8
GIVEN = {
    'model': MODEL,
    'workers': 1,
    'cameras': ['top=camera', 'top/depth=depth'],
    'joint_aliases': ['shoulder=a', 'elbow=b'],
    'use_sim_time': True,
}
START_NS = 1_700_000_000 * SECOND_NS
STEP_NS = 10_000_000
PATIENCE_S = 60.0
# Callbacks that are served after a series: what was published of it, and the node's own.
SPINS = 20
# Reasons that are known without what came before, by the names of the node's counts.
CAMERA, DEPTH, STATES = 'camera', 'depth', 'joints'
MALFORMED, NON_FINITE, OTHERS = 'malformed_joints', 'non_finite_joints', 'other_joints'
STATELESS = (
    *('images_refused', 'stamp_zero', f'stamp_zero.{CAMERA}', f'stamp_zero.{DEPTH}'),
    *(MALFORMED, NON_FINITE, OTHERS),
)
ORDERED = ('duplicate_stamp', 'out_of_order')
REGRESSED = 'stamp_regressed'


def events() -> Strategy:
    """Return a strategy of series of what comes in."""
    pictures = images(), compressed(), depths(), compressed_depths()
    return st.lists(st.one_of(*pictures, joints(), texts(), clocks()), min_size=8, max_size=16)


class HostileModel:
    """
    A model node with a real worker, and the chunks that it publishes.

    :param context: an initialised one.
    """

    def __init__(self, context: Any) -> None:
        given = [Parameter(name, value=value) for name, value in GIVEN.items()]
        # Below a name of its own, so that only what is given here is counted.
        self._node: Any = WamNode(namespace='hostile', context=context, parameter_overrides=given)
        self._probe = Node('probe', namespace='hostile', context=context)
        self._executor = make_executor(context)
        for node in (self._node, self._probe):
            self._executor.add_node(node)
        self.chunks: list[Any] = []
        topic = 'wam_node/action_chunk'
        self._probe.create_subscription(ActionChunk, topic, self.chunks.append, qos.CHUNK)
        self._node.bring_up()
        self.stream: Any = self._node.streams.named('robot')
        assert self._spin_until(lambda: self.stream.producer is not None)

    def works(self) -> bool:
        """Feed good messages until three chunks come of them, all of them sound."""
        self._sound()
        self._show(ClockRecipe(When(START_NS, True)))
        good = [
            ImageRecipe('image', SIDE, SIDE, 'rgb8', 0, 3 * SIDE, 3 * SIDE**2, 0, LATELY),
            ImageRecipe('depth', SIDE, SIDE, '16UC1', 0, 2 * SIDE, 2 * SIDE**2, 1, LATELY),
            JointRecipe(JOINTS, (0.4, 1.1), (), LATELY),
        ]

        def fed() -> bool:
            self._show(ClockRecipe(When(STEP_NS, False)))
            for recipe in good:
                self.feed(recipe)
            return len(self.chunks) >= 3

        worked = self._spin_until(fed)
        self._sound()
        return worked

    def play(self, series: Sequence[Any]) -> Counts:
        """
        Give it a series, and hold everything that it says against the rules.

        :returns: how many messages there were, by topic and why they are refused; ``accepted``
            are those of which only what came before can tell.
        """
        before, met, refusals = self._counted(), Counts(), Counter[str]()
        for recipe in series:
            reason = self.feed(recipe)
            met[recipe.topic, reason.partition('.')[0] or 'accepted'] += 1
            refusals[reason] += reason in STATELESS
        for _ in range(SPINS):
            self._executor.spin_once(timeout_sec=0)
        self._hold(before, met, refusals)
        self._sound()
        return met

    def feed(self, recipe: Any) -> str:
        """Give a message to the callback of its topic; return why it must be refused, if so."""
        message = recipe.message(self._now_ns)
        if isinstance(recipe, TextRecipe):
            self.stream._on_instruction(String(data=recipe.text))
            return ''
        if isinstance(recipe, ClockRecipe):
            return self._show(recipe)
        inputs = self.stream.inputs
        if isinstance(recipe, JointRecipe):
            inputs.states[0]._on_message(message)
            return joint_refusal(recipe, message)
        camera = DEPTH if recipe.topic.startswith('depth') else CAMERA
        inputs.cameras[camera]._on_message(message)
        return picture_refusal(recipe, message, camera)

    def close(self) -> None:
        """Take everything away."""
        for node in (self._node, self._probe):
            self._executor.remove_node(node)
        self._node.close()
        for node in (self._node, self._probe):
            node.destroy_node()
        self._executor.shutdown()

    @property
    def _now_ns(self) -> int:
        """The time of the node."""
        return int(self._node._ros_time.now_ns())

    def _show(self, recipe: ClockRecipe) -> str:
        """Publish a time; return whether it must be refused."""
        before_ns, message = self._now_ns, recipe.message(self._now_ns)
        refused = self._node._ros_time.refused
        self._node._time_source._clock_sub.callback(message)
        shown_ns = time_ns(message.clock)
        sound = 0 <= shown_ns <= LATEST_NS
        assert self._now_ns == (shown_ns if sound else before_ns)
        assert self._node._ros_time.refused == refused + (not sound)
        return '' if sound else 'refused'

    def _counted(self) -> Counter[str]:
        """Return what the diagnosis of the inputs counts."""
        values = stream_report(self.stream.snapshot()).values
        return Counter({name: n for name, n in values.items() if isinstance(n, int)})

    def _hold(self, before: Counter[str], met: Counts, refusals: Counter[str]) -> None:
        """Hold what was counted against what must be."""
        after = self._counted()
        grown = {name: after[name] - before[name] for name in after}
        for reason in STATELESS:
            assert grown.get(reason, 0) == refusals[reason], (reason, grown, refusals)
        for topics, name, kind in (
            (('image', 'image/compressed'), f'frame.{CAMERA}', f'.{CAMERA}'),
            (('depth', 'depth/compressedDepth'), f'frame.{DEPTH}', f'.{DEPTH}'),
            (('joint_states',), 'joints', ''),
        ):
            came = sum(n for (topic, _), n in met.items() if topic in topics)
            unread = sum(met[topic, 'images_refused'] for topic in topics)
            # One whose time went back begins an epoch and is counted once more, as its first.
            again = grown.get(REGRESSED + kind, 0)
            assert grown.get(name, 0) == came - unread + again, (name, grown, met)
            counted = sum(grown.get(reason + kind, 0) for reason in ORDERED)
            # The same joint twice is a duplicate then, too: one message may be both.
            accepted = sum(met[topic, 'accepted'] for topic in topics)
            assert counted <= accepted and again <= accepted, (grown, met)

    def _sound(self) -> None:
        """Look at the chunks that were published."""
        for chunk in self.chunks:
            assert np.isfinite(chunk.positions).all(), chunk
            assert list(chunk.joint_names) == list(JOINTS)
        self.chunks.clear()

    def _spin_until(self, condition: Callable[[], bool]) -> bool:
        """Serve callbacks until a condition holds; return whether it does."""
        return spin_until(self._executor, condition, PATIENCE_S)


def joint_refusal(recipe: JointRecipe, message: Any) -> str:
    """Return why a model node must refuse a joint state whatever came before it; else nothing."""
    count = len(recipe.names)
    if len(recipe.position) != count or len(recipe.velocity) not in (0, count):
        return MALFORMED
    if time_ns(message.header.stamp) <= 0:
        return 'stamp_zero'
    pairs = zip(recipe.names, recipe.position, strict=True)
    ours = [value for name, value in pairs if name in JOINTS]
    if not ours:
        return OTHERS
    sound = all(math.isfinite(value) and abs(value) <= GREATEST for value in ours)
    return '' if sound else NON_FINITE


def picture_refusal(recipe: ImageRecipe | CompressedRecipe, message: Any, camera: str) -> str:
    """Return why a model node must refuse a picture whatever came before it; else nothing."""
    try:
        if camera == DEPTH:
            resize_depth(depth_of(message), MODEL_SIDE, MODEL_SIDE)
        else:
            resize(colour_of(message), MODEL_SIDE, MODEL_SIDE)
    except ObservationError:
        return 'images_refused'
    return '' if time_ns(message.header.stamp) > 0 else f'stamp_zero.{camera}'
