# SPDX-License-Identifier: Apache-2.0
"""
A teacher that knows where the target will be.

Its command at a time depends on the target's path and that time alone, not on the arm: the pose
that puts the tip on the target a fixed lead later, which is what the drives lag behind. So the
labels of a whole episode come from one call, and are right whatever the arm was doing.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from physis_ros.errors import ParameterError
from physis_ros.simulation.kinematics import joint_position
from physis_ros.simulation.target import Target

Floats = NDArray[np.float64]


@dataclass(frozen=True)
class ExpertConfig:
    """
    What the expert needs to know of the arm.

    :param lead_s: how far ahead it aims; the lag of the drives.
    :param link_m: length of upper arm and forearm.
    """

    lead_s: float = 0.04
    link_m: tuple[float, float] = (0.25, 0.20)

    def __post_init__(self) -> None:
        """Refuse a lead into the past, which would ask for times before the start."""
        if not (math.isfinite(self.lead_s) and self.lead_s >= 0):
            raise ParameterError('lead_s', 'finite and 0 or greater', self.lead_s)


class Expert:
    """
    The scripted policy.

    :param config: lead and arm lengths.
    """

    def __init__(self, config: ExpertConfig | None = None) -> None:
        self.config = config or ExpertConfig()
        self._lead_ns = round(self.config.lead_s * 1e9)

    def command(self, time_ns: int, target: Target) -> Floats:
        """Return the joint positions to command at a time [rad], [2]."""
        command: Floats = self.commands(np.array([time_ns]), target)[0]
        return command

    def commands(self, times_ns: NDArray[np.int64], target: Target) -> Floats:
        """
        Return the commands of many times [rad], [n, 2].

        :param times_ns: times from 0, [n].
        :param target: whose path to follow.
        """
        ahead = np.asarray(times_ns, dtype=np.int64) + self._lead_ns
        return joint_position(target.states(ahead)[:, :2], self.config.link_m)
