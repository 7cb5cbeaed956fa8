# SPDX-License-Identifier: Apache-2.0
"""The servo node's life: configured, activated, deactivated, cleaned up, and ended from each."""

from __future__ import annotations

import signal
import time
from dataclasses import replace
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

pytest.importorskip('rclpy')
pytest.importorskip('physis_ros.msg')

from endurance.room import hardest
from lifecycle_msgs.msg import Transition
from lifecycle_msgs.srv import ChangeState, GetState
from rclpy.parameter import Parameter
from ros_cases import JOINTS, MS, steady_chunk
from sensor_msgs.msg import JointState
from servo_cases import GIVEN, MODULE, Feed, call
from std_srvs.srv import SetBool

from physis_ros.msg import Playback, PlaybackStatus
from physis_ros.ros import conversions, qos, realtime, servo_playing
from physis_ros.ros.diagnostics import Level
from physis_ros.ros.managed import FAILURE, SUCCESS
from physis_ros.ros.servo import ServoNode
from physis_ros.ros.signals import Stop
from physis_ros.types import Command, Play, Reason

pytestmark = pytest.mark.ros
# Of acceleration [rad/s^2], and what it lets the speed change by in a tick [rad/s].
MOST = 4.0
MOST_STEP = MOST * 0.004 * 1.01
UNCONFIGURED, INACTIVE = PlaybackStatus.STATE_UNCONFIGURED, PlaybackStatus.STATE_INACTIVE


class World:
    """
    A servo node whose time is given, from before it is configured.

    :param bench: serves it.
    :param parameters: of the node, beside the joints.
    """

    def __init__(self, bench: Any, **parameters: Any) -> None:
        self._bench, self.now_ns = bench, 1000 * 10**9
        given = {'joints': list(JOINTS), 'command_type': 'joint_state', 'settle_ms': 0.0}
        self.node = bench.add(ServoNode, {**given, **parameters})
        self.node._ros_time.now_ns = lambda: self.now_ns
        self.states = bench.collect(PlaybackStatus, 'servo_node/playback_status', qos.LATCHED)
        self.said: list[JointState] = []

    def configure(self) -> None:
        """Configure, and listen to all commands."""
        assert self.node.trigger_configure() is SUCCESS
        output = SimpleNamespace(
            publish=self.said.append, get_subscription_count=lambda: 1, topic_name='command'
        )
        self.node.playing.outputs._command_out = output

    def offer(self, number: int, speed: float = 0.0) -> None:
        """Say where the joints are, and let a chunk come whose joints move evenly [rad/s]."""
        inputs, rest = self.node.playing.inputs, np.zeros(2)
        inputs._on_joints(conversions.joint_state_message(self.now_ns, JOINTS, rest, rest))
        chunk = steady_chunk(number, (0.0, 0.0), 0, self.now_ns)
        ahead = np.arange(48)[:, None] * [0.025 * speed] * np.ones((1, 2))
        inputs._on_chunk(conversions.chunk_message(replace(chunk, actions=ahead)))

    def tick(self) -> Command:
        """Let a period pass; return the command."""
        playing = self.node.playing
        self.now_ns += 4 * MS
        playing._simulated_tick(self.now_ns)
        playing._idle()
        command: Command = playing._command
        return command

    def moving(self) -> None:
        """Play a chunk until the robot is fast."""
        self.offer(0, speed=1.0)
        for _ in range(250):
            if self.tick().play is Play.PLAYING and self.said[-1].velocity[0] > 0.9:
                return
        raise AssertionError('it did not move')

    def change(self, label: str) -> Any:
        """Ask for a transition by the service; return what will hold the answer."""
        client = self._bench.probe.create_client(ChangeState, 'servo_node/change_state')
        assert self._bench.spin_until(client.service_is_ready, 20)
        return client.call_async(ChangeState.Request(transition=Transition(label=label)))

    def state(self) -> str:
        """Ask for the state by the service."""
        return str(call(self._bench, GetState, 'get_state').current_state.label)


