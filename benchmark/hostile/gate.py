# SPDX-License-Identifier: Apache-2.0
"""
Why a servo must refuse a message, or not, told from its recipe and what came before.

Written down once more from the rules, with nothing of what decides in the node; default limits,
which refuse nothing.
"""

from __future__ import annotations

import math

from hostile.chunks import ChunkRecipe
from hostile.messages import JOINTS, JointRecipe
from physis_ros.output.limits import GREATEST
from physis_ros.output.verdict import ChunkReject
from physis_ros.session.decode import time_ns
from physis_ros.session.player_config import PlayerConfig

TAKEN = 'taken'


class Gate:
    """
    Judges chunks as a player that is active must. Begins where no epoch is known.

    :param config: of the player.
    """

    def __init__(self, config: PlayerConfig) -> None:
        self._config = config
        self._epoch = self._last = -1

    def judge(self, recipe: ChunkRecipe, now_ns: int) -> str:
        """Return the reason under which a chunk must be counted."""
        reason = recipe.refusal(self._config.period_ns, self._config.max_action_age_ns)
        reason = reason or self._out_of_turn(recipe) or self._out_of_time(recipe, now_ns)
        if reason is not None:
            return str(reason.value)
        self._last = recipe.chunk
        return TAKEN

    def _out_of_turn(self, recipe: ChunkRecipe) -> ChunkReject | None:
        """Judge by epoch and number; a higher epoch begins, whatever is found later."""
        if recipe.epoch > self._epoch:
            self._epoch, self._last = recipe.epoch, -1
        if recipe.epoch < self._epoch:
            return ChunkReject.STALE_EPOCH
        if recipe.chunk == self._last:
            return ChunkReject.DUPLICATE
        return ChunkReject.OUT_OF_ORDER if recipe.chunk < self._last else None

    def _out_of_time(self, recipe: ChunkRecipe, now_ns: int) -> ChunkReject | None:
        """Judge by its stamps."""
        config = self._config
        start_ns, seen_ns = time_ns(recipe.start.at(now_ns)), time_ns(recipe.observed.at(now_ns))
        if seen_ns > now_ns + config.skew_ns:
            return ChunkReject.FUTURE_INPUT
        if start_ns > now_ns + config.far_future_ns:
            return ChunkReject.FAR_FUTURE
        if start_ns + (recipe.horizon - 1) * recipe.dt_ns < now_ns:
            return ChunkReject.ALL_PAST
        old = max(start_ns, now_ns) - seen_ns > config.max_action_age_ns
        return ChunkReject.EXPIRED if old else None


def joint_refusal(recipe: JointRecipe) -> str:
    """Return the reason under which a servo must count a joint state."""
    if len(recipe.position) != len(recipe.names):
        return 'malformed'
    ours = [recipe.names.index(name) for name in JOINTS if name in recipe.names]
    if not ours:
        return 'other_joints'
    values = [recipe.position[place] for place in ours]
    sound = all(math.isfinite(value) and abs(value) <= GREATEST for value in values)
    return TAKEN if sound else 'non_finite'
