# SPDX-License-Identifier: Apache-2.0
"""A world whose time the test makes: /clock, a camera, joints, and chunks for the servo."""

from __future__ import annotations

import time
from typing import Any

import numpy as np
from ros_cases import MS, picture
from rosgraph_msgs.msg import Clock
from sensor_msgs.msg import Image, JointState

from physis_ros.msg import ActionChunk, Playback, PlaybackStatus
from physis_ros.ros import conversions, qos
from physis_ros.types import ActionChunk as Chunk
from physis_ros.types import ChunkTimes

JOINTS = ('a', 'b')
PERIOD_NS = 4 * MS
FRAME_NS, STATE_NS, CHUNK_NS = 24 * MS, 12 * MS, 100 * MS
PLAYING = Playback.PLAY_PLAYING


class World:
    """
    Makes time, in steps of a servo period, and waits after each until the servo has ticked.

    So nothing depends on how busy the machine is. Chunks are of the epoch that is set.

    :param bench: the probe's.
    """

    def __init__(self, bench: Any) -> None:
        self.bench, self.now_ns, self.epoch, self.number = bench, 0, 0, 0
        self.apart_ns = 0  # how far the stamps are ahead of the time that is shown
        probe = bench.probe
        self._clock_out = probe.create_publisher(Clock, '/clock', qos.CLOCK)
        self._image_out = probe.create_publisher(Image, 'camera/image_raw', 10)
        self._joints_out = probe.create_publisher(JointState, 'joint_states', 10)
        self._chunks_out = probe.create_publisher(ActionChunk, 'action_chunk', qos.CHUNK)
        self.ticks: list[Playback] = bench.collect(Playback, 'servo_node/playback', qos.PLAYBACK)
        self.status: list[PlaybackStatus] = bench.collect(
            PlaybackStatus, 'servo_node/playback_status', qos.LATCHED
        )

    def show(self) -> None:
        """Publish the time."""
        self._clock_out.publish(Clock(clock=conversions.time_message(self.now_ns)))

    def step(self) -> None:
        """Let one servo period pass, with everything that is due in it."""
        self.now_ns += PERIOD_NS
        stamp_ns, rest = self.now_ns + self.apart_ns, np.zeros(2)
        if self.now_ns % STATE_NS == 0:
            joints = conversions.joint_state_message(stamp_ns, JOINTS, rest, rest)
            self._joints_out.publish(joints)
        if self.now_ns % FRAME_NS == 0:
            image = conversions.image_message(picture(16), stamp_ns, 'camera_optical')
            self._image_out.publish(image)
        if self.now_ns % CHUNK_NS == 0:
            self.send(self.epoch)
        self.show()

    def send(self, epoch: int) -> None:
        """Publish a chunk that begins now and stays at 0.2."""
        start_ns = self.now_ns + self.apart_ns
        seen_ns = start_ns - 50 * MS
        times = (seen_ns + part * MS for part in (0, 5, 10, 40, 45, 50))
        chunk = Chunk(
            'robot', epoch, self.number, start_ns, 25 * MS, JOINTS, np.full((16, 2), 0.2),
            {'camera': seen_ns, 'joints': seen_ns}, ChunkTimes(*times),
        )  # fmt: skip
        self._chunks_out.publish(conversions.chunk_message(chunk))
        self.number += 1

    def ticked(self) -> bool:
        """Whether the servo has ticked at the present time."""
        return bool(self.ticks) and stamp_ns(self.ticks[-1]) == self.now_ns

    def run(self, duration_ms: int, rate: float = 100.0) -> list[Playback]:
        """Let time pass at a rate, or as fast as the servo follows; return its ticks."""
        told, due_s = len(self.ticks), time.monotonic()
        for _ in range(duration_ms * MS // PERIOD_NS):
            self.step()
            due_s = max(due_s + PERIOD_NS * 1e-9 / rate, time.monotonic())
            assert self.bench.spin_until(self.ticked, 20), (self.now_ns, self.ticks[-1:])
            while (left_s := due_s - time.monotonic()) > 0:
                self.bench.executor.spin_once(timeout_sec=left_s)
        return self.ticks[told:]

    def begin(self, at_s: int, epoch: int) -> None:
        """Set the time, as a simulator that is reset, and play a new epoch past its warm-up."""
        self.now_ns, self.epoch, self.number = at_s * 10**9, epoch, 0
        self.wait(self.show, self.ticked)
        assert self.run(300)[-1].play == PLAYING

    def wait(self, do: Any, condition: Any, timeout_s: float = 20.0) -> None:
        """Do something again and again until a condition holds: who comes late hears it too."""

        def done() -> bool:
            do()
            return bool(condition())

        assert self.bench.spin_until(done, timeout_s), self.ticks[-1:]

    def figures(self) -> PlaybackStatus:
        """Return the figures as of now: the second status from here on."""
        told = len(self.status)
        assert self.bench.spin_until(lambda: len(self.status) >= told + 2, 10)
        return self.status[-1]


def stamp_ns(tick: Playback) -> int:
    """Return when a tick was."""
    return int(conversions.time_ns(tick.header.stamp))
