# SPDX-License-Identifier: Apache-2.0
"""
A real servo node to which hostile messages are given, at the callbacks of its topics.

Time comes from /clock alone, hostile times included. Whatever comes: no exception, nothing goes
out that is not finite, and each message is counted, taken or refused for the right reason.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from itertools import chain
from typing import Any, cast

import numpy as np
from hypothesis import strategies as st
from rclpy.parameter import Parameter

from hostile.chunks import ChunkRecipe, chunks
from hostile.gate import TAKEN, Gate, joint_refusal
from hostile.messages import (
    JOINTS,
    SECOND_NS,
    ClockRecipe,
    JointRecipe,
    Strategy,
    When,
    clocks,
    joints,
)
from physis_ros.output.verdict import ChunkReject
from physis_ros.ros.clock import FORWARD_JUMP_NS, LATEST_NS, Jump
from physis_ros.ros.servo import ServoNode
from physis_ros.ros.ticking import SimulatedTicks
from physis_ros.session.decode import time_ns

COMMAND_TYPES = ('joint_state', 'joint_trajectory', 'float64_multi_array')
TOPICS = ('action_chunk', 'joint_states', 'clock')
LOWER, UPPER = [-3.1, 0.1], [2.6, 2.8]
START_NS = 1_700_000_000 * SECOND_NS
UNCOUNTED = {('joint_states', TAKEN), ('clock', TAKEN)}
# What a message was counted as: topic and reason.
Counts = Counter[tuple[str, str]]


def events() -> Strategy:
    """Return a strategy of series: chunks, joint states, times, and ticks that pass between."""
    one = st.one_of(chunks(), chunks(), joints(), clocks(), st.integers(1, 12))
    return st.lists(one, min_size=4, max_size=24)


class Sink:
    """Stands where a publisher is, and keeps what is published."""

    def __init__(self) -> None:
        self.messages: list[Any] = []

    def publish(self, message: Any) -> None:
        """Keep a message."""
        self.messages.append(message)

    def get_subscription_count(self) -> int:
        """Say that someone listens, so that everything is published."""
        return 1

    def wait_for_all_acked(self, timeout: Any) -> bool:
        """Say that all were received."""
        return True


class HostileServo:
    """
    A servo node, and what it publishes.

    :param context: an initialised one.
    :param command_type: of its commands.
    """

    def __init__(self, context: Any, command_type: str) -> None:
        given = {'joints': list(JOINTS), 'command_type': command_type, 'use_sim_time': True}
        given.update(lower=LOWER, upper=UPPER, settle_ms=0.0)
        overrides = [Parameter(name, value=value) for name, value in given.items()]
        self.node = cast(
            'Any',
            ServoNode(context=context, namespace=command_type, parameter_overrides=overrides),
        )
        self.commands, self.playback, self.status = Sink(), Sink(), Sink()
        self._clock: Any = self.node._ros_time
        self._jumps: list[Jump] = []
        self._watching = self._clock.on_jump(self._jumps.append)
        self.node.bring_up()
        self.playing = self.node.playing
        self.inputs = self.playing.inputs
        outputs = self.playing.outputs
        outputs._command_out, outputs._playback_out = self.commands, self.playback
        self.node._status._out = self.status
        self.period_ns: int = self.playing.player.config.period_ns
        self._ticks = SimulatedTicks(self.period_ns, self._clock.now_ns)
        self.begin()

    @property
    def now_ns(self) -> int:
        """The time of the node."""
        return int(self._clock.now_ns())

    def begin(self) -> None:
        """Forget what came before, as for another engine; the clock is a sound one."""
        self._show(ClockRecipe(When(START_NS, True)))
        self.inputs._begin_anew()
        self.playing.player.activate(self.now_ns)
        self.gate = Gate(self.playing.player.config)
        self.tick()
        for sink in (self.commands, self.playback, self.status):
            sink.messages.clear()

    def tick(self) -> None:
        """Let a servo period pass."""
        self._show(ClockRecipe(When(self.period_ns, False)))

    def play(self, series: Sequence[Any]) -> Counts:
        """
        Begin anew, give it a series, and hold everything that it says against the rules.

        :returns: how many messages there were, by topic and the reason they are counted under.
        """
        self.begin()
        expected = Counts()
        for event in series:
            if isinstance(event, int):
                for _ in range(event):
                    self.tick()
                continue
            before = self.counted()
            met = event.topic, self.meet(event)
            # At once: a time that went back makes the node count chunks anew.
            grown = dict(self.counted() - before)
            assert grown == ({} if met in UNCOUNTED else {met: 1}), (grown, met, event)
            expected[met] += 1
            self.tick()
        self._hold()
        return expected

    def meet(self, recipe: ChunkRecipe | JointRecipe | ClockRecipe) -> str:
        """Give it a message; return the reason under which that must be counted."""
        now_ns = self.now_ns
        if isinstance(recipe, ClockRecipe):
            return self._show(recipe)
        if isinstance(recipe, ChunkRecipe):
            self.inputs._on_chunk(recipe.message(now_ns))
            return self.gate.judge(recipe, now_ns)
        self.inputs._on_joints(recipe.message(now_ns))
        return joint_refusal(recipe)

    def counted(self) -> Counts:
        """Return what the node has counted so far, and the jumps of the time that it was told."""
        chunks = self.playing.player.account._arrivals.figures()
        found = {('action_chunk', reason): count for reason, count in chunks.rejected.items()}
        found['action_chunk', TAKEN] = chunks.accepted
        joint_counts = self.inputs.joints.refused.items()
        found.update({('joint_states', reason): count for reason, count in joint_counts})
        found['clock', 'refused'] = self._clock.refused
        for name, backward in (('back', True), ('ahead', False)):
            found['clock', name] = sum(jump.backward is backward for jump in self._jumps)
        return Counts(found)

    def close(self) -> None:
        """Take the node away."""
        self._watching.unregister()
        self.node.close()
        self.node.destroy_node()

    def _show(self, recipe: ClockRecipe) -> str:
        """Publish a time, and let the ticks that have become due pass; return what it must be."""
        before_ns, message = self.now_ns, recipe.message(self.now_ns)
        self.node._time_source._clock_sub.callback(message)
        for due_ns in self._ticks.due(self.now_ns):
            self.playing._simulated_tick(due_ns)
        shown_ns = time_ns(message.clock)
        sound = 0 <= shown_ns <= LATEST_NS
        assert self.now_ns == (shown_ns if sound else before_ns)
        if not sound:
            return 'refused'
        if shown_ns < before_ns:
            return 'back'
        # From 0 the time begins; that is no jump.
        ahead = shown_ns - before_ns >= FORWARD_JUMP_NS and before_ns > 0
        return 'ahead' if ahead else TAKEN

    def _hold(self) -> None:
        """Hold what was published against the rules, the status beside what was counted."""
        self.playing._publish_status()
        status = self.status.messages[-1]
        refused = {item.name: item.count for item in status.reject_reasons}
        assert set(refused) <= {item.value for item in ChunkReject}
        assert refused == self.node._status._report().values['chunks_rejected']
        told = {('action_chunk', reason): count for reason, count in refused.items()}
        told['action_chunk', TAKEN] = status.chunks_accepted
        counted = self.counted()
        assert told == {key: n for key, n in counted.items() if key[0] == 'action_chunk'}
        assert status.chunks_rejected == sum(refused.values())
        assert status.chunks_received == status.chunks_accepted + status.chunks_rejected
        for message in self.commands.messages:
            check(message)
        for tick in self.playback.messages:
            assert np.isfinite([*tick.position, *tick.velocity]).all(), tick


def positions(message: Any) -> list[list[float]]:
    """Return all positions that a command asks for."""
    if hasattr(message, 'points'):
        return [list(point.positions) for point in message.points]
    return [list(message.data if hasattr(message, 'data') else message.position)]


def velocities(message: Any) -> list[list[float]]:
    """Return all velocities that a command asks for."""
    if hasattr(message, 'points'):
        return [list(point.velocities) for point in message.points]
    return [list(message.velocity)] if hasattr(message, 'velocity') else []


def check(message: Any) -> None:
    """Hold one command against what may be asked of the robot."""
    asked = np.array(positions(message))
    assert asked.size and asked.shape[1] == len(JOINTS)
    assert np.isfinite(asked).all(), message
    assert all(map(np.isfinite, chain.from_iterable(velocities(message)))), message
    if hasattr(message, 'points'):
        times = [time_ns(point.time_from_start) for point in message.points]
        assert times[0] > 0 and times == sorted(set(times))
