# SPDX-License-Identifier: Apache-2.0
"""
What became of the chunks that arrived, and the instants of the last ones.

Kept for so long as a command may still be played from them, in a table of fixed size.
"""

from __future__ import annotations

from collections import Counter, OrderedDict

from physis_ros.output.figures import ChunkFigures
from physis_ros.output.sketch import Sketch
from physis_ros.output.verdict import ChunkReject, Verdict
from physis_ros.types import ActionChunk, ChunkTimes, Command, Play

REMEMBERED = 256


class Arrivals:
    """Counts chunks. Single-threaded."""

    def __init__(self) -> None:
        self._times: OrderedDict[tuple[int, int], tuple[int, ChunkTimes]] = OrderedDict()
        self._waiting: OrderedDict[tuple[int, int], None] = OrderedDict()
        self._rejected: Counter[str] = Counter()
        self._accepted = self._late = self._superseded = 0
        self._skipped = self._clamped = self._future = 0
        self._interval, self._response = Sketch(), Sketch()
        self._published: tuple[int, int] | None = None
        # What was played last, and before that: it may still fade out.
        self._newest = self._before = (-1, -1)

    def chunk(self, chunk: ActionChunk, verdict: Verdict) -> None:
        """Count an offered chunk."""
        if verdict.reject is not None:
            self._rejected[verdict.reject.value] += 1
            return
        self._accepted += 1
        self._late += verdict.late
        self._skipped += verdict.skipped
        self._clamped += verdict.clamped
        self._future += chunk.observed_ns > chunk.times.receive_ns
        number = chunk.epoch, chunk.chunk
        self._times[number] = chunk.observed_ns, chunk.times
        self._times.move_to_end(number)
        self._waiting[number] = None
        if len(self._times) > REMEMBERED:
            self._times.popitem(last=False)
        if len(self._waiting) > REMEMBERED:
            self._waiting.popitem(last=False)
        self._timed(chunk.epoch, chunk.times)

    def malformed(self) -> None:
        """Count a message that is no chunk."""
        self._rejected[ChunkReject.MALFORMED.value] += 1

    def _timed(self, epoch: int, times: ChunkTimes) -> None:
        """Measure interval and response latency of an accepted chunk."""
        self._response.add((times.publish_ns - times.receive_ns) * 1e-6)
        if self._published is not None and self._published[0] == epoch:
            self._interval.add(max(times.publish_ns - self._published[1], 0) * 1e-6)
        self._published = epoch, times.publish_ns

    def played(self, command: Command) -> None:
        """Note that a chunk was played: those accepted before it never will be."""
        if command.play is not Play.PLAYING:
            return
        played = command.epoch, command.chunk
        if played != self._newest:
            self._before, self._newest = self._newest, played
        while self._waiting:
            oldest = next(iter(self._waiting))
            if oldest > played:
                return
            del self._waiting[oldest]
            self._superseded += oldest < played

    def times(self, command: Command, observed_ns: int) -> ChunkTimes | None:
        """
        Return the instants of the chunk behind a command that was made of what was observed then.

        That is its newest one, or an older one that still has a part in it: the one that was
        played before, as a rule. None when it is forgotten.
        """
        for number in ((command.epoch, command.chunk), self._before):
            seen_ns, times = self._times.get(number, (None, None))
            if number[0] == command.epoch and seen_ns == observed_ns:
                return times
        for (epoch, chunk), (seen_ns, times) in reversed(self._times.items()):
            if epoch == command.epoch and chunk < command.chunk and seen_ns == observed_ns:
                return times
        return None

    def interval_p99_ns(self, enough: int) -> int | None:
        """Return the p99 of the interval; None below ``enough`` of them."""
        value = self._interval.quantile(0.99) if self._interval.n >= enough else None
        return None if value is None else int(value * 1e6)

    def figures(self) -> ChunkFigures:
        """Return everything counted so far."""
        return ChunkFigures(
            accepted=self._accepted,
            late=self._late,
            superseded=self._superseded,
            rejected=dict(self._rejected),
            steps_skipped=self._skipped,
            steps_clamped=self._clamped,
            interval_ms=self._interval.figures(),
            response_ms=self._response.figures(),
            future_inputs=self._future,
        )
