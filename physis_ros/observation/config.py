# SPDX-License-Identifier: Apache-2.0
"""
How observations are joined: sizes, names, tolerances.

Checked when made; the model's part (size, history, joints) comes from its spec, the rest is the
user's.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import Enum

from physis_ros.errors import ParameterError
from physis_ros.observation.joints import JointMatch
from physis_ros.types import CAMERA

SECOND_NS = 1_000_000_000
DEPTH = 'depth'


class Timeline(Enum):
    """Which time places a message: the publisher's stamp, or when it was received."""

    HEADER = 'header'
    RECEIVE = 'receive'


@dataclass(frozen=True)
class AlignConfig:
    """
    One stream's rules.

    :param height: rows of a model image.
    :param width: columns of a model image.
    :param history_ns: capture times of the frames wanted, relative to the newest (<= 0), rising,
        the last one 0.
    :param joint_names: the model's joints, in its order.
    :param cameras: names of the cameras; the first sets the instant. Those that begin with
        ``depth`` give distances.
    :param camera_tolerance_ns: how far from the first camera's frame another's may lie.
    :param aliases: robot's joint name -> model's joint name, where they differ.
    :param frame_tolerance_ns: how far from a wanted time a history frame may lie.
    :param joint_tolerance_ns: how far from the frame a joint state may lie.
    :param joint_match: which joint state belongs to a frame.
    :param max_age_ns: a frame older than this makes no observation.
    :param max_future_ns: a frame further ahead than this makes no observation (clocks differ).
    :param future_tolerance_ns: stamps this far ahead of receipt are not counted (a simulated clock
        arrives in steps).
    :param regress_ns: a stamp this far behind the newest means that time itself went back; less
        is a message out of order.
    :param timeline: header stamps, or receive times for publishers without a sound clock.
    :param skew_window_ns: what the skew estimate looks back on.
    :param max_frames: most frames kept.
    :param max_joint_samples: most states kept of each joint.
    """

    height: int
    width: int
    history_ns: tuple[int, ...]
    joint_names: tuple[str, ...]
    aliases: Mapping[str, str] = field(default_factory=dict)
    cameras: tuple[str, ...] = (CAMERA,)
    camera_tolerance_ns: int = 50_000_000
    frame_tolerance_ns: int = 13_000_000
    joint_tolerance_ns: int = 50_000_000
    joint_match: JointMatch = JointMatch.INTERPOLATE
    max_age_ns: int = SECOND_NS
    max_future_ns: int = SECOND_NS
    future_tolerance_ns: int = 10_000_000
    regress_ns: int = SECOND_NS
    timeline: Timeline = Timeline.HEADER
    skew_window_ns: int = 10 * SECOND_NS
    max_frames: int = 64
    max_joint_samples: int = 2048

    def __post_init__(self) -> None:
        """
        Refuse what cannot work.

        :raises ParameterError: naming the value.
        """
        for name in ('height', 'width', 'regress_ns', 'skew_window_ns', 'max_frames'):
            if getattr(self, name) < 1:
                raise ParameterError(name, '>= 1', getattr(self, name))
        spans = ('frame', 'camera', 'joint', 'future')
        for name in (*(f'{span}_tolerance_ns' for span in spans), 'max_age_ns', 'max_future_ns'):
            if getattr(self, name) < 0:
                raise ParameterError(name, '>= 0', getattr(self, name))
        if self.max_joint_samples < 2:
            raise ParameterError('max_joint_samples', '>= 2', self.max_joint_samples)
        self._check_names_and_history()

    @staticmethod
    def is_depth(camera: str) -> bool:
        """Whether a camera gives distances."""
        return camera.partition('.')[0] == DEPTH

    def _check_names_and_history(self) -> None:
        if not self.cameras or len(set(self.cameras)) != len(self.cameras):
            raise ParameterError('cameras', 'one or more different names', self.cameras)
        history = self.history_ns
        if not history or history[-1] != 0 or sorted(set(history)) != list(history):
            raise ParameterError('history_ns', 'rising and end with 0', history)
        if len(set(self.joint_names)) != len(self.joint_names):
            raise ParameterError('joint_names', 'all different', self.joint_names)
        unknown = {name: to for name, to in self.aliases.items() if to not in self.joint_names}
        if unknown:
            raise ParameterError(
                'aliases', f'robot name -> one of {list(self.joint_names)}', unknown
            )
        if len(set(self.aliases.values())) != len(self.aliases):
            raise ParameterError('aliases', 'one robot name for each joint', dict(self.aliases))
