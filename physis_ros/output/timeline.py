# SPDX-License-Identifier: Apache-2.0
"""
The output buffer, played by time: the command at t is the interpolation of the newest chunk at t.

Holds accepted chunks as stretches of time in order. A new chunk is played from its first future
step; the old tail stays until it is covered. Knows no clock, no limits of motion, and not whether
anybody plays.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from physis_ros.output.checks import Gate, GateConfig
from physis_ros.output.interpolate import Curve, Kinds, State, between, fading, through
from physis_ros.output.limits import Limits
from physis_ros.output.merge import Merge, MergeConfig, Voice, ensemble
from physis_ros.output.stretch import Fade, Origin, Sample, Stretch
from physis_ros.output.verdict import ChunkReject, Verdict
from physis_ros.types import ActionChunk

MOST_STRETCHES = 64


@dataclass(frozen=True)
class TimelineConfig:
    """
    How the timeline works.

    :param gate: what is let in.
    :param kinds: interpolation of the joints.
    :param limits: position limits.
    :param merge: how chunks are merged.
    :param depth_ns: a chunk is kept at most so far beyond its arrival; None keeps all of it.
    """

    gate: GateConfig
    kinds: Kinds
    limits: Limits
    merge: MergeConfig
    depth_ns: int | None = None


class Timeline:
    """
    Chunks in, samples out. Single-threaded: offer and ask from one thread.

    ``at`` and ``depth_ns`` answer for the present and the future; the past is forgotten.
    """

    def __init__(self, config: TimelineConfig) -> None:
        self.config = config
        self._gate = Gate(config.gate, config.limits)
        self._stretches: list[Stretch] = []
        self._fades: list[Fade] = []
        self._voices: list[tuple[Voice, Origin]] = []
        self._came = 0

    def reconfigure(self, config: TimelineConfig) -> None:
        """Work in another way from now on; the joints and what was taken stay."""
        self.config = config
        self._gate.reconfigure(config.gate, config.limits)
        if config.merge.policy is not Merge.ENSEMBLE:
            self._voices.clear()

    @property
    def epoch(self) -> int:
        """The epoch being played; -1 before the first."""
        return self._gate.epoch

    def offer(self, chunk: ActionChunk, now_ns: int, depth_ns: int | None = None) -> Verdict:
        """
        Take a chunk, or say why not.

        :param depth_ns: overrides the configured depth for this chunk.
        """
        screened, verdict = self._gate.screen(chunk, now_ns)
        if verdict.new_epoch:
            self.clear()
        if screened is None:
            return verdict
        self._forget(now_ns)
        if len(self._stretches) >= MOST_STRETCHES:
            return Verdict(ChunkReject.OVERFULL, f'more than {MOST_STRETCHES} stretches wait')
        self._gate.passed(chunk)
        limit_ns = self.config.depth_ns if depth_ns is None else depth_ns
        return replace(verdict, from_ns=self._lay(screened, now_ns, limit_ns))

    def begin(self, epoch: int) -> bool:
        """Go on to ``epoch`` and drop everything, unless it is an older one (False)."""
        if not self._gate.begin(epoch):
            return False
        self.clear()
        return True

    def begin_anew(self) -> None:
        """Know no epoch any more: whoever sends chunks from now on counts from 0."""
        self._gate.begin_anew()
        self.clear()

    def clear(self) -> None:
        """Drop every chunk; epoch and sequence stay."""
        self._stretches.clear()
        self._fades.clear()
        self._voices.clear()

    def at(self, time_ns: int) -> Sample | None:
        """Return what to command at ``time_ns``, however old; None when no chunk covers it."""
        said = self._said(time_ns)
        if said is None:
            return None
        state, origin = said
        position, velocity = state.position, state.velocity
        for fade in self._fades:
            if fade.from_ns <= time_ns < fade.to_ns:
                offset, change = fade.curve.at(time_ns)
                position, velocity = position + offset, velocity + change
                # What fades was computed from older inputs, and is part of the command.
                origin = origin if fade.origin is None else origin.joined(fade.origin)
        return Sample(
            time_ns,
            position,
            velocity,
            self.epoch,
            origin.chunks[-1],
            origin.chunks,
            origin.observed_ns,
            origin.input_stamps_ns,
        )

    def join(self, state: State, duration_ns: int) -> None:
        """
        Start from ``state`` at its instant and fade onto the timeline over ``duration_ns``.

        What the robot really does meets what the chunks say, without a jump (start, resume).
        """
        sample = self.at(state.time_ns)
        if sample is None:
            return
        moving = ~self.config.kinds.step
        offset = State(
            state.time_ns,
            (state.position - sample.position) * moving,
            (state.velocity - sample.velocity) * moving,
        )
        self._add_fade(fading(offset, duration_ns), None)

    def depth_ns(self, now_ns: int) -> int:
        """Return how long the timeline can go on from ``now_ns`` without another chunk."""
        until_ns = now_ns
        for stretch in self._stretches:
            if stretch.from_ns > until_ns:
                break
            fresh_ns = stretch.origin.fresh_ns(until_ns, self.config.gate.max_action_age_ns)
            if fresh_ns < until_ns:
                break
            until_ns = max(until_ns, min(stretch.to_ns, fresh_ns))
        return until_ns - now_ns

    def _said(self, time_ns: int) -> tuple[State, Origin] | None:
        """Return what the chunks say of an instant, fades left out, and what is behind it."""
        stretch = self._covering(time_ns)
        if stretch is None:
            return None
        origin = stretch.origin.at(time_ns)
        voices = self._singing(time_ns) if len(origin.chunks) == 1 else ()
        if not voices:
            return State(time_ns, *stretch.curve.at(time_ns)), origin
        for _, other in voices:
            origin = origin.joined(other.at(time_ns))
        merge, kinds = self.config.merge, self.config.kinds
        mean = ensemble([voice for voice, _ in voices], time_ns, merge, kinds)
        return State(time_ns, *mean), origin

    def _covering(self, time_ns: int) -> Stretch | None:
        """Return the stretch played at ``time_ns``; the later one where two touch."""
        for stretch in reversed(self._stretches):
            if stretch.covers(time_ns):
                return stretch
        return None

    def _lay(self, chunk: ActionChunk, now_ns: int, depth_ns: int | None) -> int:
        """Put a screened chunk in its place and return the instant from which it is played."""
        kinds = self.config.kinds
        curve = through(chunk.start_ns, chunk.dt_ns, chunk.actions, kinds)
        origin = Origin.of(chunk)
        switch_ns = self._switch_ns(chunk, now_ns)
        to_ns = chunk.end_ns
        if depth_ns is not None:
            to_ns = max(min(to_ns, now_ns + depth_ns), switch_ns)
            self._shorten(now_ns + depth_ns)
        new = Stretch(switch_ns, to_ns, curve, origin)
        tail = self._tail(new)
        # What begins at this instant is played no more, but may be so already.
        begun = self._said(switch_ns) if switch_ns == now_ns else None
        self._cut(new, tail)
        old = self._said(switch_ns) or begun
        if old is None:
            self._bridge_to(new, now_ns)
        self._stretches.append(new)
        self._keep_tail(new, tail)
        self._add_voice(new, old is not None)
        said = self._said(switch_ns)
        if old is not None and said is not None:
            seam = self.config.merge.seam(old[0], said[0], chunk.dt_ns, kinds)
            if seam is not None:
                self._add_fade(seam, old[1])
        return switch_ns

    def _switch_ns(self, chunk: ActionChunk, now_ns: int) -> int:
        """
        Return when ``chunk`` takes over: at its first future step, the old tail until then.

        Where no old tail reaches that step, as early as the chunk says something.
        """
        steps = max(-((chunk.start_ns - now_ns) // chunk.dt_ns), 0)
        first_ns = chunk.start_ns + steps * chunk.dt_ns
        if self._covering(first_ns) is not None or first_ns == chunk.start_ns:
            return first_ns
        ends = [item.to_ns for item in self._stretches if now_ns <= item.to_ns < first_ns]
        return max([now_ns, *ends])

    def _shorten(self, to_ns: int) -> None:
        """Drop everything after ``to_ns``."""
        kept = [item for item in self._stretches if item.from_ns <= to_ns]
        self._stretches = [replace(item, to_ns=min(item.to_ns, to_ns)) for item in kept]

    def _tail(self, new: Stretch) -> list[Stretch]:
        """Return what is played beyond the end of ``new``."""
        tail = [item for item in self._stretches if item.to_ns >= new.to_ns + new.origin.step_ns]
        if self.config.merge.policy is not Merge.ENSEMBLE:
            return tail
        # A voice that would begin beside it, and has not, is given up.
        return [item for item in tail if not new.from_ns <= item.from_ns < new.to_ns]

    def _cut(self, new: Stretch, tail: Sequence[Stretch]) -> None:
        """Drop everything from the beginning of ``new`` on but ``tail``, its seams and voices."""
        kept = [item for item in self._stretches if item.from_ns < new.from_ns]
        self._stretches = [replace(item, to_ns=min(item.to_ns, new.from_ns)) for item in kept]
        again_ns = new.to_ns + new.origin.step_ns
        self._fades = [
            fade
            for fade in self._fades
            if fade.from_ns < new.from_ns
            or (fade.from_ns >= again_ns and any(item.covers(fade.from_ns) for item in tail))
        ]
        # One that was silent from where a chunk began that is dropped goes on until there.
        self._voices = [
            (voice.uncut(new.from_ns, new.to_ns), origin)
            for voice, origin in self._voices
            if voice.from_ns <= new.from_ns or any(item.curve is voice.curve for item in tail)
        ]

    def _bridge_to(self, new: Stretch, now_ns: int) -> None:
        """Join the end of the old tail to ``new`` when they are one control step apart."""
        if not self._stretches:
            return
        old = self._stretches[-1]
        step_ns = max(old.origin.step_ns, new.origin.step_ns)
        if now_ns <= old.to_ns < new.from_ns <= old.to_ns + step_ns:
            self._stretches.append(self._bridge(old, new))

    def _bridge(self, old: Stretch, new: Stretch) -> Stretch:
        """Return what is played between the end of ``old`` and the beginning of ``new``."""
        said = self._said(old.to_ns)
        first = State(old.to_ns, *old.curve.at(old.to_ns)) if said is None else said[0]
        last = State(new.from_ns, *new.curve.at(new.from_ns))
        curve = between(first, last, self.config.kinds)
        origin = old.origin.at(old.to_ns).joined(new.origin.at(new.from_ns))
        return Stretch(old.to_ns, new.from_ns, curve, origin)

    def _keep_tail(self, new: Stretch, tail: Sequence[Stretch]) -> None:
        """Keep what an older chunk says beyond the end of ``new``."""
        if self.config.merge.policy is Merge.ENSEMBLE:
            # Its voice never stopped: the new one fades out beside it.
            self._stretches += [
                replace(item, from_ns=max(item.from_ns, new.to_ns)) for item in tail
            ]
            return
        for item in tail:
            from_ns = max(item.from_ns, new.to_ns + new.origin.step_ns)
            kept = replace(item, from_ns=from_ns)
            if from_ns == new.to_ns + new.origin.step_ns:
                self._stretches.append(self._bridge(new, kept))
            self._stretches.append(kept)

    def _add_fade(self, curve: Curve, origin: Origin | None) -> None:
        """Let an offset act from its own start to its end."""
        end_ns = curve.start_ns + curve.step_ns
        self._fades.append(Fade(curve.start_ns, end_ns, curve, origin))

    def _add_voice(self, stretch: Stretch, joins: bool) -> None:
        """
        Let the chunk take part in the ensemble, as long as it is fresh enough.

        :param joins: others are singing. One that has not the time left to fade out beside it is
            silent from then on, and what that leaves is a seam.
        """
        if self.config.merge.policy is not Merge.ENSEMBLE:
            return
        stale_ns = stretch.origin.observed_ns + self.config.gate.max_action_age_ns
        to_ns = min(stretch.to_ns, stale_ns)
        faded_ns = min(stretch.from_ns + self.config.merge.blend_ns, to_ns)
        self._voices = [
            (voice, origin)
            if joins and voice.outlasts(faded_ns)
            else (voice.cut(stretch.from_ns), origin)
            for voice, origin in self._voices
        ]
        self._came += 1
        voice = Voice(self._came, stretch.from_ns, to_ns, stretch.curve)
        self._voices.append((voice, stretch.origin))
        del self._voices[:-MOST_STRETCHES]

    def _singing(self, time_ns: int) -> list[tuple[Voice, Origin]]:
        """Return the voices that cover ``time_ns``, oldest first."""
        return [item for item in self._voices if item[0].sings(time_ns)]

    def _forget(self, now_ns: int) -> None:
        """Drop what lies in the past."""
        self._stretches = [item for item in self._stretches if item.to_ns >= now_ns]
        self._fades = [item for item in self._fades if item.to_ns > now_ns]
        self._voices = [item for item in self._voices if item[0].to_ns >= now_ns]
