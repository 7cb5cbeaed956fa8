# SPDX-License-Identifier: Apache-2.0
"""
A servo and its recorder in virtual time, to set what one counts beside what the other holds.

The servo does what ``ros/servo_playing.py`` does, in that order, with a real player. Each topic
comes in its order, with its own delay to servo and to recorder; the servo may be held up.
"""

from __future__ import annotations

import random
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from physis_ros.clock import ClockSteps
from physis_ros.evaluation.bag import Record
from physis_ros.evaluation.recording import Lost, Recording, Series, Tick
from physis_ros.output.figures import Phase
from physis_ros.ros import conversions, servo_report
from physis_ros.ros.ready import Ready
from physis_ros.session import decode
from physis_ros.session.player import Player, PlayerConfig, PlayerState
from physis_ros.types import ActionChunk, ChunkTimes, Command

MS = 1_000_000
S = 1_000_000_000
NAMES = ('shoulder', 'elbow')
CONFIG = PlayerConfig(NAMES, servo_rate_hz=50.0, settle_ns=300 * MS)
# Of the recorder's clock over the steady one, and of the stream clock.
SYSTEM_NS, STREAM_NS = 1_700_000_000 * S, 1000 * S
PUBLISHED_NS = 20_000


@dataclass(frozen=True)
class Traits:
    """
    What may go wrong, by how often.

    :param late: ticks that are late, by up to two periods.
    :param stall: ticks before which the servo stands still for up to two seconds.
    :param lag: chunks whose way to the recorder takes up to 100 ms longer than that to the servo.
    :param busy: chunks that wait for a servo that serves others first.
    :param blind: chunks made from the observation of the one before.
    :param old: chunks that come when nearly all of their steps have passed.
    """

    late: float = 0.0
    stall: float = 0.0
    lag: float = 0.0
    busy: float = 0.0
    blind: float = 0.0
    old: float = 0.0


@dataclass
class Kept:
    """What the recorder has, with the instants at which it came [ns]."""

    ticks: list[tuple[int, Any]] = field(default_factory=list)
    chunks: list[tuple[int, Any]] = field(default_factory=list)
    statuses: list[tuple[int, Any]] = field(default_factory=list)
    lost: list[Lost] = field(default_factory=list)


