# SPDX-License-Identifier: Apache-2.0
"""The recorder over real DDS: everything that was published is in a file that ends well."""

from __future__ import annotations

import json
import signal
from pathlib import Path
from typing import Any

import pytest

from physis_ros.evaluation.bag import Bag

rclpy = pytest.importorskip('rclpy')
pytestmark = pytest.mark.ros


def test_all_messages_are_recorded_and_a_signal_finishes_the_file(
    bench: Any, launcher: Any, tmp_path: Path
):
    from diagnostic_msgs.msg import DiagnosticArray
    from std_msgs.msg import Int32, String

    from physis_ros.ros import qos

    numbers = bench.probe.create_publisher(Int32, '/numbers', qos.PLAYBACK)
    latched = bench.probe.create_publisher(String, '/said_once', qos.LATCHED)
    latched.publish(String(data='before anyone listened'))
    # Several nodes publish there: that their numbers do not follow on each other is no loss.
    reports = [bench.probe.create_publisher(DiagnosticArray, '/diagnostics', qos.SENSOR_OUT)]
    process = launcher.start(
        'physis_ros.ros.recorder', '--ros-args', '-p', f'folder:={tmp_path}',
        '-p', 'topics:=[/numbers, /said_once, /diagnostics, /never]',
    )  # fmt: skip
    assert bench.spin_until(
        lambda: all(out.get_subscription_count() for out in (numbers, latched, *reports)), 60.0
    )
    for _ in range(3):
        reports[0].publish(DiagnosticArray())
    reports.append(bench.probe.create_publisher(DiagnosticArray, '/diagnostics', qos.SENSOR_OUT))
    assert bench.spin_until(reports[1].get_subscription_count, 20)
    for _ in range(3):
        for out in reversed(reports):
            out.publish(DiagnosticArray())
    for number in range(300):
        numbers.publish(Int32(data=number))
        bench.executor.spin_once(timeout_sec=0.002)
    assert numbers.wait_for_all_acked(rclpy.duration.Duration(seconds=10))
    process.send_signal(signal.SIGINT)
    assert process.wait(30) == 0
    log = launcher.log(process)
    assert "never published: ['/never']" in log
    assert 'not recorded' not in log
    with Bag(tmp_path) as bag:
        assert bag.counts == {'/numbers': 300, '/said_once': 1, '/diagnostics': 9}
        records = list(bag.records())
    assert [r.message.data for r in records if r.topic == '/numbers'] == list(range(300))
    assert [r.message.data for r in records if r.topic == '/said_once'] == [
        'before anyone listened'
    ]
    stamps = [record.log_ns for record in records]
    assert stamps == sorted(stamps)


def test_a_folder_that_does_not_exist_is_refused(launcher: Any, tmp_path: Path):
    (tmp_path / 'file').write_text('in the way')
    process = launcher.start(
        'physis_ros.ros.recorder', '--ros-args', '-p', f'folder:={tmp_path / "file"}'
    )
    assert process.wait(60) == 2
    assert 'cannot be made' in launcher.log(process)


def test_what_a_recorder_missed_that_stood_still_is_in_the_recording(
    bench: Any, launcher: Any, tmp_path: Path
):
    from std_msgs.msg import Int32

    from physis_ros.evaluation.topics import MISSING
    from physis_ros.ros import qos

    numbers = bench.probe.create_publisher(Int32, '/numbers', qos.PLAYBACK)
    process = launcher.start(
        'physis_ros.ros.recorder', '--ros-args', '-p', f'folder:={tmp_path}',
        '-p', 'topics:=[/numbers]',
    )  # fmt: skip
    assert bench.spin_until(numbers.get_subscription_count, 60.0)
    sent = 0
    # More than the queue of its port and the publisher hold together.
    for count, held in ((100, False), (12_000, True), (100, False)):
        if held:
            process.send_signal(signal.SIGSTOP)
        for _ in range(count):
            numbers.publish(Int32(data=sent))
            sent += 1
            if not held:
                bench.executor.spin_once(timeout_sec=0.002)
        process.send_signal(signal.SIGCONT)
        assert numbers.wait_for_all_acked(rclpy.duration.Duration(seconds=20))
    process.send_signal(signal.SIGINT)
    assert process.wait(30) == 0, launcher.log(process)
    with Bag(tmp_path) as bag:
        records = list(bag.records('/numbers'))
        told = [json.loads(record.message.data) for record in bag.records(MISSING)]
    got = [record.message.data for record in records]
    assert got == sorted(set(got))
    assert (got[0], got[-1]) == (0, sent - 1)
    assert told[-1] == {'/numbers': sent - len(got)}


def test_log_times_go_on_when_the_system_clock_is_set_back() -> None:
    from physis_ros.ros.log_time import LogTime

    second = 1_000_000_000
    times = LogTime(100 * second, 90 * second)
    times.look(101 * second, 90 * second)
    assert (times.of(101 * second - 5), times.now_ns) == (101 * second - 5, 101 * second)
    # By a minute, just now: one message came before that.
    times.look(41 * second + 50, 30 * second + 50)
    assert times.of(41 * second) == 101 * second - 50
    assert times.of(101 * second) == 101 * second
    assert times.now_ns == 101 * second
    # Set ahead again, it only goes on.
    times.look(102 * second, 90 * second)
    assert times.of(102 * second) == times.now_ns == 162 * second - 50
