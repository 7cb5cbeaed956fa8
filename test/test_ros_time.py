# SPDX-License-Identifier: Apache-2.0
"""
Time that is simulated, paused, fast, slow, set back and set ahead: the nodes over real DDS.

Named after the reports of what goes wrong elsewhere (T6: timers that stall when time goes back).
"""

from __future__ import annotations

import gc
import signal
import time
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

pytest.importorskip('rclpy')
pytest.importorskip('physis_ros.msg')

from bag_player import read
from diagnostic_msgs.msg import DiagnosticArray, DiagnosticStatus
from rclpy.clock import ClockType
from rclpy.lifecycle import TransitionCallbackReturn
from ros_cases import MS, picture, steady_chunk
from sensor_msgs.msg import Image, JointState
from servo_cases import call
from std_srvs.srv import SetBool, Trigger
from time_cases import JOINTS, PERIOD_NS, PLAYING, World, stamp_ns

from physis_ros.msg import ActionChunk, Playback, PlaybackStatus, StreamStatus
from physis_ros.output.figures import Figures
from physis_ros.ros import conversions, qos
from physis_ros.ros import servo_playing as servo_module
from physis_ros.ros.clock import seldom
from physis_ros.ros.servo import ServoNode
from physis_ros.ros.signals import Stop
from physis_ros.ros.wam import WamNode

SLOW = 'synthetic:blocks=2,steps=2,stage_ms=25'


@pytest.fixture(scope='module')
def servo(shared_bench: Any, shared_launcher: Any) -> Any:
    """Give a world and a servo node that has not heard the time yet; its log is ``said()``."""
    arguments = ('use_sim_time:=true', f'joints:=[{", ".join(JOINTS)}]', 'settle_ms:=0.0')
    given = [word for text in arguments for word in ('-p', text)]
    process = shared_launcher.start('physis_ros.ros.servo_node', '--ros-args', *given)
    world = World(shared_bench)
    return SimpleNamespace(world=world, said=lambda: shared_launcher.log(process))


@pytest.fixture(scope='module')
def model(shared_bench: Any, servo: Any) -> Any:
    """Give a model node in the same world, whose chunks take a tenth of a second."""
    given = {'model': SLOW, 'use_sim_time': True, 'status_rate_hz': 20.0}
    node = shared_bench.add(WamNode, given)
    states = shared_bench.collect(StreamStatus, 'wam_node/stream_status', qos.LATCHED)
    chunks = shared_bench.collect(ActionChunk, 'wam_node/action_chunk', qos.CHUNK)
    assert node.trigger_configure() is TransitionCallbackReturn.SUCCESS
    assert node.trigger_activate() is TransitionCallbackReturn.SUCCESS
    return SimpleNamespace(node=node, states=states, chunks=chunks, world=servo.world)


def test_T9_after_five_seconds_without_a_clock_it_is_said(servo: Any, model: Any) -> None:
    spin_until, words = servo.world.bench.spin_until, 'waiting for /clock'
    assert spin_until(lambda: words in servo.said(), 60), servo.said()
    assert spin_until(lambda: words in model.states[-1].reason, 60), model.states[-1]
    assert not servo.world.ticks


@pytest.mark.parametrize('rate', [0.5, 2.0, 100.0])
def test_T6_every_tick_of_simulated_time_comes_once_at_any_rate(servo: Any, rate: float) -> None:
    world = servo.world
    world.begin(1000, world.epoch + 1)
    before, began_ns = world.figures(), world.now_ns
    ticks = world.run(400, rate)
    assert [stamp_ns(tick) - began_ns for tick in ticks] == [
        PERIOD_NS * number for number in range(1, 101)
    ]
    assert {tick.play for tick in ticks} == {PLAYING}
    after = world.figures()
    assert after.ticks - before.ticks == after.deadline_due - before.deadline_due == 100
    assert after.deadline_misses == before.deadline_misses


def test_T9_a_paused_clock_is_no_underrun_and_single_steps_are_single_ticks(servo: Any) -> None:
    world = servo.world
    world.begin(1000, world.epoch + 1)
    before, told = world.figures(), len(world.ticks)
    # Longer than the chunks reach and than a chunk may be missing, while nothing comes at all.
    world.bench.spin_until(lambda: False, 1.2)
    paused = world.figures()
    assert len(world.ticks) == told
    for number in range(3):
        world.step()
        assert world.bench.spin_until(lambda: world.ticked(), 10)
        world.show()
        world.bench.spin_until(lambda: False, 0.1)
        assert len(world.ticks) == told + number + 1
    after = world.figures()
    assert {tick.play for tick in world.ticks[told:]} == {PLAYING}
    assert after.ticks == paused.ticks + 3 == before.ticks + 3
    assert (after.deadline_misses, after.underruns) == (before.deadline_misses, before.underruns)


