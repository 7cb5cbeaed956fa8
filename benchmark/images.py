#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""
The way of a camera's picture into the model node: what is lost, how old it is, what it costs.

A process publishes 640x480 rgb8 at 30 Hz; another takes it with the model node's own subscription,
watch and decoder. In turns with the Fast DDS profile of this repository and with the stock
settings. Every picture that was sent must have come or be counted as lost. Reading a message as
RGB is timed in turns with a plain copy of the same bytes.
"""

from __future__ import annotations

import argparse
import json
import os
import signal
import subprocess
import sys
import tempfile
import time
from array import array
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

WIDTH, HEIGHT, RATE_HZ = 640, 480, 30
HISTORY = 3  # pictures that the model looks at
BAR_RATIO = 1.5
TOPIC = 'camera/image_raw'
PROFILES = ('FASTRTPS_DEFAULT_PROFILES_FILE', 'FASTDDS_DEFAULT_PROFILES_FILE')
# The first pictures find both sides still getting to know each other.
SETTLE = 15
PATIENCE_S = 60.0
ENCODINGS = {
    'rgb8': 3, 'bgr8': 3, 'rgba8': 4, 'bgra8': 4, 'mono8': 1, 'mono16': 2, 'rgb16': 6,
    'bayer_rggb8': 1, 'yuv422_yuy2': 2,
}  # fmt: skip


def send(folder: Path, count: int) -> None:
    """Publish so many pictures, wait a while, and write down when each was taken."""
    import rclpy
    from sensor_msgs.msg import Image

    from physis_ros.ros import conversions, qos

    rclpy.init()
    node = rclpy.create_node('camera')
    images_out = node.create_publisher(Image, TOPIC, qos.SENSOR_OUT)
    picture = np.random.default_rng(0).integers(0, 256, (HEIGHT, WIDTH, 3), np.uint8)
    while not images_out.get_subscription_count():
        time.sleep(0.01)
    stamps, due_s = [], time.monotonic()
    for _ in range(count):
        stamps.append(time.time_ns())
        images_out.publish(conversions.image_message(picture, stamps[-1], 'camera'))
        due_s += 1.0 / RATE_HZ
        time.sleep(max(due_s - time.monotonic(), 0.0))
    np.save(folder / 'sent.npy', np.array(stamps))
    rclpy.shutdown()


def receive(folder: Path, count: int) -> None:
    """Take pictures as the model node does until told to end, and write down what came."""
    import rclpy
    from rclpy.node import Node
    from rclpy.signals import SignalHandlerOptions
    from sensor_msgs.msg import Image

    from physis_ros.observation.image import decode_image
    from physis_ros.ros.clock import RosClock
    from physis_ros.ros.executor import make_executor
    from physis_ros.ros.qos import QosWatch, images_in
    from physis_ros.ros.source import Source
    from physis_ros.ros.wam_inputs import colour_of  # noqa: F401  # not while pictures come

    rclpy.init(signal_handler_options=SignalHandlerOptions.NO)
    node, executor = Node('model'), make_executor()
    watch, clock = QosWatch(node), RosClock(node)
    rows: list[tuple[int, int, int, int]] = []

    def take(source: Source, message: Any, stamp_ns: int, receive_ns: int) -> None:
        image = decode_image(
            message.height, message.width, message.encoding, False, message.step, message.data
        )
        ready_ns = clock.now_ns()
        spent_ns, copied_ns = in_turns(len(rows), message)
        rows.append((stamp_ns, ready_ns, spent_ns, copied_ns))
        assert image.shape == (HEIGHT, WIDTH, 3)

    source = Source(node, watch, clock, Image, TOPIC, take, 'no_camera', images_in(HISTORY))
    executor.add_node(node)
    told: list[int] = []
    signal.signal(signal.SIGTERM, lambda number, frame: told.append(number))
    print('ready', flush=True)
    while not told:
        executor.spin_once(timeout_sec=0.1)
    trouble = watch.trouble.get(source.topic)
    np.save(folder / 'came.npy', np.array(rows))
    np.save(folder / 'lost.npy', np.array([0 if trouble is None else trouble.lost]))
    node.destroy_node()
    executor.shutdown()
    rclpy.shutdown()


def in_turns(number: int, message: Any) -> tuple[int, int]:
    """Return what reading a message as RGB and a copy of its bytes take [ns]; order changes."""
    from physis_ros.ros.wam_inputs import colour_of

    def read() -> Any:
        return colour_of(message)

    plain = np.frombuffer(message.data, np.uint8)
    if number % 2:
        return spent_ns(read), spent_ns(plain.copy)
    copied_ns = spent_ns(plain.copy)
    return spent_ns(read), copied_ns


def spent_ns(work: Callable[[], Any]) -> int:
    """Return what a call takes."""
    began_ns = time.perf_counter_ns()
    kept = work()
    took_ns = time.perf_counter_ns() - began_ns
    del kept
    return took_ns


def turn(stock: bool, count: int) -> dict[str, Any]:
    """Send and receive once, in two processes, with or without our profile."""
    environment = {k: v for k, v in os.environ.items() if not (stock and k in PROFILES)}
    with tempfile.TemporaryDirectory() as place:
        command = [sys.executable, __file__]
        receiver = subprocess.Popen(
            [*command, '--receive', place, str(count)], stdout=subprocess.PIPE, env=environment
        )
        assert receiver.stdout is not None
        try:
            if receiver.stdout.readline() != b'ready\n':
                raise RuntimeError('the receiving process did not start')
            subprocess.run(
                [*command, '--send', place, str(count)],
                check=True,
                env=environment,
                timeout=count / RATE_HZ + PATIENCE_S,
            )
        finally:
            receiver.terminate()
            receiver.wait(PATIENCE_S)
        folder = Path(place)
        names = ('sent', 'came', 'lost')
        sent, came, lost = (np.load(folder / f'{name}.npy') for name in names)
    return {'sent': sent, 'came': came.reshape(-1, 4), 'lost': int(lost[0])}


def account(turns: list[dict[str, Any]]) -> dict[str, Any]:
    """Return what became of the pictures: each came, or was noticed to be lost, or neither."""
    sent = came = lost = unnoticed = 0
    ages, spent, copied = [], [], []
    for one in turns:
        stamps = one['came'][:, 0]
        if not len(stamps):
            sent, lost = sent + len(one['sent']), lost + one['lost']
            unnoticed += max(len(one['sent']) - one['lost'], 0)
            continue
        # What was sent before the first one that came, or after the last, nobody could miss.
        within = (one['sent'] >= stamps[0]) & (one['sent'] <= stamps[-1])
        missing = int(within.sum()) - len(stamps)
        sent, came, lost = sent + missing + len(stamps), came + len(stamps), lost + one['lost']
        # The middleware may count some that were lost before the first one came, too.
        unnoticed += max(missing - one['lost'], 0)
        later = one['came'][SETTLE:]
        if not len(later):
            continue
        ages.append((later[:, 1] - later[:, 0]) / 1e6)
        spent.append(later[:, 2] / 1e3)
        copied.append(later[:, 3] / 1e3)
    found: dict[str, Any] = {
        'sent': sent, 'came': came, 'lost': lost, 'unnoticed': unnoticed,
    }  # fmt: skip
    if ages:
        all_ages = np.concatenate(ages)
        found['age_ms'] = {str(p): float(np.percentile(all_ages, p)) for p in (50, 99)}
        found['read_us'] = float(np.median(np.concatenate(spent)))
        found['copy_us'] = float(np.median(np.concatenate(copied)))
    return found


class Picture:
    """The fields of an image message, with random bytes."""

    def __init__(self, encoding: str, pixel_bytes: int, rng: np.random.Generator) -> None:
        self.height, self.width, self.encoding = HEIGHT, WIDTH, encoding
        self.step, self.is_bigendian = WIDTH * pixel_bytes, 0
        self.data = array('B', rng.bytes(self.step * HEIGHT))


def conversions(rounds: int) -> dict[str, dict[str, float]]:
    """Time reading each encoding beside a copy of the same bytes, all in turns."""
    rng = np.random.default_rng(0)
    pictures = [Picture(name, size, rng) for name, size in ENCODINGS.items()]
    spent: dict[str, list[tuple[int, int]]] = {name: [] for name in ENCODINGS}
    for number in range(rounds):
        for picture in pictures:
            spent[picture.encoding].append(in_turns(number, picture))
    found = {}
    for name, pairs in spent.items():
        read_us, copy_us = (float(v) / 1e3 for v in np.median(np.array(pairs), axis=0))
        found[name] = {'read_us': read_us, 'copy_us': copy_us, 'ratio': read_us / copy_us}
    return found


def main() -> int:
    """Measure, print, judge."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument('--seconds', type=float, default=30.0, help='of pictures, each way')
    parser.add_argument('--rounds', type=int, default=2, help='turns that they are split into')
    parser.add_argument('--json', action='store_true')
    given = parser.parse_args()
    count = max(int(given.seconds * RATE_HZ / given.rounds), 2 * SETTLE)
    turns: dict[bool, list[dict[str, Any]]] = {False: [], True: []}
    for _ in range(given.rounds):
        for stock, found in turns.items():
            found.append(turn(stock, count))
    ours, stock_found = account(turns[False]), account(turns[True])
    for name, one in (('our profile', ours), ('stock Fast DDS', stock_found)):
        age = one.get('age_ms')
        when = f'age p50 {age["50"]:.1f} p99 {age["99"]:.1f} ms' if age else 'none came'
        print(
            f'{name:14}: {one["sent"]} pictures sent, {one["came"]} came, {one["lost"]} counted '
            f'as lost, {one["unnoticed"]} unnoticed; {when}'
        )
    ratio = ours['read_us'] / ours['copy_us'] if 'read_us' in ours else float('inf')
    print(f'reading a message of rgb8 is {ratio:.2f} of a copy of its bytes (at most {BAR_RATIO})')
    encodings = conversions(100)
    for name, one in encodings.items():
        print(
            f'  {name:12} {one["read_us"]:6.0f} us, a copy of its bytes {one["copy_us"]:5.0f} us: '
            f'{one["ratio"]:.2f}'
        )
    result = {
        'ours': ours,
        'stock': stock_found,
        'ratio': ratio,
        'encodings': encodings,
        'holds': ours['came'] > 0 and ours['unnoticed'] == 0 and ratio <= BAR_RATIO,
    }
    if given.json:
        print(json.dumps(result))
    return 0 if result['holds'] else 1


if __name__ == '__main__':
    if sys.argv[1:2] in (['--send'], ['--receive']):
        {'--send': send, '--receive': receive}[sys.argv[1]](Path(sys.argv[2]), int(sys.argv[3]))
        sys.exit(0)
    sys.exit(main())
