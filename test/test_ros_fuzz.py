# SPDX-License-Identifier: Apache-2.0
"""
Hostile messages into the callbacks of the real nodes.

Whatever comes: no exception, nothing goes out that is not finite, and each message is counted,
taken or refused for a reason.
"""

from __future__ import annotations

import math
import time
from collections import Counter
from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

pytest.importorskip('rclpy')
pytest.importorskip('physis_ros.msg')

import rclpy
from fuzz_cases import (
    FUZZ,
    SENT,
    ChunkRecipe,
    JointRecipe,
    When,
    chunks,
    joints,
)
from hypothesis import given
from hypothesis import strategies as st
from rclpy.parameter import Parameter
from rclpy.signals import SignalHandlerOptions
from ros_cases import DT_NS, JOINTS, MS

from physis_ros.msg import PlaybackStatus
from physis_ros.output.verdict import ChunkReject
from physis_ros.ros.diagnostics import Level
from physis_ros.ros.servo import ServoNode

pytestmark = pytest.mark.ros

LOWER, UPPER = (-3.1, 0.1), (2.6, 2.8)
TICK_NS = 4_000_000
# Why a chunk is refused whatever came before it.
STATELESS = {
    reason.value
    for reason in (
        ChunkReject.MALFORMED,
        ChunkReject.WRONG_WIDTH,
        ChunkReject.WRONG_NAMES,
        ChunkReject.WRONG_DT,
        ChunkReject.NON_FINITE,
    )
}


@pytest.fixture(scope='module', autouse=True)
def told() -> Iterator[None]:
    """Say at the end how many messages were sent."""
    yield
    print('\nsent:', dict(SENT))


class Sink:
    """Stands where a publisher is, and keeps what is published."""

    def __init__(self) -> None:
        self.messages: list[Any] = []

    def publish(self, message: Any) -> None:
        """Keep a message."""
        self.messages.append(message)

    def get_subscription_count(self) -> int:
        """Say that someone listens, so that everything is published."""
        return 1

    def wait_for_all_acked(self, timeout: Any) -> bool:
        """Say that all were received."""
        return True


class Servo:
    """
    A servo node whose time is given, and what it publishes.

    :param context: an initialised one.
    :param command_type: of its commands.
    """

    def __init__(self, context: Any, command_type: str) -> None:
        given = {'joints': list(JOINTS), 'command_type': command_type}
        given.update(lower=list(LOWER), upper=list(UPPER), settle_ms=0.0)
        self.node = ServoNode(
            context=context,
            parameter_overrides=[Parameter(name, value=value) for name, value in given.items()],
        )
        self.commands, self.playback, self.status = Sink(), Sink(), Sink()
        self.node.bring_up()
        self.playing, self.inputs = self.node.playing, self.node.playing.inputs
        outputs = self.playing.outputs
        outputs._command_out, outputs._playback_out = self.commands, self.playback
        self.node._status._out = self.status
        self.now_ns = time.time_ns()
        self.node._ros_time.now_ns = lambda: self.now_ns

    def begin(self) -> None:
        """Forget what the last example did, as for another engine."""
        self.inputs._begin_anew()
        self.playing.player.activate(self.now_ns)
        self.tick()
        for sink in (self.commands, self.playback, self.status):
            sink.messages.clear()

    def tick(self) -> None:
        """Let a servo period pass."""
        self.now_ns += TICK_NS
        self.playing._simulated_tick(self.now_ns)

    def figures(self) -> PlaybackStatus:
        """Return the figures now."""
        self.playing._publish_status()
        status: PlaybackStatus = self.status.messages[-1]
        return status


@pytest.fixture(scope='module')
def context() -> Iterator[Any]:
    """Give a context for all nodes of this file."""
    made = rclpy.Context()
    rclpy.init(context=made, signal_handler_options=SignalHandlerOptions.NO)
    yield made
    rclpy.try_shutdown(context=made)


