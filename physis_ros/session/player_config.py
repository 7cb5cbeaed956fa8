# SPDX-License-Identifier: Apache-2.0
"""
How chunks are played: one frozen value, checked when it is made.

Defaults live here and nowhere else; the ROS node declares its parameters from this class.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from enum import Enum

import numpy as np

from physis_ros.errors import ParameterError
from physis_ros.output.account import AccountConfig
from physis_ros.output.checks import GateConfig
from physis_ros.output.interpolate import Interpolation, Kinds
from physis_ros.output.ladder import LadderConfig
from physis_ros.output.limits import JointLimit, LimitMode, Limits, column
from physis_ros.output.merge import Merge, MergeConfig
from physis_ros.output.timeline import TimelineConfig
from physis_ros.types import FloatArray

POSITIVE = (
    'blend_ns',
    'start_blend_ns',
    'ramp_ns',
    'max_action_age_ns',
    'far_future_ns',
    'state_age_ns',
    'chunk_timeout_ns',
)
NOT_NEGATIVE = ('hold_ns', 'settle_ns', 'skew_ns')


class PlayerState(Enum):
    """What the player does."""

    INACTIVE = 'inactive'
    WARMING = 'warming'
    PLAYING = 'playing'
    UNDERRUN = 'underrun'


@dataclass(frozen=True)
class PlayerConfig:
    """
    How chunks are played. All times in nanoseconds of the stream clock.

    :param names: joints, in the order of the commands.
    :param servo_rate_hz: ticks a second.
    :param merge: how a new chunk takes over.
    :param blend_ns: how long a seam fades; so long the older chunk's inputs count for the age.
    :param ensemble_decay: weight of a chunk in an ensemble is ``exp(-decay * i)``, 0 the oldest.
    :param interpolation: one for each joint; empty makes all joints cubic.
    :param limits: one for each joint; empty sets no limits.
    :param limit_mode: move a step onto its position limit, or refuse the chunk.
    :param max_action_age_ns: nothing older is played.
    :param depth_ns: a chunk counts at most so long after it came; None takes ``depth_intervals``
        times the p99 of the measured chunk interval, once 20 intervals are known, but not less
        than 200 ms.
    :param hold_ns: first rung of an underrun, the last velocity is kept.
    :param ramp_ns: second rung, down to rest; longer where an acceleration limit needs it.
    :param start_blend_ns: from the measured state onto the first chunk, and back after silence.
    :param start_speed: where the measured state is far off, that blend takes so long that it adds
        at most this speed [rad/s or m/s].
    :param state_age_ns: a measured state older than this does not count.
    :param require_measured: the first command waits for a measured state.
    :param settle_ns: after an epoch's first played chunk, so long is still warm-up.
    :param chunk_timeout_ns: with no chunk for so long the reason is no_chunk, before chunk_late.
    :param far_future_ns: a chunk may begin at most so far ahead.
    :param skew_ns: an input may seem to come from at most so far ahead.
    """

    names: tuple[str, ...]
    servo_rate_hz: float = 200.0
    merge: Merge = Merge.BLEND
    blend_ns: int = 40_000_000
    ensemble_decay: float = 0.01
    interpolation: tuple[Interpolation, ...] = ()
    limits: tuple[JointLimit, ...] = ()
    limit_mode: LimitMode = LimitMode.CLAMP
    max_action_age_ns: int = 1_000_000_000
    depth_ns: int | None = None
    depth_intervals: float = 4.0
    hold_ns: int = 50_000_000
    ramp_ns: int = 250_000_000
    start_blend_ns: int = 300_000_000
    start_speed: float = 2.0
    state_age_ns: int = 500_000_000
    require_measured: bool = True
    settle_ns: int = 500_000_000
    chunk_timeout_ns: int = 1_000_000_000
    far_future_ns: int = 2_000_000_000
    skew_ns: int = 500_000_000

    def __post_init__(self) -> None:
        """Refuse what cannot be played; the parts check themselves when they are made."""
        if not (math.isfinite(self.servo_rate_hz) and 1.0 <= self.servo_rate_hz <= 10_000.0):
            raise ParameterError('servo_rate_hz', 'in 1..10000', self.servo_rate_hz)
        for name in POSITIVE:
            if getattr(self, name) <= 0:
                raise ParameterError(name, '> 0', getattr(self, name))
        for name in NOT_NEGATIVE:
            if getattr(self, name) < 0:
                raise ParameterError(name, '>= 0', getattr(self, name))
        if self.depth_ns is not None and self.depth_ns <= 0:
            raise ParameterError('depth_ns', '> 0 or None', self.depth_ns)
        if not (math.isfinite(self.start_speed) and self.start_speed > 0.0):
            raise ParameterError('start_speed', 'finite and > 0', self.start_speed)
        if not (math.isfinite(self.depth_intervals) and self.depth_intervals >= 1.0):
            raise ParameterError('depth_intervals', 'finite and >= 1', self.depth_intervals)
        for name in ('interpolation', 'limits'):
            values = getattr(self, name)
            if values and len(values) != len(self.names):
                rule = f'empty or one for each of {list(self.names)}'
                raise ParameterError(name, rule, values)
        _ = self.timeline, self.ladder, self.account

    def check_change(self, present: PlayerConfig, position: FloatArray | None) -> None:
        """
        Refuse to take over from ``present`` while something is played.

        :param position: of the last command [A]; None when there was none.
        :raises ParameterError: on other joints or another rate, and on position limits that the
            last command is not within: keeping them would be a jump.
        """
        for name in ('names', 'servo_rate_hz'):
            if getattr(self, name) != getattr(present, name):
                rule = f'{getattr(present, name)} while the player exists'
                raise ParameterError(name, rule, getattr(self, name))
        if position is None:
            return
        for name, beyond in (('lower', np.less), ('upper', np.greater)):
            limit = column(self.joint_limits, name, -math.inf if name == 'lower' else math.inf)
            if np.any(beyond(position, limit)):
                rule = f'around the last command {position.round(4).tolist()}'
                raise ParameterError(name, rule, limit.tolist(), 'move there first')

    @property
    def period_ns(self) -> int:
        """The servo period."""
        return round(1e9 / self.servo_rate_hz)

    @property
    def joint_limits(self) -> tuple[JointLimit, ...]:
        """One limit for each joint."""
        return self.limits or (JointLimit(),) * len(self.names)

    @property
    def timeline(self) -> TimelineConfig:
        """The timeline's part."""
        kinds = self.interpolation or (Interpolation.CUBIC,) * len(self.names)
        return TimelineConfig(
            gate=GateConfig(
                self.names,
                self.period_ns,
                self.max_action_age_ns,
                self.far_future_ns,
                self.skew_ns,
            ),
            kinds=Kinds.of(kinds),
            limits=Limits(self.joint_limits, self.limit_mode),
            merge=MergeConfig(self.merge, self.blend_ns, self.ensemble_decay),
            depth_ns=self.depth_ns,
        )

    @property
    def ladder(self) -> LadderConfig:
        """The ladder's part."""
        acceleration = column(self.joint_limits, 'acceleration', math.inf)
        jerk = column(self.joint_limits, 'jerk', math.inf)
        return LadderConfig(self.hold_ns, self.ramp_ns, acceleration, jerk)

    @property
    def account(self) -> AccountConfig:
        """The account's part; a tick more than half a period behind its schedule is late."""
        late_ns = max(self.period_ns // 2, 1)
        return AccountConfig(self.period_ns, self.max_action_age_ns, late_ns, self.settle_ns)
