# SPDX-License-Identifier: Apache-2.0
"""The model node over DDS: managed from outside, in lock-step, and within a cap of memory."""

from __future__ import annotations

from itertools import pairwise
from typing import Any

import pytest

pytest.importorskip('rclpy')
pytest.importorskip('physis_ros.msg')

from lifecycle_msgs.msg import Transition
from lifecycle_msgs.srv import ChangeState
from robot_cases import Robot

from physis_ros.msg import ActionChunk, StreamStatus
from physis_ros.ros import conversions, qos
from physis_ros.ros.host_state import HostState
from physis_ros.ros.wam import WamNode

TINY = 'synthetic:blocks=2,steps=2,width=8,heads=1'
GIVEN = {'model': TINY, 'workers': 1, 'joint_aliases': ['shoulder=a', 'elbow=b']}
HORIZON, MARGIN_NS = 4, 10_000_000


def test_Q7_a_manager_has_its_answer_before_the_model_is_loaded(bench: Any) -> None:
    """Who manages a lifecycle takes a late answer for a failure."""
    node = bench.add(WamNode, GIVEN)
    client = bench.probe.create_client(ChangeState, 'wam_node/change_state')
    assert bench.spin_until(client.service_is_ready, 20)
    hosts: list[HostState] = []

    def change(transition: int) -> bool:
        request = ChangeState.Request(transition=Transition(id=transition))
        answer = client.call_async(request)
        assert bench.spin_until(answer.done, 20)
        hosts.append(node.host.state)
        return bool(answer.result().success)

    assert change(Transition.TRANSITION_CONFIGURE)
    assert change(Transition.TRANSITION_ACTIVATE)
    assert hosts == [HostState.LOADING] * 2
    # Loading goes on by itself, and shows.
    assert bench.spin_until(lambda: node.host.state is HostState.READY, 60)
    assert change(Transition.TRANSITION_DEACTIVATE)


def test_X21_in_lockstep_robot_and_model_take_turns(bench: Any) -> None:
    Robot(bench, size=16)
    chunks = bench.collect(ActionChunk, 'wam_node/action_chunk', qos.CHUNK)
    node = bench.add(WamNode, {**GIVEN, 'pacing': 'lockstep', 'period_ms': 5.0})
    node.trigger_configure()
    node.trigger_activate()
    assert bench.spin_until(lambda: len(chunks) >= 4, 60)
    found = [conversions.chunk(message) for message in chunks]
    for chunk in found:
        assert chunk.start_ns == chunk.times.publish_ns + MARGIN_NS
    for before, after in pairwise(found):
        # Seen when the last step of the one before was due, or later; never ahead of it.
        last_ns = before.start_ns + (HORIZON - 1) * before.dt_ns
        assert after.input_stamps_ns['camera'] >= last_ns


def test_X5_what_does_not_fit_the_cap_is_told_with_what_is_needed(bench: Any) -> None:
    states = bench.collect(StreamStatus, 'wam_node/stream_status', qos.LATCHED)
    given = {**GIVEN, 'memory_mb': 0.001, 'on_worker_death': 'restart'}
    node = bench.add(WamNode, given)
    node.trigger_configure()

    def refused() -> bool:
        return bool(states) and states[-1].state == StreamStatus.STATE_FAILED

    assert bench.spin_until(refused, 60), states[-1]
    assert 'memory_mb must be so that a worker may hold' in states[-1].reason
    assert node._restarts.count == 0