def gentle(said: list[JointState], began: int) -> bool:
    """Whether what was fast then came to rest as the limit of acceleration wants it."""
    speed = np.array([message.velocity for message in said[began - 1 :]])
    rest = speed[-1].tolist() == [0.0, 0.0]
    return bool(speed[0][0] > 0.9 and rest and np.abs(np.diff(speed, axis=0)).max() <= MOST_STEP)


@pytest.mark.parametrize(('label', 'end'), [('deactivate', 'inactive'), ('shutdown', 'finalized')])
def test_leaving_is_answered_when_the_robot_is_at_rest_within_its_limits(
    bench: Any, label: str, end: str
) -> None:
    world = World(bench, acceleration=[MOST] * 2)
    world.configure()
    assert world.node.trigger_activate() is SUCCESS
    world.moving()
    began, playing = len(world.said), world.node.playing
    answer = world.change(label)
    assert bench.spin_until(lambda: playing._braking, 20)
    assert world.state() == 'active'
    while not playing.at_rest:
        assert not answer.done()
        assert world.tick().reason is Reason.INACTIVE
        assert len(world.said) - began < 500
    assert bench.spin_until(answer.done, 20)
    assert answer.result().success
    assert world.state() == end
    assert gentle(world.said, began)
    assert playing.closed is (end == 'finalized')
    if not playing.closed:
        told = len(world.said)
        world.offer(1)
        assert world.tick().play is Play.SILENT
        assert len(world.said) == told


def stop_moving(bench: Any, pass_time: Any = None, **parameters: Any) -> tuple[World, int]:
    """Tell a moving player to stop; return its world, and how much it had said before."""
    world = World(bench, use_sim_time=True, real_time_priority=0, **parameters)
    world.configure()
    assert world.node.trigger_activate() is SUCCESS
    world.moving()
    began, stop = len(world.said), Stop()
    stop.request('told')

    def go_on(timeout_sec: float) -> None:
        world.now_ns += 4 * MS

    try:
        executor = SimpleNamespace(spin_once=pass_time or go_on)
        world.node.playing.run(executor, stop)
    finally:
        realtime.thaw_garbage()
    world.node.close()
    return world, began


def test_told_to_stop_it_comes_to_rest_within_its_limits_and_soon(bench: Any) -> None:
    """Sooner than by its own ramp of 5 s, which the limits do not ask for."""
    world, began = stop_moving(bench, acceleration=[MOST] * 2, ramp_ms=5000.0)
    assert gentle(world.said, began)
    assert len(world.said) - began <= servo_playing.STOP_RAMP_NS // (4 * MS) + 2


@pytest.mark.parametrize(
    ('parameters', 'constant'),
    [
        pytest.param({'acceleration': [MOST] * 2}, 'STOP_STALLED_NS', id='no tick comes'),
        pytest.param({'acceleration': [MOST] * 2}, 'STOP_NS', id='it takes too long'),
        pytest.param({}, None, id='there are no limits'),
    ],
)
def test_told_to_stop_it_holds_at_once_where(
    bench: Any, monkeypatch: pytest.MonkeyPatch, parameters: Any, constant: str | None
) -> None:
    """So it leaves in time, whatever the clock does."""
    if constant is not None:
        monkeypatch.setattr(servo_playing, constant, 20 * MS)
    world, began = stop_moving(bench, lambda timeout_sec: time.sleep(0.005), **parameters)
    *before, last = [list(message.velocity) for message in world.said[began - 1 :]]
    assert last == [0.0, 0.0]
    # The tick of a time that stands still says the same again.
    assert all(velocity == before[0] and velocity[0] > 0.9 for velocity in before)


