# SPDX-License-Identifier: Apache-2.0
"""
The engine in virtual time: the same tasks, rules and batching, with times from a cost model.

Event-driven and deterministic; no clock, no thread, no tensor is touched. Plans predict with it,
and the pool simulator runs traces on it. A task runs when its state has come and its predecessor
is done (E1); a device takes the batch that :func:`form_batch` gives it (E6).
"""

from __future__ import annotations

import heapq
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

from physis_ros.engine.batching import form_batch
from physis_ros.engine.cost import ModelCost
from physis_ros.engine.devices import DevicePool
from physis_ros.engine.task import Task
from physis_ros.errors import ParameterError

S = 1_000_000_000


@dataclass(frozen=True)
class Output:
    """One chunk that came out, in virtual nanoseconds."""

    chunk: int
    beat_ns: int
    enter_ns: int
    observed_ns: int
    out_ns: int


@dataclass
class VirtualStream:
    """
    A stream that runs.

    :param hosts: device of each stage, in chain order.
    :param period_ns: distance of its beats.
    :param in_flight: most chunks in the pipe.
    :param allowed_ns: from entry to deadline; orders tasks, refuses none.
    :param encodes: stages that encode the observation: the first of a device that enters a step.
    """

    name: str
    index: int
    model: ModelCost
    hosts: tuple[int, ...]
    period_ns: int
    in_flight: int
    allowed_ns: int
    opened_ns: int
    encodes: frozenset[int]
    outputs: list[Output] = field(default_factory=list)
    beats_lost: int = 0
    alive: bool = True
    next_chunk: int = 0
    beat_ns: int = 0
    inside: dict[int, tuple[int, int, int]] = field(default_factory=dict)
    done: list[int] = field(default_factory=list)
    waiting: dict[tuple[int, int], Task] = field(default_factory=dict)


@dataclass
class _DeviceState:
    ready: list[Task] = field(default_factory=list)
    running: bool = False
    lost: bool = False
    slow: float = 1.0
    busy_ns: int = 0
    rows: int = 0
    batches: int = 0


