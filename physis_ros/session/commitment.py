# SPDX-License-Identifier: Apache-2.0
"""
What a producer knows of what will be played: its own chunks, put on a timeline of its own.

The player lives in another process and the chunk is the only value between them. But a chunk is
played by time, from its first step that is not past: whoever made it can tell what will be played
as well as the player can, as long as the player merges by ``replace`` and no other chunk is on
its way. So nothing has to come back.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from physis_ros.backbones.base import ModelSpec
from physis_ros.errors import ParameterError
from physis_ros.output.interpolate import Interpolation
from physis_ros.output.merge import Merge
from physis_ros.output.prefix import Horizon, Prefix, committed
from physis_ros.output.timeline import Timeline
from physis_ros.session.player_config import PlayerConfig
from physis_ros.session.producer_config import ProducerConfig
from physis_ros.types import ActionChunk

EVER_NS = 3_600_000_000_000


def check(config: ProducerConfig, spec: ModelSpec) -> None:
    """
    Refuse what the model cannot agree with.

    :raises ParameterError: when the model takes no prefix, or more is frozen than a chunk has left
        when the next one takes over.
    """
    matched_ns = config.rtc_frozen_ns + config.rtc_soft_ns
    if matched_ns and not spec.takes_prefix:
        raise ParameterError('rtc_frozen_ns', f'0: {spec.name} takes no prefix', matched_ns)
    left_ns = spec.actions.horizon * spec.actions.dt_ns - config.period_ns
    if config.rtc_frozen_ns > max(left_ns, 0):
        rule = f'at most {left_ns}, the horizon less the period'
        raise ParameterError('rtc_frozen_ns', rule, config.rtc_frozen_ns)


class Commitment:
    """
    What the next chunk should agree with (real-time chunking). Single-threaded.

    A chunk begins where it is planned to be in the player's hands, so what passes while it is
    computed is not in it: of the H steps the frozen ones are a short overlap for a seam without a
    jump, not the whole delay as in the paper. docs/merging.md sets the words side by side.

    :param config: ``rtc_frozen_ns`` and ``rtc_soft_ns``.
    :param spec: of the model.
    :param names: the robot's names of the action columns.
    :raises ParameterError: as :func:`check`.
    """

    def __init__(self, config: ProducerConfig, spec: ModelSpec, names: Sequence[str]) -> None:
        check(config, spec)
        self._actions = actions = spec.actions
        self._frozen_ns = config.rtc_frozen_ns
        matched_ns = config.rtc_frozen_ns + config.rtc_soft_ns
        self._on = matched_ns > 0
        self._free = max(actions.horizon - -(-matched_ns // actions.dt_ns), 0)
        played = PlayerConfig(
            tuple(names),
            merge=Merge.REPLACE,
            interpolation=(Interpolation.LINEAR,) * len(names),
            # However slow the model is: whether a chunk is still played is the player's to judge.
            max_action_age_ns=EVER_NS,
            far_future_ns=EVER_NS,
        )
        self._timeline = Timeline(played.timeline)

    def published(self, chunk: ActionChunk, frozen: int = 0) -> None:
        """
        Take a chunk that goes out now.

        :param frozen: so many of its steps are those of the chunk before: as old, whoever takes
            them over again. Those that were only drawn to it count as its own; what is left of
            the chunk before in them fades from chunk to chunk, and has no end.
        """
        if not self._on:
            return
        stamps = chunk.taken_over_stamps_ns if frozen else {}
        own = replace(chunk, taken_over=frozen, taken_over_stamps_ns=stamps)
        self._timeline.offer(own, chunk.times.publish_ns)

    def clear(self) -> None:
        """Forget everything: a new epoch commits to nothing."""
        self._timeline.clear()

    def prefix(self, start_ns: int) -> Prefix | None:
        """Return what a chunk that begins then should agree with; None for nothing."""
        if not self._on:
            return None
        actions = self._actions
        horizon = Horizon(start_ns, actions.dt_ns, actions.horizon, self._free)
        found = committed(self._timeline, horizon, start_ns + self._frozen_ns)
        return found if found.weights.any() else None
