# SPDX-License-Identifier: Apache-2.0
"""
Commands in the forms that controllers take, named after the reports of what they choke on.

A3: arms jiggle when trajectories begin with a step back. A4: times that do not rise. A5: empty
trajectories. A6: stamped ones that are deferred. A8, A9: refusals that nobody understands.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

pytest.importorskip('rclpy')

from output_cases import MS, NAMES, chunk, player, run, tick

from physis_ros.ros import conversions
from physis_ros.ros.commands import Adapter
from physis_ros.ros.managed import SUCCESS
from physis_ros.ros.servo import ServoNode
from physis_ros.ros.servo_config import ServoConfig
from physis_ros.session.player import Player
from physis_ros.types import Command, Play

DT_NS = 20 * MS


def adapter(made: Player, **changes: Any) -> Adapter:
    """Return an adapter that makes a message of every tick."""
    given = {'joints': NAMES, 'trajectory_points': 4, 'trajectory_rate_hz': 200.0, **changes}
    return Adapter(ServoConfig(servo_rate_hz=200.0, **given), made)


def moving(until_ms: int = 100) -> tuple[Player, Command]:
    """Return a player in the middle of a chunk, and its last command."""
    made = player(start_blend_ns=MS)
    made.offer(chunk(0, start_ms=0, steps=np.linspace(0.0, 1.0, 16)), 0)
    return made, run(made, 0, until_ms)[-1]


def times_ns(message: Any) -> list[int]:
    """Return the times of a trajectory's points."""
    return [conversions.duration_ns(point.time_from_start) for point in message.points]


def test_A3_the_first_point_lies_ahead_and_goes_on_from_the_last_command() -> None:
    made, last = moving()
    message = adapter(made).message(last)
    first = message.points[0]
    assert times_ns(message)[0] == DT_NS
    # Where the motion will be by then: no step back to the present.
    assert np.allclose(first.positions, last.position + last.velocity * DT_NS * 1e-9)
    assert np.allclose(first.positions, tick(made, 120).position)


def test_A4_times_strictly_increase_from_one_zero_and_velocities_are_filled() -> None:
    made, last = moving()
    message = adapter(made).message(last)
    assert times_ns(message) == [DT_NS * (i + 1) for i in range(len(message.points))]
    assert list(message.joint_names) == list(NAMES)
    for point in message.points:
        assert len(point.velocities) == len(point.positions) == len(NAMES)
        assert not (point.accelerations or point.effort)
    assert np.allclose([point.velocities for point in message.points[:4]], last.velocity)


def test_C18_the_last_point_is_at_rest_as_controllers_demand_and_nothing_steps_back() -> None:
    """
    Without allow_nonzero_velocity_at_trajectory_end any other trajectory is refused.

    That is the default of ros2_controllers since Jazzy.
    """
    made, last = moving()
    forms, told = adapter(made), last.position[0]
    while (message := forms.message(last)) is not None:
        assert last.stamp_ns < 5000 * MS, 'it never comes to an end'
        assert list(message.points[-1].velocities) == [0.0, 0.0]
        travel = [last.position[0], *(point.positions[0] for point in message.points)]
        assert np.all(np.diff(travel) >= -1e-9), (last, travel)
        assert travel[1] >= told - 1e-9
        told = travel[0]
        last = tick(made, last.stamp_ns / MS + 5)
    assert last.stamp_ns > 600 * MS


def test_A5_no_trajectory_is_ever_empty() -> None:
    made, last = moving(370)
    forms = adapter(made)
    # The chunk ends at 375 ms, then comes the ladder, then silence.
    message = forms.message(last)
    while last.play is not Play.SILENT:
        assert last.stamp_ns < 5000 * MS, 'it is never silent'
        assert message is not None
        assert len(message.points) >= 1
        last = tick(made, last.stamp_ns / MS + 5)
        message = forms.message(last)
    assert message is None
    assert forms.final(made.deactivate(2000 * MS)).points


def test_A5_a_hold_is_one_point_at_rest() -> None:
    made, last = moving()
    message = adapter(made).final(made.deactivate(last.stamp_ns))
    assert times_ns(message) == [DT_NS]
    assert np.allclose(message.points[0].positions, last.position)
    assert list(message.points[0].velocities) == [0.0, 0.0]


def test_A6_A9_the_stamp_is_zero_whatever_the_clock_unless_asked_for() -> None:
    made, last = moving()
    assert conversions.time_ns(adapter(made).message(last).header.stamp) == 0
    stamped = adapter(made, trajectory_stamped=True).message(last)
    # The tick's own, never one ahead: a deferred trajectory freezes the robot when replaced.
    assert conversions.time_ns(stamped.header.stamp) == last.stamp_ns
    assert times_ns(stamped)[0] == DT_NS


@pytest.mark.parametrize('simulated', [True, False])
def test_A8_A9_whoever_stamps_says_by_which_clock_and_what_the_controller_does(
    bench: Any, simulated: bool
) -> None:
    given = {'joints': list(NAMES), 'trajectory_stamped': True, 'use_sim_time': simulated}
    node = bench.add(ServoNode, given)
    assert node.trigger_configure() is SUCCESS
    said = node.playing._adapter.stamping(node._ros_time)
    assert f'use_sim_time is {str(simulated).lower()}' in said
    assert 'now 0.000 s' in said if simulated else 'now 0.000 s' not in said
    assert 'refuses those that end in its past' in said


def test_an_array_is_in_our_order_and_a_state_is_by_name() -> None:
    made, last = moving()
    array = adapter(made, command_type='float64_multi_array').message(last)
    assert list(array.data) == list(last.position)
    state = adapter(made, command_type='joint_state').message(last)
    assert list(state.name) == list(NAMES)
    assert list(state.position) == list(last.position)
    assert list(state.velocity) == list(last.velocity)
    assert conversions.time_ns(state.header.stamp) == last.stamp_ns


def test_trajectories_come_at_their_own_rate() -> None:
    made, _ = moving()
    forms = adapter(made, trajectory_rate_hz=50.0)
    messages = []
    for at in range(105, 185, 5):
        # A tick that comes late is worked out anew; it is one tick all the same.
        forms.message(tick(made, at - 1))
        messages.append(forms.message(tick(made, at)))
        forms.ticked()
    assert [message is not None for message in messages] == [False, False, False, True] * 4
