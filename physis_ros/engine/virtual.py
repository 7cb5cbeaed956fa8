# SPDX-License-Identifier: Apache-2.0
"""
The engine in virtual time: the same tasks, rules and batching, with times from a cost model.

Event-driven and deterministic; no clock, no thread, no tensor is touched. Plans predict with it,
and the pool simulator runs traces on it. A task runs when its state has come and its predecessor
is done (E1); a device takes the batch that :func:`form_batch` gives it (E6).
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from functools import cache
from heapq import heappop, heappush
from itertools import pairwise
from operator import attrgetter
from typing import cast

import numpy as np

from physis_ros.engine import stretch
from physis_ros.engine.batching import form_batch, hold_ns
from physis_ros.engine.cost import ModelCost
from physis_ros.engine.devices import DevicePool
from physis_ros.engine.draws import Draws, Jitter
from physis_ros.engine.overload import Overload, Pressure, Queue
from physis_ros.engine.sample import Sample
from physis_ros.engine.steady import Steady
from physis_ros.engine.token import (
    ARRIVE,
    BEAT,
    DELIVER,
    END,
    LOOK,
    Event,
    Output,
    S,
    Token,
    VirtualDevice,
    VirtualStream,
)
from physis_ros.errors import ParameterError

__all__ = ['Output', 'S', 'VirtualPool', 'VirtualStream']

_LEFT = attrgetter('left')
# More blocks than any model has: numbers of blocks say which model they are of.
_BLOCKS = 1 << 16


class VirtualPool:
    """
    Devices and streams in virtual time. Not thread-safe.

    :param max_batch: most rows of one batch.
    :param sensor_ns: interval of observations; 0: always a fresh one.
    :param jitter: of each batch's time; None: as the costs say.
    :param batch_wait_ns: longest time a batch waits for company from outside.
    """

    def __init__(
        self,
        pool: DevicePool,
        max_batch: int,
        sensor_ns: int = 0,
        jitter: Jitter | None = None,
        batch_wait_ns: int = 0,
    ) -> None:
        if max_batch < 1:
            raise ParameterError('max_batch', '>= 1', max_batch)
        self.pool, self.now_ns, self.sensor_ns = pool, 0, sensor_ns
        self.devices = [VirtualDevice(i, device.speed) for i, device in enumerate(pool.devices)]
        self.streams: dict[str, VirtualStream] = {}
        self.events: list[Event] = []
        self.pressure = Pressure(_BLOCKS, max_batch)
        self._limit, self._jitter, self._hop_ns = max_batch, jitter, round(pool.hop_s * S)
        self.batch_wait_ns = batch_wait_ns
        if batch_wait_ns:
            # Each stage may wait.
            for device in self.devices:
                device.farthest = 1
        if jitter is not None:
            for device in self.devices:
                device.draws = Draws(jitter, device.index)
        self._opened = self._sequence = 0
        # Time that was counted from samples instead of being run.
        self.sampled_ns = 0
        self._blocks: dict[str, int] = {}
        # Devices that something came to at this very instant.
        self._woken: list[VirtualDevice] = []
        self._handlers = (self._beat, self._arrive, self._end, self._deliver, self._look)

    def run(self, until_ns: int, skip: bool = False, sample_ns: int = 0) -> None:
        """
        Let virtual time pass.

        :param skip: without jitter, what repeats itself is not run again and again. Everything
            is as if it had been: :meth:`VirtualStream.table` holds all outputs, ``outputs`` only
            those that were run.
        :param sample_ns: when above 0, run no more than samples of about this length, and count
            the rest as more of the same; see :class:`Sample`.
        """
        ahead: Sample | Steady | None = None
        if sample_ns:
            ahead = Sample(self, until_ns, sample_ns)
        elif skip and self._jitter is None:
            ahead = Steady(self, until_ns)
        events, handlers, woken = self.events, self._handlers, self._woken
        while events and events[0][0] <= until_ns:
            if ahead is not None and events[0][0] >= ahead.next_ns:
                ahead.look()
                continue
            now_ns = self.now_ns = events[0][0]
            while events and events[0][0] == now_ns:
                _, _, kind, what = heappop(events)
                handlers[kind](what)
            # Everything that comes at one instant may still join a batch.
            for device in woken:
                self._launch(device)
            woken.clear()
        self.now_ns = until_ns
        self.settle(until_ns + 1)

    def settle(self, until_ns: int) -> None:
        """Do what was done before that and needed no event."""
        for device in self.devices:
            if len(device.ends) > 1:
                stretch.settle(device, until_ns)

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
        blocks = self._blocks.setdefault(model.name, len(self._blocks) * _BLOCKS)
        wires_ns = tuple(
            round(self.pool.wire_s(a, b, model.hidden_bytes if n % model.blocks
                                   else model.latent_bytes) * S)
            for n, (a, b) in enumerate(pairwise(hosts), start=1)
        )  # fmt: skip
        out_ns = self._hop_ns if model.deliver_s is None else round(model.deliver_s * S)
        stream = VirtualStream(
            name, self._opened, model, tuple(hosts), round(period_s * S), in_flight,
            round(allowed_s * S), self.now_ns, blocks, (*wires_ns, out_ns), self._limit,
        )  # fmt: skip
        self._opened += 1
        self.streams[name] = stream
        self._follow()
        self._expect(stream.work_s)
        stream.beat_ns = self.now_ns + round(phase_s * S)
        self._at(stream.beat_ns, BEAT, stream)
        return stream

    def close(self, name: str) -> VirtualStream:
        """End a stream; what it has in the pipe is dropped."""
        stream = self.streams.pop(name)
        stream.alive = False
        self._follow()
        self.pressure.forget(name)
        for device in self.devices:
            device.ready = [task for task in device.ready if task.owner is not stream]
        self._expect(stream.work_s)
        return stream

    def slow_down(self, device: int, factor: float) -> None:
        """Make everything a device starts from now on take ``factor`` times as long."""
        self.devices[device].slow = factor
        self._expect((device,))

    def lose(self, device: int) -> list[str]:
        """Take a device away; return the streams that ran on it, which end."""
        self.devices[device].lost = True
        gone = [s.name for s in self.streams.values() if device in s.hosts]
        for name in gone:
            self.close(name)
        return gone

    @property
    def overload(self) -> Overload | None:
        """Where the pool is stuck, judged as that of real workers."""
        idle = [stream.name for stream in self.streams.values() if not stream.inside]
        self.pressure.idle(idle, self.now_ns)
        return self.pressure.look(self.now_ns)

    def queues(self) -> list[int]:
        """Return the tasks that are ready at each device."""
        return [len(device.ready) for device in self.devices]

    def _at(self, when_ns: int, kind: int, what: Token | VirtualStream | VirtualDevice) -> None:
        self._sequence += 1
        heappush(self.events, (when_ns, self._sequence, kind, what))

    def _expect(self, devices: Iterable[int]) -> None:
        """Tell devices what a batch takes on average, which a worker learns while it runs."""
        for index in devices:
            device = self.devices[index]
            self._cut(device)
            here = [s for s in self.streams.values() if index in s.work_s]
            work_s = sum((s.work_s[index] for s in here), np.zeros(self._limit + 1))
            stages = max(1, sum(s.held[index] for s in here))
            device.expected_ns = (work_s / stages * device.slow / device.speed * S).tolist()
            device.arrivals = frozenset(block for s in here for block in s.arrivals[index])

    def _follow(self) -> None:
        self.pressure.follow({hop for stream in self.streams.values() for hop in stream.hops})

    # Entry (E7): a beat that finds the pipe full waits, and then takes what is newest then.

    def _beat(self, stream: VirtualStream) -> None:
        if not stream.alive or self.now_ns < stream.beat_ns:
            return
        if len(stream.inside) < stream.in_flight:
            self._enter(stream)
        else:
            self.pressure.held(stream.name, self.now_ns)

    def _enter(self, stream: VirtualStream) -> None:
        now_ns, sensor_ns = self.now_ns, self.sensor_ns
        self.pressure.queues([_queue(device) for device in self.devices], now_ns)
        self.pressure.entered(stream.name, now_ns)
        lost = max(0, (now_ns - stream.beat_ns + stream.period_ns // 2) // stream.period_ns)
        stream.beats_lost += lost
        seen_ns = now_ns - now_ns % sensor_ns if sensor_ns else now_ns
        token = stream.token(now_ns, seen_ns)
        stream.beat_ns += (lost + 1) * stream.period_ns
        self._at(max(stream.beat_ns, now_ns), BEAT, stream)
        if self._hop_ns:
            self._at(now_ns + self._hop_ns, ARRIVE, token)
        else:
            self._arrive(token)
        for index in stream.ahead:
            device = self.devices[index]
            device.coming = [*(t for t in device.coming if t.comes_to(index)), token]
            self._at(now_ns + self._hop_ns, LOOK, device)

    # Stages.

    def _arrive(self, token: Token) -> None:
        token.queued_ns = self.now_ns
        self._queue(token)

    def _queue(self, token: Token) -> None:
        stream, stage = token.owner, token.at
        if not stream.alive:
            return
        device = self.devices[stream.hosts[stage]]
        self._cut(device)
        if stream.done[stage] != token.chunk - 1:
            stream.waiting[stage, token.chunk] = token
            return
        device.ready.append(token)
        if not device.running and not device.lost:
            device.running = True
            self._woken.append(device)

    def _look(self, device: VirtualDevice) -> None:
        if not device.running and not device.lost:
            device.running = True
            self._woken.append(device)

    def _encode_ahead(self, device: VirtualDevice) -> bool:
        """Begin what later steps will need here, there being nothing to run; False: nothing."""
        coming = [t for t in device.coming if t.owner.alive and t.comes_to(device.index)]
        device.coming = []
        if not coming:
            return False
        seconds = sum(token.owner.model.entry_s for token in coming)
        for token in coming:
            token.encoded(device.index)
        device.ends = [self.now_ns + round(seconds * device.slow / device.speed * S)]
        device.busy_ns += device.ends[0] - self.now_ns
        self._at(device.ends[0], END, device)
        return True

    def _launch(self, device: VirtualDevice) -> None:
        ready = device.ready
        if not ready or device.lost:
            device.running = not device.lost and self._encode_ahead(device)
            return
        expected_ns = device.expected_ns.__getitem__
        batch = cast(
            'list[Token]', form_batch(ready, self._limit, self.now_ns, _LEFT, expected_ns)
        )
        if self.batch_wait_ns and self._holds(device, batch):
            device.running = self._encode_ahead(device)
            return
        if len(batch) == len(ready):
            ready.clear()
        else:
            taken = set(map(id, batch))
            device.ready = [task for task in ready if id(task) not in taken]
        stretch.begin(device, batch, self.now_ns)
        self._at(device.ends[-1], END, device)

    def _holds(self, device: VirtualDevice, batch: Sequence[Token]) -> bool:
        """Let a batch wait for company, where some may come from outside."""
        if batch[0].block not in device.arrivals:
            return False
        held_ns = hold_ns(
            batch, len(device.ready), self._limit, self.batch_wait_ns, self.now_ns, _LEFT,
            device.expected_ns.__getitem__,
        )  # fmt: skip
        if held_ns:
            self._at(self.now_ns + held_ns, LOOK, device)
        return held_ns > 0

    def _cut(self, device: VirtualDevice) -> None:
        if len(device.ends) > 1 and stretch.cut(device, self.now_ns):
            self._at(device.ends[0], END, device)

    def _end(self, device: VirtualDevice) -> None:
        if not device.ends or device.ends[-1] != self.now_ns:
            # Its stretch was cut.
            return
        stretch.finish(device, self.now_ns)
        if not device.lost:
            for token in device.batch:
                if token.owner.alive:
                    self._hand_on(token)
        device.batch = []
        if device.ready or device.coming:
            self._woken.append(device)
        else:
            device.running = False

    def _hand_on(self, token: Token) -> None:
        stream, stage, chunk = token.owner, token.at, token.chunk
        stream.done[stage] = chunk
        if stream.waiting:
            follower = stream.waiting.pop((stage, chunk + 1), None)
            if follower is not None:
                self._queue(follower)
        token.advance()
        wire_ns = stream.wires_ns[stage]
        if not token.left:
            if wire_ns:
                self._at(self.now_ns + wire_ns, DELIVER, token)
            else:
                self._deliver(token)
        elif wire_ns:
            self._at(self.now_ns + wire_ns, ARRIVE, token)
        else:
            self._arrive(token)

    def _deliver(self, token: Token) -> None:
        stream = token.owner
        if not stream.alive:
            return
        del stream.inside[token.chunk]
        stream.outputs.append(
            Output(token.chunk, token.beat_ns, token.created_ns, token.seen_ns, self.now_ns)
        )
        if self.now_ns < stream.beat_ns:
            return
        if stream.turn_ns:
            self._at(self.now_ns + stream.turn_ns, BEAT, stream)
        else:
            self._beat(stream)


@cache
def _unqueued(running: int) -> Queue:
    return Queue(running, -1)


def _queue(device: VirtualDevice) -> Queue:
    """Return what a worker would say; tasks lie in the order in which they came."""
    ready, running = device.ready, len(device.batch)
    if not ready:
        return _unqueued(running)
    behind = ready[0]
    stage = behind.step * _BLOCKS + behind.block % _BLOCKS if len(ready) + running > 1 else -1
    return Queue(len(ready) + running, stage)
