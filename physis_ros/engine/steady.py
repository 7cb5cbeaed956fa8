# SPDX-License-Identifier: Apache-2.0
"""
Skips what repeats itself in virtual time, exactly.

Without jitter everything that happens follows from the state: which tasks are where, what is due
when, seen from now. When a state comes again, all that lies between the two comes again, too, as
long as nothing interferes. Looked for at multiples of all periods, where alone it can come again.
"""

from __future__ import annotations

from math import lcm
from typing import TYPE_CHECKING, Any

from physis_ros.engine.token import BEAT, END, LOOK, Lap, Token

if TYPE_CHECKING:
    from physis_ros.engine.virtual import VirtualPool

NEVER = 1 << 62
_LOOKS = 400

_State = tuple[Any, ...]
# Of each stream: next chunk, lost beats; of each device: busy time, rows, batches.
Counts = tuple[tuple[tuple[int, int], ...], tuple[tuple[int, int, int], ...]]


class Steady:
    """
    Looks for a state that has been there before, from now to the end of a run.

    ``next_ns`` is when to look next: before anything of that instant has happened.
    """

    def __init__(self, pool: VirtualPool, until_ns: int) -> None:
        self._pool, self._until_ns = pool, until_ns
        periods = [stream.period_ns for stream in pool.streams.values()]
        self._stride_ns = lcm(*periods, pool.sensor_ns or 1)
        self._seen: dict[_State, tuple[int, Counts]] = {}
        self.next_ns = pool.now_ns + self._stride_ns if periods else NEVER

    def look(self) -> None:
        """Compare with all states so far; skip to the end when this one was among them."""
        now_ns = self.next_ns
        self.next_ns += self._stride_ns
        if now_ns + self._stride_ns > self._until_ns or len(self._seen) == _LOOKS:
            self.next_ns = NEVER
            return
        self._pool.settle(now_ns)
        state = _state(self._pool, now_ns)
        before = self._seen.setdefault(state, (now_ns, counts(self._pool)))
        if before[0] < now_ns:
            times = (self._until_ns - now_ns) // (now_ns - before[0])
            repeat(self._pool, now_ns, now_ns - before[0], times, before[1])
            self.next_ns = NEVER


def repeat(pool: VirtualPool, now_ns: int, span_ns: int, times: int, before: Counts) -> None:
    """
    Let what happened in the last ``span_ns`` have happened so many times more.

    :param before: what :func:`counts` said at the beginning of that span.
    """
    streams, devices = before
    for stream, (chunk, lost) in zip(pool.streams.values(), streams, strict=True):
        chunks, outputs = stream.next_chunk - chunk, len(stream.outputs)
        stream.beats_lost += times * (stream.beats_lost - lost)
        # As many as entered: an output may fall on either side of an instant, beats do not.
        stream.shift(Lap(outputs - chunks, outputs, times, chunks, span_ns))
    for device, (busy_ns, rows, batches) in zip(pool.devices, devices, strict=True):
        device.busy_ns += times * (device.busy_ns - busy_ns)
        device.rows += times * (device.rows - rows)
        device.batches += times * (device.batches - batches)
        device.ends = [end_ns + times * span_ns for end_ns in device.ends]
    pool.pressure.shift(now_ns, times * span_ns)
    # All by the same: what was in order stays in order.
    pool.events[:] = [(at + times * span_ns, *rest) for at, *rest in pool.events]


def _state(pool: VirtualPool, now_ns: int) -> _State:
    streams = tuple(
        (s.beat_ns - now_ns, *(_task(token, now_ns) for token in s.inside.values()))
        for s in pool.streams.values()
    )
    # How long a task has been here matters only to whoever lets it wait for company.
    waited = pool.batch_wait_ns and tuple(
        token.queued_ns - now_ns for s in pool.streams.values() for token in s.inside.values()
    )
    events = tuple(
        _event(at - now_ns, kind, what)
        for at, _, kind, what in sorted(pool.events) if kind != END
    )  # fmt: skip
    # How far a device looks ahead changes nothing: only the stage that runs counts.
    running = tuple(
        (d.ends[0] - now_ns, *(_name(token) for token in d.batch)) if d.ends else ()
        for d in pool.devices
    )
    return streams, waited, events, running, pool.pressure.state(now_ns)


def _task(token: Token, now_ns: int) -> _State:
    return (
        token.owner.next_chunk - token.chunk, token.at, token.deadline_ns - now_ns,
        token.beat_ns - now_ns, token.created_ns - now_ns, token.seen_ns - now_ns, token.ahead,
    )  # fmt: skip


def _event(after_ns: int, kind: int, what: Any) -> _State:
    if kind in (BEAT, LOOK):
        return after_ns, kind, what.index
    return after_ns, kind, _name(what)


def _name(token: Token) -> tuple[int, int]:
    return token.owner.index, token.owner.next_chunk - token.chunk


def counts(pool: VirtualPool) -> Counts:
    """Return what adds up over time, for each stream and each device."""
    streams = tuple((s.next_chunk, s.beats_lost) for s in pool.streams.values())
    return streams, tuple((d.busy_ns, d.rows, d.batches) for d in pool.devices)
