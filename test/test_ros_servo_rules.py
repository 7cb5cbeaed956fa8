# SPDX-License-Identifier: Apache-2.0
"""The servo node tick by tick, at a given time: engines, clocks of others, pauses, late ticks."""

from __future__ import annotations

import time
from dataclasses import replace
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

pytest.importorskip('rclpy')
pytest.importorskip('physis_ros.msg')

from ros_cases import JOINTS, MS, steady_chunk
from sensor_msgs.msg import JointState
from std_srvs.srv import SetBool, Trigger

from physis_ros.msg import ActionChunk
from physis_ros.ros import conversions, qos
from physis_ros.ros.servo import ServoNode
from physis_ros.types import Command, Play, Reason

SECOND_NS = 10**9


class World:
    """
    A servo node whose time is given, and what it publishes.

    :param bench: serves it.
    :param parameters: of the node, beside the joints.
    """

    def __init__(self, bench: Any, **parameters: Any) -> None:
        self.bench = bench
        given = {'joints': list(JOINTS), 'command_type': 'joint_state', 'settle_ms': 0.0}
        self.node = bench.add(ServoNode, {**given, **parameters})
        self.now_ns = 1000 * SECOND_NS
        self.node._ros_time.now_ns = lambda: self.now_ns
        self.node.bring_up()
        self.playing = self.node.playing
        self.inputs, self.player = self.playing.inputs, self.playing.player

    def joints(self, position: tuple[float, float], behind_ns: int = 0) -> None:
        """Say where the joints are, by a clock that is behind."""
        at = np.array(position)
        stamp_ns = self.now_ns - behind_ns
        self.inputs._on_joints(conversions.joint_state_message(stamp_ns, JOINTS, at, at * 0.0))

    def offer(self, number: int, epoch: int = 0) -> None:
        """Let a chunk come."""
        chunk = steady_chunk(number, (0.5, 1.0), epoch, self.now_ns)
        self.inputs._on_chunk(conversions.chunk_message(chunk))

    def tick(self) -> Command:
        """Let a period pass; return the command."""
        self.now_ns += 4 * MS
        self.playing._simulated_tick(self.now_ns)
        self.playing._idle()
        command: Command = self.playing._command
        return command

    def received(self) -> int:
        """Return how many chunks have come."""
        chunks = self.player.account.figures().chunks
        return int(chunks.accepted + sum(chunks.rejected.values()))


class Engine:
    """Publishes chunks to it over DDS."""

    def __init__(self, world: World) -> None:
        self._world = world
        self._out = world.bench.probe.create_publisher(ActionChunk, 'action_chunk', qos.CHUNK)
        assert world.bench.spin_until(self._heard, 20)

    def _heard(self) -> bool:
        return bool(self._out.get_subscription_count())

    def send(self, number: int, epoch: int) -> None:
        """Send a chunk and wait for it to be taken."""
        world, before = self._world, self._world.received()
        chunk = steady_chunk(number, (0.5, 1.0), epoch, world.now_ns)
        self._out.publish(conversions.chunk_message(chunk))
        assert world.bench.spin_until(lambda: world.received() > before, 20)


@pytest.mark.parametrize('behind_ns', [SECOND_NS, -SECOND_NS])
def test_T2_A11_a_driver_by_another_clock_is_placed_by_receipt_or_not_at_all(
    bench: Any, behind_ns: int
) -> None:
    for timeline, starts in (('header', False), ('receive', True)):
        world = World(bench, timeline=timeline)
        world.joints((0.4, 1.1), behind_ns)
        world.offer(0)
        command = world.tick()
        assert (command.play is Play.PLAYING) == starts
        assert command.reason is (Reason.NONE if starts else Reason.NO_OBSERVATION)


