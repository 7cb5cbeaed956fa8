# SPDX-License-Identifier: Apache-2.0
"""
Random numbers by seed and purpose.

Each purpose draws from a stream of its own: were the first pose drawn from the same numbers as a
later waypoint, the pose would tell a model the future.
"""

from __future__ import annotations

import numpy as np

from physis_ros.errors import ParameterError

WAYPOINT = 0
FIRST_POSE = 1
EXPLORATION = 2


def generator(seed: int, purpose: int, index: int = 0) -> np.random.Generator:
    """
    Return a generator that shares no numbers with any other seed, purpose or index.

    :param seed: the user's seed, 0 or greater.
    :param purpose: one of the constants of this module.
    :param index: which of many draws for that purpose.
    """
    if seed < 0:
        raise ParameterError('seed', '0 or greater', seed)
    return np.random.default_rng(np.random.SeedSequence(seed, spawn_key=(purpose, index)))
