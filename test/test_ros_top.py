# SPDX-License-Identifier: Apache-2.0
"""``physis top``: what it shows of a running system, and what it says when it hears nothing."""

from __future__ import annotations

import io
import subprocess
import sys
import time
from typing import Any

import pytest

pytest.importorskip('rclpy')
pytest.importorskip('physis_ros.msg')

from diagnostic_msgs.msg import DiagnosticArray, DiagnosticStatus
from rich.console import Console

from physis_ros.errors import ParameterError
from physis_ros.msg import NamedCount, PlaybackStatus, Quantiles, StreamStatus, WorkerStatus
from physis_ros.output.sketch import Quantiles as NoQuantiles
from physis_ros.ros import qos
from physis_ros.ros.conversions import duration_message
from physis_ros.ros.servo_report import quantiles
from physis_ros.ros.top_monitor import Seen, TopMonitor
from physis_ros.ros.top_view import screen

MS = 1_000_000


def stream_status() -> StreamStatus:
    """Return the status of an engine that runs."""
    return StreamStatus(
        stream='robot',
        state=StreamStatus.STATE_RUNNING,
        sensor_hz=39.5,
        replan_hz=10.25,
        chunk_hz=10.0,
        response_latency=Quantiles(n=10, p50=40.0, p99=61.0),
        output_interval=quantiles(NoQuantiles()),
        told_delay_steps=3,
        workers=[WorkerStatus(worker=0, pid=4711, alive=True, queue_length=2, busy=0.5)],
    )


def playback_status() -> PlaybackStatus:
    """Return the status of a servo that misses now and then."""
    return PlaybackStatus(
        stream='robot',
        state=PlaybackStatus.STATE_ACTIVE,
        buffer_depth=duration_message(200 * MS),
        last_age=duration_message(133 * MS),
        action_age=Quantiles(n=10, p50=130.0, p99=171.0),
        servo_period_error=Quantiles(n=10, p50=20.0, p99=88.0),
        servo_hz=250.0,
        deadline_due=500,
        deadline_misses=7,
        underruns=2,
        underrun_ticks=7,
        longest_underrun=duration_message(24 * MS),
        underrun_reasons=[NamedCount(name='chunk_late', count=7)],
    )


class System:
    """
    Publishes what a pair of nodes would.

    :param bench: the probe's.
    :param namespace: of the nodes.
    """

    def __init__(self, bench: Any, namespace: str) -> None:
        create = bench.probe.create_publisher
        self.stream = create(StreamStatus, f'{namespace}/wam_node/stream_status', qos.LATCHED)
        self.playback = create(
            PlaybackStatus, f'{namespace}/servo_node/playback_status', qos.LATCHED
        )
        self.diagnostics = create(DiagnosticArray, '/diagnostics', qos.SENSOR_OUT)

    def diagnose(self, name: str, level: bytes, message: str) -> None:
        """Publish the diagnosis of one task."""
        status = DiagnosticStatus(level=level, name=name, message=message)
        self.diagnostics.publish(DiagnosticArray(status=[status]))


@pytest.fixture
def monitor(bench: Any) -> Any:
    """Watch the namespace r1."""
    given = {'ROS_DOMAIN_ID': '42'}
    made = TopMonitor('r1', context=bench.context, environment=given)
    yield made
    made.close()


def seen_when(monitor: TopMonitor, condition: Any) -> Seen:
    """Look until a condition holds, and return what is seen then."""
    deadline_s = time.monotonic() + 10
    while time.monotonic() < deadline_s:
        seen = monitor.look(time.monotonic())
        if condition(seen):
            return seen
        time.sleep(0.02)
    raise AssertionError(f'never seen; the last was {seen}')


def shown(seen: Seen) -> str:
    """Return the screen as text."""
    console = Console(file=io.StringIO(), width=120)
    console.print(screen(seen))
    assert isinstance(console.file, io.StringIO)
    return console.file.getvalue()


def test_a_running_system_under_a_namespace_is_shown(bench: Any, monitor: TopMonitor) -> None:
    system = System(bench, '/r1')
    system.stream.publish(stream_status())
    system.playback.publish(playback_status())
    seen = seen_when(monitor, lambda seen: seen.stream and seen.playback)
    assert seen.missing == []
    text = shown(seen)
    for words in (
        'running',
        'active',
        '39.5 Hz',
        '250.0 Hz',
        '3 steps',
        '130 / 171 ms',
        '40 / 61 ms',
        '20 / 88 us',
        '7 / 500',
        '2 (7 ticks)',
        '24 ms',
        '████···· 200 ms',
        'pid 4711, 2 waiting, 50% busy',
        'chunk_late 7',
    ):
        assert words in text, text


