#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""
How even the servo's ticks are on a busy machine, beside a loop that does nothing but sleep.

Two engine workers run flat out all the time. Meanwhile the real ``servo_node`` plays chunks, in
one stretch; half of a bare loop, which sleeps to the next tick with the same wishes to the
operating system, goes before it and half after; and then the node that most people write publishes
the same commands from a timer while it reads 640x480 images at 30 Hz. The instants of the servo's
ticks are those that it publishes on ``~/playback``.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
from oracle.ticks import JOINTS, PATIENCE_S, PRIORITY, role

from physis_ros.ros import realtime

BAR_FACTOR, BAR_FIXED_US = 2.0, 100.0
# Of two workers that never lack work, this many must run, or wait for a processor, at any time.
LEAST_BUSY = 1.6
CHUNK_NS, JOINTS_NS = 100_000_000, 20_000_000
STEP_NS, STEPS = 25_000_000, 24
SETTLE_S = 1.0
WAYS = {
    'bare': 'a loop that only sleeps',
    'servo': 'servo_node',
    'timer': 'a timer in the node that reads images',
}
Times = npt.NDArray[np.int64]


# This process: the engine and the robot to the servo, and the one who listens.


class Probe:
    """Sends chunks and joint states, takes commands and playback; in one thread, by turns."""

    def __init__(self) -> None:
        import rclpy
        from rclpy.node import Node
        from rclpy.qos import QoSProfile, ReliabilityPolicy
        from rclpy.signals import SignalHandlerOptions
        from sensor_msgs.msg import JointState

        from physis_ros.msg import ActionChunk, Playback
        from physis_ros.ros import conversions, draining, qos

        self._context = rclpy.Context()
        rclpy.init(context=self._context, signal_handler_options=SignalHandlerOptions.NO)
        self._node = Node('probe', context=self._context)
        self._forms, self._drained = conversions, draining.drained
        deep = QoSProfile(depth=4000, reliability=ReliabilityPolicy.RELIABLE)
        # Bytes, read when there is time: a listener that is too slow would take ticks for lost.
        self._ticks = draining.subscribe(
            self._node, Playback, 'servo_node/playback', deep, raw=True
        )
        self._commands = draining.subscribe(
            self._node, JointState, 'servo_node/command', qos.COMMAND, raw=True
        )
        self._chunks_out = self._node.create_publisher(ActionChunk, 'action_chunk', qos.CHUNK)
        self._joints_out = self._node.create_publisher(JointState, 'joint_states', 10)
        self._chunk = self._chunk_ns = self._joints_ns = 0
        self._kind = Playback
        self.ticks: list[bytes] = []

    def close(self) -> None:
        """Leave."""
        self._node.destroy_node()
        self._context.try_shutdown()

    def serve(self, until: Callable[[], bool]) -> None:
        """Do both until a condition holds."""
        while not until():
            now_ns = time.time_ns()
            if now_ns - self._joints_ns >= JOINTS_NS:
                self._joints_ns = now_ns
                rest = np.zeros(len(JOINTS))
                self._joints_out.publish(
                    self._forms.joint_state_message(now_ns, JOINTS, rest, rest)
                )
            if now_ns - self._chunk_ns >= CHUNK_NS:
                self._chunk_ns, self._chunk = now_ns, self._chunk + 1
                self._chunks_out.publish(self._forms.chunk_message(self._motion(now_ns)))
            self.ticks += [data for data, _ in self._drained(self._ticks)]
            for _ in self._drained(self._commands):
                pass
            time.sleep(0.01)

    def serve_for(self, seconds: float) -> None:
        """Do both for a while."""
        end_s = time.monotonic() + seconds
        self.serve(lambda: time.monotonic() > end_s)

    def read(self) -> list[Any]:
        """Return the ticks as messages, and forget them."""
        from rclpy.serialization import deserialize_message

        taken, self.ticks = self.ticks, []
        return [deserialize_message(data, self._kind) for data in taken]

    def plays(self) -> bool:
        """Whether the last tick heard was played; forgets all of them."""
        ticks = self.read()
        return bool(ticks) and ticks[-1].play == self._kind.PLAY_PLAYING

    def _motion(self, now_ns: int) -> Any:
        """Return a piece of a slow wave from now on."""
        from physis_ros.types import ActionChunk, ChunkTimes

        observed_ns = now_ns - 50_000_000
        phase = (now_ns + np.arange(STEPS) * STEP_NS) % 10**10 * 1e-9
        wave = np.sin(2 * np.pi * phase / 10.0)
        return ActionChunk(
            stream='robot',
            epoch=0,
            chunk=self._chunk,
            start_ns=now_ns,
            dt_ns=STEP_NS,
            names=JOINTS,
            actions=np.stack([wave] * len(JOINTS), axis=1),
            input_stamps_ns={'camera': observed_ns, 'joints': observed_ns},
            times=ChunkTimes(*(observed_ns + part * 10**7 for part in range(6))),
        )


def servo(probe: Probe, period_ns: int, seconds: float) -> Times:
    """Return due and published instants of the servo node's ticks, once it plays."""
    command = [
        sys.executable, '-m', 'physis_ros.ros.servo_node', '--ros-args', '--log-level', 'error',
        '-p', f'joints:=[{", ".join(JOINTS)}]', '-p', 'command_type:=joint_state',
        '-p', f'servo_rate_hz:={1e9 / period_ns}', '-p', f'real_time_priority:={PRIORITY}',
    ]  # fmt: skip
    process = subprocess.Popen(command)
    try:
        end_s = time.monotonic() + PATIENCE_S
        while not probe.plays():
            if time.monotonic() > end_s:
                raise RuntimeError(f'servo_node must play within {PATIENCE_S:g} s, and did not')
            probe.serve_for(0.1)
        probe.serve_for(SETTLE_S)
        probe.ticks.clear()
        probe.serve_for(seconds)
        return np.array([(t.scheduled_steady_ns, t.published_steady_ns) for t in probe.read()])
    finally:
        process.terminate()
        process.wait(PATIENCE_S)