def test_T9_pause_and_reset_are_answered_and_done_while_the_clock_stands_still(
    servo: Any, model: Any
) -> None:
    world, bench = servo.world, servo.world.bench
    world.begin(1000, world.epoch + 1)
    assert call(bench, Trigger, 'reset').success
    # From where the joints are measured to where the chunks say: it moves.
    assert any(world.run(120)[-1].velocity)
    world.status.clear()
    assert call(bench, SetBool, 'pause', data=True).success
    inactive = PlaybackStatus.STATE_INACTIVE
    assert bench.spin_until(lambda: inactive in [one.state for one in world.status], 10)
    assert call(bench, SetBool, 'pause', data=False).success
    assert call(bench, Trigger, 'reset').success
    # The model node waits for no clock either; whether there is anything to reset is its own.
    for paused in (True, False):
        assert call(bench, SetBool, 'pause', node='wam_node', data=paused).success
    call(bench, Trigger, 'reset', node='wam_node')
    assert world.run(400)[-1].play == PLAYING


def test_T7_T19_after_a_clock_went_back_nothing_old_is_played(servo: Any) -> None:
    world = servo.world
    world.begin(1000, world.epoch + 1)
    old, told = world.epoch, len(world.ticks)
    world.now_ns, world.epoch, world.number = 500 * 10**9, old + 1, 0
    # As a bag that loops: the chunk of before, still under way, comes after the time was set.
    late_ns, world.now_ns = world.now_ns, 1000 * 10**9 + 400 * MS
    world.send(old)
    world.now_ns = late_ns
    world.wait(world.show, world.ticked)
    ticks = [*world.ticks[told:], *world.run(300)]
    since = ticks[[stamp_ns(tick) < 900 * 10**9 for tick in ticks].index(True) :]
    assert all(stamp_ns(tick) < 900 * 10**9 for tick in since)
    played = [tick for tick in since if tick.play == PLAYING]
    assert {tick.epoch for tick in played} == {old + 1}
    assert played[-1] is since[-1]
    # The figures are those of the new time.
    assert world.figures().ticks <= len(since)


def test_T24_a_clock_set_ahead_loses_no_ticks_and_the_robot_comes_to_rest(servo: Any) -> None:
    world = servo.world
    world.begin(1000, world.epoch + 1)
    before, told = world.figures(), len(world.ticks)
    world.now_ns += 3600 * 10**9
    world.wait(world.show, world.ticked)
    world.epoch, world.number = world.epoch + 1, 0
    ticks = world.run(400)
    assert [tick.play for tick in world.ticks[told:]].count(PLAYING) < len(ticks) + 1
    assert ticks[-1].play == PLAYING
    after = world.figures()
    assert after.deadline_due - before.deadline_due <= len(ticks) + 1


def follows(model: Any, count: int, rate: float) -> list[Any]:
    """Let time pass until so many chunks have come."""
    told = len(model.chunks)
    for _ in range(100):
        if len(model.chunks) >= told + count:
            break
        model.world.run(100, rate)
    found: list[Any] = model.chunks[told:]
    assert len(found) >= count, model.states[-1]
    return found


def epochs(messages: list[Any]) -> list[int]:
    """Return the epochs in order, each once."""
    return sorted({message.epoch for message in messages})


def test_T11_the_clock_goes_on_while_a_chunk_is_computed(model: Any) -> None:
    follows(model, 3, 1.0)
    seen: list[int] = []
    clock = model.node.get_clock()
    told = len(model.chunks)
    while len(model.chunks) < told + 4:
        model.world.run(20, 1.0)
        assert len(seen) < 1000, 'no chunks come'
        seen.append(clock.now().nanoseconds)
    assert seen == sorted(set(seen))
    # No chunk is computed in less than 100 ms, in which the time moved on again and again.
    times = [conversions.chunk(message).times for message in model.chunks[told:]]
    whole = [item for item in times if item.enter_ns > seen[0]]
    assert len(whole) >= 2
    for item in whole:
        assert sum(item.enter_ns < now_ns < item.publish_ns for now_ns in seen) >= 2


@pytest.mark.parametrize('rate', [0.5, 2.0])
def test_T18_times_of_chunks_are_of_the_clock_at_any_rate(model: Any, rate: float) -> None:
    follows(model, 1, rate)
    began_ns = model.world.now_ns
    found = follows(model, 4, rate)
    assert len(epochs(found)) == 1
    for chunk in map(conversions.chunk, found[1:]):
        times = chunk.times
        order = [times.capture_ns, times.receive_ns, times.enter_ns, times.denoised_ns]
        order += [times.decoded_ns, times.publish_ns]
        assert order == sorted(order)
        assert began_ns - 300 * MS < order[0] and order[-1] <= model.world.now_ns