def test_several_streams_have_a_row_each_as_long_as_they_are_there(
    bench: Any, monitor: TopMonitor
) -> None:
    create = bench.probe.create_publisher
    status, playback = stream_status(), playback_status()
    status.overload = 'overloaded for 2.0 s: worker 0 is behind'
    left = create(StreamStatus, '/r1/wam_node/left/stream_status', qos.LATCHED)
    right = create(StreamStatus, '/r1/wam_node/right/stream_status', qos.LATCHED)
    servo = create(PlaybackStatus, '/r1/left/servo_node/playback_status', qos.LATCHED)
    for publisher, name in ((left, 'left'), (right, 'right'), (servo, 'left')):
        message = playback if publisher is servo else status
        message.stream = name
        publisher.publish(message)
    status.stream = 'elsewhere'
    create(StreamStatus, '/r2/wam_node/other/stream_status', qos.LATCHED).publish(status)
    seen = seen_when(monitor, lambda seen: len(seen.fleet) == 2 and seen.fleet['left'].playback)
    assert list(seen.fleet) == ['left', 'right']
    assert seen.missing == []
    text = shown(seen)
    for words in ('left', 'right', 'running', '7 / 500', '130 / 171 ms', 'pid 4711'):
        assert words in text, text
    assert text.count('overloaded for 2.0 s') == 1
    bench.probe.destroy_publisher(right)
    late_s = time.monotonic() + 30
    deadline_s = time.monotonic() + 10
    while list(monitor.look(late_s := late_s + 1).fleet) != ['left']:
        assert time.monotonic() < deadline_s
        time.sleep(0.05)
    silent = monitor.look(late_s).missing
    assert any('/r1/wam_node/left/stream_status silent for' in words for words in silent)


def test_trouble_is_shown_until_it_is_over(bench: Any, monitor: TopMonitor) -> None:
    system = System(bench, '/r1')
    bench.spin_until(lambda: system.diagnostics.get_subscription_count() > 0)
    system.diagnose('/wam_node: inputs', DiagnosticStatus.ERROR, 'of another robot')
    system.diagnose('/r1/wam_node: inputs', DiagnosticStatus.WARN, 'nothing on /r1/camera')
    seen = seen_when(monitor, lambda seen: seen.trouble)
    assert seen.trouble == {'/r1/wam_node: inputs': 'nothing on /r1/camera'}
    assert '/r1/wam_node: inputs: nothing on /r1/camera' in shown(seen)
    system.diagnose('/r1/wam_node: inputs', DiagnosticStatus.OK, 'all is well')
    assert seen_when(monitor, lambda seen: not seen.trouble).trouble == {}


def test_what_is_not_heard_is_told_with_the_settings_of_the_graph(monitor: TopMonitor) -> None:
    begun_s = time.monotonic()
    assert monitor.look(begun_s + 2).missing == []
    missing = monitor.look(begun_s + 4).missing
    assert missing == [
        'no /r1/wam_node/stream_status within 3 s: is wam_node running?',
        'no /r1/servo_node/playback_status within 3 s: is servo_node running?',
        'looking in namespace /r1 with ROS_DOMAIN_ID=42, '
        'ROS_AUTOMATIC_DISCOVERY_RANGE=(unset), RMW_IMPLEMENTATION=(unset)',
    ]
    text = shown(Seen(missing=missing))
    assert 'not heard' in text
    assert 'is wam_node running?' in text


def test_nodes_in_another_namespace_are_pointed_at(bench: Any, monitor: TopMonitor) -> None:
    system = System(bench, '/fleet/r2')
    assert system.stream.topic_name == '/fleet/r2/wam_node/stream_status'
    late_s = time.monotonic() + 60
    deadline_s = time.monotonic() + 10
    words = 'is wam_node running? Found in namespace /fleet/r2: give --namespace.'
    while not monitor.look(late_s).missing[0].endswith(words):
        assert time.monotonic() < deadline_s, monitor.look(late_s)
        time.sleep(0.05)


def test_a_node_that_falls_silent_is_told(bench: Any, monitor: TopMonitor) -> None:
    system = System(bench, '/r1')
    system.stream.publish(stream_status())
    seen_when(monitor, lambda seen: seen.stream)
    said = monitor.look(time.monotonic() + 7).missing[0]
    assert said == '/r1/wam_node/stream_status silent for 7 s: wam_node has ended or hangs'


def test_a_name_that_is_no_namespace_is_refused(bench: Any) -> None:
    with pytest.raises(ParameterError, match=r"namespace must be .* got '1 robot'"):
        TopMonitor('1 robot', context=bench.context)


def test_one_picture_tells_by_its_exit_code_that_nothing_was_heard() -> None:
    code = 'import sys; from physis_ros import cli; sys.exit(cli.main(["top", "--once"]))'
    done = subprocess.run([sys.executable, '-c', code], capture_output=True, text=True)
    assert done.returncode == 1, done.stderr
    assert 'no /wam_node/stream_status within 3 s' in done.stdout
    assert done.stderr == ''


def test_without_ros_it_says_what_to_do() -> None:
    code = (
        'import sys; sys.modules["rclpy"] = None; from physis_ros import cli\n'
        'sys.exit(cli.main(["top"]))'
    )
    done = subprocess.run([sys.executable, '-c', code], capture_output=True, text=True)
    assert done.returncode == 2
    assert 'environment of top must be one with rclpy' in done.stderr
    assert './run physis top' in done.stderr
    assert 'Traceback' not in done.stderr
