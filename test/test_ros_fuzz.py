# SPDX-License-Identifier: Apache-2.0
"""
Hostile messages into the callbacks of the real servo node.

Whatever comes: no exception, nothing goes out that is not finite, and each message is counted,
taken or refused for the right reason.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import pytest

pytest.importorskip('rclpy')
pytest.importorskip('physis_ros.msg')

import rclpy
from fuzz_cases import FUZZ
from hostile.chunks import DT_NS, WHOLE
from hostile.gate import TAKEN
from hostile.messages import JOINTS, LATELY, MS, ClockRecipe, JointRecipe, When
from hostile.servo import COMMAND_TYPES, TOPICS, HostileServo, events
from hypothesis import given
from rclpy.signals import SignalHandlerOptions

from physis_ros.output.verdict import ChunkReject
from physis_ros.ros.diagnostics import Level

pytestmark = pytest.mark.ros


@pytest.fixture(scope='module')
def context() -> Iterator[Any]:
    """Give a context for all nodes of this file."""
    made = rclpy.Context()
    rclpy.init(context=made, signal_handler_options=SignalHandlerOptions.NO)
    yield made
    rclpy.try_shutdown(context=made)


@pytest.fixture(scope='module', params=COMMAND_TYPES)
def servo(request: pytest.FixtureRequest, context: Any) -> Iterator[HostileServo]:
    """Give a servo node for each type of command."""
    made = HostileServo(context, request.param)
    yield made
    made.close()


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
    servo: HostileServo, change: dict[str, Any], reason: ChunkReject | None
) -> None:
    name = TAKEN if reason is None else reason.value
    assert servo.play([replace(WHOLE, **change)]) == {('action_chunk', name): 1}


@pytest.mark.parametrize(
    ('changes', 'reasons'),
    [
        ([{'chunk': 3}, {'chunk': 3}, {'chunk': 2}], [TAKEN, 'duplicate', 'out_of_order']),
        ([{'epoch': 2}, {'epoch': 1, 'chunk': 9}, {}], [TAKEN, 'stale_epoch', 'stale_epoch']),
        # One that comes too late begins its epoch, too; one that is broken does not.
        ([{'epoch': 1, 'start': When(0, True)}, {'chunk': 1}], ['all_past', 'stale_epoch']),
        ([{'epoch': 1, 'units': ('deg', 'deg')}, {'chunk': 1}], ['malformed', TAKEN]),
    ],
)
def test_refusals_that_depend_on_what_came_before_are_counted_under_theirs(
    servo: HostileServo, changes: list[dict[str, Any]], reasons: list[str]
) -> None:
    found = servo.play([replace(WHOLE, **change) for change in changes])
    assert found == Counter(('action_chunk', reason) for reason in reasons)


@pytest.mark.parametrize(
    ('names', 'position', 'reason'),
    [
        (('elbow', 'wrist', 'shoulder'), (1.0, math.nan, 0.5), TAKEN),
        (('elbow',), (1.0,), TAKEN),
        (('wrist',), (1.0,), 'other_joints'),
        ((), (), 'other_joints'),
        (JOINTS, (1.0,), 'malformed'),
        (JOINTS, (1.0, math.inf), 'non_finite'),
        (JOINTS, (1.0, -1e300), 'non_finite'),
    ],
)
def test_joint_states_are_counted_under_their_reason(
    servo: HostileServo, names: tuple[str, ...], position: tuple[float, ...], reason: str
) -> None:
    whole = JointRecipe(JOINTS, (0.0, 0.0), (), LATELY)
    counts = servo.play([whole, JointRecipe(names, position, (), LATELY)])
    assert counts == Counter([('joint_states', TAKEN), ('joint_states', reason)])
    report = servo.node._status._report()
    # Joints of others beside a whole state of ours are no trouble.
    assert (report.level is Level.ERROR) == (reason in ('malformed', 'non_finite'))
    assert report.values['joint_states_refused'] == dict(servo.inputs.joints.refused)


@pytest.mark.parametrize(
    ('time', 'reason'),
    [
        (When(10 * MS, False), TAKEN),
        (When(10 * MS, False, spilled=True), TAKEN),
        (When(-10 * MS, False), 'back'),
        (When(1000 * MS, False), 'ahead'),
        (When(0, True), 'back'),
        (When(-1, True), 'refused'),
        (When((2**31 - 1) * 10**9, True), 'refused'),
    ],
)
def test_times_are_told_apart(servo: HostileServo, time: When, reason: str) -> None:
    assert servo.play([ClockRecipe(time)]) == {('clock', reason): 1}


@FUZZ
@given(series=events())
def test_the_servo_survives_whatever_comes(servo: HostileServo, series: list[Any]) -> None:
    counts = servo.play(series)
    assert counts.total() == sum(not isinstance(event, int) for event in series)
    assert {topic for topic, _ in counts} <= set(TOPICS)
