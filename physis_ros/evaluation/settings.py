# SPDX-License-Identifier: Apache-2.0
"""
How the chunks of a recording were played, as the recording itself tells.

The servo's status says what is set, at every moment; older recordings have what their run was
started with, or nothing: then the player's own defaults stand in.
"""

from __future__ import annotations

import math
from dataclasses import replace
from typing import Any

import numpy as np

from physis_ros.errors import BagError
from physis_ros.evaluation.recording import Recording
from physis_ros.output.limits import JointLimit, LimitMode
from physis_ros.session import decode
from physis_ros.session.player_config import PlayerConfig

CONFIGURED_MS = ('max_action_age_ms', 'settle_ms')
# Limits by the field of the status that holds those for which chunks are refused.
REFUSED = {
    'lower': 'refused_below',
    'upper': 'refused_above',
    'velocity': 'refused_velocity',
    'acceleration': 'refused_acceleration',
    'jerk': 'refused_jerk',
}


def player_config(recording: Recording) -> PlayerConfig:
    """
    Return how the first chunks were played.

    :raises BagError: when no tick was recorded.
    """
    if not recording.ticks:
        raise BagError('recording must hold ticks, got none')
    given = recording.configuration
    configured: dict[str, Any] = {
        f'{name[:-3]}_ns': round(float(given[name]) * 1e6)
        for name in CONFIGURED_MS
        if name in given
    }
    names = recording.ticks[0].command.names
    config = PlayerConfig(names, servo_rate_hz=servo_rate_hz(recording), **configured)
    first = next(iter(recording.statuses), None)
    return config if first is None else told(config, first.message)


def told(config: PlayerConfig, status: Any) -> PlayerConfig:
    """
    Return ``config`` with everything that a status says of how chunks are played.

    :param status: a ``PlaybackStatus`` message; those of an older servo say nothing.
    """
    if not hasattr(status, 'max_action_age'):
        return config
    if hasattr(status, 'far_future'):
        ahead_ns = decode.time_ns(status.far_future), decode.time_ns(status.skew)
        config = replace(config, far_future_ns=ahead_ns[0], skew_ns=ahead_ns[1])
    limits = tuple(_limit(status, joint) for joint in range(len(status.refused_below)))
    return replace(
        config,
        max_action_age_ns=decode.time_ns(status.max_action_age),
        settle_ns=decode.time_ns(status.settle),
        limits=limits,
        limit_mode=LimitMode.REJECT if limits else LimitMode.CLAMP,
    )


def servo_rate_hz(recording: Recording) -> float:
    """Return the set rate: as the servo or the run says, or from the schedule of the ticks."""
    said = [record.message.servo_hz for record in recording.statuses[:1]]
    rate_hz = float(said[0] if said else recording.configuration.get('servo_hz', 0.0))
    if rate_hz > 0.0:
        return rate_hz
    scheduled = np.diff([tick.scheduled_ns for tick in recording.ticks])
    return round(1e9 / float(np.median(scheduled[scheduled > 0])), 3)


def _limit(status: Any, joint: int) -> JointLimit:
    """Return the limits of one joint for which chunks are refused."""
    values = {name: float(getattr(status, field)[joint]) for name, field in REFUSED.items()}
    return JointLimit(**{name: value for name, value in values.items() if math.isfinite(value)})
