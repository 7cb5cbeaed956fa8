# SPDX-License-Identifier: Apache-2.0
"""The parameters of the arm node."""

from __future__ import annotations

import math
from dataclasses import dataclass

from physis_ros.errors import ParameterError
from physis_ros.ros.parameters import check_topic, parameter

MS_NS = 1_000_000
RATES = ('camera', 'joint', 'clock', 'truth')
COMMAND_TYPES = ('joint_trajectory', 'float64_multi_array', 'joint_state')


@dataclass(frozen=True)
class ArmNodeConfig:
    """How the simulated robot is run; rates are in simulated time."""

    seed: int = parameter(
        0, 'Episode k uses seed + k: it decides the path of the target and the first pose.', low=0
    )
    episodes: int = parameter(
        0, 'Episodes to run [1]; 0 runs one without an end.', low=0, high=100_000
    )
    seconds: float = parameter(20.0, 'Length of an episode [s].', low=0.1, high=86_400.0)
    start: str = parameter(
        'motion',
        'What begins the first episode: the commands begin to move, at once (now), or the '
        'service ~/start.',
        choices=('motion', 'now', 'service'),
    )
    speed: float = parameter(
        1.0,
        'Simulated seconds per real second [1]. Other than 1, all other nodes need use_sim_time.',
        low=0.01,
        high=100.0,
    )
    time_base: str = parameter(
        'system',
        'What simulated time counts from: the system time at the start, so that stamps suit '
        'nodes with and without use_sim_time at speed 1, or one second (zero), as simulators do.',
        choices=('system', 'zero'),
    )
    camera: str = parameter('camera', 'Name of the camera: images go to <camera>/image_raw.')
    camera_rate_hz: float = parameter(40.0, 'Images per second [Hz].', low=1.0, high=200.0)
    camera_delay_ms: float = parameter(
        0.0,
        'Time an image waits before it is published, with its true capture stamp [ms]; the next '
        'tick of the fastest rate counts.',
        low=0.0,
        high=5000.0,
    )
    joint_rate_hz: float = parameter(200.0, 'Joint states per second [Hz].', low=1.0, high=1000.0)
    clock_rate_hz: float = parameter(
        200.0, 'Messages on /clock per second [Hz].', low=1.0, high=1000.0
    )
    truth_rate_hz: float = parameter(
        100.0, 'Positions of target and tip per second, for scores [Hz].', low=1.0, high=1000.0
    )
    command_type: str = parameter(
        'joint_state', 'Message type of the topic command.', choices=COMMAND_TYPES
    )
    real_time_priority: int = parameter(
        40,
        'SCHED_FIFO priority [1], where permitted: a robot is not slowed down by the model that '
        'drives it; 0 does not ask.',
        low=0,
        high=99,
    )
    reset_services: tuple[str, ...] = parameter(
        (), 'Services (std_srvs/Trigger) to call, in order, at the start of each episode.'
    )

    def __post_init__(self) -> None:
        """
        Refuse names that are none, and rates that do not fall on the physics grid.

        :raises ParameterError: naming the parameter.
        """
        for name, topics in (('camera', (self.camera,)), ('reset_services', self.reset_services)):
            for topic in topics:
                check_topic(name, topic)
        for name in (f'{what}_rate_hz' for what in RATES):
            period_ms = 1000.0 / getattr(self, name)
            if abs(period_ms - round(period_ms)) > 1e-6:
                raise ParameterError(
                    name, 'of a period of whole milliseconds', getattr(self, name)
                )
        if self.time_base == 'system' and self.speed != 1.0:
            raise ParameterError(
                'time_base', "'zero' at a speed other than 1", self.time_base,
                'system time runs at speed 1 only; set use_sim_time for all other nodes',
            )

    def period_ns(self, what: str) -> int:
        """Return the period of ``camera``, ``joint``, ``clock`` or ``truth``."""
        return round(1000.0 / float(getattr(self, f'{what}_rate_hz'))) * MS_NS

    @property
    def tick_ns(self) -> int:
        """The grid on which everything is published."""
        return math.gcd(*(self.period_ns(what) for what in RATES))
