# SPDX-License-Identifier: Apache-2.0
"""The parameters of the servo node, and what they mean for the player."""

from __future__ import annotations

import math
from dataclasses import dataclass

from physis_ros.errors import ParameterError
from physis_ros.observation.config import Timeline
from physis_ros.output.interpolate import Interpolation
from physis_ros.output.limits import JointLimit, LimitMode
from physis_ros.output.merge import Merge
from physis_ros.ros.joint_map import JointMap
from physis_ros.ros.parameters import autostart, parameter
from physis_ros.session.player_config import PlayerConfig

COMMAND_TYPES = ('joint_trajectory', 'float64_multi_array', 'joint_state')
LIMITS = ('lower', 'upper', 'velocity', 'acceleration', 'jerk')
DEFAULT = PlayerConfig
MS_NS = 1e6


@dataclass(frozen=True)
class ServoConfig:
    """How chunks become commands; the defaults of the playing are the player's own."""

    joints: tuple[str, ...] = parameter(
        (), 'Joints as chunks name them, in the order of the commands. Required.'
    )
    joint_aliases: tuple[str, ...] = parameter(
        (),
        "Where commands and joint states name a joint otherwise: 'robot_joint=joint'.",
    )
    joint_units: tuple[str, ...] = parameter(
        (),
        "Where commands and joint states are not in rad or m: 'joint=deg' or 'joint=mm'. Limits "
        'and everything else stay in rad and m.',
    )
    joint_scales: tuple[str, ...] = parameter(
        (),
        "What the robot's value is multiplied by after that, not 0 [1]: 'joint=-1.0' turns one "
        "the other way, 'gripper=100.0' makes percent of 0..1.",
    )
    joint_offsets: tuple[str, ...] = parameter(
        (), "What is added last [robot's unit]: 'joint=90.0'."
    )
    stream: str = parameter('', 'Stream to play; chunks of others are ignored. Empty plays any.')
    autostart: bool = autostart()
    servo_rate_hz: float = parameter(250.0, 'Ticks per second [Hz].', low=1.0, high=2000.0)
    command_type: str = parameter(
        'joint_trajectory',
        'Message type of ~/command: trajectory_msgs/JointTrajectory (joint trajectory '
        'controller), std_msgs/Float64MultiArray (forward controllers; by order) or '
        'sensor_msgs/JointState (Isaac Sim).',
        choices=COMMAND_TYPES,
    )
    trajectory_points: int = parameter(
        10,
        'Points of a trajectory [1], the first one after now; a ramp to rest follows them.',
        low=1,
        high=200,
    )
    trajectory_dt_ms: float = parameter(
        20.0, 'Distance of the points of a trajectory [ms].', low=1.0, high=1000.0
    )
    trajectory_rate_hz: float = parameter(
        50.0, 'Trajectories per second [Hz]; at most the servo rate.', low=1.0, high=2000.0
    )
    trajectory_stamped: bool = parameter(
        False,
        'Stamp trajectories with the time of their tick instead of 0, which means on receipt. '
        'The controller must then use the same clock (use_sim_time): that of ros2_controllers '
        'refuses trajectories that end in its past, and where it defers those that begin in its '
        'future (allow_trajectory_replacement, since 2026) the second of them may freeze the '
        'robot (its issue 2607).',
    )
    merge: str = parameter(
        DEFAULT.merge.value,
        'How a new chunk takes over from the one before.',
        choices=[item.value for item in Merge],
        dynamic=True,
    )
    blend_ms: float = parameter(
        DEFAULT.blend_ns / MS_NS,
        'Time in which a seam fades [ms].',
        low=1.0,
        high=5000.0,
        dynamic=True,
    )
    ensemble_decay: float = parameter(
        DEFAULT.ensemble_decay,
        'ensemble: a chunk weighs exp(-this * i) [1], i = 0 for the oldest; below 0 newer ones '
        'weigh more.',
        low=-10.0,
        high=10.0,
        dynamic=True,
    )
    interpolation: str = parameter(
        Interpolation.CUBIC.value,
        'Between control steps, for all joints but those of the next two.',
        choices=[item.value for item in Interpolation],
    )
    step_joints: tuple[str, ...] = parameter(
        (), 'Joints that are not interpolated but stepped, such as grippers.'
    )
    linear_joints: tuple[str, ...] = parameter(
        (), 'Joints that move in straight lines from step to step.'
    )
    lower: tuple[float, ...] = parameter(
        (),
        'Least position of each joint [rad or m]; -.inf for one without, leave out for no limits.',
        dynamic=True,
    )
    upper: tuple[float, ...] = parameter(
        (),
        'Greatest position of each joint [rad or m]; .inf for one without, leave out for no '
        'limits.',
        dynamic=True,
    )
    velocity: tuple[float, ...] = parameter(
        (),
        'Greatest speed of each joint [rad/s or m/s]; .inf for one without, such as a stepped '
        'gripper; leave out for no limits.',
        dynamic=True,
    )
    acceleration: tuple[float, ...] = parameter(
        (),
        'Greatest acceleration of each joint, when it is brought to rest too [rad/s^2 or m/s^2]; '
        '.inf for one without, leave out for no limits.',
        dynamic=True,
    )
    jerk: tuple[float, ...] = parameter(
        (),
        'Greatest jerk of each joint, likewise [rad/s^3 or m/s^3]; .inf for one without, leave '
        'out for no limits.',
        dynamic=True,
    )
    limit_mode: str = parameter(
        DEFAULT.limit_mode.value,
        'What becomes of a step beyond a limit: kept within it, or its chunk refused.',
        choices=[item.value for item in LimitMode],
        dynamic=True,
    )
    max_action_age_ms: float = parameter(
        DEFAULT.max_action_age_ns / MS_NS,
        'Nothing whose observation is older than this is played [ms].',
        low=1.0,
        high=60_000.0,
        dynamic=True,
    )
    depth_ms: float = parameter(
        0.0,
        'A chunk counts at most so long after it came [ms]; 0: depth_intervals decides.',
        low=0.0,
        high=60_000.0,
        dynamic=True,
    )
    depth_intervals: float = parameter(
        DEFAULT.depth_intervals,
        'That, as a multiple of the p99 of the measured chunk interval [1], once 20 are known; at '
        'least 200 ms.',
        low=1.0,
        high=1000.0,
        dynamic=True,
    )
    far_future_ms: float = parameter(
        DEFAULT.far_future_ns / MS_NS,
        'A chunk that begins further ahead is refused [ms].',
        low=1.0,
        high=60_000.0,
        dynamic=True,
    )
    skew_ms: float = parameter(
        DEFAULT.skew_ns / MS_NS,
        'An input of a chunk, or a joint state, may seem to come from at most so far ahead [ms]: '
        'clocks of two machines.',
        low=0.0,
        high=60_000.0,
        dynamic=True,
    )
    chunk_timeout_ms: float = parameter(
        DEFAULT.chunk_timeout_ns / MS_NS,
        'Without a chunk for so long the reason is no_chunk, before that chunk_late [ms].',
        low=1.0,
        high=60_000.0,
        dynamic=True,
    )
    hold_ms: float = parameter(
        DEFAULT.hold_ns / MS_NS,
        'Without a chunk: the last velocity is kept for so long [ms].',
        low=0.0,
        high=5000.0,
        dynamic=True,
    )
    ramp_ms: float = parameter(
        DEFAULT.ramp_ns / MS_NS,
        'Then brought to rest in so long [ms], then nothing is commanded.',
        low=1.0,
        high=10_000.0,
        dynamic=True,
    )
    start_blend_ms: float = parameter(
        DEFAULT.start_blend_ns / MS_NS,
        'Time to fade from the measured state onto the first chunk [ms].',
        low=1.0,
        high=10_000.0,
        dynamic=True,
    )
    start_speed: float = parameter(
        DEFAULT.start_speed,
        'From far away that fade takes longer: it adds at most this speed [rad/s or m/s].',
        low=0.001,
        high=1000.0,
        dynamic=True,
    )
    settle_ms: float = parameter(
        DEFAULT.settle_ns / MS_NS,
        "Warm-up after an epoch's first played chunk; outside the figures [ms].",
        low=0.0,
        high=60_000.0,
        dynamic=True,
    )
    state_age_ms: float = parameter(
        DEFAULT.state_age_ns / MS_NS,
        'A joint state older than this does not count [ms].',
        low=1.0,
        high=60_000.0,
        dynamic=True,
    )
    require_measured: bool = parameter(
        DEFAULT.require_measured, 'The first command waits for joint states.', dynamic=True
    )
    timeline: str = parameter(
        Timeline.HEADER.value,
        'Which time places a joint state: its header, or when it was received (a driver whose '
        'clock differs).',
        choices=[item.value for item in Timeline],
    )
    real_time_priority: int = parameter(
        50, 'SCHED_FIFO priority [1], where permitted; 0 does not ask.', low=0, high=99
    )
    status_rate_hz: float = parameter(
        5.0, 'Messages on ~/playback_status per second [Hz].', low=0.1, high=50.0
    )
    statistics: bool = parameter(
        False, 'Mean, greatest value and count of the figures on /statistics too.'
    )
    metrics_port: int = parameter(
        0, 'Port on 127.0.0.1 where Prometheus finds the figures; 0: none.', low=0, high=65535
    )

    def __post_init__(self) -> None:
        """
        Refuse joints that are not named, and lists of another length.

        :raises ParameterError: naming the parameter.
        """
        if not self.joints:
            raise ParameterError('joints', 'the names of the joints', list(self.joints))
        for name in LIMITS:
            given = getattr(self, name)
            if given and len(given) != len(self.joints):
                raise ParameterError(name, f'one for each of {list(self.joints)}', list(given))
        for name in ('step_joints', 'linear_joints'):
            given = getattr(self, name)
            if any(joint not in self.joints for joint in given):
                raise ParameterError(name, f'some of {list(self.joints)}', list(given))
        if both := sorted({*self.step_joints} & {*self.linear_joints}):
            raise ParameterError('linear_joints', 'other joints than step_joints', both)
        _ = self.player, self.robot

    @property
    def player(self) -> PlayerConfig:
        """The player's part."""
        return PlayerConfig(
            names=self.joints,
            servo_rate_hz=self.servo_rate_hz,
            merge=Merge(self.merge),
            blend_ns=round(self.blend_ms * MS_NS),
            ensemble_decay=self.ensemble_decay,
            interpolation=tuple(self._interpolation(name) for name in self.joints),
            limits=tuple(self._limit(index) for index in range(len(self.joints))),
            limit_mode=LimitMode(self.limit_mode),
            max_action_age_ns=round(self.max_action_age_ms * MS_NS),
            depth_ns=round(self.depth_ms * MS_NS) or None,
            depth_intervals=self.depth_intervals,
            far_future_ns=round(self.far_future_ms * MS_NS),
            skew_ns=round(self.skew_ms * MS_NS),
            chunk_timeout_ns=round(self.chunk_timeout_ms * MS_NS),
            hold_ns=round(self.hold_ms * MS_NS),
            ramp_ns=round(self.ramp_ms * MS_NS),
            start_blend_ns=round(self.start_blend_ms * MS_NS),
            start_speed=self.start_speed,
            settle_ns=round(self.settle_ms * MS_NS),
            state_age_ns=round(self.state_age_ms * MS_NS),
            require_measured=self.require_measured,
        )

    @property
    def robot(self) -> JointMap:
        """What commands and joint states call our joints, and their units."""
        return JointMap.of(
            self.joints,
            self.joint_aliases,
            self.joint_units,
            self.joint_scales,
            self.joint_offsets,
        )

    @property
    def trajectory_ticks(self) -> int:
        """Ticks from one trajectory to the next."""
        return max(1, round(self.servo_rate_hz / self.trajectory_rate_hz))

    def _interpolation(self, joint: str) -> Interpolation:
        """Return how one joint is interpolated."""
        if joint in self.step_joints:
            return Interpolation.STEP
        if joint in self.linear_joints:
            return Interpolation.LINEAR
        return Interpolation(self.interpolation)

    def _limit(self, index: int) -> JointLimit:
        """Return one joint's limits; an infinite one is none."""
        given = {name: getattr(self, name) for name in LIMITS}
        limits = {name: values[index] for name, values in given.items() if values}
        none = {name: -math.inf if name == 'lower' else math.inf for name in limits}
        return JointLimit(**{name: limits[name] for name in limits if limits[name] != none[name]})
