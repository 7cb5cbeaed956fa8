# SPDX-License-Identifier: Apache-2.0
"""
The account of one stream: how old, how late, how often without a chunk (rule B9).

Fed with commands, chunks and their verdicts only, all of which are on topics, so that the figures
recomputed from a recording equal the live ones. Memory is constant.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from itertools import pairwise

from physis_ros.errors import ParameterError
from physis_ros.output.arrivals import Arrivals
from physis_ros.output.figures import AgeFigures, Figures, Phase, UnderrunFigures
from physis_ros.output.seams import Seams
from physis_ros.output.sketch import Sketch
from physis_ros.output.verdict import Verdict
from physis_ros.types import ActionChunk, ChunkTimes, Command, Play, Reason

MS = 1e-6
US = 1e-3
LATE, LOST, OLD = 'late', 'lost', 'old'
MOST_INPUTS = 32
PARTS = ('receive', 'queue', 'engine', 'decode', 'hand_over', 'buffer')


@dataclass(frozen=True)
class AccountConfig:
    """
    What counts as in time.

    :param period_ns: the servo period.
    :param max_action_age_ns: greatest age of a command's oldest input.
    :param late_ns: a tick this much behind its schedule is late.
    :param settle_ns: after the first playable chunk of an epoch, so long is still warm-up.
    """

    period_ns: int
    max_action_age_ns: int
    late_ns: int
    settle_ns: int = 0

    def __post_init__(self) -> None:
        """Refuse measures that mean nothing."""
        for name in ('period_ns', 'max_action_age_ns', 'late_ns'):
            if getattr(self, name) <= 0:
                raise ParameterError(name, '> 0', getattr(self, name))
        if self.settle_ns < 0:
            raise ParameterError('settle_ns', '>= 0', self.settle_ns)


class Account:
    """
    Counts one stream. Single-threaded.

    A **due tick** is every servo period that passes while the stream is active, after warm-up and
    with a running clock; a gap of n periods between two ticks makes n due ticks. A due tick
    **misses** its deadline when no fresh command was played in it, for one cause each: ``lost``
    (the servo did not tick), the underrun's reason (no chunk could be played), ``old`` (the
    command was older than ``max_action_age_ns``), ``late`` (the tick came more than ``late_ns``
    after its schedule). Where the clock was set ahead no period has passed. Warm-up lasts from
    activation or a new epoch until ``settle_ns`` after the first command played from a chunk of
    it. A tick with the stamp of the one before is a paused clock and counts nothing; an earlier
    stamp begins all figures anew.
    """

    def __init__(self, config: AccountConfig) -> None:
        self.config = config
        self._window = -1
        self._begin(0)

    def _begin(self, now_ns: int) -> None:
        """Forget everything: a new window of figures."""
        self._window += 1
        self._since_ns = self._until_ns = now_ns
        self._phase, self._epoch = Phase.INACTIVE, -1
        self._played_ns: int | None = None
        self._last: Command | None = None
        self._gap_ns: int | None = None
        self._ticks = self._warmup = self._paused = self._due = 0
        self._misses: Counter[str] = Counter()
        self._age = Sketch()
        self._inputs: dict[str, Sketch] = {}
        self._parts = {name: Sketch() for name in PARTS}
        self._period, self._late = Sketch(), Sketch()
        self._rungs: Counter[str] = Counter()
        self._reasons: Counter[str] = Counter()
        self._underruns = self._underrun_ns = self._longest_ns = 0
        self._arrivals, self._seams = Arrivals(), Seams()

    @property
    def phase(self) -> Phase:
        """Whether ticks enter the figures now."""
        return self._phase

    def interval_p99_ns(self, enough: int) -> int | None:
        """Return the p99 of the measured chunk interval; None below ``enough`` intervals."""
        return self._arrivals.interval_p99_ns(enough)

    def chunk(self, chunk: ActionChunk, verdict: Verdict) -> None:
        """Count an offered chunk."""
        self._arrivals.chunk(chunk, verdict)

    def malformed(self) -> None:
        """Count a message that could not even be read as a chunk."""
        self._arrivals.malformed()

    def tick(self, command: Command, late_ns: int = 0, stepped: bool = False) -> None:
        """
        Count one tick, silent ones too.

        :param late_ns: the tick's instant minus its scheduled one.
        :param stepped: the clock was set ahead since the last tick: the time between passed for
            nobody.
        """
        last = self._last
        if last is not None and command.stamp_ns == last.stamp_ns:
            self._paused += 1
            return
        if last is not None and command.stamp_ns < last.stamp_ns:
            self._begin(command.stamp_ns)
            last = None
        elif last is None:
            self._since_ns = command.stamp_ns
        if stepped and last is not None:
            self._skip(command.stamp_ns - last.stamp_ns)
            last = None
        self._until_ns, self._last = command.stamp_ns, command
        self._arrivals.played(command)
        counted = self._phase is Phase.ACTIVE
        self._turn(command)
        if self._phase is not Phase.ACTIVE:
            self._end_gap(command.stamp_ns)
            self._warmup += self._phase is Phase.WARMING
            return
        self._count(command, last if counted else None, max(late_ns, 0))

    def _skip(self, passed_ns: int) -> None:
        """Take time out of an underrun and of warm-up that the clock was only set ahead by."""
        if self._gap_ns is not None:
            self._gap_ns += passed_ns
        if self._played_ns is not None:
            self._played_ns += passed_ns

    def _turn(self, command: Command) -> None:
        """Work out the phase at this tick."""
        if command.reason is Reason.INACTIVE:
            self._phase, self._played_ns = Phase.INACTIVE, None
            return
        playing = command.play is Play.PLAYING
        begun = command.epoch != self._epoch if playing else command.reason is Reason.EPOCH
        if self._phase is Phase.INACTIVE or begun:
            self._phase, self._played_ns = Phase.WARMING, None
        if playing:
            self._epoch = command.epoch
        if self._phase is Phase.WARMING and playing:
            if self._played_ns is None:
                self._played_ns = command.stamp_ns
            if command.stamp_ns - self._played_ns >= self.config.settle_ns:
                self._phase = Phase.ACTIVE

    def _count(self, command: Command, last: Command | None, late_ns: int) -> None:
        """Count a tick after warm-up; ``last`` is the one before when that counted too."""
        self._ticks += 1
        self._due += 1
        self._late.add(late_ns * US)
        if last is not None:
            self._between(command, last)
        cause = self._cause(command, late_ns)
        if cause is not None:
            self._misses[cause] += 1
        if command.play is Play.PLAYING:
            self._end_gap(command.stamp_ns)
            self._aged(command)
        else:
            self._underrun(command)

    def _between(self, command: Command, last: Command) -> None:
        """Count what shows between two ticks: period, ticks lost, seam."""
        passed_ns, period_ns = command.stamp_ns - last.stamp_ns, self.config.period_ns
        self._period.add(abs(passed_ns - period_ns) * US)
        lost = max((passed_ns + period_ns // 2) // period_ns - 1, 0)
        self._due += lost
        if lost:
            self._misses[LOST] += lost
        self._seams.step(last, command)

    def _cause(self, command: Command, late_ns: int) -> str | None:
        """Return why this tick missed its deadline; None when it did not."""
        if command.play is not Play.PLAYING:
            return command.reason.value
        if command.age_ns is not None and command.age_ns > self.config.max_action_age_ns:
            return OLD
        return LATE if late_ns > self.config.late_ns else None

    def _underrun(self, command: Command) -> None:
        """Count a tick without a chunk."""
        self._rungs[command.play.value] += 1
        self._reasons[command.reason.value] += 1
        if self._gap_ns is None:
            self._gap_ns = command.stamp_ns
            self._underruns += 1

    def _end_gap(self, now_ns: int) -> None:
        """Close the underrun, if there is one."""
        if self._gap_ns is None:
            return
        gap_ns = now_ns - self._gap_ns
        self._underrun_ns += gap_ns
        self._longest_ns = max(self._longest_ns, gap_ns)
        self._gap_ns = None

    def _aged(self, command: Command) -> None:
        """Measure the age of a played command and where it came from."""
        if command.age_ns is None:
            return
        self._age.add(command.age_ns * MS)
        for name, age_ns in command.input_age_ns.items():
            if name not in self._inputs and len(self._inputs) < MOST_INPUTS:
                self._inputs[name] = Sketch()
            if name in self._inputs:
                self._inputs[name].add(age_ns * MS)
        observed_ns = command.stamp_ns - command.age_ns
        times = self._arrivals.times(command, observed_ns)
        if times is not None:
            for name, part_ns in parts(observed_ns, times, command.stamp_ns).items():
                self._parts[name].add(part_ns * MS)

    def figures(self) -> Figures:
        """Return everything counted so far; an underrun that lasts is counted up to now."""
        running_ns = 0 if self._gap_ns is None else self._until_ns - self._gap_ns
        return Figures(
            phase=self._phase,
            window=self._window,
            since_ns=self._since_ns,
            until_ns=self._until_ns,
            ticks=self._ticks,
            warmup_ticks=self._warmup,
            paused_ticks=self._paused,
            due=self._due,
            misses=self._misses.total(),
            misses_by_cause=dict(self._misses),
            age_ms=AgeFigures(
                worst=self._age.figures(),
                inputs={name: sketch.figures() for name, sketch in self._inputs.items()},
                **{name: sketch.figures() for name, sketch in self._parts.items()},
            ),
            underruns=UnderrunFigures(
                count=self._underruns,
                ticks=self._rungs.total(),
                by_rung=dict(self._rungs),
                by_reason=dict(self._reasons),
                time_ns=self._underrun_ns + running_ns,
                longest_ns=max(self._longest_ns, running_ns),
            ),
            chunks=self._arrivals.figures(),
            period_error_us=self._period.figures(),
            tick_late_us=self._late.figures(),
            seam_position=self._seams.position.figures(),
            seam_velocity=self._seams.velocity.figures(),
        )


def parts(observed_ns: int, times: ChunkTimes, commanded_ns: int) -> dict[str, int]:
    """Split a command's age; the parts add up to ``commanded_ns - observed_ns``."""
    instants = (
        observed_ns,
        times.receive_ns,
        times.enter_ns,
        times.denoised_ns,
        times.decoded_ns,
        times.publish_ns,
        commanded_ns,
    )
    spans = (late - early for early, late in pairwise(instants))
    return dict(zip(PARTS, spans, strict=True))