@pytest.fixture(scope='module', params=['joint_state', 'joint_trajectory', 'float64_multi_array'])
def servo(request: pytest.FixtureRequest, context: Any) -> Iterator[Servo]:
    """Give a servo node for each type of command."""
    made = Servo(context, request.param)
    yield made
    made.node.close()
    made.node.destroy_node()


def positions(message: Any) -> list[list[float]]:
    """Return all positions that a command asks for."""
    if hasattr(message, 'points'):
        return [list(point.positions) for point in message.points]
    return [list(message.data if hasattr(message, 'data') else message.position)]


def velocities(message: Any) -> list[list[float]]:
    """Return all velocities that a command asks for."""
    if hasattr(message, 'points'):
        return [list(point.velocities) for point in message.points]
    return [list(message.velocity)] if hasattr(message, 'velocity') else []


def check(message: Any) -> None:
    """Hold one command against what may be asked of the robot."""
    asked = np.array(positions(message))
    assert asked.size and asked.shape[1] == len(JOINTS)
    assert np.isfinite(asked).all(), message
    assert np.isfinite(np.array(velocities(message))).all(), message
    if hasattr(message, 'points'):
        times = [p.time_from_start.sec * 10**9 + p.time_from_start.nanosec for p in message.points]
        assert times[0] > 0 and times == sorted(set(times))


WHOLE = ChunkRecipe(
    epoch=0,
    chunk=0,
    start=When(0, False),
    observed=When(-50 * MS, False),
    dt_ns=DT_NS,
    names=JOINTS,
    units=(),
    horizon=16,
    length=32,
    fill=(1.0,),
    inputs=2,
    kv_rule=0,
    stream='robot',
    taken_over=0,
    taken_inputs=0,
)


@pytest.mark.parametrize(
    ('change', 'reason'),
    [
        ({}, None),
        ({'names': JOINTS[::-1]}, None),
        ({'units': ('rad', 'm')}, None),
        ({'units': ('deg', 'deg')}, ChunkReject.MALFORMED),
        ({'units': ('rad',)}, ChunkReject.MALFORMED),
        ({'stream': ''}, ChunkReject.MALFORMED),
        ({'length': 31}, ChunkReject.MALFORMED),
        ({'horizon': 0, 'length': 0}, ChunkReject.MALFORMED),
        ({'horizon': 2**32 - 1}, ChunkReject.MALFORMED),
        ({'dt_ns': 0}, ChunkReject.MALFORMED),
        ({'dt_ns': -DT_NS}, ChunkReject.MALFORMED),
        ({'dt_ns': 1}, ChunkReject.WRONG_DT),
        ({'dt_ns': 10**18}, ChunkReject.WRONG_DT),
        ({'kv_rule': 3}, ChunkReject.MALFORMED),
        ({'inputs': 0}, ChunkReject.MALFORMED),
        ({'taken_over': 3, 'taken_inputs': 1}, None),
        ({'taken_over': 3}, ChunkReject.MALFORMED),
        ({'taken_over': 17, 'taken_inputs': 1}, ChunkReject.MALFORMED),
        ({'names': JOINTS[:1], 'length': 16}, ChunkReject.WRONG_WIDTH),
        ({'names': ('shoulder', 'wrist')}, ChunkReject.WRONG_NAMES),
        ({'names': ('elbow', 'elbow')}, ChunkReject.WRONG_NAMES),
        ({'fill': (1.0, math.nan)}, ChunkReject.NON_FINITE),
        ({'fill': (-math.inf,)}, ChunkReject.NON_FINITE),
        ({'fill': (1e300,)}, ChunkReject.NON_FINITE),
        ({'start': When(-600 * MS, False)}, ChunkReject.ALL_PAST),
        ({'start': When(0, True)}, ChunkReject.ALL_PAST),
        ({'start': When(100_000 * MS, False)}, ChunkReject.FAR_FUTURE),
        ({'observed': When(-2000 * MS, False)}, ChunkReject.EXPIRED),
        ({'observed': When(600 * MS, False)}, ChunkReject.FUTURE_INPUT),
    ],
)
def test_each_refusal_is_counted_under_its_reason(
    servo: Servo, change: dict[str, Any], reason: ChunkReject | None
) -> None:
    servo.begin()
    before = Counter({item.name: item.count for item in servo.figures().reject_reasons})
    servo.inputs._on_chunk(replace(WHOLE, **change).message(servo.now_ns))
    after = Counter({item.name: item.count for item in servo.figures().reject_reasons})
    assert dict(after - before) == ({} if reason is None else {reason.value: 1})


