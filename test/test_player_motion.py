# SPDX-License-Identifier: Apache-2.0
"""The motion where it must not break: on the way to silence, and from one engine to another."""

from __future__ import annotations

import numpy as np
import pytest
from output_cases import MS, chunk, player, run, tick

from physis_ros.output.limits import JointLimit
from physis_ros.types import Command, Play, Reason

PERIOD_S = 0.005


def until_silent(commands: list[Command]) -> list[Command]:
    """Return the commands from the last played one to the last that is not silent."""
    plays = [command.play for command in commands]
    played = len(plays) - 1 - plays[::-1].index(Play.PLAYING)
    return commands[played : plays.index(Play.SILENT, played)]


@pytest.mark.parametrize('hold_ms', [0, 7, 50])
@pytest.mark.parametrize('ramp_ms', [1, 103, 250])
@pytest.mark.parametrize(
    'limit',
    [
        JointLimit(),
        JointLimit(velocity=2.0),
        JointLimit(acceleration=9.0),
        JointLimit(velocity=1.5, acceleration=6.0, jerk=150.0),
    ],
    ids=['none', 'velocity', 'acceleration', 'all'],
)
def test_B5_an_underrun_comes_to_rest_within_the_limits_before_it_falls_silent(
    limit, hold_ms, ramp_ms
):
    made = player(
        limits=(limit,) * 2, hold_ns=hold_ms * MS, ramp_ns=ramp_ms * MS, start_blend_ns=1
    )
    # It speeds up to the very end: the underrun begins with an acceleration.
    made.offer(chunk(steps=4.0 * (np.arange(12) * 0.025) ** 2), 0)
    down = until_silent(run(made, 0, 3000))
    assert [command.play for command in down[1:]] == sorted(
        (command.play for command in down[1:]), key=[Play.HOLD, Play.RAMP].index
    )
    assert down[0].velocity[0] > 0.5
    assert down[-1].velocity.tolist() == [0.0, 0.0]
    place = np.array([command.position for command in down])
    speed = np.array([command.velocity for command in down])
    # No way back from where the stop has led.
    assert np.diff(place, axis=0).min() >= -1e-9
    change = np.abs(np.diff(speed, axis=0)) / PERIOD_S
    assert np.abs(speed).max() <= (limit.velocity or np.inf) + 1e-6
    assert change.max() <= (limit.acceleration or np.inf) * 1.001
    if limit.jerk is not None:
        assert np.abs(np.diff(speed, n=2, axis=0)).max() <= limit.jerk * PERIOD_S**2 * 1.01


def test_B5_a_robot_that_stands_still_is_told_no_more_than_the_rungs():
    made = player(hold_ns=10 * MS, ramp_ns=20 * MS)
    made.offer(chunk(steps=np.zeros(4)), 0)
    rungs = [command.play for command in until_silent(run(made, 0, 200))[1:]]
    assert rungs == [Play.HOLD] + [Play.RAMP] * 4


def moving_engine(**changes: float) -> tuple[object, Command]:
    """Return a player at 1 rad/s in the chunk of an engine in its third life, and its tick."""
    made = player(start_blend_ns=200 * MS, **changes)
    made.offer(chunk(7, steps=np.arange(16) * 0.025, epoch=2), 0)
    last = run(made, 0, 250)[-1]
    assert last.velocity == pytest.approx([1.0, 1.0])
    return made, last


@pytest.mark.parametrize('epoch', [0, 2])
@pytest.mark.parametrize('rung', [Play.PLAYING, Play.HOLD, Play.RAMP])
def test_another_engine_goes_on_from_the_last_command_and_its_velocity(epoch, rung):
    made, last = moving_engine(hold_ns=30 * MS, ramp_ns=400 * MS, state_age_ns=2000 * MS)
    while last.play is not rung:
        assert last.stamp_ns < 5000 * MS, f'{rung} never comes'
        last = tick(made, last.stamp_ns / MS + 5)
    # What is measured lags behind; it is not where the motion goes on.
    made.measured(last.position - 0.05, last.stamp_ns)
    now_ms = round(last.stamp_ns / MS)
    made.begin_anew()
    assert made.epoch == -1
    seen = {'epoch': epoch, 'observed_ms': now_ms}
    verdict = made.offer(
        chunk(0, now_ms, last.position[0] + np.full(16, 0.3), **seen), now_ms * MS
    )
    assert (verdict.accepted, verdict.new_epoch) == (True, True)
    after = run(made, now_ms + 5, now_ms + 300)
    assert {command.play for command in after} == {Play.PLAYING}
    assert {(command.epoch, command.chunk) for command in after} == {(epoch, 0)}
    whole = [last, *after]
    speed = np.array([command.velocity[0] for command in whole])
    moved = np.diff([command.position[0] for command in whole]) / PERIOD_S
    assert np.abs(np.diff(speed)).max() < 0.3
    assert moved == pytest.approx((speed[1:] + speed[:-1]) / 2.0, abs=0.02)
    assert after[-1].position[0] == pytest.approx(last.position[0] + 0.3)


def test_until_another_engine_sends_the_underrun_goes_on_down():
    made, last = moving_engine(hold_ns=30 * MS, ramp_ns=100 * MS)
    made.begin_anew()
    down = until_silent([last, *run(made, 255, 700)])
    assert [command.play for command in down[1:3]] == [Play.HOLD, Play.HOLD]
    assert down[1].velocity == pytest.approx(last.velocity)
    assert down[1].position == pytest.approx(last.position + last.velocity * PERIOD_S)
    assert down[-1].velocity.tolist() == [0.0, 0.0]
    assert down[-1].reason in (Reason.CHUNK_LATE, Reason.NO_CHUNK)


def test_another_engine_does_not_end_a_pause_or_a_stop():
    made, last = moving_engine()
    made.brake(last.stamp_ns)
    made.begin_anew()
    ends = run(made, 255, 800)
    assert {command.reason for command in ends} == {Reason.INACTIVE}
    assert made.at_rest
    made.deactivate(800 * MS)
    assert not made.offer(chunk(0, 805, observed_ms=800), 805 * MS).accepted