@pytest.fixture(scope='module')
def bag(shared_bench: Any, shared_launcher: Any, tmp_path_factory: Any) -> Path:
    """Record a camera and joints for a second and a half."""
    folder = tmp_path_factory.mktemp('bag')
    topics = "['/camera/image_raw', '/joint_states']"
    given = ('-p', f'folder:={folder}', '-p', f'topics:={topics}')
    process = shared_launcher.start('physis_ros.ros.recorder', '--ros-args', *given)
    image_out = shared_bench.probe.create_publisher(Image, 'camera/image_raw', 10)
    joints_out = shared_bench.probe.create_publisher(JointState, 'joint_states', 10)

    def robot() -> None:
        now_ns, rest = time.time_ns(), np.zeros(2)
        joints_out.publish(conversions.joint_state_message(now_ns, JOINTS, rest, rest))
        image_out.publish(conversions.image_message(picture(16), now_ns, 'camera_optical'))

    timer = shared_bench.probe.create_timer(0.025, robot)

    def heard() -> bool:
        """Whether the recorder does, beside the model, and the servo for the joints."""
        counts = (image_out.get_subscription_count(), joints_out.get_subscription_count())
        return counts == (2, 3)

    assert shared_bench.spin_until(heard, 30), shared_launcher.log(process)
    shared_bench.spin_until(lambda: False, 1.5)
    timer.cancel()
    shared_bench.probe.destroy_timer(timer)
    process.send_signal(signal.SIGINT)
    assert process.wait(20) == 0, shared_launcher.log(process)
    for publisher in (image_out, joints_out):
        shared_bench.probe.destroy_publisher(publisher)
    return folder / 'run'


def played(model: Any, launcher: Any, bag: Path, *options: str) -> list[Any]:
    """Play a recording; return the chunks that were made of it."""
    told = len(model.chunks)
    script = Path(__file__).with_name('bag_player.py')
    process = launcher.start_script(script, str(bag), *options)
    assert model.world.bench.spin_until(lambda: process.poll() is not None, 60)
    assert process.returncode == 0, launcher.log(process)
    model.world.bench.spin_until(lambda: False, 0.3)
    begin_ns = read(bag)[0].log_ns
    found = [conversions.chunk(message) for message in model.chunks[told:]]
    return [chunk for chunk in found if chunk.observed_ns > begin_ns - 10**9]


def test_T18_each_loop_of_a_recording_is_an_epoch_from_its_offset_on(
    model: Any, shared_launcher: Any, bag: Path
) -> None:
    options = ('--rate', '2', '--loops', '3', '--start-offset', '0.5')
    chunks = played(model, shared_launcher, bag, *options)
    recorded = read(bag)
    first_ns, last_ns = recorded[0].log_ns + 500 * MS, recorded[-1].log_ns
    seen = sorted({chunk.epoch for chunk in chunks})
    assert seen == list(range(seen[0], seen[0] + 3))
    for epoch in seen:
        observed = [chunk.observed_ns for chunk in chunks if chunk.epoch == epoch]
        assert observed == sorted(set(observed))
        # A message's stamp is a moment older than its log time.
        assert first_ns - 100 * MS < observed[0] and observed[-1] <= last_ns


def test_T18_a_slow_recording_with_a_pause_is_one_epoch_and_no_chunk_is_older_for_it(
    model: Any, shared_launcher: Any, bag: Path
) -> None:
    options = ('--rate', '0.5', '--pause-at', '0.5', '--pause', '1.5')
    chunks = played(model, shared_launcher, bag, *options)
    assert len({chunk.epoch for chunk in chunks}) == 1
    assert len(chunks) >= 3
    observed = [chunk.observed_ns for chunk in chunks]
    assert observed == sorted(set(observed))
    # The pause of three quarters of a second of the recording's time is in nobody's age.
    assert all(chunk.times.publish_ns - chunk.observed_ns < 700 * MS for chunk in chunks)


def test_T9_a_pause_of_the_clock_ends_no_epoch(model: Any) -> None:
    epoch = follows(model, 2, 1.0)[-1].epoch
    model.world.bench.spin_until(lambda: False, 0.5)
    told = len(model.chunks)
    model.world.bench.spin_until(lambda: False, 0.5)
    assert len(model.chunks) == told
    assert epochs(follows(model, 2, 1.0)) == [epoch]


