# SPDX-License-Identifier: Apache-2.0
"""
The player: action chunks in, one command a tick out.

Wires timeline, ladder and account. Pure policy: the servo node owns the clock and the topics and
says what time it is. No torch here, so a controller machine needs none.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from physis_ros.output.account import Account
from physis_ros.output.figures import Phase
from physis_ros.output.interpolate import NS, State
from physis_ros.output.ladder import Ladder, LadderConfig
from physis_ros.output.limits import usable
from physis_ros.output.motion import Motion
from physis_ros.output.stretch import Sample
from physis_ros.output.timeline import Timeline
from physis_ros.output.verdict import ChunkReject, Verdict
from physis_ros.session.bounds import Bounds
from physis_ros.session.foresight import Foresight
from physis_ros.session.player_config import PlayerConfig, PlayerState
from physis_ros.types import ActionChunk, Command, FloatArray, Play, Reason

__all__ = ['Player', 'PlayerConfig', 'PlayerState']

ENOUGH_INTERVALS = 20
LEAST_DEPTH_NS = 200_000_000
NOTHING = np.zeros(0)
# Without a command for so long (a process that stood still, a clock that was set) the robot is no
# longer where its last one would have led.
ABSENCE_NS = 100_000_000
BRIEF = (Play.HOLD, Play.RAMP)


class Player:
    """
    Plays one stream.

    Single-threaded: call every method from one thread. All times are of one stream clock, which
    the caller reads; it may stand still and go back.

    :param config: how.
    """

    def __init__(self, config: PlayerConfig) -> None:
        self.account = Account(config.account)
        self._timeline = Timeline(config.timeline)
        self._active = self._braking = self._turned = self._changed = False
        self._use(config)
        self._forget()

    def _use(self, config: PlayerConfig) -> None:
        """Play in this way."""
        self.config = config
        self._bounds = Bounds(config)
        self._limits = self._bounds.position
        self._ladder_config = config.ladder

    def _forget(self) -> None:
        """Drop everything that was true of a time that is gone."""
        self._timeline.clear()
        self._command: Command | None = None
        self._ladder: Ladder | None = None
        self._motion: Motion | None = None
        self._moved: State | None = None
        self._measured: State | None = None
        self._offered_ns: int | None = None
        self._began_ns: int | None = None

    def begin_anew(self) -> None:
        """Know no epoch: another engine's chunks come. The motion goes on, and so does a pause."""
        self._timeline.begin_anew()
        if self._command is not None:
            self._command = replace(self._command, epoch=self.epoch)

    def check(self, config: PlayerConfig) -> None:
        """Refuse a configuration that cannot take over; raises as ``check_change`` of it."""
        config.check_change(self.config, None if self._moved is None else self._moved.position)

    def reconfigure(self, config: PlayerConfig) -> None:
        """Play in another way from the next tick on; what that changes of the motion fades in."""
        self.check(config)
        self._use(config)
        self.account.config = config.account
        self._timeline.reconfigure(config.timeline)
        self._motion, self._changed = None, True

    @property
    def state(self) -> PlayerState:
        """What it does now."""
        if not self._active or self._braking:
            return PlayerState.INACTIVE
        if self.account.phase is not Phase.ACTIVE or self._command is None:
            return PlayerState.WARMING
        playing = self._command.play is Play.PLAYING
        return PlayerState.PLAYING if playing else PlayerState.UNDERRUN

    @property
    def epoch(self) -> int:
        """The epoch being played; -1 before the first."""
        return self._timeline.epoch

    def depth_ns(self, now_ns: int) -> int:
        """Return how long it can go on without another chunk."""
        return self._timeline.depth_ns(now_ns)

    def offer(self, chunk: ActionChunk, now_ns: int) -> Verdict:
        """Take a chunk, or say why not; a higher epoch begins by itself."""
        verdict = self._judge(chunk, now_ns)
        if verdict.new_epoch:
            self._turn(now_ns)
        if verdict.accepted:
            self._offered_ns = now_ns
        self.account.chunk(chunk, verdict)
        return verdict

    def _judge(self, chunk: ActionChunk, now_ns: int) -> Verdict:
        """Let the timeline decide, when there is anybody to play."""
        if not self._active or self._braking:
            return Verdict(ChunkReject.INACTIVE, 'the player is not active')
        return self._timeline.offer(chunk, now_ns, self._deepest_ns())

    def _deepest_ns(self) -> int | None:
        """Return how far beyond its arrival a chunk counts; None for all of it."""
        if self.config.depth_ns is not None:
            return self.config.depth_ns
        interval_ns = self.account.interval_p99_ns(ENOUGH_INTERVALS)
        if interval_ns is None:
            return None
        return max(int(interval_ns * self.config.depth_intervals), LEAST_DEPTH_NS)

    def measured(self, position: FloatArray, stamp_ns: int) -> bool:
        """
        Take the joints' measured position [A]; False when it is not usable.

        Needed to start and to go on after silence, never to play.
        """
        if position.shape != (len(self.config.names),) or not usable(position):
            return False
        self._measured = State(stamp_ns, position.copy(), np.zeros(len(position)))
        return True

    def activate(self, now_ns: int) -> None:
        """Begin: what was there before is not played, and the start is from the measured state."""
        measured = self._measured
        self._forget()
        if measured is not None and measured.time_ns <= now_ns:
            self._measured = measured
        self._active, self._braking = True, False

    def brake(self, now_ns: int, most_ns: int | None = None) -> None:
        """
        Come to rest by the ladder's ramp, in ``most_ns`` if limits allow; play nothing that comes.

        Deactivate, or activate again, once ``at_rest``.
        """
        self._braking = True
        if self._moved is not None and not self.at_rest:
            config = self._ladder_config.braking(most_ns)
            self._ladder = self._going_down(config, self._moved, now_ns)

    @property
    def at_rest(self) -> bool:
        """Whether the last command moves nothing."""
        last = self._command
        return last is None or last.play is Play.SILENT or not last.velocity.any()

    def deactivate(self, now_ns: int) -> Command:
        """End: return the final hold, at rest where the last command was; silent if none was."""
        moved = self._moved
        self._active = self._braking = False
        self._moved = self._ladder = self._motion = None
        self._timeline.clear()
        if moved is None:
            final = self._silence(now_ns, Reason.INACTIVE)
        else:
            rest = np.zeros(len(moved.position))
            final = self._rung(now_ns, Play.HOLD, Reason.INACTIVE, moved.position, rest)
        self._command = final
        self.account.tick(final)
        return final

    def reset(self, epoch: int, now_ns: int) -> bool:
        """Go on to ``epoch``: nothing older is played from now on. False for an older epoch."""
        if not self._timeline.begin(epoch):
            return False
        self._turn(now_ns)
        return True

    def _turn(self, now_ns: int) -> None:
        """Note a new epoch: even a clock that stands still repeats nothing of the one before."""
        self._offered_ns, self._began_ns, self._turned = None, now_ns, True

    def tick(self, now_ns: int, scheduled_ns: int, stepped: bool = False) -> Command:
        """
        Return the command for ``now_ns``.

        The same command again when the clock stands still; when it went back, everything is
        dropped and the stream starts anew from the next measured state.

        :param scheduled_ns: when this tick was due; only the account looks at it.
        :param stepped: the clock was set ahead since the last tick; only the account looks.
        """
        command = self.decide(now_ns)
        self.account.tick(command, now_ns - scheduled_ns, stepped)
        return command

    def decide(self, now_ns: int) -> Command:
        """
        Return what :meth:`tick` does, without its account.

        For whoever works a command out ahead of its instant and tells the account once it is sent.
        """
        last = self._command
        if last is not None and now_ns == last.stamp_ns and not self._turned:
            return last
        if last is not None and now_ns < last.stamp_ns:
            self._forget()
        self._turned = False
        command = self._within(self._decide(now_ns))
        return self._remember(command)

    def _remember(self, command: Command) -> Command:
        """Keep the last command, and where it left the robot."""
        self._command = command
        if command.play is not Play.SILENT:
            self._moved = State(command.stamp_ns, command.position, command.velocity)
        return command

    def _within(self, command: Command) -> Command:
        """Keep a command within the limits of motion."""
        if self._bounds.still or command.play is not Play.PLAYING:
            return command
        self._motion, kept = self._bounds.follow(self._motion, command)
        return kept

    def _decide(self, now_ns: int) -> Command:
        """Choose between a chunk and the ladder."""
        if not self._active:
            return self._silence(now_ns, Reason.INACTIVE)
        if self._braking:
            return self._descend(now_ns, Reason.INACTIVE)
        sample = self._timeline.at(now_ns)
        if sample is None or not self._fresh(sample):
            return self._descend(now_ns, self._why(sample, now_ns))
        if self._must_join(sample):
            start = self._start(now_ns)
            if start is None and self.config.require_measured:
                return self._silence(now_ns, Reason.NO_OBSERVATION)
            if start is not None:
                sample = self._join(start, sample)
        self._ladder, self._began_ns, self._changed = None, None, False
        return self._bounds.played(sample)

    def _must_join(self, sample: Sample) -> bool:
        """Whether the robot is anywhere but on the timeline."""
        last = self._command
        if last is None or last.play is not Play.PLAYING or last.epoch != sample.epoch:
            return True
        if self._changed:
            return True
        return sample.time_ns - last.stamp_ns > ABSENCE_NS

    def _fresh(self, sample: Sample) -> bool:
        """Whether a sample is young enough; exactly the greatest age still is."""
        return sample.time_ns - sample.observed_ns <= self.config.max_action_age_ns

    def _why(self, sample: Sample | None, now_ns: int) -> Reason:
        """Return why no chunk can be played."""
        if sample is not None:
            return Reason.EXPIRED
        if self._lately(self._began_ns, now_ns):
            return Reason.EPOCH
        if self._lately(self._offered_ns, now_ns):
            return Reason.CHUNK_LATE
        seen = self._moved is not None or self._measured is not None
        return (
            Reason.NO_CHUNK if seen or not self.config.require_measured else Reason.NO_OBSERVATION
        )

    def _lately(self, then_ns: int | None, now_ns: int) -> bool:
        """Whether something happened not longer ago than a chunk may be missing."""
        return then_ns is not None and now_ns - then_ns <= self.config.chunk_timeout_ns

    def _descend(self, now_ns: int, reason: Reason) -> Command:
        """Command the rung of the ladder that this underrun has come to."""
        if self._moved is None:
            return self._silence(now_ns, reason)
        if self._ladder is None:
            self._ladder = self._going_down(self._ladder_config, self._moved, now_ns)
        rung = self._ladder.rung(now_ns)
        lately = now_ns - self._moved.time_ns <= ABSENCE_NS
        if rung is Play.SILENT and lately and self._moved.velocity.any():
            # The instant of rest lay between two ticks; the robot is told to be there.
            rung = Play.RAMP
        if rung is Play.SILENT:
            return self._silence(now_ns, reason)
        position, velocity, acceleration = self._ladder.state(now_ns)
        if now_ns >= self._ladder.rest_ns:
            velocity = np.zeros(len(position))
        command = self._rung(now_ns, rung, reason, position, velocity)
        self._motion, kept = self._bounds.led(command, acceleration)
        return kept

    def _going_down(self, config: LadderConfig, moved: State, now_ns: int) -> Ladder:
        """Return the ladder that leaves the last motion within the limits."""
        acceleration = None if self._motion is None else self._motion.acceleration
        return Ladder(config, self._leaving(moved, now_ns), acceleration)

    def _leaving(self, moved: State, now_ns: int) -> State:
        """Where the ladder begins: at the last command, or now when ticks were lost meanwhile."""
        if now_ns - moved.time_ns <= 2 * self.config.period_ns:
            return moved
        return replace(moved, time_ns=now_ns)

    def _start(self, now_ns: int) -> State | None:
        """Return where the robot is: its last command, or measured if it has been left alone."""
        last, moved = self._command, self._moved
        silent = last is None or last.play is Play.SILENT
        if moved is not None and not silent and now_ns - moved.time_ns <= ABSENCE_NS:
            passed_s = (now_ns - moved.time_ns) * NS
            position = moved.position + moved.velocity * passed_s
            return State(now_ns, *self._limits.stopped(position, moved.velocity))
        measured = self._measured
        if measured is not None and self._recent(measured, now_ns):
            return replace(measured, time_ns=now_ns)
        if moved is not None:
            return State(now_ns, moved.position, np.zeros(len(moved.position)))
        return None

    def _recent(self, measured: State, now_ns: int) -> bool:
        """Whether a measured state counts: neither old nor of a clock that is far ahead."""
        age_ns = now_ns - measured.time_ns
        return -self.config.skew_ns <= age_ns <= self.config.state_age_ns

    def _join(self, start: State, sample: Sample) -> Sample:
        """Fade from where the robot is onto the timeline."""
        self._timeline.join(start, self._join_ns(start, sample))
        return self._timeline.at(sample.time_ns) or sample

    def _join_ns(self, start: State, sample: Sample) -> int:
        """Return how long that takes: briefly after a moment's underrun, else gently."""
        last = self._command
        if last is not None and last.play in BRIEF and last.epoch == sample.epoch:
            return self.config.blend_ns
        off = float(np.max(np.abs(start.position - sample.position)))
        # The steepest point of the fade is 1.5 times its mean slope.
        return max(self.config.start_blend_ns, int(1.5 * off / self.config.start_speed / NS))

    def _rung(
        self, now_ns: int, play: Play, reason: Reason, position: FloatArray, velocity: FloatArray
    ) -> Command:
        """Make a command that comes from no chunk."""
        return Command(
            now_ns, play, reason, self.config.names, position, velocity, epoch=self.epoch
        )

    def _silence(self, now_ns: int, reason: Reason) -> Command:
        """Make the command that commands nothing."""
        self._motion = None
        return self._rung(now_ns, Play.SILENT, reason, NOTHING, NOTHING)

    def upcoming(self, now_ns: int, count: int, dt_ns: int) -> tuple[Command, ...]:
        """
        Return what would be commanded at ``now_ns + i * dt_ns``, i = 1.., as things are.

        Continues the last tick without a jump, for ``count`` points or until at rest, and ends
        with a ramp to rest: the last velocity is 0. Empty where nothing is commanded. For
        multi-point trajectories. Changes nothing, and nothing of it is accounted.
        """
        last = self._command
        if not self._active or last is None or last.play is Play.SILENT:
            return ()
        foresight = Foresight(
            self._ladder_config,
            self.config.period_ns,
            self._sampled,
            self._descended,
            self._bounds.foretell,
        )
        last = replace(last, stamp_ns=now_ns)
        return foresight.points(last, self._motion, self._ladder, count, dt_ns)

    def _sampled(self, time_ns: int) -> Command | None:
        """Return the command of the timeline at a future instant; None where there is none."""
        sample = self._timeline.at(time_ns)
        return self._bounds.played(sample) if sample is not None and self._fresh(sample) else None

    def _descended(self, ladder: Ladder, time_ns: int) -> Command:
        """Return the command of a ladder at a future instant, at rest when it is silent."""
        rung, position, velocity = ladder.at(time_ns)
        if rung is Play.SILENT:
            rung, velocity = Play.RAMP, np.zeros(len(position))
        return self._rung(time_ns, rung, Reason.NONE, *self._limits.stopped(position, velocity))