def test_a_tick_that_comes_late_does_not_lose_its_trajectory(
    bench: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    world = World(bench, command_type='joint_trajectory', trajectory_rate_hz=125.0)
    # Every second tick has one. The steady clock rules here, as it does without simulated time.
    playing = world.playing
    said: list[Any] = []
    monkeypatch.setattr(playing.outputs, '_command_out', SimpleNamespace(publish=said.append))
    world.now_ns = time.time_ns()
    world.joints((0.4, 1.1))
    world.offer(0)
    counts = []
    for _ in range(6):
        due_ns = time.monotonic_ns()
        playing._prepare(due_ns)
        time.sleep(0.004)
        playing._steady_tick(due_ns)
        counts.append(len(said))
    assert counts == [0, 1, 1, 2, 2, 3]


@pytest.mark.parametrize('name', ['pause', 'reset'])
def test_pause_and_reset_come_to_rest_within_the_limits(
    bench: Any, monkeypatch: pytest.MonkeyPatch, name: str
) -> None:
    most, jerk, period_s = 4.0, 80.0, 0.004
    world = World(bench, acceleration=[most] * 2, jerk=[jerk] * 2)
    world.joints((0.0, 0.0))
    said: list[Any] = []
    output = SimpleNamespace(publish=said.append, get_subscription_count=lambda: 1)
    monkeypatch.setattr(world.playing.outputs, '_command_out', output)
    # 1 rad/s for as long as the chunk lasts; far on the way the start is over.
    chunk = steady_chunk(0, (0.0, 0.0), 0, world.now_ns)
    ahead = np.arange(48)[:, None] * [0.025, 0.025]
    world.inputs._on_chunk(conversions.chunk_message(replace(chunk, actions=ahead)))
    while world.tick().velocity[0] < 0.9:
        assert len(said) < 250
    began = len(said)
    if name == 'pause':
        world.playing._on_pause(SetBool.Request(data=True), SetBool.Response())
    else:
        world.playing._on_reset(Trigger.Request(), Trigger.Response())
    refused = world.player.account.figures().chunks.rejected.get('inactive', 0)
    world.offer(1)
    assert world.player.account.figures().chunks.rejected['inactive'] == refused + 1
    for _ in range(250):
        world.tick()
    speed = np.array([message.velocity for message in said[began - 1 :]])
    place = np.array([message.position for message in said[began - 1 :]])
    assert len(said) - began > 1.0 / most / period_s
    assert speed[0][0] > 0.9
    assert speed[-1].tolist() == [0.0, 0.0]
    assert np.abs(np.diff(speed, axis=0)).max() <= most * period_s * 1.01
    assert np.abs(np.diff(speed, n=2, axis=0)).max() <= jerk * period_s**2 * 1.01
    assert np.diff(place, axis=0).min() >= 0.0
    # A pause stays one; after a reset the next chunk is played.
    world.joints((0.5, 0.5))
    world.offer(2)
    plays = Play.SILENT if name == 'pause' else Play.PLAYING
    assert world.tick().play is plays
    world.playing._on_pause(SetBool.Request(data=False), SetBool.Response())
    world.offer(3)
    assert world.tick().play is Play.PLAYING


def test_C28_E12_a_stale_chunk_of_the_only_engine_is_refused_and_another_begins_anew(
    bench: Any,
) -> None:
    world = World(bench)
    world.joints((0.4, 1.1))
    first, player = Engine(world), world.player
    # The middleware may tell it before the first chunk or long after.
    world.inputs._on_engine(
        SimpleNamespace(total_count=1, total_count_change=1, current_count_change=1)
    )
    first.send(7, epoch=5)
    assert world.tick().play is Play.PLAYING
    for number, epoch in ((9, 4), (6, 5)):
        first.send(number, epoch)
        assert world.player is player
        assert world.tick().play is Play.PLAYING
    second = Engine(world)
    # Its match may be told after its chunk.
    bench.spin_until(lambda: world.inputs._other_engine, 5)
    world.joints((0.4, 1.1))
    second.send(0, epoch=0)
    command = world.tick()
    assert (command.play, command.epoch) == (Play.PLAYING, 0)
    assert world.player is player


def test_I12_a_robot_of_other_names_and_units_is_heard_and_told_in_its_own(bench: Any) -> None:
    world = World(
        bench,
        joint_aliases=['joint_1=shoulder'],
        joint_units=['shoulder=deg'],
        joint_offsets=['elbow=-0.5'],
    )
    state = JointState(name=['elbow', 'joint_1'], position=[1.1 - 0.5, np.rad2deg(0.4)])
    state.header.stamp = conversions.time_message(world.now_ns)
    world.inputs._on_joints(state)
    world.offer(0)
    command = world.tick()
    assert command.play is Play.PLAYING
    assert command.position == pytest.approx([0.4, 1.1], abs=1e-3)
    message = world.playing._adapter.message(command)
    assert list(message.name) == ['joint_1', 'elbow']
    degrees, shifted = np.rad2deg(command.position[0]), command.position[1] - 0.5
    assert list(message.position) == pytest.approx([degrees, shifted])
    assert message.velocity[0] == pytest.approx(np.rad2deg(command.velocity[0]))
    # How old the parts of a state may be follows the parameter.
    world.playing.reconfigure(replace(world.playing.config, state_age_ms=70.0))
    assert world.inputs.joints.age_ns == 70 * MS
