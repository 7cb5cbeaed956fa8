# SPDX-License-Identifier: Apache-2.0
"""Commands kept within the limits of position and of motion."""

from __future__ import annotations

from dataclasses import replace

from physis_ros.output.limits import Limits
from physis_ros.output.motion import Motion, MotionLimits
from physis_ros.output.stretch import Sample
from physis_ros.session.player_config import PlayerConfig
from physis_ros.types import Command, FloatArray, Play, Reason


class Bounds:
    """
    Keeps commands within limits. Holds no state of the motion itself.

    :param config: the limits.
    """

    def __init__(self, config: PlayerConfig) -> None:
        self._names = config.names
        self.position: Limits = config.timeline.limits
        self._motion = MotionLimits(config.joint_limits)

    def played(self, sample: Sample) -> Command:
        """Return the command of a sample of the timeline."""
        position, velocity = self.position.stopped(sample.position, sample.velocity)
        ages = {
            name: max(sample.time_ns - stamp_ns, 0)
            for name, stamp_ns in sample.input_stamps_ns.items()
        }
        return Command(
            stamp_ns=sample.time_ns,
            play=Play.PLAYING,
            reason=Reason.NONE,
            names=self._names,
            position=position,
            velocity=velocity,
            epoch=sample.epoch,
            chunk=sample.chunk,
            age_ns=max(sample.time_ns - sample.observed_ns, 0),
            input_age_ns=ages,
        )

    @property
    def still(self) -> bool:
        """Whether there are no limits of motion."""
        return self._motion.idle

    def follow(self, last: Motion | None, command: Command) -> tuple[Motion, Command]:
        """Return the motion that follows ``last``, and what it makes of ``command``."""
        motion = self._moving(last, command)
        position, velocity = self.position.stopped(motion.position, motion.velocity)
        return motion, replace(command, position=position, velocity=velocity)

    def led(self, command: Command, acceleration: FloatArray) -> tuple[Motion | None, Command]:
        """
        Return the motion of a command that keeps the limits of motion by itself, and the command.

        :param acceleration: with which it goes on [A].
        """
        position, velocity = self.position.stopped(command.position, command.velocity)
        kept = replace(command, position=position, velocity=velocity)
        if self.still:
            return None, kept
        # A joint that is kept at its limit of position has stopped.
        left = acceleration * (position == command.position)
        return Motion(command.stamp_ns, position, velocity, left, velocity), kept

    def foretell(self, last: Motion | None, command: Command) -> tuple[Motion | None, Command]:
        """Return what :meth:`follow` does; without a motion the command is left as it is."""
        return (None, command) if last is None else self.follow(last, command)

    def _moving(self, last: Motion | None, command: Command) -> Motion:
        """Return the motion that follows ``last`` when ``command`` is wanted."""
        stamp_ns, position, velocity = command.stamp_ns, command.position, command.velocity
        if last is None:
            return self._motion.begin(stamp_ns, position, velocity)
        if stamp_ns <= last.time_ns:
            return last
        return self._motion.step(last, stamp_ns, position, velocity)