class World:
    """
    An engine, a servo that plays it, and a recorder.

    :param seed: of all that is left to chance.
    """

    def __init__(self, seed: int, traits: Traits, config: PlayerConfig = CONFIG) -> None:
        self.chance, self.traits, self.config = random.Random(seed), traits, config
        self.now_ns, self.offset_ns = 10 * S, STREAM_NS
        self.kept = Kept()
        self.recording = True
        self.keeps: Callable[[str], bool] = lambda topic: True
        self.running = True
        self._epoch, self._number, self._next_ns = 0, 0, 10 * S + 100 * MS
        self._observed_ns = 0
        # The clock of the camera over that of the servo.
        self.ahead_ns = 0
        self._waiting: list[tuple[int, Any]] = []
        self._times: dict[tuple[int, int], Any] = {}
        self._arrived_ns: dict[str, int] = {}
        self.start_servo()

    # What happens.

    def start_servo(self) -> None:
        """Start the servo, or another one after it."""
        self.player, self._steps = Player(self.config), ClockSteps()
        self.begun_ns = self.now_ns
        self._produce(self.now_ns)
        self._waiting.clear()
        self._due_ns = self.now_ns + self.config.period_ns
        self._braking, self._active, self._paused = False, True, False
        self._newest, self._other = (-1, -1), False
        self._phase, self._told_ns, self._since = Phase.INACTIVE, 0, 0
        self._command: Command | None = None
        self.player.activate(self.stream_ns())

    def pause(self, paused: bool) -> None:
        """Pause the player or let it go on, as the service does."""
        self._paused = paused
        self._turn()

    def reset(self) -> None:
        """Come to rest and begin anew, as the service does."""
        if self._plays:
            self._brake()

    def new_epoch(self) -> None:
        """Let the engine forget."""
        self._epoch, self._number = self._epoch + 1, 0

    def new_engine(self) -> None:
        """Start another engine, which counts from 0 again."""
        self._epoch = self._number = 0
        self._waiting.clear()
        self._other = self._newest != (-1, -1)

    def jump(self, by_ns: int) -> None:
        """Set the stream clock; the engine begins a new epoch."""
        self.offset_ns += by_ns
        self._next_ns = self.now_ns + 50 * MS
        self.new_epoch()

    def set(self, **changes: Any) -> None:
        """Set parameters of the servo."""
        self.player.reconfigure(PlayerConfig(**{**vars(self.player.config), **changes}))
        self._tell()

    def stream_ns(self, at_ns: int | None = None) -> int:
        """Return the time of the stream clock."""
        return (self.now_ns if at_ns is None else at_ns) + self.offset_ns

    # The engine.

    def _produce(self, until_ns: int) -> None:
        """Publish what is due."""
        while self._next_ns <= until_ns:
            at_ns, self._next_ns = self._next_ns, self._next_ns + 100 * MS
            if self.running:
                self._publish(self._chunk(self.stream_ns(at_ns)), at_ns)

    def _chunk(self, now_ns: int) -> ActionChunk:
        """Make a chunk that is published now."""
        if not self._often('blind') or self._observed_ns > now_ns - 20 * MS:
            self._observed_ns = now_ns - self.chance.randrange(60, 120) * MS
        seen_ns = min(self._observed_ns, now_ns - 20 * MS)
        ahead_ns = -self.chance.randrange(355, 385) * MS if self._often('old') else 20 * MS
        parts = (0, 5, 10, 15, 18)
        times = ChunkTimes(*(seen_ns + part * MS for part in parts), publish_ns=now_ns)
        number, self._number = self._number, self._number + 1
        return ActionChunk(
            'arm', self._epoch, number, now_ns + ahead_ns, 25 * MS, NAMES,
            np.outer(np.sin(np.arange(16) / 5 + number), [1.0, 0.5]),
            {'camera': seen_ns + self.ahead_ns, 'joints': seen_ns + self.ahead_ns + 3 * MS}, times,
        )  # fmt: skip

    def _publish(self, chunk: ActionChunk, at_ns: int) -> None:
        """Send a chunk to the servo and to the recorder."""
        message = conversions.chunk_message(chunk)
        self._waiting.append((at_ns + self.chance.randrange(1, 4) * MS, message))
        lag_ns = self.chance.randrange(1, 100) * MS if self._often('lag') else 0
        self._record('chunks', at_ns + MS + lag_ns, message)

    def _record(self, topic: str, at_ns: int, message: Any) -> None:
        """Let the recorder have a message, after what it had of the topic before."""
        at_ns = self._arrived_ns[topic] = max(at_ns, self._arrived_ns.get(topic, 0) + 1)
        if not self.recording:
            return
        if self.keeps(topic):
            getattr(self.kept, topic).append((SYSTEM_NS + at_ns, message))
        else:
            lost = Lost(SYSTEM_NS + at_ns, int(topic == 'ticks'), int(topic == 'chunks'))
            self.kept.lost.append(lost)

    def _often(self, trait: str) -> bool:
        """Whether it happens now."""
        return self.chance.random() < getattr(self.traits, trait)

    # The servo, as in ros/servo_playing.py.

    def run(self, seconds: float) -> None:
        """Let time pass, tick by tick."""
        end_ns = self.now_ns + round(seconds * S)
        while self._due_ns < end_ns:
            self._tick()

    def _tick(self) -> None:
        """Serve what has come, then tick."""
        due_ns, period_ns = self._due_ns, self.config.period_ns
        if self._often('stall'):
            self.now_ns += self.chance.randrange(2000) * MS
        self.now_ns = max(self.now_ns, due_ns - period_ns // 10)
        self._produce(self.now_ns)
        self._serve()
        ready = self._worked_out(due_ns)
        late_ns = self.chance.randrange(2 * period_ns) if self._often('late') else 30_000
        self.now_ns = max(self.now_ns, due_ns + late_ns)
        if ready.overtaken(self.now_ns, self.player.config):
            ready = self._worked_out(self.now_ns)
        command = ready.sent(self.now_ns)
        stepped = self._steps.ahead_ns(command.stamp_ns, self.now_ns) > 0
        self.player.account.tick(command, self.now_ns - due_ns, stepped)
        self._account(command, (due_ns, self.now_ns, self.now_ns + PUBLISHED_NS))
        self._end_braking()
        self._since += 1
        if self._since >= 5 or self.player.account.phase is not self._phase:
            self._since, self._phase = 0, self.player.account.phase
            self._tell()
        self._due_ns += period_ns
        if self.now_ns > self._due_ns:
            self._due_ns += (self.now_ns - self._due_ns) // period_ns * period_ns

    def _worked_out(self, at_ns: int) -> Ready:
        return Ready(at_ns, self.player.decide(self.stream_ns(at_ns)), None)

    def _serve(self) -> None:
        """Take what has come, or not all of it."""
        self.player.measured(np.zeros(2), self.stream_ns())
        while self._waiting and self._waiting[0][0] <= self.now_ns and not self._often('busy'):
            chunk = decode.chunk(self._waiting.pop(0)[1])
            number = chunk.epoch, chunk.chunk
            self._times[number] = conversions.chunk_message(chunk).times
            if self._other and number < self._newest:
                self._newest, self._other = (-1, -1), False
                self.player.begin_anew()
            if self.player.offer(chunk, self.stream_ns()).accepted:
                self._newest = max(self._newest, number)

    def _account(self, command: Command, steady_ns: tuple[int, int, int]) -> None:
        """Publish what a tick was."""
        self._command, self._told_ns = command, steady_ns[1]
        phase = self.player.account.phase
        message = conversions.playback_message(
            command, self._times.get((command.epoch, command.chunk)), stream='arm',
            warm_up=phase is Phase.WARMING, due=phase is Phase.ACTIVE, begun_ns=self.begun_ns,
            steady_ns=steady_ns,
        )  # fmt: skip
        self._record('ticks', self.now_ns + MS // 2, message)

    def _tell(self) -> None:
        """Publish the status."""
        if self._command is None:
            return
        snapshot = servo_report.Snapshot(
            now_ns=self.stream_ns(), stream='arm', begun_ns=self.begun_ns,
            figures=self.player.account.figures(), command=self._command,
            ticked_ns=self._told_ns, settings=self.player.config, last_age_ns=None, depth_ns=0,
            subscribers=1,
        )  # fmt: skip
        self._record('statuses', self.now_ns + MS, servo_report.status(snapshot))

    @property
    def _plays(self) -> bool:
        return self.player.state is not PlayerState.INACTIVE

    def _turn(self) -> None:
        wanted = self._active and not self._paused
        if self._braking or wanted is self._plays:
            return
        if wanted:
            self.player.activate(self.stream_ns())
        else:
            self._brake()

    def _brake(self) -> None:
        self._braking = True
        self.player.brake(self.stream_ns())
        self._end_braking()

    def _end_braking(self) -> None:
        if self._braking and self.player.at_rest:
            self._braking = False
            self._hold()
            self._turn()

    def _hold(self) -> None:
        self._account(self.player.deactivate(self.stream_ns()), (self.now_ns,) * 3)

    def end_servo(self) -> None:
        """Send the final hold and the last status."""
        self._active = self._braking = False
        self.now_ns += MS
        self._hold()
        self._tell()

    # The recorder.

    def recorded(self) -> Recording:
        """Return what was recorded."""
        chunks = [(log_ns, decode.chunk(message)) for log_ns, message in self.kept.chunks]
        nothing = Series(np.empty(0, np.int64), np.empty((0, 0)))
        return Recording(
            configuration={}, ticks=tuple(tick(*item) for item in self.kept.ticks),
            chunks=tuple(chunk for _, chunk in chunks),
            chunk_log_ns=tuple(log_ns for log_ns, _ in chunks), malformed_log_ns=(), episodes=(),
            camera_ns=nothing.stamps_ns, joint_names=NAMES, joints=nothing, tip=None, target=None,
            stages=(),
            statuses=tuple(Record('/status', *item) for item in self.kept.statuses),
            lost=tuple(self.kept.lost),
        )  # fmt: skip


def tick(log_ns: int, message: Any) -> Tick:
    """Return a tick as a recording gives it."""
    steady = (message.scheduled_steady_ns, message.ticked_steady_ns, message.published_steady_ns)
    published_ns = decode.time_ns(message.times.publish)
    return Tick(
        log_ns, decode.command(message), message.warm_up, message.due, 0, *steady,
        message.begun_steady_ns, published_ns,
    )  # fmt: skip
