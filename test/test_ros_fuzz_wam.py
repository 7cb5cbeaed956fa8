# SPDX-License-Identifier: Apache-2.0
"""
Hostile messages into the callbacks of the real model node, with a real engine behind it.

Whatever comes: no exception, nothing goes out that is not finite, and each message is counted,
taken or refused for a reason.
"""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Iterator
from functools import partial
from pathlib import Path
from typing import Any

import cv2
import numpy as np
import pytest

pytest.importorskip('rclpy')
pytest.importorskip('physis_ros.msg')

from fuzz_cases import FUZZ, SENT, JointRecipe, When, compressed, images, joints
from hypothesis import given
from hypothesis import strategies as st
from rclpy.lifecycle import TransitionCallbackReturn
from ros_cases import JOINTS, picture, small_weights
from sensor_msgs.msg import JointState
from std_msgs.msg import String

from physis_ros.errors import ObservationError
from physis_ros.msg import ActionChunk, StreamStatus
from physis_ros.observation.resize import resize
from physis_ros.ros import qos
from physis_ros.ros.conversions import image_message, time_message, time_ns
from physis_ros.ros.wam import WamNode
from physis_ros.ros.wam_diagnosis import stream_report
from physis_ros.ros.wam_inputs import colour_of

pytestmark = pytest.mark.ros


@pytest.fixture(scope='module', autouse=True)
def told() -> Iterator[None]:
    """Say at the end how many messages were sent."""
    yield
    print('\nsent:', dict(SENT))


class Sight:
    """
    A model node with real workers, and what it publishes.

    :param bench: the probe's.
    :param weights: of a small model.
    """

    def __init__(self, bench: Any, weights: Path) -> None:
        self._bench = bench
        # By itself, so that only what is fed here is counted.
        kind = partial(WamNode, namespace='hostile')
        self.node = bench.add(kind, {'model': f'reach:{weights}', 'workers': 2})
        self.stream = self.node.streams.named('robot')
        name = 'hostile/wam_node'
        self.chunks = bench.collect(ActionChunk, f'{name}/action_chunk', qos.CHUNK)
        self.status = bench.collect(StreamStatus, f'{name}/stream_status', qos.LATCHED)
        assert self.node.trigger_configure() is TransitionCallbackReturn.SUCCESS
        assert self.node.trigger_activate() is TransitionCallbackReturn.SUCCESS
        assert bench.spin_until(lambda: self.stream.producer is not None, 60)

    def feed(self, message: Any) -> None:
        """Give a message to the callback of its topic."""
        inputs = self.stream.inputs
        joints = isinstance(message, JointState)
        source = inputs.states[0] if joints else inputs.cameras['camera']
        source._on_message(message)

    def counted(self) -> Counter[str]:
        """Return what the diagnosis of the inputs counts."""
        return Counter(
            {
                name: value
                for name, value in stream_report(self.stream.snapshot()).values.items()
                if isinstance(value, int)
            }
        )

    def works(self) -> bool:
        """Feed good pictures and joint states until chunks come of them."""
        told = len(self.chunks)
        good = image_message(picture(), 0, 'camera_optical')

        def fed() -> bool:
            now_ns = time.time_ns()
            self.feed(JointRecipe(JOINTS, (0.4, 1.1), (), When(0, False)).message(now_ns))
            good.header.stamp = time_message(now_ns)
            self.feed(good)
            return len(self.chunks) >= told + 3

        return bool(self._bench.spin_until(fed, 30))


COUNTED = ('joints', 'frame', 'images_refused', 'malformed_joints', 'stamp_zero')


def refusal(message: Any) -> str:
    """Return why the model node refuses a message whatever came before it; else nothing."""
    if isinstance(message, JointState):
        count = len(message.name)
        if len(message.position) != count or len(message.velocity) not in (0, count):
            return 'malformed_joints'
    else:
        try:
            resize(colour_of(message), 64, 64)
        except ObservationError:
            return 'images_refused'
    return '' if time_ns(message.header.stamp) > 0 else 'stamp_zero'


def test_the_model_node_survives_whatever_comes(bench: Any, tmp_path: Path) -> None:
    """The engine works before and after, and all that it ever publishes is finite."""
    sight = Sight(bench, small_weights(tmp_path))
    assert sight.works(), sight.status[-1]
    whole = cv2.imencode('.jpg', picture())[1].tobytes()
    said = st.text(max_size=8).map(lambda text: String(data=text.encode().decode(errors='ignore')))
    seen = st.one_of(images(), joints(), compressed(whole), said)

    @FUZZ
    @given(events=st.lists(seen, min_size=8, max_size=16))
    def survives(events: list[Any]) -> None:
        before = sight.counted()
        now_ns = time.time_ns()
        messages = [
            event if isinstance(event, String) else event.message(now_ns) for event in events
        ]
        expected: Counter[str] = Counter()
        for message in messages:
            if isinstance(message, String):
                sight.stream._on_instruction(message)
            else:
                sight.feed(message)
                expected[refusal(message)] += 1
            SENT[f'model {type(message).__name__}'] += 1
        bench.executor.spin_once(timeout_sec=0)
        after = sight.counted()
        grown = {name: after[name] - before[name] for name in (*COUNTED, 'stamp_regressed')}
        # One whose time went back begins an epoch and is counted once more, as its first.
        again = grown['stamp_regressed']
        assert grown['joints'] + grown['frame'] + grown['images_refused'] == (
            expected.total() + again
        )
        for reason in ('malformed_joints', 'images_refused', 'stamp_zero'):
            assert grown[reason] == expected[reason], (reason, events)
        states = sum(isinstance(message, JointState) for message in messages)
        assert states <= grown['joints'] <= states + again

    survives()
    assert sight.works(), sight.status[-1]
    for chunk in sight.chunks:
        assert np.isfinite(chunk.positions).all()
        assert list(chunk.joint_names) == list(JOINTS)
