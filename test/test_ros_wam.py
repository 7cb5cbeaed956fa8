# SPDX-License-Identifier: Apache-2.0
"""The model node over real DDS with real workers: lifecycle, chunks, and what goes wrong."""

from __future__ import annotations

import json
import os
import signal
import time
from pathlib import Path
from typing import Any

import numpy as np
import pytest

pytest.importorskip('rclpy')
pytest.importorskip('physis_ros.msg')

from rclpy.lifecycle import TransitionCallbackReturn
from ros_cases import JOINTS, picture, small_weights
from rosgraph_msgs.msg import Clock
from sensor_msgs.msg import Image, JointState
from std_msgs.msg import String
from std_srvs.srv import SetBool, Trigger

from physis_ros.msg import ActionChunk, StreamStatus
from physis_ros.ros import conversions, qos
from physis_ros.ros.wam import WamNode

SUCCESS, FAILURE = TransitionCallbackReturn.SUCCESS, TransitionCallbackReturn.FAILURE
RUNNING = StreamStatus.STATE_RUNNING


@pytest.fixture(scope='module')
def weights(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return the file of a small model."""
    return small_weights(tmp_path_factory.mktemp('weights'))


class Robot:
    """
    Publishes pictures and joint states.

    :param bench: the probe's.
    """

    def __init__(self, bench: Any) -> None:
        self.simulated_ns: int | None = None
        self._clock_out = bench.probe.create_publisher(Clock, '/clock', 10)
        self._image_out = bench.probe.create_publisher(Image, 'camera/image_raw', 10)
        self._joints_out = bench.probe.create_publisher(JointState, 'joint_states', 10)
        self.names, self.picture, self.encoding = JOINTS, picture(), 'rgb8'
        bench.probe.create_timer(0.025, self._tick)

    def _tick(self) -> None:
        stamp_ns = time.time_ns()
        if self.simulated_ns is not None:
            # In even steps, so that a busy machine makes no jump of its own.
            stamp_ns = self.simulated_ns = self.simulated_ns + 25_000_000
            self._clock_out.publish(Clock(clock=conversions.time_message(stamp_ns)))
        joints, rest = np.array([0.4, 1.1]), np.zeros(2)
        self._joints_out.publish(
            conversions.joint_state_message(stamp_ns, self.names, joints, rest)
        )
        image = conversions.image_message(self.picture, stamp_ns, 'camera_optical')
        image.encoding = self.encoding
        self._image_out.publish(image)


class Model:
    """A model node on the bench, and what it says."""

    def __init__(self, bench: Any, weights: Path, **parameters: Any) -> None:
        self._bench = bench
        given = {'model': f'reach:{weights}', 'workers': 2, **parameters}
        self.node = bench.add(WamNode, given)
        self.states = bench.collect(StreamStatus, 'wam_node/stream_status', qos.LATCHED)
        self.chunks = bench.collect(ActionChunk, 'wam_node/action_chunk', qos.CHUNK)

    def reaches(self, state: int, timeout_s: float = 60.0) -> bool:
        """Wait for a state."""
        return bool(
            self._bench.spin_until(
                lambda: self.states and self.states[-1].state == state, timeout_s
            )
        )

    def call(self, kind: type, name: str, **request: Any) -> Any:
        """Call one of its services."""
        client = self._bench.probe.create_client(kind, f'wam_node/{name}')
        assert self._bench.spin_until(client.service_is_ready, 10)
        answer = client.call_async(kind.Request(**request))
        assert self._bench.spin_until(answer.done, 10)
        return answer.result()


@pytest.fixture
def running(bench: Any, weights: Path) -> tuple[Any, Model, Robot]:
    """Give a node that produces."""
    robot, model = Robot(bench), Model(bench, weights)
    assert model.node.trigger_configure() is SUCCESS
    assert model.node.trigger_activate() is SUCCESS
    assert model.reaches(RUNNING), model.states[-1]
    return bench, model, robot


def test_chunks_follow_the_newest_picture(running: tuple[Any, Model, Robot]) -> None:
    bench, model, _ = running
    assert bench.spin_until(lambda: len(model.chunks) >= 8, 20)
    chunk = conversions.chunk(model.chunks[-1])
    assert chunk.names == JOINTS
    assert chunk.actions.shape == (16, 2)
    assert set(chunk.input_stamps_ns) == {'camera', 'joints'}
    times = chunk.times
    order = (times.capture_ns, times.receive_ns, times.enter_ns, times.denoised_ns)
    assert list(order) == sorted(order)
    assert (chunk.start_ns - chunk.input_stamps_ns['camera']) % chunk.dt_ns == 0
    numbers = [message.chunk for message in model.chunks]
    assert numbers == list(range(len(numbers)))
    assert bench.spin_until(
        lambda: [0.0 < worker.busy <= 1.0 for worker in model.states[-1].workers] == [True] * 2, 5
    ), model.states[-1]


def test_Q7_configure_is_over_before_the_model_is_loaded(bench: Any, weights: Path) -> None:
    """Who manages a lifecycle takes a slow answer for a failure: loading is a state to see."""
    model = Model(bench, weights)
    assert model.node.trigger_configure() is SUCCESS
    # Nothing but that call has run so far.
    assert model.reaches(StreamStatus.STATE_LOADING)


def test_frames_are_decoded_while_someone_looks(running: tuple[Any, Model, Robot]) -> None:
    bench, model, _ = running
    frames = bench.collect(Image, 'wam_node/predicted_image')
    assert bench.spin_until(lambda: len(frames) >= 2, 20)
    assert (frames[0].height, frames[0].width, frames[0].encoding) == (64, 64, 'rgb8')
    assert frames[0].header.frame_id == 'camera_optical'

    def both() -> bool:
        """Whether some chunk's two frames have come; the first heard may be half a chunk's."""
        about_ns = {conversions.time_ns(frame.header.stamp) for frame in frames}
        starts_ns = [conversions.time_ns(chunk.start) for chunk in model.chunks]
        return any({start, start + 50_000_000} <= about_ns for start in starts_ns)

    assert bench.spin_until(both, 20)
    overlays = bench.collect(Image, 'wam_node/overlay')
    assert bench.spin_until(lambda: len(overlays) >= 2, 20)
    assert conversions.time_ns(overlays[0].header.stamp) < conversions.time_ns(
        overlays[-1].header.stamp
    )


def test_X20_reset_pause_and_deactivate_keep_the_model_loaded(
    running: tuple[Any, Model, Robot],
) -> None:
    bench, model, _ = running
    assert bench.spin_until(lambda: model.states[-1].workers, 10)
    loaded = [worker.pid for worker in model.states[-1].workers]
    before = model.chunks[-1].epoch
    assert model.call(Trigger, 'reset').success
    assert bench.spin_until(lambda: model.chunks[-1].epoch == before + 1, 10)

    words_out = bench.probe.create_publisher(String, 'wam_node/instruction', qos.LATCHED)
    words_out.publish(String(data='follow'))
    assert bench.spin_until(lambda: model.chunks[-1].epoch == before + 2, 10)

    assert model.call(SetBool, 'pause', data=True).success
    assert model.reaches(StreamStatus.STATE_PAUSED, 10)
    assert model.call(SetBool, 'pause', data=False).success
    assert model.reaches(RUNNING, 10)

    assert model.node.trigger_deactivate() is SUCCESS
    # What was on its way comes first.
    bench.spin_until(lambda: False, 0.4)
    told = len(model.chunks)
    bench.spin_until(lambda: False, 0.4)
    assert len(model.chunks) == told
    assert model.states[-1].state == StreamStatus.STATE_PAUSED
    assert model.node.trigger_activate() is SUCCESS
    assert bench.spin_until(lambda: len(model.chunks) > told + 3, 20)

    pids = [worker.pid for worker in model.states[-1].workers]
    assert len(pids) == 2
    assert pids == loaded
    assert model.node.trigger_deactivate() is SUCCESS
    assert model.node.trigger_cleanup() is SUCCESS
    assert model.reaches(StreamStatus.STATE_UNCONFIGURED, 10)
    assert not [pid for pid in pids if Path(f'/proc/{pid}').exists()]
    assert not model.call(Trigger, 'reset').success


def test_a_killed_worker_is_told_and_the_stream_goes_on(
    running: tuple[Any, Model, Robot],
) -> None:
    bench, model, _ = running
    assert bench.spin_until(lambda: model.states[-1].workers, 10)
    pids = [worker.pid for worker in model.states[-1].workers]
    epoch = model.chunks[-1].epoch
    os.kill(pids[1], signal.SIGKILL)
    words = 'worker 1 ended with exit code -9'
    assert bench.spin_until(
        lambda: any(words in status.reason for status in model.states), 5
    ), model.states[-1]
    assert bench.spin_until(lambda: model.chunks[-1].epoch > epoch, 60), model.states[-1]
    assert model.reaches(RUNNING)
    assert not [pid for pid in pids if Path(f'/proc/{pid}').exists()]


def test_T7_a_clock_that_goes_back_makes_one_epoch(bench: Any, weights: Path) -> None:
    robot, model = Robot(bench), Model(bench, weights, use_sim_time=True)
    robot.simulated_ns = 100_000_000_000
    assert model.node.trigger_configure() is SUCCESS
    assert model.node.trigger_activate() is SUCCESS
    assert model.reaches(RUNNING), model.states[-1]
    before = model.chunks[-1].epoch
    robot.simulated_ns = 50_000_000_000
    assert bench.spin_until(lambda: model.chunks[-1].epoch > before, 20), model.states[-1]
    told = len(model.chunks)
    assert bench.spin_until(lambda: len(model.chunks) > told + 5, 20), model.states[-1]
    assert model.chunks[-1].epoch == before + 1
    assert conversions.time_ns(model.chunks[-1].start) < 100_000_000_000


def test_what_is_wrong_with_the_inputs_is_told(running: tuple[Any, Model, Robot]) -> None:
    bench, model, robot = running
    waiting = StreamStatus.STATE_WAITING_OBSERVATION

    def told(words: str) -> bool:
        return bool(
            bench.spin_until(
                lambda: model.states[-1].state == waiting and words in model.states[-1].reason, 15
            )
        )

    robot.picture = picture(32)
    assert told('/camera/image_raw: image must be'), model.states[-1]
    robot.picture, robot.encoding = picture(), 'rgb9'
    assert told("'rgb9'"), model.states[-1]
    robot.encoding = 'rgb8'
    assert model.reaches(RUNNING, 20), model.states[-1]


def test_missing_joints_and_a_silent_camera_are_named(bench: Any, weights: Path) -> None:
    model = Model(bench, weights, camera='eye')
    robot = Robot(bench)
    robot.names = ('joint_1', 'joint_2')
    assert model.node.trigger_configure() is SUCCESS
    assert model.node.trigger_activate() is SUCCESS
    names = "expected ['shoulder', 'elbow'], got ['joint_1', 'joint_2']"
    wanted = (names, 'nothing on /eye/image_raw for 2.5 s and more: nobody publishes it')
    assert bench.spin_until(
        lambda: model.states and all(text in model.states[-1].reason for text in wanted), 60
    ), model.states[-1]


@pytest.mark.parametrize(
    ('given', 'words'),
    [
        ({'model': 'reach:missing.safetensors'}, 'weights missing.safetensors do not exist'),
        ({'workers': 99}, 'workers must be'),
        ({'conditioning': 'step'}, "conditioning must be 'entry' for reach, whose weights do not"),
        ({'joint_names': ['a', 'b', 'c']}, 'input joints of reach must be of shape'),
        ({'joint_aliases': ['j1=wrist']}, 'aliases must be robot name'),
        (
            {'joint_units': ['wrist=deg']},
            "joint_units must be for some of ['shoulder', 'elbow'], each once, got ['wrist']",
        ),
        ({'qos_overrides./nowhere.subscription.depth': 3}, 'must be declared by the node'),
        ({'trace': '/proc/none/trace.json'}, 'trace must be in a folder that exists'),
    ],
)
def test_what_does_not_fit_is_refused_at_configure(
    bench: Any, weights: Path, given: dict[str, Any], words: str
) -> None:
    model = Model(bench, weights, **given)
    assert model.node.trigger_configure() is FAILURE
    assert words in str(model.node.refusal)
    assert model.reaches(StreamStatus.STATE_UNCONFIGURED, 10)


def test_a_refusal_ends_the_process_with_a_clear_line(launcher: Any) -> None:
    process = launcher.start(
        'physis_ros.ros.wam_node', '--ros-args', '-p', 'model:=reach:missing.safetensors'
    )
    assert process.wait(60) == 2
    assert 'weights missing.safetensors do not exist' in launcher.log(process)
    assert 'Traceback' not in launcher.log(process)


def test_weights_that_break_after_the_check_end_the_process_at_once(
    launcher: Any, weights: Path, tmp_path: Path
) -> None:
    # The header is good, which is all that is read at configure; the tensors are cut off.
    broken = tmp_path / 'broken.safetensors'
    broken.write_bytes(renamed(weights.read_bytes()))
    process = launcher.start(
        'physis_ros.ros.wam_node', '--ros-args', '-p', f'model:=reach:{broken}'
    )
    assert process.wait(90) != 0
    log = launcher.log(process)
    assert 'CheckpointError' in log
    assert 'giving up' in log
    assert 'loading it again' not in log


def renamed(data: bytes) -> bytes:
    """Give the first tensor of a safetensors file a name that the model does not know."""
    length = int.from_bytes(data[:8], 'little')
    header = json.loads(data[8 : 8 + length])
    name = next(key for key in header if key != '__metadata__')
    header['x' * len(name)] = header.pop(name)
    text = json.dumps(header, separators=(',', ':')).encode()
    text = text.ljust((len(text) + 7) // 8 * 8)
    return len(text).to_bytes(8, 'little') + text + data[8 + length :]


def test_a_signal_while_loading_leaves_nothing_behind(launcher: Any, weights: Path) -> None:
    process = launcher.start(
        'physis_ros.ros.wam_node', '--ros-args', '-p', f'model:=reach:{weights}'
    )
    deadline_s = time.monotonic() + 60
    while 'loading' not in launcher.log(process) and time.monotonic() < deadline_s:
        time.sleep(0.05)
    process.send_signal(signal.SIGTERM)
    assert process.wait(10) == 0, launcher.log(process)
    left = [path.name for path in Path('/proc').glob('[0-9]*') if _group(path) == process.pid]
    assert left == []


def _group(folder: Path) -> int:
    """Return the process group of a /proc folder, -1 when the process is gone."""
    try:
        return os.getpgid(int(folder.name))
    except ProcessLookupError:
        return -1
