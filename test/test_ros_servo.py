# SPDX-License-Identifier: Apache-2.0
"""The servo node as a process over real DDS: chunks in, commands out, and how it leaves."""

from __future__ import annotations

import signal
import time
from typing import Any

import numpy as np
import pytest

pytest.importorskip('rclpy')
pytest.importorskip('physis_ros.msg')

from ros_cases import JOINTS, steady_chunk
from sensor_msgs.msg import JointState
from servo_cases import GIVEN, MODULE, Feed, call
from std_msgs.msg import Float64MultiArray
from std_srvs.srv import SetBool, Trigger
from trajectory_msgs.msg import JointTrajectory

from physis_ros.msg import ActionChunk, Playback, PlaybackStatus
from physis_ros.ros import conversions, qos


@pytest.mark.parametrize('number', [signal.SIGINT, signal.SIGTERM])
def test_X15_chunks_become_commands_and_every_signal_ends_with_a_hold(
    bench: Any, launcher: Any, number: signal.Signals
) -> None:
    process = launcher.start(MODULE, *GIVEN, '-p', 'command_type:=joint_state')
    commands = bench.collect(JointState, 'servo_node/command')
    ticks = bench.collect(Playback, 'servo_node/playback', qos.PLAYBACK)
    # Who hears the ticks hears the first command too.
    assert bench.spin_until(lambda: ticks, 60), launcher.log(process)
    Feed(bench)

    def arrived() -> bool:
        return bool(commands) and np.allclose(commands[-1].position, (0.5, 1.0))

    assert bench.spin_until(arrived, 60), launcher.log(process)
    assert bench.spin_until(lambda: ticks and ticks[-1].play == Playback.PLAY_PLAYING, 20)
    assert list(commands[0].name) == list(JOINTS)
    played = [tick for tick in ticks if tick.play == Playback.PLAY_PLAYING]
    # From where the robot was measured to be, not with a jump. The ticks tell, none of which may
    # be lost; of the commands only the newest counts, so a busy machine may miss the first.
    assert np.allclose(played[0].position, (0.4, 1.1), atol=0.01)
    ages_ns = [conversions.duration_ns(tick.age) for tick in played]
    assert all(50_000_000 <= age_ns < 1_000_000_000 for age_ns in ages_ns)
    assert {item.name for item in played[-1].inputs} == {'camera', 'joints'}

    process.send_signal(number)
    bench.spin_until(lambda: process.poll() is not None, 30)
    assert process.returncode == 0, launcher.log(process)
    assert 'Traceback' not in launcher.log(process)
    bench.spin_until(lambda: ticks[-1].reason == Playback.REASON_INACTIVE, 10)
    assert falls_silent(bench, commands)
    assert (ticks[-1].play, ticks[-1].reason) == (Playback.PLAY_HOLD, Playback.REASON_INACTIVE)
    assert list(commands[-1].velocity) == [0.0, 0.0]
    assert np.allclose(commands[-1].position, (0.5, 1.0), atol=0.01)


def test_an_underrun_brings_the_robot_to_rest_and_is_told(bench: Any, launcher: Any) -> None:
    process = launcher.start(MODULE, *GIVEN, '-p', 'settle_ms:=0')
    commands = bench.collect(JointTrajectory, 'servo_node/command')
    states = bench.collect(PlaybackStatus, 'servo_node/playback_status', qos.LATCHED)
    feed = Feed(bench)
    assert bench.spin_until(
        lambda: commands and states and states[-1].state == PlaybackStatus.STATE_ACTIVE, 30
    ), launcher.log(process)
    times = [conversions.duration_ns(p.time_from_start) for p in commands[-1].points]
    assert times[0] == 20_000_000
    assert times == sorted(set(times))

    # A busy machine may have starved the feed before.
    before = states[-1].underruns
    feed.stop()
    assert bench.spin_until(lambda: states[-1].underruns > before, 20), states[-1]
    assert bench.spin_until(lambda: states[-1].play == Playback.PLAY_SILENT, 20)
    reasons = {item.name for item in states[-1].underrun_reasons}
    assert 'chunk_late' in reasons
    rungs = {item.name: item.count for item in states[-1].underrun_rungs}
    assert set(rungs) == {'hold', 'ramp', 'silent'}
    assert sum(rungs.values()) == states[-1].underrun_ticks
    assert falls_silent(bench, commands)


def falls_silent(bench: Any, messages: list[Any]) -> bool:
    """Wait until nothing has come for half a second, a hundred times a servo's period."""
    last = [len(messages), time.monotonic()]

    def quiet() -> bool:
        if len(messages) != last[0]:
            last[:] = len(messages), time.monotonic()
        return time.monotonic() - last[1] > 0.5

    return bool(bench.spin_until(quiet, 20))


def test_another_engine_is_played_though_it_counts_from_zero(bench: Any, launcher: Any) -> None:
    process = launcher.start(MODULE, *GIVEN, '-p', 'command_type:=joint_state')
    ticks = bench.collect(Playback, 'servo_node/playback', qos.PLAYBACK)
    first = Feed(bench)
    first.epoch = 5
    playing = Playback.PLAY_PLAYING
    assert bench.spin_until(
        lambda: ticks and (ticks[-1].epoch, ticks[-1].play) == (5, playing), 30
    ), launcher.log(process)
    # It is there before the first one has sent its last.
    second = Feed(bench, running=False)
    assert bench.spin_until(lambda: second.heard, 20)
    sent = first.number
    assert bench.spin_until(lambda: first.number > sent + 3, 20)
    first.stop()
    second.go_on()
    assert bench.spin_until(lambda: (ticks[-1].epoch, ticks[-1].play) == (0, playing), 30)


