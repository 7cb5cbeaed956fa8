# SPDX-License-Identifier: Apache-2.0
"""A servo and a recorder without the processor: what was sent meanwhile is counted, and agrees."""

from __future__ import annotations

import json
import signal
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip('rclpy')
pytest.importorskip('physis_ros.msg')

from servo_cases import GIVEN, MODULE, Feed

from physis_ros.cli import main
from physis_ros.evaluation.bag import Bag
from physis_ros.evaluation.topics import MISSING
from physis_ros.msg import Playback, PlaybackStatus
from physis_ros.output.account import PARTS
from physis_ros.ros import qos

pytestmark = [pytest.mark.ros, pytest.mark.slow]
TOPICS = "['/action_chunk', '/servo_node/playback', '/servo_node/playback_status']"


def test_nothing_is_lost_of_what_was_sent_to_those_that_stood_still(
    bench: Any, launcher: Any, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    recorder = launcher.start(
        'physis_ros.ros.recorder', '--ros-args', '-p', f'folder:={tmp_path}',
        '-p', f'topics:={TOPICS}',
    )  # fmt: skip
    feed = Feed(bench, running=False)
    servo = launcher.start(MODULE, *GIVEN, '-p', 'settle_ms:=200.0')
    states = bench.collect(PlaybackStatus, 'servo_node/playback_status', qos.LATCHED)
    bench.collect(Playback, 'servo_node/playback', qos.PLAYBACK)
    matched = bench.probe.count_subscribers
    both = (('servo_node/playback', 2), ('action_chunk', 2))
    assert bench.spin_until(lambda: all(matched(name) == n for name, n in both), 60)
    bench.spin_until(lambda: False, 1.5)
    feed.go_on()
    assert bench.spin_until(lambda: states and states[-1].ticks > 200, 60), launcher.log(servo)
    for process, held_s in ((servo, 1.5), (recorder, 3.0)):
        process.send_signal(signal.SIGSTOP)
        bench.spin_until(lambda s=held_s: False, held_s)
        process.send_signal(signal.SIGCONT)
        bench.spin_until(lambda: False, 1.5)
    feed.stop()
    bench.spin_until(lambda: False, 0.5)
    for process in (servo, recorder):
        process.send_signal(signal.SIGINT)
        assert bench.spin_until(lambda p=process: p.poll() is not None, 30)
        assert process.returncode == 0, launcher.log(process)
    main(['account', str(tmp_path / 'run'), '--json'])
    rows = {row['name']: row for row in json.loads(capsys.readouterr().out)}
    with Bag(tmp_path / 'run') as bag:
        missed = [set(json.loads(record.message.data)) for record in bag.records(MISSING)]
    # Of the status only the last one is kept for whoever comes late.
    assert set().union(*missed) <= {'/servo_node/playback_status'}
    assert [row for row in rows.values() if row['agrees'] is False] == []
    assert rows['chunks_received']['live'] == rows['chunks_received']['recomputed'] == feed.number
    assert rows['deadline_miss lost']['live'] > 300
    for part in PARTS:
        assert rows[f'age_{part}_ms n']['agrees'] is True