@pytest.mark.parametrize(
    ('names', 'position', 'reason'),
    [
        (('elbow', 'wrist', 'shoulder'), (1.0, math.nan, 0.5), None),
        (('elbow',), (1.0,), None),
        (('wrist',), (1.0,), 'other_joints'),
        ((), (), 'other_joints'),
        (JOINTS, (1.0,), 'malformed'),
        (JOINTS, (1.0, math.inf), 'non_finite'),
        (JOINTS, (1.0, -1e300), 'non_finite'),
    ],
)
def test_joint_states_are_counted_under_their_reason(
    servo: Servo, names: tuple[str, ...], position: tuple[float, ...], reason: str | None
) -> None:
    servo.begin()
    stamp = When(-5 * MS, False)
    servo.inputs._on_joints(JointRecipe(JOINTS, (0.0, 0.0), (), stamp).message(servo.now_ns))
    before = Counter(servo.inputs.joints.refused)
    servo.inputs._on_joints(JointRecipe(names, position, (), stamp).message(servo.now_ns))
    refused = servo.inputs.joints.refused - before
    assert dict(refused) == ({} if reason is None else {reason: 1})
    report = servo.node._status._report()
    # Joints of others beside a whole state of ours are no trouble.
    assert (report.level is Level.ERROR) == (reason in ('malformed', 'non_finite'))
    assert report.values['joint_states_refused'] == dict(servo.inputs.joints.refused)


@FUZZ
@given(events=st.lists(st.one_of(chunks(), joints(), st.integers(1, 12)), min_size=4, max_size=24))
def test_the_servo_survives_whatever_comes(servo: Servo, events: list[Any]) -> None:
    servo.begin()
    before, refused_before = servo.figures(), sum(servo.inputs.joints.refused.values())
    sent = {'chunks': 0, 'joints': 0}
    expected: Counter[str] = Counter()
    for event in events:
        if isinstance(event, int):
            for _ in range(event):
                servo.tick()
            continue
        message = event.message(servo.now_ns)
        if hasattr(message, 'joint_names'):
            servo.inputs._on_chunk(message)
            sent['chunks'] += 1
            refusal = event.refusal(TICK_NS, servo.playing.player.config.max_action_age_ns)
            expected[refusal.value if refusal else 'by what came before'] += 1
        else:
            servo.inputs._on_joints(message)
            sent['joints'] += 1
        servo.tick()
    for message in servo.commands.messages:
        check(message)
    for tick in servo.playback.messages:
        assert np.isfinite([*tick.position, *tick.velocity]).all(), tick
    after = servo.figures()
    assert after.chunks_received - before.chunks_received == sent['chunks']
    assert after.chunks_received == after.chunks_accepted + after.chunks_rejected
    assert sum(item.count for item in after.reject_reasons) == after.chunks_rejected
    assert {item.name for item in after.reject_reasons} <= {item.value for item in ChunkReject}
    counts = (by_name(after.reject_reasons) - by_name(before.reject_reasons)).items()
    stateless = {name: count for name, count in counts if name in STATELESS}
    del expected['by what came before']
    assert stateless == dict(expected)
    SENT.update({f'servo {kind}': count for kind, count in sent.items()})
    refused = sum(servo.inputs.joints.refused.values()) - refused_before
    assert 0 <= refused <= sent['joints']
    assert servo.node._status._report().values['chunks_rejected'] == {
        item.name: item.count for item in after.reject_reasons
    }


def by_name(counts: Any) -> Counter[str]:
    """Return named counts."""
    return Counter({item.name: item.count for item in counts})