def test_a_clock_that_stands_still_does_not_hold_up_deactivating(
    bench: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(servo_playing, 'STALLED_NS', 50 * MS)
    world = World(bench)
    world.configure()
    assert world.node.trigger_activate() is SUCCESS
    world.moving()
    answer = world.change('deactivate')
    assert bench.spin_until(lambda: world.node.playing._braking, 20)
    time.sleep(0.06)
    world.node.playing._idle()
    assert bench.spin_until(answer.done, 20)
    assert answer.result().success
    assert list(world.said[-1].velocity) == [0.0, 0.0]


def test_while_inactive_ticks_are_silent_and_nothing_is_due(bench: Any) -> None:
    world = World(bench)
    world.configure()
    for number in range(3):
        world.offer(number)
        command = world.tick()
        assert (command.play, command.reason) == (Play.SILENT, Reason.INACTIVE)
    assert world.said == []
    figures = world.node.playing.player.account.figures()
    assert (figures.ticks, figures.due, figures.underruns.ticks) == (0, 0, 0)
    assert figures.chunks.rejected == {'inactive': 3}
    assert bench.spin_until(lambda: world.states and world.states[-1].state == INACTIVE, 20)
    report = world.node._status._report()
    assert (report.level, report.values['condition']) == (Level.OK, 'inactive')
    assert report.message == 'inactive until the node is activated'

    assert world.node.trigger_activate() is SUCCESS
    world.offer(3)
    assert world.tick().play is Play.PLAYING
    world.tick()
    assert world.node.trigger_deactivate() is SUCCESS
    before = world.node.playing.player.account.figures()
    for _ in range(50):
        world.tick()
    after = world.node.playing.player.account.figures()
    assert before.due > 0
    assert (after.due, after.misses) == (before.due, before.misses)
    assert after.underruns == before.underruns
    # What was not asked of it is no gap either when it plays on.
    assert world.node.trigger_activate() is SUCCESS
    world.offer(4)
    assert world.tick().play is Play.PLAYING
    again = world.node.playing.player.account.figures()
    assert again.due - after.due <= 1
    assert again.misses == after.misses


def test_a_pause_outlasts_being_inactive(bench: Any) -> None:
    world = World(bench)
    world.configure()
    assert call(bench, SetBool, 'pause', data=True).success
    assert world.node.trigger_activate() is SUCCESS
    world.offer(0)
    assert world.tick().play is Play.SILENT
    assert world.node._status._report().message == 'paused'
    assert call(bench, SetBool, 'pause', data=False).success
    world.offer(1)
    assert world.tick().play is Play.PLAYING


def test_cleanup_frees_everything_and_other_parameters_can_be_configured(bench: Any) -> None:
    world = World(bench)
    node, probe = world.node, bench.probe

    def topics() -> set[str]:
        """Return what it publishes, hears and answers."""
        listed = probe.get_publisher_names_and_types_by_node('servo_node', '/')
        listed += probe.get_subscriber_names_and_types_by_node('servo_node', '/')
        listed += probe.get_service_names_and_types_by_node('servo_node', '/')
        return {name for name, _ in listed}

    own = {'/servo_node/command', '/servo_node/playback', '/action_chunk', '/joint_states'}
    own |= {'/servo_node/reset', '/servo_node/pause'}
    assert bench.spin_until(lambda: world.states and world.states[-1].state == UNCONFIGURED, 20)
    assert node._status._report().values == {'condition': 'unconfigured'}
    before = len(list(node.timers))
    for names, rate_hz in ((JOINTS, 250.0), (('wrist', *JOINTS), 500.0)):
        change = [
            Parameter('joints', value=list(names)),
            Parameter('servo_rate_hz', value=rate_hz),
        ]
        assert all(result.successful for result in node.set_parameters(change))
        assert node.trigger_configure() is SUCCESS
        assert node.playing.player.config.names == names
        assert node.playing.player.config.servo_rate_hz == rate_hz
        (refused,) = node.set_parameters([Parameter('servo_rate_hz', value=100.0)])
        assert 'read-only' in refused.reason
        assert bench.spin_until(lambda: own <= topics(), 20), own - topics()
        world.tick()
        assert world.node.trigger_activate() is SUCCESS
        assert world.node.trigger_deactivate() is SUCCESS
        assert node.trigger_cleanup() is SUCCESS
        assert bench.spin_until(lambda: not own & topics(), 20), own & topics()
        assert len(list(node.timers)) == before
        assert bench.spin_until(lambda: world.states[-1].state == UNCONFIGURED, 20)


def test_what_is_refused_at_configure_leaves_nothing_and_can_be_mended(bench: Any) -> None:
    world = World(bench, upper=[1.0])
    assert world.node.trigger_configure() is FAILURE
    words = "/servo_node.upper must be one for each of ['shoulder', 'elbow'], got [1.0]"
    assert str(world.node.refusal) == words
    assert world.node.playing is None
    assert world.state() == 'unconfigured'
    mended = world.node.set_parameters([Parameter('upper', value=[1.0, 1.0])])
    assert [result.successful for result in mended] == [True]
    world.configure()
    assert world.node.playing.config.upper == (1.0, 1.0)


def test_Q7_a_transition_that_does_not_fit_is_refused_and_nothing_ends(bench: Any) -> None:
    world = World(bench)
    for label, fits in (('activate', False), ('configure', True), ('configure', False)):
        answer = world.change(label)
        assert bench.spin_until(answer.done, 20)
        assert answer.result().success is fits, label
    assert world.state() == 'inactive'


# What is asked for to come to a state; each is the name of its node.
WAYS = {
    'unconfigured': (),
    'inactive': ('configure', 'activate', 'deactivate'),
    'active': ('configure', 'activate'),
    'finalized': ('configure', 'activate', 'shutdown'),
}


def bring(bench: Any, name: str, label: str) -> None:
    """Ask a node for a transition, which must be made."""
    client = bench.probe.create_client(ChangeState, f'{name}/change_state')
    assert bench.spin_until(client.service_is_ready, 60)
    answer = client.call_async(ChangeState.Request(transition=Transition(label=label)))
    assert bench.spin_until(answer.done, 20)
    assert answer.result().success, (name, label)


@pytest.mark.parametrize('number', [signal.SIGINT, signal.SIGTERM])
def test_X15_every_signal_ends_every_state_well(
    bench: Any, launcher: Any, number: signal.Signals
) -> None:
    """By the same way out: at rest within the limits, with a hold where anything was commanded."""
    Feed(bench, swing=0.25)
    given = (*GIVEN, '-p', 'command_type:=joint_state', '-p', 'autostart:=false')
    given += ('-p', f'acceleration:=[{MOST}, {MOST}]')
    # Slow enough to hear every tick of all of them on a busy machine.
    given += ('-p', 'servo_rate_hz:=50.0')
    processes = {name: launcher.start(MODULE, *given, '-r', f'__node:={name}') for name in WAYS}
    ticks = {name: bench.collect(Playback, f'{name}/playback', qos.PLAYBACK) for name in WAYS}
    commands = {name: bench.collect(JointState, f'{name}/command') for name in WAYS}

    def moves(name: str) -> bool:
        """Whether a node plays."""
        last = ticks[name][-1:]
        return bool(last and last[0].play == Playback.PLAY_PLAYING and commands[name])

    for name, labels in WAYS.items():
        for label in labels:
            bring(bench, name, label)
            if label == 'activate':
                assert bench.spin_until(lambda name=name: moves(name), 60), name
    assert bench.spin_until(lambda: abs(ticks['active'][-1].velocity[0]) > 0.5, 20)
    for process in processes.values():
        process.send_signal(number)
    for name, process in processes.items():
        assert bench.spin_until(lambda process=process: process.poll() is not None, 30), name
        log = launcher.log(process)
        assert process.returncode == 0, log
        assert 'Traceback' not in log
    bench.spin_until(lambda: False, 0.2)
    for name, labels in WAYS.items():
        if not labels:
            assert not ticks[name]
            assert not commands[name]
            continue
        moved = [tick for tick in ticks[name] if tick.play != Playback.PLAY_SILENT]
        last = moved[-1]
        assert (last.play, last.reason) == (Playback.PLAY_HOLD, Playback.REASON_INACTIVE), name
        playing = [i for i, tick in enumerate(moved) if tick.play == Playback.PLAY_PLAYING]
        assert hardest(moved[playing[-1] :], 50.0) <= MOST * 1.01, name
        assert list(commands[name][-1].velocity) == [0.0, 0.0], name