class VirtualPool:
    """
    Devices and streams in virtual time. Not thread-safe.

    :param max_batch: most rows of one batch.
    :param sensor_ns: interval of observations; 0: always a fresh one.
    :param jitter: factor on each batch's time, drawn anew each time.
    """

    def __init__(
        self,
        pool: DevicePool,
        max_batch: int,
        sensor_ns: int = 0,
        jitter: Callable[[], float] = lambda: 1.0,
    ) -> None:
        if max_batch < 1:
            raise ParameterError('max_batch', '>= 1', max_batch)
        self.pool, self.now_ns, self._limit = pool, 0, max_batch
        self._sensor_ns, self._jitter = sensor_ns, jitter
        self.devices = [_DeviceState() for _ in pool.devices]
        self.streams: dict[str, VirtualStream] = {}
        self._by_index: dict[int, VirtualStream] = {}
        self._blocks: dict[str, int] = {}
        self._events: list[tuple[int, int, Callable[[], None]]] = []
        self._sequence = 0

    def at(self, when_ns: int, act: Callable[[], None]) -> None:
        """Do something at a virtual instant; acts of one instant run in the order given."""
        self._sequence += 1
        heapq.heappush(self._events, (when_ns, self._sequence, act))

    def run(self, until_ns: int) -> None:
        """Let virtual time pass."""
        while self._events and self._events[0][0] <= until_ns:
            self.now_ns, _, act = heapq.heappop(self._events)
            act()
        self.now_ns = until_ns

    def open(
        self,
        name: str,
        model: ModelCost,
        hosts: Sequence[int],
        period_s: float,
        in_flight: int,
        allowed_s: float,
        phase_s: float = 0.0,
    ) -> VirtualStream:
        """Begin a stream; its first beat is ``phase_s`` from now."""
        stream = VirtualStream(
            name, len(self._by_index), model, tuple(hosts), round(period_s * S), in_flight,
            round(allowed_s * S), self.now_ns, _encodes(model, hosts), done=[-1] * model.stages,
        )  # fmt: skip
        self.streams[name] = self._by_index[stream.index] = stream
        self._blocks.setdefault(model.name, len(self._blocks) << 16)
        stream.beat_ns = self.now_ns + round(phase_s * S)
        self.at(stream.beat_ns, lambda: self._beat(stream))
        return stream

    def close(self, name: str) -> VirtualStream:
        """End a stream; what it has in the pipe is dropped."""
        stream = self.streams.pop(name)
        stream.alive = False
        for device in self.devices:
            device.ready = [task for task in device.ready if task.stream != stream.index]
        return stream

    def slow_down(self, device: int, factor: float) -> None:
        """Make everything a device starts from now on take ``factor`` times as long."""
        self.devices[device].slow = factor

    def lose(self, device: int) -> list[str]:
        """Take a device away; return the streams that ran on it, which end."""
        self.devices[device].lost = True
        gone = [s.name for s in self.streams.values() if device in s.hosts]
        for name in gone:
            self.close(name)
        return gone

    def queues(self) -> list[int]:
        """Return the tasks that are ready at each device."""
        return [len(device.ready) for device in self.devices]

    # Entry (E7): a beat that finds the pipe full waits, and then takes what is newest then.

    def _beat(self, stream: VirtualStream) -> None:
        if not stream.alive:
            return
        if len(stream.inside) < stream.in_flight:
            self._enter(stream)

    def _enter(self, stream: VirtualStream) -> None:
        late_ns = self.now_ns - stream.beat_ns
        lost = max(0, (late_ns + stream.period_ns // 2) // stream.period_ns)
        stream.beats_lost += lost
        seen_ns = self.now_ns - self.now_ns % self._sensor_ns if self._sensor_ns else self.now_ns
        chunk, stream.next_chunk = stream.next_chunk, stream.next_chunk + 1
        stream.inside[chunk] = (stream.beat_ns, self.now_ns, seen_ns)
        stream.beat_ns += (lost + 1) * stream.period_ns
        self.at(max(stream.beat_ns, self.now_ns), lambda: self._beat(stream))
        task = Task(
            stream.index, 0, chunk, chunk, 0, self._blocks[stream.model.name],
            self.now_ns + stream.allowed_ns, False, False, 0, self.now_ns, self.now_ns,
        )  # fmt: skip
        self._after(self.pool.hop_s, lambda: self._arrive(stream, task, 0))

    # Stages.

    def _arrive(self, stream: VirtualStream, task: Task, stage: int) -> None:
        if not stream.alive:
            return
        if stream.done[stage] != task.chunk - 1:
            stream.waiting[stage, task.chunk] = task
            return
        device = stream.hosts[stage]
        self.devices[device].ready.append(task)
        self._start(device)

    def _start(self, index: int) -> None:
        device = self.devices[index]
        if device.running or device.lost or not device.ready:
            return
        # Everything that comes at this very instant may still join the batch.
        device.running = True
        self.at(self.now_ns, lambda: self._launch(index))

    def _launch(self, index: int) -> None:
        device = self.devices[index]
        batch = form_batch(
            device.ready, self._limit, self.now_ns, self._stages_left, lambda rows: 0.0
        )
        if not batch or device.lost:
            device.running = False
            return
        taken = {id(task) for task in batch}
        device.ready = [task for task in device.ready if id(task) not in taken]
        spent_ns = round(self._seconds(index, batch) * S)
        device.busy_ns += spent_ns
        device.rows, device.batches = device.rows + len(batch), device.batches + 1
        self.at(self.now_ns + spent_ns, lambda: self._end(index, batch))

    def _stages_left(self, task: Task) -> int:
        model = self._by_index[task.stream].model
        return model.stages - _stage(model, task)

    def _seconds(self, index: int, batch: Sequence[Task]) -> float:
        model = self._by_index[batch[0].stream].model
        curve = model.curves[batch[0].block & 0xFFFF]
        full, rest = divmod(len(batch), curve.limit)
        seconds = full * curve.times_s[-1] + (curve.times_s[rest - 1] if rest else 0.0)
        for task in batch:
            stage = _stage(model, task)
            encodes = stage in self._by_index[task.stream].encodes
            seconds += model.entry_s * encodes + model.exit_s * (stage == model.stages - 1)
        device = self.devices[index]
        return seconds / self.pool.devices[index].speed * device.slow * self._jitter()

    def _end(self, index: int, batch: Sequence[Task]) -> None:
        self.devices[index].running = False
        for task in batch:
            stream = self._by_index[task.stream]
            if stream.alive and not self.devices[index].lost:
                self._hand_on(stream, task)
        self._start(index)

    def _hand_on(self, stream: VirtualStream, task: Task) -> None:
        model = stream.model
        stage, chunk = _stage(model, task), task.chunk
        stream.done[stage] = chunk
        follower = stream.waiting.pop((stage, chunk + 1), None)
        if follower is not None:
            self._arrive(stream, follower, stage)
        if stage == model.stages - 1:
            self._after(self.pool.hop_s, lambda: self._deliver(stream, chunk))
            return
        task.step, block = divmod(stage + 1, model.blocks)
        task.block = self._blocks[model.name] + block
        size = model.hidden_bytes if block else model.latent_bytes
        wire_s = self.pool.wire_s(stream.hosts[stage], stream.hosts[stage + 1], size)
        self._after(wire_s, lambda: self._arrive(stream, task, stage + 1))

    def _after(self, wait_s: float, act: Callable[[], None]) -> None:
        if wait_s:
            self.at(self.now_ns + round(wait_s * S), act)
        else:
            act()

    def _deliver(self, stream: VirtualStream, chunk: int) -> None:
        if not stream.alive:
            return
        beat_ns, enter_ns, seen_ns = stream.inside.pop(chunk)
        stream.outputs.append(Output(chunk, beat_ns, enter_ns, seen_ns, self.now_ns))
        if self.now_ns >= stream.beat_ns:
            self._beat(stream)


def _stage(model: ModelCost, task: Task) -> int:
    return task.step * model.blocks + (task.block & 0xFFFF)


def _encodes(model: ModelCost, hosts: Sequence[int]) -> frozenset[int]:
    """Return the first stage at block 0 of each device: it needs the conditioning of its own."""
    first: dict[int, int] = {}
    for stage in range(0, model.stages, model.blocks):
        first.setdefault(hosts[stage], stage)
    return frozenset(first.values())
