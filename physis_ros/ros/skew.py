# SPDX-License-Identifier: Apache-2.0
"""How far the clocks behind the stamps of messages are from ours, and when to speak of it."""

from __future__ import annotations

from collections.abc import Mapping

from physis_ros.observation.skew import SkewEstimate

WINDOW_NS = 10_000_000_000
# No message comes before it was made; simulators publish up to a step of /clock ahead of it.
AHEAD_NS = 50_000_000
# Every message of ten seconds took so long: a clock that is behind, or a way that is too long.
BEHIND_NS = 250_000_000


class Skews:
    """The least ``receive - stamp`` lately of each source of messages. Single-threaded."""

    def __init__(self) -> None:
        self._estimates: dict[str, SkewEstimate] = {}

    def add(self, source: str, stamp_ns: int, receive_ns: int) -> None:
        """Take a message into account; one without a stamp, or before the time began, is not."""
        if stamp_ns > 0 and receive_ns > 0:
            estimate = self._estimates.setdefault(source, SkewEstimate(WINDOW_NS))
            estimate.add(stamp_ns, receive_ns)

    def least_ns(self) -> dict[str, int]:
        """Return it by source."""
        least = {name: estimate.least_ns for name, estimate in self._estimates.items()}
        return {name: value for name, value in least.items() if value is not None}


def skewed(least_ns: Mapping[str, int]) -> list[str]:
    """Say of each source whose clock cannot agree with ours what is seen of it."""
    return [text for name, value in least_ns.items() if (text := _skewed(name, value))]


def _skewed(source: str, least_ns: int) -> str:
    """Say it of one; nothing when all is well."""
    if least_ns < -AHEAD_NS:
        return (
            f'{source}: clock skew: stamps are at least {-least_ns * 1e-6:.0f} ms ahead of our '
            f'clock; synchronise the clocks or set use_sim_time on both sides'
        )
    if least_ns > BEHIND_NS:
        return (
            f'{source}: clock skew: stamps are at least {least_ns * 1e-6:.0f} ms old when they '
            f'come; the clock there is behind ours, or the way here is that long'
        )
    return ''