@pytest.mark.parametrize('jump_s', [-20, 5])
def test_T7_a_jump_of_the_clock_makes_one_epoch(model: Any, jump_s: int) -> None:
    epoch = follows(model, 2, 1.0)[-1].epoch
    world = model.world
    world.now_ns += jump_s * 10**9
    world.epoch, world.number = world.epoch + 1, 0
    world.wait(world.show, world.ticked)
    jumped_ns, told = world.now_ns, len(model.chunks)
    follows(model, 4, 1.0)
    fresh = [chunk for chunk in model.chunks[told:] if chunk.epoch != epoch]
    assert epochs(fresh) == [epoch + 1]
    observed = [conversions.chunk(chunk).observed_ns for chunk in fresh]
    assert all(0 <= stamp - jumped_ns < 60 * 10**9 for stamp in observed)


def test_T2_a_source_on_another_clock_is_told(servo: Any, model: Any) -> None:
    world = servo.world
    world.begin(2000, world.epoch + 1)
    follows(model, 2, 1.0)
    told: list[DiagnosticArray] = world.bench.collect(DiagnosticArray, '/diagnostics')
    world.apart_ns = 10**18
    words = 'its time is 1e+09 s ahead of ours: use_sim_time must be the same'

    def said() -> set[str]:
        """Return who says so."""
        return {
            status.name
            for array in told
            for status in array.status
            if words in status.message and status.level == DiagnosticStatus.ERROR
        }

    wanted = {'/servo_node: playback', '/wam_node: inputs'}
    for _ in range(40):
        world.run(100, 1.0)
        if wanted <= said():
            break
    world.apart_ns = 0
    assert wanted <= said(), told[-1]


def test_T6_the_servo_ticks_on_when_the_system_clock_is_set(
    bench: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    """An hour back, as by NTP after a wrong start, then two ahead; without simulated time."""
    given = {'joints': list(JOINTS), 'settle_ms': 0.0, 'command_type': 'joint_state'}
    node, stop = bench.add(ServoNode, given), Stop()
    set_ns, done = [0], [0]
    node._ros_time.now_ns = lambda: time.time_ns() + set_ns[0]
    offset_ns = servo_module.system_minus_steady_ns
    monkeypatch.setattr(
        servo_module, 'system_minus_steady_ns', lambda samples: offset_ns(samples) + set_ns[0]
    )
    ticks = bench.collect(Playback, 'servo_node/playback', qos.PLAYBACK)
    marks: list[Figures] = []

    def robot() -> None:
        """Play robot and engine every 20 ms; set the clock after half a second, and once more."""
        now_ns, number = node._ros_time.now_ns(), done[0]
        rest = np.zeros(2)
        inputs, chunk = node.playing.inputs, chunk_of(number, len(marks), now_ns)
        inputs._on_joints(conversions.joint_state_message(now_ns, JOINTS, rest, rest))
        inputs._on_chunk(conversions.chunk_message(chunk))
        done[0] += 1
        if done[0] % 25 == 0:
            marks.append(node.playing.player.account.figures())
            set_ns[0] += (-3600 if len(marks) == 1 else 7200) * 10**9
        if len(marks) == 3:
            stop.request('done')

    bench.probe.create_timer(0.02, robot)
    node.run(bench.executor, stop)
    gc.unfreeze()
    gc.enable()
    stamps = np.array([stamp_ns(tick) for tick in ticks])
    turns = np.flatnonzero(np.abs(np.diff(stamps)) > 10**12)
    assert len(turns) == 2
    parts = np.split(np.arange(len(ticks)), turns + 1)
    for number, part in enumerate(parts):
        played = [ticks[index] for index in part if ticks[index].play == PLAYING]
        assert {tick.epoch for tick in played} <= {number}
        assert len(played) > 10
    # Back: figures of the new time only. Ahead: no tick was lost in the hours that did not pass.
    assert (marks[0].window, marks[1].window, marks[2].window) == (0, 1, 1)
    assert marks[1].ticks <= len(parts[1])
    assert marks[2].due < 100_000


def chunk_of(number: int, epoch: int, now_ns: int) -> Any:
    """Return a chunk that stays at rest from now on."""
    return replace(steady_chunk(number, (0.0, 0.0), epoch, now_ns), names=JOINTS)


def test_T8_a_line_that_is_said_seldom_is_not_silenced_by_a_clock_set_back() -> None:
    assert seldom(2.0)['throttle_time_source_type'].clock_type is ClockType.STEADY_TIME
    lines = [
        line
        for path in Path(servo_module.__file__).parent.glob('*.py')
        for line in path.read_text().splitlines()
        if 'throttle_duration_sec=' in line
    ]
    assert lines == []
