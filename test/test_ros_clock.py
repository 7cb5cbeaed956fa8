# SPDX-License-Identifier: Apache-2.0
"""Simulated time: when the servo ticks, and which steps of /clock are jumps."""

from __future__ import annotations

import gc
import time
import weakref
from typing import Any

import pytest

pytest.importorskip('rclpy')
pytest.importorskip('physis_ros.msg')

from rclpy.node import Node
from rosgraph_msgs.msg import Clock

from physis_ros.ros import conversions, qos, realtime
from physis_ros.ros.clock import Jump, RosClock
from physis_ros.ros.ticking import MOST_TICKS, SimulatedTicks, SteadyTicks

PERIOD_NS = 4_000_000
SECOND_NS = 1_000_000_000


def ticks() -> SimulatedTicks:
    return SimulatedTicks(PERIOD_NS, lambda: 0)


def test_a_clock_that_has_not_begun_brings_no_tick() -> None:
    assert list(ticks().due(0)) == []


def test_all_ticks_of_one_step_come_in_order_and_once() -> None:
    simulated = ticks()
    assert list(simulated.due(SECOND_NS)) == [SECOND_NS]
    step = [SECOND_NS + PERIOD_NS, SECOND_NS + 2 * PERIOD_NS]
    assert list(simulated.due(SECOND_NS + 10_000_000)) == step
    # A clock that stands still, or moves by less than a period.
    assert list(simulated.due(SECOND_NS + 10_000_000)) == []
    assert list(simulated.due(SECOND_NS + 11_000_000)) == []


@pytest.mark.parametrize('jump_ns', [-500_000_000, (MOST_TICKS + 1) * PERIOD_NS])
def test_a_jump_brings_one_tick_at_the_new_time(jump_ns: int) -> None:
    simulated = ticks()
    list(simulated.due(SECOND_NS))
    assert list(simulated.due(SECOND_NS + jump_ns)) == [SECOND_NS + jump_ns]
    assert list(simulated.due(SECOND_NS + jump_ns + PERIOD_NS)) == [
        SECOND_NS + jump_ns + PERIOD_NS
    ]


class Rubbish:
    """Something that only garbage collection takes away."""

    def __init__(self) -> None:
        self.itself = self


class Standing:
    """An executor with nothing to serve, that stops after a while."""

    def __init__(self) -> None:
        self._left = 150

    def spin_once(self, timeout_sec: float) -> None:
        time.sleep(0.01)
        self._left -= 1

    def over(self) -> bool:
        """Whether it has stopped."""
        return self._left <= 0


@pytest.mark.parametrize('kind', [SteadyTicks, SimulatedTicks])
def test_garbage_is_collected_whichever_clock_it_ticks_on(kind: type) -> None:
    left: list[weakref.ref[Rubbish]] = []

    def idle() -> None:
        if not left:
            left.append(weakref.ref(Rubbish()))

    standing = Standing()
    realtime.freeze_garbage()
    try:
        kind(PERIOD_NS, lambda *_: 0).run(standing, standing.over, lambda _: None, idle)
    finally:
        gc.unfreeze()
        gc.enable()
    assert left[0]() is None


class TimedNode(Node):
    """A node that notes jumps."""

    def __init__(self, **options: Any) -> None:
        super().__init__('timed', **options)
        self.ros_time = RosClock(self)
        self.jumps: list[Jump] = []
        self.jump_handle = self.ros_time.on_jump(self.jumps.append)

    def close(self) -> None:
        """Forget the callback."""
        self.jump_handle.unregister()


def test_T24_only_steps_back_and_far_ahead_are_jumps(bench: Any) -> None:
    node = bench.add(TimedNode, {'use_sim_time': True})
    assert node.ros_time.simulated
    clock_out = bench.probe.create_publisher(Clock, '/clock', qos.CLOCK)

    def show(time_ns: int) -> None:
        message = Clock(clock=conversions.time_message(time_ns))

        def there() -> bool:
            clock_out.publish(message)
            return bool(node.ros_time.now_ns() == time_ns)

        assert bench.spin_until(there, 10)

    show(100 * SECOND_NS)
    show(100 * SECOND_NS + 5_000_000)
    show(100 * SECOND_NS + 900_000_000)
    assert node.jumps == []
    show(50 * SECOND_NS)
    assert node.jumps == [Jump('the clock jumped by -50.900 s', backward=True)]
    show(60 * SECOND_NS)
    assert node.jumps[1:] == [Jump('the clock jumped by +10.000 s', backward=False)]


@pytest.mark.parametrize('sec', [-5, 2**31 - 1])
def test_what_is_no_time_on_clock_is_refused_and_the_node_goes_on(bench: Any, sec: int) -> None:
    node = bench.add(TimedNode, {'use_sim_time': True})
    clock_out = bench.probe.create_publisher(Clock, '/clock', qos.CLOCK)
    hostile, good = Clock(), Clock(clock=conversions.time_message(100 * SECOND_NS))
    hostile.clock.sec = sec

    def shown(message: Clock, condition: Any) -> bool:
        def there() -> bool:
            clock_out.publish(message)
            return bool(condition())

        return bool(bench.spin_until(there, 10))

    assert shown(hostile, lambda: node.ros_time.refused > 0)
    assert node.ros_time.now_ns() == 0
    assert shown(good, lambda: node.ros_time.now_ns() == 100 * SECOND_NS)
    assert node.jumps == []
