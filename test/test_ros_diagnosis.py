# SPDX-License-Identifier: Apache-2.0
"""Every state of the servo node has a level, a sentence, and a word that tells it from others."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest

pytest.importorskip('rclpy')
pytest.importorskip('physis_ros.msg')

from conftest import made_bench
from diagnostic_msgs.msg import DiagnosticArray
from ros_cases import JOINTS, steady_chunk
from sensor_msgs.msg import JointState
from servo_cases import GIVEN, MODULE, Feed, call
from std_msgs.msg import Float64MultiArray
from std_srvs.srv import SetBool
from trajectory_msgs.msg import JointTrajectory

from physis_ros.output.account import Account
from physis_ros.output.verdict import Verdict
from physis_ros.ros import conversions
from physis_ros.ros.diagnostics import Level
from physis_ros.ros.joint_map import JointMap
from physis_ros.ros.servo_diagnosis import broken, diagnose, lately, report
from physis_ros.ros.servo_joints import ServoJoints
from physis_ros.ros.servo_report import Snapshot, status
from physis_ros.ros.skew import Skews, skewed
from physis_ros.session.player_config import PlayerConfig
from physis_ros.types import Command, Play, Reason

MS = 1_000_000
FIGURES = Account(PlayerConfig(JOINTS).account).figures()
PLAYED = Command(0, Play.PLAYING, Reason.NONE, JOINTS, np.zeros(2), np.zeros(2))
SET = PlayerConfig(('a',), 250.0)
WELL = Snapshot(0, 'robot', 0, FIGURES, PLAYED, 0, SET, 0, 0, subscribers=1)


def test_status_and_diagnosis_tell_all_of_an_age() -> None:
    book = Account(PlayerConfig(JOINTS, settle_ns=0).account)
    chunk = steady_chunk(0, (0.0, 1.0), now_ns=10**9)
    book.chunk(chunk, Verdict(from_ns=0))
    # Seen at 950 ms, the joints at 955 ms, published at 1 s; the tick is 20 ms after that.
    ages = {'camera': 70 * MS, 'joints': 65 * MS}
    tick = {'chunk': 0, 'epoch': 0, 'age_ns': 70 * MS, 'input_age_ns': ages}
    book.tick(replace(PLAYED, stamp_ns=1020 * MS, **tick))
    snapshot = replace(WELL, figures=book.figures(), begun_ns=7)
    told = status(snapshot)
    parts = {'receive': 5, 'queue': 5, 'engine': 30, 'decode': 5, 'hand_over': 5, 'buffer': 20}
    assert {name: getattr(told, f'age_{name}').max for name in parts} == parts
    assert {one.name: one.quantiles.max for one in told.input_age} == {'camera': 70, 'joints': 65}
    assert told.begun_steady_ns == 7
    values = report(snapshot, ServoJoints(JointMap.of(JOINTS), 1), None).values
    shown = {name: round(values[f'age_{name}_p50_ms']) for name in parts}
    assert shown == parts
    assert round(values['input_age_joints_p99_ms']) == 65


def without_chunk(reason: Reason) -> Snapshot:
    """Return the status of a tick that was not played from a chunk."""
    return replace(WELL, command=replace(PLAYED, play=Play.HOLD, reason=reason))


@pytest.mark.parametrize(
    ('snapshot', 'joints', 'missed', 'condition', 'level', 'words'),
    [
        (WELL, '', '', 'playing', Level.OK, 'playing'),
        (replace(WELL, waits='waiting for /clock'), '', '', 'no_time', Level.WARN, '/clock'),
        (WELL, 'joints missing', '', 'joint_states', Level.ERROR, 'joint_states: joints missing'),
        (without_chunk(Reason.INACTIVE), '', '', 'inactive', Level.OK, 'paused'),
        (without_chunk(Reason.NO_CHUNK), '', '', 'no_chunk', Level.WARN, 'is wam_node active'),
        (without_chunk(Reason.CHUNK_LATE), '', '', 'chunk_late', Level.WARN, 'too late'),
        (without_chunk(Reason.EXPIRED), '', '', 'expired', Level.ERROR, 'too old'),
        (without_chunk(Reason.EPOCH), '', '', 'epoch', Level.WARN, 'new epoch'),
        (
            without_chunk(Reason.NO_OBSERVATION),
            '',
            '',
            'no_observation',
            Level.WARN,
            'no joint states',
        ),
        (
            replace(without_chunk(Reason.EXPIRED), apart_ns=12_000 * MS),
            '',
            '',
            'clock_skew',
            Level.ERROR,
            'action_chunk: its time is 12 s behind ours',
        ),
        (
            replace(without_chunk(Reason.NO_CHUNK), lack='/action_chunk has no publishers'),
            '',
            '',
            'no_chunk',
            Level.WARN,
            'action_chunk its topic? (/action_chunk has no publishers)',
        ),
        (replace(WELL, subscribers=0), '', '', 'no_subscriber', Level.WARN, 'nobody listens'),
        (
            replace(WELL, subscribers=0, strangers='taken as an array'),
            '',
            '',
            'other_type',
            Level.ERROR,
            'taken as an array',
        ),
        (WELL, '', '9 of 250', 'deadlines_missed', Level.WARN, '9 of 250'),
        (
            replace(WELL, skew_ns={'action_chunk': 3 * MS, 'joint_states': -80 * MS}),
            '',
            '',
            'clock_skew',
            Level.WARN,
            'joint_states: clock skew: stamps are at least 80 ms ahead of our clock',
        ),
    ],
)
def test_conditions_are_told_apart(
    snapshot: Snapshot, joints: str, missed: str, condition: str, level: Level, words: str
) -> None:
    found = diagnose(snapshot, joints, missed)
    assert (found.name, found.level) == (condition, level)
    assert words in found.text


def test_every_reason_of_the_player_has_a_condition_of_its_own() -> None:
    reasons = [reason for reason in Reason if reason is not Reason.NONE]
    names = [diagnose(without_chunk(reason), '', '').name for reason in reasons]
    assert names == [reason.value for reason in reasons]


def test_deadlines_missed_since_the_last_report_are_told_with_their_causes() -> None:
    before = replace(FIGURES, due=1000, misses=4, misses_by_cause={'late': 4})
    after = replace(before, due=1250, misses=13, misses_by_cause={'late': 5, 'chunk_late': 8})
    words = '9 of 250 deadlines missed since the last report: late 1, chunk_late 8'
    assert lately(after, before) == words
    # One in a hundred is nothing to wake somebody for; and a new count is no difference.
    assert lately(replace(before, due=1100, misses=5), before) == ''
    assert lately(replace(after, window=before.window + 1), before) == ''
    assert lately(after, None) == ''


def test_A1_chunks_that_no_model_should_make_are_an_error_though_others_are_played() -> None:
    """A model whose weights are broken gives no numbers; that is not a chunk that is late."""
    counted = replace(FIGURES.chunks, rejected={'non_finite': 3, 'all_past': 5})
    after = replace(FIGURES, chunks=counted)
    words = 'broken chunks were refused since the last report: non_finite 3'
    assert broken(after, FIGURES) == words
    assert broken(after, after) == broken(after, None) == ''
    for snapshot in (WELL, without_chunk(Reason.CHUNK_LATE)):
        found = diagnose(snapshot, '', '', words)
        assert (found.name, found.level, found.text) == ('chunks_broken', Level.ERROR, words)
    assert diagnose(without_chunk(Reason.INACTIVE), '', '', words).level is Level.OK


def test_T4_skew_is_the_least_age_on_receipt() -> None:
    skews = Skews()
    for late_ms in (40, 12, 90):
        skews.add('joint_states', 1_000 * MS, (1_000 + late_ms) * MS)
    skews.add('unstamped', 0, 1_000 * MS)
    skews.add('before_time', 1_000 * MS, 0)
    assert skews.least_ns() == {'joint_states': 12 * MS}
    assert skewed(skews.least_ns()) == []
    (text,) = skewed({'camera': 400 * MS, 'joint_states': 12 * MS})
    assert text.startswith('camera: clock skew: stamps are at least 400 ms old when they come')


def test_a_servo_tells_what_it_waits_for_one_after_the_other(bench: Any, launcher: Any) -> None:
    found = bench.collect(DiagnosticArray, '/diagnostics')
    process = launcher.start(MODULE, *GIVEN)

    def told(condition: str) -> bool:
        """Wait for a condition."""

        def is_told() -> bool:
            if not found:
                return False
            (status,) = [s for s in found[-1].status if s.name == '/servo_node: playback']
            return condition in [v.value for v in status.values if v.key == 'condition']

        return bool(bench.spin_until(is_told, 40))

    assert told('no_observation'), launcher.log(process)
    joints_out = bench.probe.create_publisher(JointState, 'joint_states', 10)
    ahead_ns = [0]

    def measure() -> None:
        stamp_ns = bench.probe.get_clock().now().nanoseconds + ahead_ns[0]
        message = conversions.joint_state_message(stamp_ns, JOINTS, np.zeros(2), np.zeros(2))
        joints_out.publish(message)

    bench.probe.create_timer(0.02, measure)
    assert told('no_chunk'), found[-1]
    feed = Feed(bench)
    assert told('no_subscriber'), found[-1]
    # A participant has one type on a topic: this is another's.
    with made_bench() as stranger:
        stranger.collect(Float64MultiArray, 'servo_node/command')
        assert told('other_type'), found[-1]
    bench.collect(JointTrajectory, 'servo_node/command')
    assert told('playing'), found[-1]
    ahead_ns[0] = 200 * MS
    assert told('clock_skew'), found[-1]
    feed.stop()
    assert told('no_chunk'), found[-1]
    # Whoever looks at the terminal alone reads it too, once it stands.
    assert bench.spin_until(lambda: 'no chunk: ' in launcher.log(process), 20)
    assert '(/action_chunk has 1 publisher)' in launcher.log(process)
    assert call(bench, SetBool, 'pause', data=True).success
    assert told('inactive'), found[-1]
