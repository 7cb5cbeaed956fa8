# SPDX-License-Identifier: Apache-2.0
"""
Newer observations for chunks that are in the pipe (E11).

A chunk's first action stays meant for the instant it was planned for; what a newer observation
changes is how long before that it was made, which is told anew. What else a chunk entered with,
such as committed actions, goes along.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from physis_ros.session.inputs import InputBuilder
from physis_ros.session.pacing import Newest
from physis_ros.session.pool_port import PoolPort
from physis_ros.session.produced import Entry, Instant, Sight
from physis_ros.types import Observation


def may_show(shown: int, most: int, inside_ns: int, response_ns: int) -> bool:
    """
    Share out what a chunk may be shown over the time it is in the pipe.

    However often the camera looks, the last of them is then left for the end.

    :param shown: newer observations it has been shown.
    :param most: how many it may be.
    :param inside_ns: since its entry.
    :param response_ns: how long it is expected to be inside.
    """
    return shown < most and shown * response_ns <= most * inside_ns


class Renewal:
    """
    Shows one stream's chunks what is newer. Single-threaded: its owner's lock is around all calls.

    :param pool: has the stream open.
    :param stream: its name.
    :param inputs: makes a model's inputs.
    """

    def __init__(self, pool: PoolPort, stream: str, inputs: InputBuilder) -> None:
        self._pool, self._stream, self._inputs = pool, stream, inputs
        self._dt_ns = pool.spec.actions.dt_ns

    def wanted(self, inside: Iterable[Entry], newest: Newest | None) -> bool:
        """Say whether the newest frame is news to a chunk in the pipe."""
        if newest is None or not self._pool.renewals:
            return False
        return any(entry.newest.observation.stamp_ns < newest.stamp_ns for entry in inside)

    def show(
        self, inside: Mapping[int, Entry], seen: Observation, now: Instant, response_ns: int
    ) -> int:
        """
        Show an observation to all chunks that may use it.

        :param inside: the chunks in the pipe, by number.
        :param response_ns: how long a chunk is expected to be there.
        :returns: how many were shown it.
        """
        count = 0
        for chunk, entry in inside.items():
            if self._fits(entry, seen, now, response_ns):
                count += self._show(chunk, entry, Sight(now, seen))
        return count

    def _fits(self, entry: Entry, seen: Observation, now: Instant, response_ns: int) -> bool:
        # An observation from after the first action would need a negative delay.
        newer = entry.newest.observation.stamp_ns < seen.stamp_ns <= entry.start_ns
        inside_ns = now.stream_ns - entry.at.stream_ns
        return newer and may_show(len(entry.shown), self._pool.renewals, inside_ns, response_ns)

    def _show(self, chunk: int, entry: Entry, sight: Sight) -> bool:
        delay_steps = (entry.start_ns - sight.observation.stamp_ns) / self._dt_ns
        inputs = self._inputs.build(sight.observation, delay_steps, entry.prefix)
        version = self._pool.observe(self._stream, chunk, inputs)
        if version is None:
            return False
        entry.shown[version] = sight
        return True
