# SPDX-License-Identifier: Apache-2.0
"""What a producer is asked to do; frozen, checked once."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import Enum

from physis_ros.backbones.base import CAMERA, ModelSpec
from physis_ros.errors import ParameterError
from physis_ros.observation.config import AlignConfig, Timeline
from physis_ros.observation.joints import JointMatch

MS = 1_000_000


class Pacing(Enum):
    """When chunks are made: on a beat, ahead of time; or in turns with their playing."""

    BEAT = 'beat'
    LOCKSTEP = 'lockstep'


@dataclass(frozen=True)
class ProducerConfig:
    """
    One stream's production.

    :param pacing: on a beat, or in lock-step, which knows no period.
    :param period_ns: promised interval between chunks, in stream time.
    :param expected_response_ns: entry to publishing, until it has been measured.
    :param margin_ns: allowed for the hand-over from publishing to the player.
    :param joint_names: the model's joints in its order; empty: the names of its actions.
    :param aliases: robot's joint name -> model's joint name, where they differ. Chunks carry the
        robot's names.
    :param frame_tolerance_ns: how far from a wanted time a history frame may lie.
    :param camera_tolerance_ns: how far from the first camera's frame another's may lie.
    :param joint_tolerance_ns: how far from the frame a joint state may lie.
    :param joint_match: which joint state belongs to a frame.
    :param max_age_ns: a frame older than this makes no observation.
    :param timeline: header stamps or receive times.
    :param jump_tolerance_ns: the stream clock may go back by this much without a new epoch.
    :param rtc_frozen_ns: real-time chunking: so long from its start a chunk keeps the actions that
        are committed already; less than the period, or nothing new would ever be played.
    :param rtc_soft_ns: after that, so long it is drawn to them, less and less. Both 0: off.
    :param warmup_chunks: first chunks after the start that stay outside the latency figures.
    """

    pacing: Pacing = Pacing.BEAT
    period_ns: int = 100 * MS
    expected_response_ns: int = 150 * MS
    margin_ns: int = 10 * MS
    joint_names: tuple[str, ...] = ()
    aliases: Mapping[str, str] = field(default_factory=dict)
    frame_tolerance_ns: int = 13 * MS
    camera_tolerance_ns: int = 50 * MS
    joint_tolerance_ns: int = 50 * MS
    joint_match: JointMatch = JointMatch.INTERPOLATE
    max_age_ns: int = 1000 * MS
    timeline: Timeline = Timeline.HEADER
    jump_tolerance_ns: int = 10 * MS
    rtc_frozen_ns: int = 0
    rtc_soft_ns: int = 0
    warmup_chunks: int = 5

    def __post_init__(self) -> None:
        """
        Refuse what cannot be; tolerances and names are checked where they are used.

        :raises ParameterError: naming the value.
        """
        if self.period_ns < 1:
            raise ParameterError('period_ns', '>= 1', self.period_ns)
        spans = ('expected_response_ns', 'margin_ns', 'jump_tolerance_ns', 'warmup_chunks')
        for name in (*spans, 'rtc_frozen_ns', 'rtc_soft_ns'):
            if getattr(self, name) < 0:
                raise ParameterError(name, '>= 0', getattr(self, name))
        if self.pacing is Pacing.LOCKSTEP and self.rtc_frozen_ns + self.rtc_soft_ns:
            rule = '0 in lock-step, where nothing is committed when a chunk is made'
            name = 'rtc_frozen_ns' if self.rtc_frozen_ns else 'rtc_soft_ns'
            raise ParameterError(name, rule, getattr(self, name))
        if self.rtc_frozen_ns >= self.period_ns:
            rule = f'below period_ns = {self.period_ns}'
            raise ParameterError('rtc_frozen_ns', rule, self.rtc_frozen_ns)

    def align_config(self, spec: ModelSpec) -> AlignConfig:
        """Join the user's rules with the model's sizes."""
        return AlignConfig(
            height=spec.frames.height,
            width=spec.frames.width,
            history_ns=spec.frames.history_ns,
            joint_names=self.joint_names or spec.actions.names,
            aliases=self.aliases,
            cameras=spec.cameras or (CAMERA,),
            camera_tolerance_ns=self.camera_tolerance_ns,
            frame_tolerance_ns=self.frame_tolerance_ns,
            joint_tolerance_ns=self.joint_tolerance_ns,
            joint_match=self.joint_match,
            max_age_ns=self.max_age_ns,
            timeline=self.timeline,
        )
