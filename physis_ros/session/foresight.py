# SPDX-License-Identifier: Apache-2.0
"""
What would be commanded from now on if no chunk came: the timeline, then down the ladder to rest.

For trajectories of several points. Whoever executes them is never left with a moving last point,
so the robot comes to rest even when nothing more is ever sent.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace

from physis_ros.output.interpolate import State
from physis_ros.output.ladder import Ladder, LadderConfig
from physis_ros.output.motion import Motion
from physis_ros.types import Command

# A very long way to rest is told in wider steps.
MOST_STOPPING = 50


@dataclass(frozen=True)
class Foresight:
    """
    How a player goes on. Changes nothing of it.

    :param ladder: the rungs.
    :param period_ns: of the ticks.
    :param played: what the timeline says at an instant; None where it says nothing.
    :param rung: what a ladder says at an instant; at rest once it is silent.
    :param kept: the motion that follows another, and a command within its limits.
    """

    ladder: LadderConfig
    period_ns: int
    played: Callable[[int], Command | None]
    rung: Callable[[Ladder, int], Command]
    kept: Callable[[Motion | None, Command], tuple[Motion | None, Command]]

    def points(
        self, last: Command, motion: Motion | None, ladder: Ladder | None, count: int, dt_ns: int
    ) -> tuple[Command, ...]:
        """
        Return up to ``count`` commands at a distance, and those that bring the last one to rest.

        :param last: the present command; ``motion`` and ``ladder`` likewise.
        """
        points: list[Command] = []
        # The command that is the rest itself has one point too: no trajectory may be empty.
        while len(points) < count and not (points and ladder and last.stamp_ns >= ladder.rest_ns):
            time_ns = last.stamp_ns + dt_ns
            point = None if ladder else self.played(time_ns)
            if point is None:
                if ladder is None:
                    ladder = self._descend(last, motion, dt_ns)
                point = self.rung(ladder, time_ns)
            motion, last = self.kept(motion, point) if ladder is None else (motion, point)
            points.append(last)
        return (*points, *self._stop(last, motion, ladder, dt_ns))

    def _descend(self, last: Command, motion: Motion | None, within_ns: int) -> Ladder:
        """Return the ladder that begins at the last tick for which the timeline has something."""
        ticks = range(1, within_ns // self.period_ns + 1)
        left = bisect_left(
            ticks,
            True,
            key=lambda tick: self.played(last.stamp_ns + tick * self.period_ns) is None,
        )
        point = self.played(last.stamp_ns + left * self.period_ns) if left else None
        if point is not None:
            motion, last = self.kept(motion, point)
        return _ladder(self.ladder, last, motion)

    def _stop(
        self, last: Command, motion: Motion | None, ladder: Ladder | None, dt_ns: int
    ) -> Iterator[Command]:
        """Yield the rest of the way down, or a ramp of its own where no ladder was begun."""
        if not last.velocity.any():
            return
        if ladder is None:
            ladder = _ladder(replace(self.ladder, hold_ns=0), last, motion)
        time_ns = last.stamp_ns
        step_ns = max(dt_ns, -((time_ns - ladder.rest_ns) // MOST_STOPPING))
        while time_ns < ladder.rest_ns:
            time_ns += step_ns
            yield self.rung(ladder, time_ns)


def _ladder(config: LadderConfig, last: Command, motion: Motion | None) -> Ladder:
    """Return the ladder that begins where a command leads."""
    start = State(last.stamp_ns, last.position, last.velocity)
    return Ladder(config, start, None if motion is None else motion.acceleration)