def aside(probe: Probe, name: str, period_ns: int, seconds: float, folder: Path) -> Times:
    """Return the same of another process, its first second left out."""
    out = folder / f'{name}.npy'
    with role(name, period_ns, out):
        probe.serve_for(SETTLE_S + seconds)
    found: Times = np.load(out)
    settled: Times = found[found[:, 0] > found[0, 0] + int(SETTLE_S * 1e9)]
    return settled


def figures(rounds: list[Times], period_ns: int) -> dict[str, Any]:
    """Return what a way of ticking comes to, over all its rounds."""
    late_us = np.concatenate([(one[:, 1] - one[:, 0]) / 1e3 for one in rounds])
    spans = [int(one[-1, 0] - one[0, 0]) // period_ns + 1 for one in rounds]
    return {
        'n': len(late_us),
        'p50_us': float(np.percentile(late_us, 50)),
        'p99_us': float(np.percentile(late_us, 99)),
        'p999_us': float(np.percentile(late_us, 99.9)),
        'max_us': float(late_us.max()),
        'lost': int(sum(spans)) - len(late_us),
    }


def busy(worked: Times, begun_ns: int, ended_ns: int) -> tuple[float, float]:
    """Return how many processors the workers had in that time, and how many they wanted [1]."""
    when_ns = np.array([begun_ns, ended_ns])
    ran_ns, waited_ns = (np.diff(np.interp(when_ns, worked[:, 0], worked[:, i])) for i in (1, 2))
    spent_ns = ended_ns - begun_ns
    return float(ran_ns[0] / spent_ns), float((ran_ns[0] + waited_ns[0]) / spent_ns)


def measure(rate_hz: float, seconds: float) -> dict[str, Any]:
    """Take turns under load, so that all meet the same machine."""
    period_ns = round(1e9 / rate_hz)
    probe = Probe()
    with tempfile.TemporaryDirectory() as place:
        folder = Path(place)
        with role('load', period_ns, folder / 'load.npy'):
            before = aside(probe, 'bare', period_ns, seconds / 2, folder)
            played = servo(probe, period_ns, seconds)
            after = aside(probe, 'bare', period_ns, seconds / 2, folder)
            with role('camera', period_ns, folder / 'camera.npy'):
                timed = aside(probe, 'common', period_ns, seconds, folder)
        worked: Times = np.load(folder / 'load.npy')
    probe.close()
    taken = {'bare': [before, after], 'servo': [played], 'timer': [timed]}
    ways = {name: figures(found, period_ns) for name, found in taken.items()}
    had, wanted = busy(worked, int(played[0, 0]), int(played[-1, 0]))
    bound_us = BAR_FACTOR * ways['bare']['p99_us'] + BAR_FIXED_US
    even = ways['servo']['p99_us'] <= bound_us and not ways['servo']['lost']
    return {
        'rate_hz': rate_hz,
        'seconds': seconds,
        **ways,
        'bound_us': bound_us,
        'workers_busy': had,
        'workers_wanted': wanted,
        'holds': even and wanted >= LEAST_BUSY,
    }


def said(found: dict[str, Any]) -> str:
    """Return one rate's figures as lines."""
    lines = [f'{found["rate_hz"]:g} Hz for {found["seconds"]:g} s each, the two engine workers on '
             f'{found["workers_busy"]:.2f} processors beside the servo, where they wanted '
             f'{found["workers_wanted"]:.2f}:']  # fmt: skip
    for name, what in WAYS.items():
        one = found[name]
        lines.append(
            f'  {what:38} p50 {one["p50_us"]:5.0f}  p99 {one["p99_us"]:5.0f}  p99.9 '
            f'{one["p999_us"]:5.0f}  max {one["max_us"]:6.0f} us late; {one["lost"]} ticks of '
            f'{one["n"] + one["lost"]} lost'
        )
    lines.append(
        f'  bar: p99 at most {found["bound_us"]:.0f} us ({BAR_FACTOR:g} bare loops and '
        f'{BAR_FIXED_US:.0f} us), no tick lost, {LEAST_BUSY:g} workers busy: '
        f'{"holds" if found["holds"] else "does not hold"}'
    )
    if found['bare']['lost']:
        lines.append('  the bare loop lost ticks too: the machine itself stood still meanwhile')
    return '\n'.join(lines)


def main() -> int:
    """Measure, print, judge: by 500 Hz, while 1 kHz is shown."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument('--seconds', type=float, default=60.0, help='of each way at 500 Hz')
    parser.add_argument('--json', action='store_true')
    given = parser.parse_args()
    # Where it is refused this says so once; the same goes for the servo and for the bare loop.
    for refusal in realtime.request(PRIORITY):
        print(f'this machine: {refusal}', flush=True)
    os.sched_setscheduler(0, os.SCHED_OTHER, os.sched_param(0))
    judged = measure(500.0, given.seconds)
    print(said(judged), flush=True)
    shown = measure(1000.0, given.seconds / 3)
    print(said(shown), flush=True)
    result = {'rates': [judged, shown], 'holds': judged['holds']}
    if given.json:
        print(json.dumps(result))
    return 0 if result['holds'] else 1


if __name__ == '__main__':
    sys.exit(main())
