# SPDX-License-Identifier: Apache-2.0
"""Which simulated instant is due at which instant of the steady clock. Pure."""

from __future__ import annotations

from dataclasses import dataclass, replace


@dataclass(frozen=True)
class Pace:
    """
    A straight line between two clocks.

    :param start_steady_ns: the steady instant of simulated time 0.
    :param speed: simulated per real time.
    """

    start_steady_ns: int
    speed: float

    def simulated_ns(self, steady_ns: int) -> int:
        """Return the simulated time that is due at a steady instant."""
        elapsed_ns = steady_ns - self.start_steady_ns
        return elapsed_ns if self.speed == 1.0 else int(elapsed_ns * self.speed)

    def steady_ns(self, simulated_ns: int) -> int:
        """Return the steady instant at which a simulated time is due."""
        if self.speed == 1.0:
            return self.start_steady_ns + simulated_ns
        return self.start_steady_ns + round(simulated_ns / self.speed)

    def held(self, real_ns: int) -> Pace:
        """Return the same pace after simulated time has stood still for a while."""
        return replace(self, start_steady_ns=self.start_steady_ns + real_ns)


def newest_tick(due_ns: int, now_ns: int, period_ns: int) -> int:
    """Return the newest multiple of a period that has come, but none before ``due_ns``."""
    return max(due_ns, now_ns // period_ns * period_ns)
