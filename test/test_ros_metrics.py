# SPDX-License-Identifier: Apache-2.0
"""The Prometheus endpoint: the figures of the status topic, on the loopback interface only."""

from __future__ import annotations

import signal
import socket
import sys
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip('rclpy')
pytest.importorskip('physis_ros.msg')
pytest.importorskip('prometheus_client')

from metrics_cases import free_port, scrape
from servo_cases import GIVEN, MODULE, Feed, call
from std_srvs.srv import SetBool

from physis_ros.errors import ParameterError
from physis_ros.msg import Playback, PlaybackStatus
from physis_ros.output.sketch import Quantiles
from physis_ros.ros import qos
from physis_ros.ros.metrics import MetricsServer, Page
from physis_ros.ros.servo import ServoNode


@pytest.fixture
def port() -> int:
    """Give a free port."""
    return free_port()


@pytest.fixture
def server(port: int) -> Iterator[MetricsServer]:
    """Give a server of a small page."""

    def fill(page: Page) -> None:
        robot = page.of(stream='robot')
        robot.gauge('physis_depth_seconds', 'Depth.', 0.25)
        robot.counts('physis_misses', 'Misses.', 'cause', {'late': 2, 'lost': 1})
        figures = Quantiles(n=4, p50=10.0, p90=20.0, p99=30.0, max=31.0, mean=12.5)
        robot.summary('physis_age_seconds', 'Age.', figures, 1e-3)
        page.of(stream='other').summary('physis_age_seconds', 'Age.', Quantiles(), 1e-3)

    made = MetricsServer(port, fill)
    yield made
    made.close()


def test_a_page_is_scraped_with_its_units_and_labels(server: MetricsServer, port: int) -> None:
    values = scrape(port)
    assert values['physis_depth_seconds', 'robot'] == 0.25
    assert values['physis_misses_total', 'late', 'robot'] == 2
    assert values['physis_misses_total', 'lost', 'robot'] == 1
    age = 'physis_age_seconds'
    quantiles = {key[1]: value for key, value in values.items() if key[0] == age}
    # Below a thousand samples there is no p99.9; the greatest is quantile 1.
    assert quantiles == {'0.5': 0.01, '0.9': 0.02, '0.99': 0.03, '1': 0.031}
    assert values[f'{age}_count', 'robot'] == 4
    assert values[f'{age}_sum', 'robot'] == 0.05
    assert values[f'{age}_count', 'other'] == 0


def test_only_the_loopback_interface_answers(server: MetricsServer, port: int) -> None:
    listening = [
        line.split()[1]
        for table in ('/proc/net/tcp', '/proc/net/tcp6')
        for line in Path(table).read_text().splitlines()[1:]
        if line.split()[3] == '0A' and line.split()[1].endswith(f':{port:04X}')
    ]
    assert listening == [f'0100007F:{port:04X}']


def test_a_port_that_is_taken_is_refused(server: MetricsServer, port: int) -> None:
    with pytest.raises(ParameterError, match=f'a free port of 127.0.0.1, got {port}; Address'):
        MetricsServer(port, lambda page: None)


def test_the_library_may_be_missing(monkeypatch: pytest.MonkeyPatch, port: int) -> None:
    monkeypatch.setitem(sys.modules, 'prometheus_client', None)
    with pytest.raises(ParameterError, match=r'0 without prometheus_client.*pip install'):
        MetricsServer(port, lambda page: None)


def test_a_client_that_says_nothing_holds_up_nobody(server: MetricsServer, port: int) -> None:
    with socket.create_connection(('127.0.0.1', port)):
        assert scrape(port)
        closer = threading.Thread(target=server.close)
        closer.start()
        closer.join(5)
        assert not closer.is_alive()


def test_without_a_port_there_is_no_thread(bench: Any) -> None:
    bench.add(ServoNode, {'joints': ['shoulder', 'elbow']}).bring_up()
    assert 'metrics' not in [thread.name for thread in threading.enumerate()]


def test_the_servo_serves_what_its_status_says(bench: Any, launcher: Any, port: int) -> None:
    process = launcher.start(MODULE, *GIVEN, '-p', f'metrics_port:={port}', '-p', 'settle_ms:=0')
    states = bench.collect(PlaybackStatus, 'servo_node/playback_status', qos.LATCHED)
    feed = Feed(bench)
    assert bench.spin_until(lambda: states and states[-1].ticks > 100, 60), launcher.log(process)
    feed.stop()
    assert bench.spin_until(lambda: states[-1].play == Playback.PLAY_SILENT, 20)
    # A paused player counts nothing, so that both can be read at the same count.
    assert call(bench, SetBool, 'pause', data=True).success
    assert bench.spin_until(lambda: states[-1].state == PlaybackStatus.STATE_INACTIVE, 20)
    bench.spin_until(lambda: False, 0.5)
    status, values = states[-1], scrape(port)

    def total(name: str) -> float:
        return sum(value for key, value in values.items() if key[0] == name)

    assert values['physis_playback_state', 'inactive', 'robot'] == 1
    assert values['physis_ticks_total', 'robot'] == status.ticks
    assert values['physis_deadlines_due_total', 'robot'] == status.deadline_due
    assert total('physis_deadline_misses_total') == status.deadline_misses
    assert values['physis_underruns_total', 'robot'] == status.underruns
    assert total('physis_underrun_ticks_total') == status.underrun_ticks > 0
    assert total('physis_underrun_rung_ticks_total') == status.underrun_ticks
    assert values['physis_chunks_accepted_total', 'robot'] == status.chunks_accepted
    age = status.action_age
    assert values['physis_action_age_seconds_count', 'robot'] == age.n
    for quantile, value in (('0.5', age.p50), ('0.99', age.p99), ('1', age.max)):
        assert values['physis_action_age_seconds', quantile, 'robot'] == value * 1e-3
    inputs = {key[1] for key in values if key[0] == 'physis_input_age_seconds_count'}
    assert inputs == {'camera', 'joints'}
    parts = {key[1] for key in values if key[0] == 'physis_action_age_part_seconds_count'}
    assert parts == {'receive', 'queue', 'engine', 'decode', 'hand_over', 'buffer'}

    # Who is connected and says nothing does not hold up the end.
    with socket.create_connection(('127.0.0.1', port)):
        process.send_signal(signal.SIGTERM)
        bench.spin_until(lambda: process.poll() is not None, 30)
        assert process.returncode == 0, launcher.log(process)
