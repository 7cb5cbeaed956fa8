# SPDX-License-Identifier: Apache-2.0
"""The recorder over real DDS: everything that was published is in a file that ends well."""

from __future__ import annotations

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
