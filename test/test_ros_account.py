# SPDX-License-Identifier: Apache-2.0
"""
The servo's own figures and those of its recording, over everything that may happen in a run.

Real nodes, a real recorder: the clock stands still, the engine is killed, the player is paused and
deactivated, the clock goes back. Every count must be the same, every quantile to the last digit.
"""

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

from bag_cases import held_up
from lifecycle_msgs.msg import Transition
from lifecycle_msgs.srv import ChangeState
from ros_cases import JOINTS, picture, small_weights
from rosgraph_msgs.msg import Clock
from sensor_msgs.msg import Image, JointState
from std_srvs.srv import SetBool

from physis_ros.cli import main
from physis_ros.msg import Playback, StreamStatus
from physis_ros.output.account import PARTS
from physis_ros.ros import conversions, qos

pytestmark = [pytest.mark.ros, pytest.mark.slow]

STEP_S = 0.01
RECORDED = (
    '/wam_node/action_chunk', '/wam_node/stream_status', '/servo_node/playback',
    '/servo_node/playback_status', '/joint_states', '/camera/image_raw',
)  # fmt: skip


class Story:
    """
    A robot whose time passes in even steps, and the nodes as processes.

    :param weights: of a small model.
    :param folder: for the recording.
    """

    def __init__(self, bench: Any, launcher: Any, weights: Path, folder: Path) -> None:
        self.bench, self.now_ns, self.running, self._steps = bench, 100 * 10**9, True, 0
        probe = bench.probe
        self._clock_out = probe.create_publisher(Clock, '/clock', qos.CLOCK)
        self._image_out = probe.create_publisher(Image, 'camera/image_raw', 10)
        self._joints_out = probe.create_publisher(JointState, 'joint_states', 10)
        topics = '[' + ', '.join(f"'{topic}'" for topic in RECORDED) + ']'
        self.recorder = launcher.start(
            'physis_ros.ros.recorder', '--ros-args',
            '-p', f'folder:={folder}', '-p', f'topics:={topics}',
        )  # fmt: skip
        assert bench.spin_until(lambda: self._image_out.get_subscription_count(), 60)
        simulated = ('--ros-args', '-p', 'use_sim_time:=true')
        self.servo = launcher.start(
            'physis_ros.ros.servo_node', *simulated, '-p', f'joints:=[{", ".join(JOINTS)}]',
            '-r', 'action_chunk:=wam_node/action_chunk',
        )  # fmt: skip
        self.wam = launcher.start(
            'physis_ros.ros.wam_node', *simulated, '-p', f'model:=reach:{weights}',
            '-p', 'workers:=1',
        )  # fmt: skip
        self.ticks: list[Playback] = bench.collect(Playback, 'servo_node/playback', qos.PLAYBACK)
        self.states: list[StreamStatus] = bench.collect(
            StreamStatus, 'wam_node/stream_status', qos.LATCHED
        )
        probe.create_timer(STEP_S, self._step)

    def _step(self) -> None:
        """Let the world go on, unless it is paused."""
        if not self.running:
            return
        self.now_ns += round(STEP_S * 1e9)
        self._clock_out.publish(Clock(clock=conversions.time_message(self.now_ns)))
        rest = np.zeros(2)
        self._joints_out.publish(
            conversions.joint_state_message(self.now_ns, JOINTS, np.array([0.4, 1.1]), rest)
        )
        self._steps += 1
        if self._steps % 3 == 0:
            self._image_out.publish(
                conversions.image_message(picture(), self.now_ns, 'camera_optical')
            )

    def plays(self, epoch: int = 0) -> int:
        """Wait until chunks of an epoch, or a newer one, are played and counted."""
        assert self.bench.spin_until(
            lambda: self.ticks and self.ticks[-1].due and self.ticks[-1].epoch >= epoch, 120
        ), (self.ticks[-1:], self.states[-1:])
        return int(self.ticks[-1].epoch)

    def on(self, seconds: float) -> None:
        """Let it go on for a while."""
        self.bench.spin_until(lambda: False, seconds)

    def pause_servo(self, paused: bool) -> None:
        """Pause the player, or let it go on."""
        client = self.bench.probe.create_client(SetBool, 'servo_node/pause')
        assert self.bench.spin_until(client.service_is_ready, 10)
        answer = client.call_async(SetBool.Request(data=paused))
        assert self.bench.spin_until(answer.done, 10)

    def change_servo(self, label: str) -> None:
        """Ask the player for a transition."""
        client = self.bench.probe.create_client(ChangeState, 'servo_node/change_state')
        assert self.bench.spin_until(client.service_is_ready, 10)
        answer = client.call_async(ChangeState.Request(transition=Transition(label=label)))
        assert self.bench.spin_until(answer.done, 10)
        assert answer.result().success

    def end(self) -> None:
        """End all, the recorder last."""
        for process in (self.servo, self.wam, self.recorder):
            process.send_signal(signal.SIGINT)
            assert self.bench.spin_until(lambda p=process: p.poll() is not None, 30)
            assert process.returncode == 0


def test_live_and_recomputed_figures_are_the_same_to_the_last_digit(
    bench: Any, launcher: Any, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    story = Story(bench, launcher, small_weights(tmp_path), tmp_path)
    epoch = story.plays()
    story.on(1.0)
    story.running = False
    story.on(0.7)
    story.running = True
    story.on(0.5)
    story.pause_servo(True)
    story.on(0.5)
    story.pause_servo(False)
    story.plays(epoch)
    story.change_servo('deactivate')
    story.on(0.5)
    story.change_servo('activate')
    story.plays(epoch)
    os.kill(story.states[-1].workers[0].pid, signal.SIGKILL)
    epoch = story.plays(epoch + 1)
    story.on(0.5)
    story.now_ns = 50 * 10**9
    epoch = story.plays(epoch + 1)
    story.pause_servo(True)
    story.pause_servo(False)
    story.plays(epoch)
    story.on(0.5)
    story.end()
    time.sleep(0.1)
    code = main(['account', str(tmp_path / 'run'), '--json'])
    rows = json.loads(capsys.readouterr().out)
    assert [row for row in rows if row['agrees'] is False] == []
    found = {row['name']: row for row in rows}
    assert {row['name'] for row in rows if row['agrees'] is None} <= held_up(found)
    assert code == 0
    told = {row['name']: row['live'] for row in rows}
    assert told['ticks'] > 0
    # The age of every input, and all that the worst one is made of.
    names = ('action_age_ms', 'input_age camera ms', 'input_age joints ms')
    names += tuple(f'age_{part}_ms' for part in PARTS)
    assert len({told[f'{name} n'] for name in names}) == 1
