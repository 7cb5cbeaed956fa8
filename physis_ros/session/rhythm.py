# SPDX-License-Identifier: Apache-2.0
"""
When chunks are made, and for when: on a beat, ahead of time; or in turns with their playing.

Pure policy on stream time. On the beat chunks overlap, and each is planned for when it will be in
the player's hands. In lock-step the robot waits while the model thinks: look, think, act, in
turns. That wastes the time of both, but takes no period, no expectation and no model that knows of
delays.
"""

from __future__ import annotations

from dataclasses import replace
from typing import NamedTuple, Protocol

from physis_ros.backbones.base import ModelSpec
from physis_ros.session.delay import ResponseEstimate, ToldDelay, told_delay
from physis_ros.session.pacing import Newest, Pacer
from physis_ros.session.produced import Entry
from physis_ros.session.producer_config import Pacing, ProducerConfig
from physis_ros.types import Observation

NO_DELAY = ToldDelay(0, False)


class Plan(NamedTuple):
    """
    What a chunk is planned for at its entry.

    :param told: the delay the model is told.
    :param start_ns: the instant its first action is meant for, as far as that is known.
    :param due_ns: when it should be there.
    """

    told: ToldDelay
    start_ns: int
    due_ns: int


class Rhythm(Protocol):
    """Single-threaded: its owner's lock is around all calls."""

    @property
    def skipped(self) -> int:
        """Beats without an entry."""

    @property
    def response_ns(self) -> int:
        """The expected time from entry to publishing."""

    def reconfigure(self, config: ProducerConfig) -> None:
        """Go on with another configuration of the same pacing."""

    def reset(self) -> None:
        """Start over: the next frame enters at once (new epoch, resumed)."""

    def wait_ns(self, now_ns: int, newest: Newest | None, interval_ns: int) -> int | None:
        """Say when to enter; as :meth:`physis_ros.session.pacing.Pacer.wait_ns`."""

    def plan(self, now_ns: int, observation: Observation) -> Plan:
        """Plan a chunk that enters now."""

    def entered(self, now_ns: int, stamp_ns: int) -> None:
        """Note an entry with the frame of a stamp."""

    def finished(self, entry: Entry, publish_ns: int) -> Entry:
        """Note a finished chunk; return what was planned for it, and what became of that."""


def rhythm(config: ProducerConfig, spec: ModelSpec) -> Rhythm:
    """Return the rhythm that is asked for."""
    return Lockstep(config, spec) if config.pacing is Pacing.LOCKSTEP else Beat(config, spec)


class Beat:
    """
    A chunk every period, from the newest observation (E7).

    :param config: period, expected response, margin.
    :param spec: of the model.
    """

    def __init__(self, config: ProducerConfig, spec: ModelSpec) -> None:
        self._config, self._spec = config, spec
        self._pacer = Pacer(config.period_ns)
        self._response = ResponseEstimate(config.expected_response_ns)

    @property
    def skipped(self) -> int:
        """Beats without an entry."""
        return self._pacer.skipped

    @property
    def response_ns(self) -> int:
        """The expected time from entry to publishing."""
        return self._response.value_ns

    def reconfigure(self, config: ProducerConfig) -> None:
        """Go on with another period and margin."""
        self._config, self._pacer.period_ns = config, config.period_ns

    def reset(self) -> None:
        """Start over."""
        self._pacer.reset()

    def wait_ns(self, now_ns: int, newest: Newest | None, interval_ns: int) -> int | None:
        """Say when to enter."""
        return self._pacer.wait_ns(now_ns, newest, interval_ns)

    def plan(self, now_ns: int, observation: Observation) -> Plan:
        """Plan for when the chunk will be in the player's hands."""
        dt_ns = self._spec.actions.dt_ns
        told = told_delay(
            now_ns - observation.stamp_ns,
            self._response.value_ns,
            self._config.margin_ns,
            dt_ns,
            self._spec.max_delay_steps,
        )
        start_ns = observation.stamp_ns + told.steps * dt_ns
        return Plan(told, start_ns, start_ns)

    def entered(self, now_ns: int, stamp_ns: int) -> None:
        """Move to the next beat."""
        self._pacer.entered(now_ns, stamp_ns)

    def finished(self, entry: Entry, publish_ns: int) -> Entry:
        """Learn how long it took."""
        self._response.add(max(0, publish_ns - entry.at.stream_ns))
        return entry


class Lockstep:
    """
    A chunk at a time, from a picture taken when the one before has been played to its end.

    It begins when it is there, so all of its steps are played, however long the model took.

    :param config: margin; the expected response is for deadlines only.
    :param spec: of the model.
    """

    def __init__(self, config: ProducerConfig, spec: ModelSpec) -> None:
        self._margin_ns = config.margin_ns
        self._playing_ns = (spec.actions.horizon - 1) * spec.actions.dt_ns
        self._response = ResponseEstimate(config.expected_response_ns)
        self.reset()

    @property
    def skipped(self) -> int:
        """There are no beats."""
        return 0

    @property
    def response_ns(self) -> int:
        """The expected time from entry to publishing."""
        return self._response.value_ns

    def reconfigure(self, config: ProducerConfig) -> None:
        """Go on with another margin."""
        self._margin_ns = config.margin_ns

    def reset(self) -> None:
        """Start over."""
        self._inside, self._turn_ns = False, 0

    def wait_ns(self, now_ns: int, newest: Newest | None, interval_ns: int) -> int | None:
        """Wait for a picture from after the end of what was played last."""
        if self._inside or newest is None or newest.stamp_ns < self._turn_ns:
            return None
        return 0

    def plan(self, now_ns: int, observation: Observation) -> Plan:
        """Tell no delay: the world waits."""
        return Plan(NO_DELAY, observation.stamp_ns, now_ns + self._response.value_ns)

    def entered(self, now_ns: int, stamp_ns: int) -> None:
        """Let no other in."""
        self._inside = True

    def finished(self, entry: Entry, publish_ns: int) -> Entry:
        """Begin it now; the next picture is one from after its last step."""
        self._response.add(max(0, publish_ns - entry.at.stream_ns))
        start_ns = publish_ns + self._margin_ns
        self._inside, self._turn_ns = False, start_ns + self._playing_ns
        return replace(entry, start_ns=start_ns)
