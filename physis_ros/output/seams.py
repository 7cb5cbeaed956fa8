# SPDX-License-Identifier: Apache-2.0
"""
Jumps in the commands where one chunk hands over to another.

Measured on what was really commanded, not on what the chunks proposed: the difference of two
successive positions that their velocities do not explain, and the difference of the velocities.
"""

from __future__ import annotations

import numpy as np

from physis_ros.output.interpolate import NS
from physis_ros.output.sketch import Sketch
from physis_ros.types import Command, Play


class Seams:
    """Watches pairs of successive commands. Single-threaded."""

    def __init__(self) -> None:
        self.position, self.velocity = Sketch(), Sketch()

    def step(self, before: Command, after: Command) -> None:
        """Measure the pair when both are played, but from different chunks."""
        if before.play is not Play.PLAYING or after.play is not Play.PLAYING:
            return
        if (before.epoch, before.chunk) == (after.epoch, after.chunk):
            return
        passed_s = (after.stamp_ns - before.stamp_ns) * NS
        explained = (before.velocity + after.velocity) * (passed_s / 2.0)
        self.position.add(float(np.abs(after.position - before.position - explained).max()))
        self.velocity.add(float(np.abs(after.velocity - before.velocity).max()))
