# SPDX-License-Identifier: Apache-2.0
"""
What the same arm does without the model: the expert with perfect knowledge, and no motion.

Runs the simulator alone, in its own time, with the seeds of the recorded episodes. Both lines are
the frame for the measured tracking error: nobody can be better than about the first, and a system
that does nothing scores the second.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from physis_ros.errors import ParameterError
from physis_ros.evaluation.scores import distance_m
from physis_ros.simulation.arm import STEP_NS, Arm
from physis_ros.simulation.expert import Expert, ExpertConfig
from physis_ros.types import FloatArray

SAMPLE_STEPS = 5


@dataclass(frozen=True)
class Baseline:
    """
    Tip-to-target distances of one episode, sampled every 5 ms of simulated time.

    :param time_s: since the episode's start [n].
    :param expert_m: with the scripted expert [n].
    :param hold_m: with the arm left at its first pose [n].
    """

    time_s: FloatArray
    expert_m: FloatArray
    hold_m: FloatArray


def baseline(seed: int, seconds: float) -> Baseline:
    """
    Run one episode twice, as expert and without motion.

    :param seed: of the episode.
    :param seconds: its length, > 0.
    """
    if seconds <= 0:
        raise ParameterError('seconds', 'greater than 0', seconds)
    count = int(seconds * 1e9) // (SAMPLE_STEPS * STEP_NS) + 1
    with Arm(seed=seed) as arm:
        start = arm.tip_position_m
        expert = Expert(ExpertConfig(link_m=arm.config.link_m))
        times_ns = np.arange(count, dtype=np.int64) * SAMPLE_STEPS * STEP_NS
        commands = expert.commands(times_ns, arm.target)
        target = arm.target.states(times_ns)[:, :2]
        tip = np.empty((count, 2))
        for index, command in enumerate(commands):
            tip[index] = arm.tip_position_m
            arm.command(command)
            arm.advance(SAMPLE_STEPS)
    return Baseline(
        time_s=times_ns.astype(np.float64) * 1e-9,
        expert_m=distance_m(tip, target),
        hold_m=distance_m(start, target),
    )
