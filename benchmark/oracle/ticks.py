# SPDX-License-Identifier: Apache-2.0
"""
The processes beside the servo in ``benchmark/servo.py``, each run by name.

A loop that only sleeps; an engine flat out; a camera; and the node that most people write, with
the commands on a timer and the images in a callback. Each says ``ready`` and ends with SIGTERM.
"""

from __future__ import annotations

import logging
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np

from physis_ros.ros import realtime

PRIORITY = 50
JOINTS = ('shoulder', 'elbow')
WIDTH, HEIGHT, CAMERA_HZ = 640, 480, 30
PATIENCE_S = 300.0
LOOK_NS = 500_000_000


def bare(period_ns: int, out: Path) -> None:
    """Sleep from tick to tick, and note when it woke."""
    realtime.request(PRIORITY)
    realtime.freeze_garbage()
    ends, woken = _until_told(), []
    due_ns = time.monotonic_ns() + period_ns
    while not ends():
        realtime.sleep_until(due_ns)
        now_ns = time.monotonic_ns()
        woken.append((due_ns, now_ns))
        due_ns += period_ns
        if now_ns > due_ns:
            due_ns += (now_ns - due_ns) // period_ns * period_ns
    np.save(out, np.array(woken, np.int64))


def load(period_ns: int, out: Path) -> None:
    """Keep two workers of the reach model busy, and note how busy; nobody waits for the rest."""
    import torch
    from pipeline import default_model, inputs

    from physis_ros.engine.config import PoolConfig
    from physis_ros.engine.pool import Pool

    torch.set_num_threads(1)
    logging.disable(logging.WARNING)
    streams = 'a', 'b'
    with Pool(PoolConfig(default_model(), 2, max_streams=2, in_flight=3)) as pool:
        pool.start(PATIENCE_S)
        for stream in streams:
            pool.open_stream(stream)
        values = inputs(pool.spec, 0)
        ends = _until_told()  # from here on they are busy, which loading is not
        worked = [_worked(pool.pids)]
        while not ends():
            for stream in streams:
                if pool.ready(stream):
                    pool.enter(stream, values, time.monotonic_ns() + 10**9, False)
            pool.next_result(0.1)
            if time.monotonic_ns() - worked[-1][0] > LOOK_NS:
                worked.append(_worked(pool.pids))
    np.save(out, np.array(worked))


def _worked(pids: Any) -> tuple[int, int, int]:
    """Return the steady time, and how long processes ran and waited for a processor by then."""
    threads = [path for pid in pids for path in Path(f'/proc/{pid}/task').glob('*/schedstat')]
    spent_ns = [[int(word) for word in path.read_text().split()[:2]] for path in threads]
    return time.monotonic_ns(), sum(one[0] for one in spent_ns), sum(one[1] for one in spent_ns)


def camera(period_ns: int, out: Path) -> None:
    """Publish pictures."""
    import rclpy
    from sensor_msgs.msg import Image

    from physis_ros.ros import conversions, qos

    rclpy.init()
    node = rclpy.create_node('camera')
    images_out = node.create_publisher(Image, 'camera/image_raw', qos.SENSOR_OUT)
    picture = np.random.default_rng(0).integers(0, 256, (HEIGHT, WIDTH, 3), np.uint8)
    ends, due_ns = _until_told(), time.monotonic_ns()
    while not ends():
        images_out.publish(conversions.image_message(picture, time.time_ns(), 'camera'))
        due_ns += 10**9 // CAMERA_HZ
        realtime.sleep_until(due_ns)


def common(period_ns: int, out: Path) -> None:
    """Be the node that most people write: a timer for the commands, a callback for images."""
    import rclpy
    from rclpy.clock import Clock, ClockType
    from sensor_msgs.msg import Image, JointState

    from physis_ros.msg import ActionChunk
    from physis_ros.observation.image import decode_image
    from physis_ros.observation.resize import resize
    from physis_ros.ros import conversions, qos
    from physis_ros.session.player import Player, PlayerConfig

    rclpy.init()
    node = rclpy.create_node('common')
    player = Player(PlayerConfig(JOINTS, servo_rate_hz=1e9 / period_ns, require_measured=False))
    player.activate(time.time_ns())
    commands_out = node.create_publisher(JointState, 'servo_node/command', qos.COMMAND)
    published: list[tuple[int, int]] = []

    def on_image(message: Any) -> None:
        image = decode_image(
            message.height, message.width, message.encoding, False, message.step, message.data
        )
        resize(image, HEIGHT // 4, WIDTH // 4)

    def on_chunk(message: Any) -> None:
        player.offer(conversions.chunk(message), time.time_ns())

    def on_timer() -> None:
        due_ns = time.monotonic_ns() + timer.time_until_next_call() - period_ns
        now_ns = time.time_ns()
        commands_out.publish(conversions.state_command_message(player.tick(now_ns, now_ns)))
        published.append((due_ns, time.monotonic_ns()))

    node.create_subscription(Image, 'camera/image_raw', on_image, qos.SENSOR_IN)
    node.create_subscription(ActionChunk, 'action_chunk', on_chunk, qos.CHUNK)
    steady = Clock(clock_type=ClockType.STEADY_TIME)
    timer = node.create_timer(period_ns * 1e-9, on_timer, clock=steady)
    ends = _until_told()
    while not ends():
        rclpy.spin_once(node, timeout_sec=0.1)
    np.save(out, np.array(published, np.int64))


ROLES: dict[str, Callable[[int, Path], None]] = {
    'bare': bare, 'load': load, 'camera': camera, 'common': common,
}  # fmt: skip


def _until_told() -> Callable[[], bool]:
    """Say that all is ready; return what tells whether to end."""
    told: list[int] = []
    signal.signal(signal.SIGTERM, lambda number, frame: told.append(number))
    print('ready', flush=True)
    return lambda: bool(told)


@contextmanager
def role(name: str, period_ns: int, out: Path) -> Iterator[None]:
    """Run one of the processes above for the length of a block."""
    command = [sys.executable, '-m', 'oracle.ticks', name, str(period_ns), str(out)]
    here = Path(__file__).resolve().parents[1]
    process = subprocess.Popen(command, stdout=subprocess.PIPE, cwd=here)
    assert process.stdout is not None
    try:
        if process.stdout.readline() != b'ready\n':
            raise RuntimeError(f'the process {name!r} did not start')
        yield
    finally:
        process.terminate()
        if process.wait(PATIENCE_S):
            raise RuntimeError(f'the process {name!r} failed')


if __name__ == '__main__':
    ROLES[sys.argv[1]](int(sys.argv[2]), Path(sys.argv[3]))
