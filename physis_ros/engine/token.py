# SPDX-License-Identifier: Apache-2.0
"""What moves in virtual time: streams, their tasks, devices, and the events between them."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from itertools import pairwise
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from physis_ros.engine.cost import BatchCurve, ModelCost
from physis_ros.engine.draws import Draws
from physis_ros.engine.task import Task
from physis_ros.types import FloatArray

S = 1_000_000_000

# Kinds of events: a stream's beat, a task at a stage, a batch's end, a chunk that is out, a device
# told of an observation that it will need.
BEAT, ARRIVE, END, DELIVER, LOOK = range(5)
# Further than this a device never looks ahead: it would only be reckoned to be cut.
FARTHEST = 1024
# Virtual nanoseconds, a number that keeps the order of one instant, kind, what it is about.
Event = tuple[int, int, int, Any]


class Output(NamedTuple):
    """One chunk that came out, in virtual nanoseconds."""

    chunk: int
    beat_ns: int
    enter_ns: int
    observed_ns: int
    out_ns: int


class Lap(NamedTuple):
    """
    Outputs that come again and again.

    :param first: the first of them.
    :param last: the one after them.
    :param times: how many times more.
    :param chunks: by how many chunks, and
    :param span_ns: by how much time each time is later than the one before.
    """

    first: int
    last: int
    times: int
    chunks: int
    span_ns: int


class Token(Task):
    """
    A task of a virtual stream.

    ``extra_s`` is what its stages do beside their block, ``ahead`` the devices that may still
    encode its observation before it comes to them.

    :param owner: the stream.
    :param beat_ns: the beat it entered for.
    :param seen_ns: when its observation was taken.
    """

    __slots__ = ('ahead', 'at', 'beat_ns', 'extra_s', 'left', 'owner', 'seen_ns')

    def __init__(self, owner: VirtualStream, chunk: int, now_ns: int, seen_ns: int) -> None:
        super().__init__(
            owner.index, 0, chunk, chunk, 0, owner.blocks[0], now_ns + owner.allowed_ns, False,
            False, 0, now_ns, now_ns,
        )  # fmt: skip
        self.owner, self.beat_ns, self.seen_ns = owner, owner.beat_ns, seen_ns
        # The stage it is at or on its way to, in chain order, and how many are left with it.
        self.at, self.left = 0, owner.model.stages
        self.extra_s, self.ahead = owner.extra_s, owner.ahead

    def advance(self) -> None:
        """Go on to the next stage."""
        self.at += 1
        self.left -= 1
        if self.left:
            self.step, self.block = self.owner.steps[self.at], self.owner.blocks[self.at]

    def comes_to(self, device: int) -> bool:
        """Tell whether a device has yet to encode its observation, and can do so ahead."""
        return device in self.ahead and self.at <= self.owner.entries[device]

    def encoded(self, device: int) -> None:
        """Note that a device has encoded its observation ahead."""
        stage = self.owner.entries[device]
        self.extra_s = {**self.extra_s, stage: self.extra_s[stage] - self.owner.model.entry_s}
        self.ahead = tuple(other for other in self.ahead if other != device)

    def shift(self, span_ns: int, chunks: int) -> None:
        """Take the place of the task so much later."""
        self.chunk += chunks
        self.turn += chunks
        for name in ('deadline_ns', 'created_ns', 'queued_ns', 'beat_ns', 'seen_ns'):
            setattr(self, name, getattr(self, name) + span_ns)


class VirtualStream:
    """
    A stream that runs.

    :param index: in order of opening.
    :param hosts: device of each stage, in chain order.
    :param period_ns: distance of its beats.
    :param in_flight: most chunks in the pipe.
    :param allowed_ns: from entry to deadline; orders tasks, refuses none.
    :param first_block: number of its model's first block: tasks of one number form batches.
    :param wires_ns: from each stage to the next, and from the last to the output.
    :param rows: of the largest batch.
    """

    def __init__(
        self,
        name: str,
        index: int,
        model: ModelCost,
        hosts: tuple[int, ...],
        period_ns: int,
        in_flight: int,
        allowed_ns: int,
        opened_ns: int,
        first_block: int,
        wires_ns: tuple[int, ...],
        rows: int,
    ) -> None:
        self.name, self.index, self.model, self.hosts = name, index, model, hosts
        self.period_ns, self.in_flight, self.allowed_ns = period_ns, in_flight, allowed_ns
        self.opened_ns, self.wires_ns = opened_ns, wires_ns
        self.steps = tuple(stage // model.blocks for stage in range(model.stages))
        self.blocks = tuple(first_block + s % model.blocks for s in range(model.stages))
        tables = {curve: _times_s(curve, rows) for curve in set(model.curves)}
        self.times_s = [tables[curve] for curve in model.curves]
        # The first stage of a step on each device that begins one: there it encodes, unless it
        # did so ahead, having nothing to run. The first device gets chunk and observation at once.
        self.entries: dict[int, int] = {}
        for stage in range(0, model.stages, model.blocks):
            self.entries.setdefault(hosts[stage], stage)
        self.ahead = tuple(self.entries)[1:] if model.entry_s else ()
        self.extra_s = _extra_s(model, self.entries.values())
        self.turn_ns = round(model.turn_s * S)
        self.hops = frozenset((a, b) for a, b in pairwise(hosts) if a != b)
        # Blocks at which its chunks come to each device from outside.
        self.arrivals: dict[int, set[int]] = {host: set() for host in hosts}
        for before, host, block in zip((-1, *hosts), hosts, self.blocks, strict=False):
            if before != host:
                self.arrivals[host].add(block)
        # Stages on each device, and the time of them all, by rows of the batch each is in.
        self.held = Counter(hosts)
        # Stages from each one on, itself included, that follow on the same device.
        self.runs = _runs(hosts)
        self._chains_s: dict[int, list[float]] = {}
        self.work_s: dict[int, FloatArray] = {host: np.zeros(rows + 1) for host in self.held}
        for stage, host in enumerate(hosts):
            self.work_s[host] += self.times_s[stage % model.blocks]
        self.alive, self.beats_lost, self.next_chunk, self.beat_ns = True, 0, 0, 0
        self.outputs: list[Output] = []
        self.laps: list[Lap] = []
        # Chunks in the pipe; the last chunk done at each stage; tasks that came before their turn.
        self.inside: dict[int, Token] = {}
        self.done = [-1] * model.stages
        self.waiting: dict[tuple[int, int], Token] = {}

    def chain_s(self, rows: int) -> list[float]:
        """Return the time of each stage in a batch of so many rows, in chain order."""
        found = self._chains_s.get(rows)
        if found is None:
            of_pass = [times_s[rows] for times_s in self.times_s]
            found = self._chains_s[rows] = of_pass * self.model.passes
        return found

    def token(self, now_ns: int, seen_ns: int) -> Token:
        """Return the next chunk's task."""
        chunk = self.next_chunk
        self.next_chunk += 1
        token = self.inside[chunk] = Token(self, chunk, now_ns, seen_ns)
        return token

    def table(self) -> npt.NDArray[np.int64]:
        """Return all outputs, those that were skipped included: columns as in :class:`Output`."""
        ran = np.array(self.outputs, dtype=np.int64).reshape(-1, len(Output._fields))
        parts, done = [], 0
        for lap in self.laps:
            parts.append(ran[done : lap.last])
            later = np.array([lap.chunks, *[lap.span_ns] * (ran.shape[1] - 1)])
            times = np.arange(1, lap.times + 1)[:, None, None]
            parts.append((ran[lap.first : lap.last] + times * later).reshape(-1, ran.shape[1]))
            done = lap.last
        return np.concatenate([*parts, ran[done:]])

    def shift(self, lap: Lap) -> None:
        """Take up the state it has after the laps."""
        chunks, span_ns = lap.times * lap.chunks, lap.times * lap.span_ns
        self.laps.append(lap)
        self.next_chunk += chunks
        self.beat_ns += span_ns
        for token in self.inside.values():
            token.shift(span_ns, chunks)
        self.inside = {token.chunk: token for token in self.inside.values()}
        self.waiting = {(token.at, token.chunk): token for token in self.waiting.values()}
        self.done = [chunk + chunks for chunk in self.done]


