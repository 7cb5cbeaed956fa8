# SPDX-License-Identifier: Apache-2.0
"""
What a recording tells of a servo that is set otherwise, and set while it runs.

One run, recorded twice: from its start to its end, and from somewhere in it to before its end, as
a person does who looks first.
"""

from __future__ import annotations

import json
import signal
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip('rclpy')
pytest.importorskip('physis_ros.msg')

from bag_cases import held_up
from rcl_interfaces.srv import SetParameters
from rclpy.parameter import Parameter
from ros_cases import steady_chunk
from servo_cases import GIVEN, MODULE, Feed

from physis_ros.cli import main
from physis_ros.msg import ActionChunk, Playback, PlaybackStatus
from physis_ros.ros import conversions, qos

pytestmark = [pytest.mark.ros, pytest.mark.slow]
TOPICS = "['/action_chunk', '/servo_node/playback', '/servo_node/playback_status']"
SET = (
    'settle_ms:=200.0', 'max_action_age_ms:=400.0', 'limit_mode:=reject', 'lower:=[-2.0, -2.0]',
    'upper:=[2.0, 2.0]', 'velocity:=[50.0, 50.0]',
)  # fmt: skip


def test_a_recording_tells_by_itself_how_its_chunks_were_played(
    bench: Any, launcher: Any, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    whole = recorder(launcher, tmp_path / 'whole')
    feed = Feed(bench, running=False)
    feed.number = 1
    chunks_out = bench.probe.create_publisher(ActionChunk, 'action_chunk', qos.CHUNK)
    states = bench.collect(PlaybackStatus, 'servo_node/playback_status', qos.LATCHED)
    given = [part for value in SET for part in ('-p', value)]
    servo = launcher.start(MODULE, *GIVEN, *given)
    ticks = bench.collect(Playback, 'servo_node/playback', qos.PLAYBACK)
    # The servo looks twice a second who listens.
    assert bench.spin_until(lambda: ticks and chunks_out.get_subscription_count() == 2, 60)
    bench.spin_until(lambda: False, 0.6)
    feed.go_on()
    assert bench.spin_until(lambda: states and states[-1].ticks > 300, 60), launcher.log(servo)
    late = recorder(launcher, tmp_path / 'late')
    assert bench.spin_until(lambda: chunks_out.get_subscription_count() == 3, 30)
    bench.spin_until(lambda: False, 2.0)
    broken = conversions.chunk_message(steady_chunk(0, (0.5, 1.0)))
    broken.horizon = 3
    chunks_out.publish(broken)
    beyond = steady_chunk(feed.number, (0.5, 3.0))
    chunks_out.publish(conversions.chunk_message(beyond))
    bench.spin_until(lambda: False, 0.5)
    # Chunks become too old to be played before the next one comes.
    change(bench, max_action_age_ms=120.0, settle_ms=100.0)
    bench.spin_until(lambda: False, 1.0)
    change(bench, max_action_age_ms=600.0)
    bench.spin_until(lambda: False, 1.0)
    for process in (late, servo, whole):
        process.send_signal(signal.SIGINT)
        assert bench.spin_until(lambda p=process: p.poll() is not None, 30)
        assert process.returncode == 0, launcher.log(process)

    code, rows = account(tmp_path / 'whole', capsys)
    assert {name for name, row in rows.items() if row['agrees'] is None} <= held_up(rows)
    assert [row for row in rows.values() if row['agrees'] is False] == []
    assert code == 0
    assert rows['chunks_rejected malformed']['live'] == 1
    assert rows['chunks_rejected position_limit']['live'] == 1
    assert rows['underrun_reason expired']['live'] > 0

    code, rows = account(tmp_path / 'late', capsys)
    assert [row for row in rows.values() if row['agrees'] is False] == []
    assert code == 0
    not_covered = {name for name, row in rows.items() if row['agrees'] is None}
    assert {'action_age_ms p50', 'servo_period_error_us max'} <= not_covered
    assert not_covered & {'ticks', 'chunks_accepted', 'underrun_ticks', 'action_age_ms n'} == set()
    assert rows['underrun_reason expired']['live'] > 0
    assert rows['ticks']['live'] > 300


def recorder(launcher: Any, folder: Path) -> Any:
    """Start to record into a folder."""
    folder.mkdir()
    return launcher.start(
        'physis_ros.ros.recorder', '--ros-args', '-p', f'folder:={folder}',
        '-p', f'topics:={TOPICS}',
    )  # fmt: skip


def change(bench: Any, **values: float) -> None:
    """Set parameters of the servo."""
    client = bench.probe.create_client(SetParameters, 'servo_node/set_parameters')
    assert bench.spin_until(client.service_is_ready, 20)
    given = [Parameter(name, value=value).to_parameter_msg() for name, value in values.items()]
    answer = client.call_async(SetParameters.Request(parameters=given))
    assert bench.spin_until(answer.done, 20)
    assert all(result.successful for result in answer.result().results)


def account(folder: Path, capsys: pytest.CaptureFixture[str]) -> tuple[int, dict[str, Any]]:
    """Return exit code and rows of ``physis account``."""
    capsys.readouterr()
    code = main(['account', str(folder / 'run'), '--json'])
    return code, {row['name']: row for row in json.loads(capsys.readouterr().out)}