def test_another_engine_does_not_end_a_pause(bench: Any, launcher: Any) -> None:
    process = launcher.start(MODULE, *GIVEN, '-p', 'command_type:=joint_state')
    commands = bench.collect(JointState, 'servo_node/command')
    ticks = bench.collect(Playback, 'servo_node/playback', qos.PLAYBACK)
    first = Feed(bench)
    first.epoch = 5
    assert bench.spin_until(lambda: ticks and ticks[-1].epoch == 5, 60), launcher.log(process)
    assert call(bench, SetBool, 'pause', data=True).success
    first.stop()
    assert falls_silent(bench, commands)
    told = len(commands)
    Feed(bench)
    assert bench.spin_until(lambda: 'another engine' in launcher.log(process), 30)
    assert call(bench, Trigger, 'reset').success
    bench.spin_until(lambda: False, 0.3)
    assert len(commands) == told
    assert ticks[-1].reason == Playback.REASON_INACTIVE
    assert call(bench, SetBool, 'pause', data=False).success
    assert bench.spin_until(lambda: ticks[-1].play == Playback.PLAY_PLAYING, 20)


def test_going_on_without_a_pause_changes_nothing(bench: Any, launcher: Any) -> None:
    process = launcher.start(MODULE, *GIVEN, '-p', 'command_type:=joint_state')
    commands = bench.collect(JointState, 'servo_node/command')
    feed = Feed(bench)

    def arrived() -> bool:
        return len(commands) > 20 and still(commands[-20:], feed.position)

    # The way there is long over: what comes from here on is at rest, however busy the machine.
    assert bench.spin_until(arrived, 60), launcher.log(process)
    told = len(commands)
    assert call(bench, SetBool, 'pause', data=False).success
    answered = len(commands)
    assert bench.spin_until(lambda: len(commands) > answered + 20, 20), launcher.log(process)
    assert still(commands[told:], feed.position)


def still(commands: list[Any], position: tuple[float, float]) -> bool:
    """Tell whether all commands are at one place."""
    return np.allclose([command.position for command in commands], position, atol=0.001)


def test_a_message_that_is_no_chunk_is_refused_and_counted(bench: Any, launcher: Any) -> None:
    process = launcher.start(MODULE, *GIVEN)
    states = bench.collect(PlaybackStatus, 'servo_node/playback_status', qos.LATCHED)
    chunks_out = bench.probe.create_publisher(ActionChunk, 'action_chunk', qos.CHUNK)
    assert bench.spin_until(lambda: states and chunks_out.get_subscription_count(), 60)
    broken = conversions.chunk_message(steady_chunk(0, (0.5, 1.0)))
    broken.horizon = 3
    chunks_out.publish(broken)
    assert bench.spin_until(lambda: states[-1].chunks_rejected == 1, 10), launcher.log(process)
    assert [(item.name, item.count) for item in states[-1].reject_reasons] == [('malformed', 1)]
    words = 'positions must be horizon x joint_names = 3 x 2 values, got 32'
    assert words in launcher.log(process)


def test_pause_holds_and_going_on_plays_again(bench: Any, launcher: Any) -> None:
    process = launcher.start(MODULE, *GIVEN, '-p', 'command_type:=float64_multi_array')
    commands = bench.collect(Float64MultiArray, 'servo_node/command')
    states = bench.collect(PlaybackStatus, 'servo_node/playback_status', qos.LATCHED)
    Feed(bench)
    assert bench.spin_until(lambda: len(commands) > 100, 60), launcher.log(process)
    assert call(bench, SetBool, 'pause', data=True).success
    inactive = PlaybackStatus.STATE_INACTIVE
    assert bench.spin_until(lambda: states[-1].state == inactive, 20)
    assert falls_silent(bench, commands)
    told = len(commands)
    assert call(bench, SetBool, 'pause', data=False).success
    assert bench.spin_until(lambda: len(commands) > told + 100, 20)


def test_missing_joints_are_named_on_both_sides(bench: Any, launcher: Any) -> None:
    process = launcher.start(MODULE, *GIVEN)
    feed = Feed(bench)
    feed.names = ('joint_1', 'joint_2')
    words = "joints missing: ['shoulder', 'elbow']; expected ['shoulder', 'elbow'], got ['joint_1'"
    assert bench.spin_until(lambda: words in launcher.log(process), 60), launcher.log(process)


@pytest.mark.parametrize(
    ('arguments', 'words'),
    [
        ((*GIVEN, '-p', 'servo_rate:=250.0'), "did you mean ['servo_rate_hz']"),
        (
            (*GIVEN, '-p', 'servo_rate_hz:=0.0'),
            '/servo_node.servo_rate_hz must be >= 1, got 0.0',
        ),
        ((), '/servo_node.joints must be the names of the joints, got []'),
    ],
)
def test_a_wrong_parameter_ends_the_process_with_a_clear_line(
    launcher: Any, arguments: tuple[str, ...], words: str
) -> None:
    process = launcher.start(MODULE, *arguments)
    assert process.wait(60) == 2
    assert words in launcher.log(process)
    assert 'Traceback' not in launcher.log(process)