@dataclass(eq=False)
class VirtualDevice:
    """
    A device that runs.

    :param slow: how many times as long everything takes.
    :param expected_ns: what a batch of so many rows takes on average; slack is reckoned with it.
    :param ends: when the stage that runs will be done, and those that will follow undisturbed.
    :param reach: how many those may be at most; ``farthest``: it is never more.
    :param arrivals: blocks at which tasks come from outside.
    :param draws: factors on the times of its batches; None: always 1.
    :param coming: tasks whose observation it may encode ahead.
    """

    index: int
    speed: float
    ready: list[Token] = field(default_factory=list)
    batch: Sequence[Token] = ()
    running: bool = False
    lost: bool = False
    slow: float = 1.0
    busy_ns: int = 0
    rows: int = 0
    batches: int = 0
    expected_ns: list[float] = field(default_factory=list)
    ends: list[int] = field(default_factory=list)
    reach: int = 1
    farthest: int = FARTHEST
    arrivals: frozenset[int] = frozenset()
    draws: Draws | None = None
    coming: list[Token] = field(default_factory=list)


def _times_s(curve: BatchCurve, rows: int) -> list[float]:
    """Return the time of a batch of 0 .. ``rows`` rows, cut where the curve ends."""
    found = []
    for count in range(rows + 1):
        full, rest = divmod(count, curve.limit)
        found.append(full * curve.times_s[-1] + (curve.times_s[rest - 1] if rest else 0.0))
    return found


def _runs(hosts: Sequence[int]) -> list[int]:
    runs = [1] * len(hosts)
    for stage in range(len(hosts) - 2, -1, -1):
        if hosts[stage] == hosts[stage + 1]:
            runs[stage] += runs[stage + 1]
    return runs


def _extra_s(model: ModelCost, entries: Iterable[int]) -> dict[int, float]:
    """Return what stages do beside their block: encode, where a device enters a step; decode."""
    extra_s = dict.fromkeys(entries, model.entry_s) if model.entry_s else {}
    if model.exit_s:
        last = model.stages - 1
        extra_s[last] = extra_s.get(last, 0.0) + model.exit_s
    return extra_s
