# SPDX-License-Identifier: Apache-2.0
"""
Observations in, action chunks out: one stream over an engine pool.

Frames and joint states come in from any thread; an entry thread lets a chunk in on its beat with
the newest observation (E7), the collector's thread hands the finished one on. Wiring only: the
rules are in pacing, delay, produced and the observation room. All times are the stream clock's.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy.typing as npt

from physis_ros.clock import Clock, SteadyClock
from physis_ros.errors import EngineError, ParameterError, PhysisError
from physis_ros.observation.align import Intake, Lack, names_after
from physis_ros.observation.config import AlignConfig
from physis_ros.observation.depth import resize_depth
from physis_ros.observation.joints import JointReading
from physis_ros.observation.resize import resize
from physis_ros.output.limits import usable
from physis_ros.session.collector import Collector, Consumer
from physis_ros.session.commitment import Commitment
from physis_ros.session.delay import ToldDelay
from physis_ros.session.inbox import Inbox
from physis_ros.session.inputs import InputBuilder
from physis_ros.session.pool_port import ChunkResult, PoolPort
from physis_ros.session.produced import Entry, Instant, Produced, produce
from physis_ros.session.producer_config import ProducerConfig
from physis_ros.session.producer_status import (
    Gauges,
    ProducerState,
    ProducerStatus,
    ResetReason,
)
from physis_ros.session.renewal import Renewal
from physis_ros.session.rhythm import rhythm
from physis_ros.types import CAMERA, Observation

SLICE_S = 0.02  # longest wait before the clocks are looked at again
BUSY_SLICE_S = 0.004  # the same while an entry is due and the pipe is full


def nobody() -> bool:
    """Say that no one wants predicted frames."""
    return False


@dataclass(frozen=True)
class Ports:
    """
    Where a producer is plugged in.

    :param deliver: called with each chunk, in order, never with one of an older epoch; must be
        quick and must not call :meth:`Producer.stop`.
    :param frames_wanted: whether someone looks at predicted frames now.
    :param steady: the clock of the engine's stamps.
    """

    deliver: Callable[[Produced], None]
    frames_wanted: Callable[[], bool] = nobody
    steady: Clock = field(default_factory=SteadyClock)


class Producer:
    """
    One stream's production. Thread-safe.

    One lock, ``_life``, is around epoch, entries and deliveries: whoever holds it knows that the
    epoch does not change. Messages do not need it; the inbox has its own.

    :param pool: has the stream open.
    :param stream: its name.
    :param config: period, names, tolerances.
    :param clock: the stream clock.
    :param deliver: where chunks go: a callable, or :class:`Ports` for more.
    :param collector: shared by all producers of a pool and run by its owner; none: an own one.
    :raises ParameterError: when model and configuration do not fit.
    """

    def __init__(
        self,
        pool: PoolPort,
        stream: str,
        config: ProducerConfig,
        clock: Clock,
        deliver: Callable[[Produced], None] | Ports,
        collector: Collector | None = None,
    ) -> None:
        self._pool, self._stream, self._config, self._clock = pool, stream, config, clock
        self._ports = deliver if isinstance(deliver, Ports) else Ports(deliver)
        align = config.align_config(pool.spec)
        self._inputs = InputBuilder(pool.spec, len(align.joint_names))
        self._names = _robot_names(config, pool.spec.actions.names, align.joint_names)
        self._commitment = Commitment(config, pool.spec, self._names)
        self._renewal = Renewal(pool, stream, self._inputs)
        self._own_collector = collector is None
        self._collector = collector or Collector(pool)
        self._life = threading.RLock()
        self._rhythm = rhythm(config, pool.spec)
        self._gauges = Gauges(config.warmup_chunks)
        self._pending: dict[int, Entry] = {}
        self._epoch = 0
        self._told: ToldDelay | None = None
        self._state = ProducerState.IDLE
        self._failure: PhysisError | None = None
        self._seen_ns: int | None = None
        self._time_forgotten = False
        self._inbox = Inbox(align)
        self._thread = threading.Thread(target=self._run, name=f'entry {stream}', daemon=True)

    @property
    def failure(self) -> PhysisError | None:
        """Why the stream ended; None while it lives."""
        return self._failure

    def frame(
        self, stamp_ns: int, receive_ns: int, image: npt.NDArray[Any], camera: str = CAMERA
    ) -> Intake:
        """
        Take a camera frame.

        :param stamp_ns: when it was taken, as its header says.
        :param receive_ns: when it came.
        :param image: uint8 [height, width, 3] RGB, or of a depth camera float32 [height, width]
            in metres, model size or a larger one of the same aspect; must not be written later.
        :param camera: the model's name for it.
        :raises ObservationError: on an image the model cannot use; nothing was taken.
        """
        frames = self._pool.spec.frames
        scale = resize_depth if AlignConfig.is_depth(camera) else resize
        small = scale(image, frames.height, frames.width)
        return self._taken(lambda: self._inbox.frame(stamp_ns, receive_ns, small, camera))

    def joints(self, reading: JointReading) -> Intake:
        """Take a joint state."""
        return self._taken(lambda: self._inbox.joints(reading))

    def start(self) -> None:
        """
        Begin, in a new epoch: the first complete observation enters at once.

        :raises EngineError: when stream or pool are gone.
        """
        self.begin()
        if self._own_collector:
            self._collector.start()
        self._thread.start()

    def begin(self) -> None:
        """
        Begin without threads: the caller takes the turns and brings the results (virtual time).

        :raises EngineError: when stream or pool are gone.
        """
        with self._life:
            if self._state is not ProducerState.IDLE:
                raise ParameterError('producer', 'idle when it is started', self._state.value)
            self._epoch = self._pool.reset(self._stream)
            self._collector.attach(self._stream, Consumer(self.on_result, self._fail))
            if self._failure is None:
                self._state = ProducerState.RUNNING

    def reconfigure(self, config: ProducerConfig) -> None:
        """Go on with another period, margin and tolerances; names and clock stay."""
        with self._life:
            self._config = config
            self._rhythm.reconfigure(config)
            self._inbox.reconfigure(config.align_config(self._pool.spec))

    def pause(self, paused: bool) -> None:
        """
        Let nothing more in, or go on; what is in the pipe still comes out.

        Going on begins a new epoch: the history the model remembers has a hole.
        """
        with self._life:
            wanted = ProducerState.PAUSED if paused else ProducerState.RUNNING
            if self._state not in (ProducerState.RUNNING, ProducerState.PAUSED):
                return
            resumed = self._state is ProducerState.PAUSED and not paused
            self._state = wanted
            if resumed:
                self.reset(ResetReason.RESUMED)

    def reset(self, reason: ResetReason = ResetReason.REQUESTED) -> int:
        """
        Begin the next epoch at once; nothing of the older one is delivered after this returns.

        Time that goes back shows in stamps and in the clock, one after the other: as long as
        nothing has entered since, that is one event and makes one epoch.

        :returns: the new epoch, or the last one when stream or pool are gone.
        """
        with self._life:
            if not (reason.of_time and self._time_forgotten):
                try:
                    self._epoch = self._pool.reset(self._stream)
                except EngineError as error:
                    self._fail(error)
                    return self._epoch
                self._gauges.counts['dropped'] += len(self._pending)
                self._pending.clear()
                self._gauges.new_epoch(reason)
            self._time_forgotten = reason.of_time
            self._rhythm.reset()
            self._commitment.clear()
            self._seen_ns = None
            if reason.forgets:
                self._inbox.clear()
        self._inbox.wake()
        return self._epoch

    def stop(self, timeout_s: float = 1.0) -> bool:
        """
        End: nothing is delivered after this returns. The pool stays; its owner closes it.

        :returns: whether all threads have ended in time.
        """
        with self._life:
            self._state = ProducerState.STOPPED
            self._pending.clear()
        self._inbox.wake()
        self._collector.detach(self._stream)
        if self._thread.ident is not None:
            self._thread.join(timeout_s)
        ended = self._collector.stop(timeout_s) if self._own_collector else True
        return ended and not self._thread.is_alive()

    def status(self) -> ProducerStatus:
        """Return a snapshot."""
        with self._life:
            now_ns, gauges = self._clock.now_ns(), self._gauges
            inbox = self._inbox.status(now_ns)
            skipped = {'beat_skipped': self._rhythm.skipped}
            return ProducerStatus(
                stream=self._stream,
                state=self._state_with(inbox.lack),
                epoch=self._epoch,
                in_flight=len(self._pending),
                counts={**inbox.counts, **gauges.counts, **skipped},
                sensor_hz=inbox.sensor_hz,
                replan_hz=gauges.replans.hz(now_ns),
                chunk_hz=gauges.chunks.hz(now_ns),
                response_latency_ms=gauges.response_ms.figures(),
                output_interval_ms=gauges.interval_ms.figures(),
                expected_response_ns=self._rhythm.response_ns,
                told_delay=self._told,
                skew_ns=inbox.skew_ns,
                lack=inbox.lack,
                missing_joints=inbox.missing_joints,
                heard_joints=inbox.heard_joints,
                failure='' if self._failure is None else str(self._failure),
                lagging=inbox.lagging,
                arrivals=inbox.arrivals,
            )

    def turn(self) -> float:
        """
        Do one turn of the entry thread: let a chunk in when one is due.

        :returns: seconds after which to look again, unless something comes before.
        """
        with self._life:
            now_ns = self._clock.now_ns()
            self._watch_clock(now_ns)
            if self._state is not ProducerState.RUNNING:
                return SLICE_S
            self._renew(now_ns)
            wait_ns = self._rhythm.wait_ns(now_ns, *self._inbox.newest())
            if wait_ns is None or wait_ns > 0:
                return SLICE_S if wait_ns is None else min(SLICE_S, wait_ns * 1e-9)
            if not self._pool.ready(self._stream):
                return BUSY_SLICE_S
            return self._enter_newest(now_ns)

    def on_result(self, result: ChunkResult) -> None:
        """Take a finished chunk: the collector's consumer."""
        with self._life:
            self._watch_clock(self._clock.now_ns())
            entry = self._pending.pop(result.chunk, None) if self._is_live(result) else None
            if entry is None:
                self._gauges.counts['old_epoch'] += 1
                return
            published = self._instant(self._clock.now_ns())
            entry = self._rhythm.finished(entry, published.stream_ns)
            try:
                done = produce(entry, result, self._pool.spec, self._names, published)
                if not usable(done.chunk.actions):
                    self._gauges.counts['non_finite'] += 1
                    self.reset(ResetReason.NON_FINITE)
                    return
                self._commitment.published(done.chunk, entry.frozen)
                self._ports.deliver(done)
            except Exception as error:  # the pool's other streams must not end with this one
                self._fail(error)
                return
            self._gauges.delivered(done.chunk.times.receive_ns, published.stream_ns)
        self._inbox.wake()

    def _renew(self, now_ns: int) -> None:
        """Show chunks in the pipe what is newer than what they have (E11)."""
        if not self._renewal.wanted(self._pending.values(), self._inbox.newest()[0]):
            return
        seen = self._inbox.as_of(now_ns)
        if not isinstance(seen, Lack):
            now, response_ns = self._instant(now_ns), self._rhythm.response_ns
            shown = self._renewal.show(self._pending, seen, now, response_ns)
            self._gauges.counts['renewed'] += shown

    def _enter_newest(self, now_ns: int) -> float:
        observation = self._inbox.as_of(now_ns)
        if isinstance(observation, Lack):
            return SLICE_S
        try:
            self._enter(self._instant(now_ns), observation)
        except EngineError:
            self._pool.ready(self._stream)  # raises when stream or pool are gone
            return BUSY_SLICE_S  # another stream was quicker
        return SLICE_S

    def _enter(self, now: Instant, observation: Observation) -> None:
        told, start_ns, due_ns = self._rhythm.plan(now.stream_ns, observation)
        # What will be played is known only while no other chunk is on its way.
        prefix = None if self._pending else self._commitment.prefix(start_ns)
        entry = Entry(now, observation, told, start_ns, prefix)
        chunk = self._pool.enter(
            self._stream,
            self._inputs.build(observation, told.steps, prefix),
            now.steady_ns + due_ns - now.stream_ns,
            self._ports.frames_wanted(),
        )
        self._pending[chunk] = entry
        self._told, self._time_forgotten = told, False
        self._rhythm.entered(now.stream_ns, observation.stamp_ns)
        self._gauges.entered(now.stream_ns, told)
        self._gauges.counts['rtc_prefix'] += prefix is not None

    def _run(self) -> None:
        while self._state not in (ProducerState.STOPPED, ProducerState.FAILED):
            known = self._inbox.news
            try:
                wait_s = self.turn()
            except Exception as error:  # a thread that ends must say why
                self._fail(error)
                return
            self._inbox.wait(known, wait_s)

    def _watch_clock(self, now_ns: int) -> None:
        """Begin a new epoch when the stream clock went back."""
        if self._seen_ns is not None and now_ns < self._seen_ns - self._config.jump_tolerance_ns:
            self.reset(ResetReason.CLOCK_JUMP)
        self._seen_ns = now_ns if self._seen_ns is None else max(self._seen_ns, now_ns)

    def _taken(self, take: Callable[[], Intake]) -> Intake:
        """Take a message; when its stamp says that time went back, once more in a new epoch."""
        verdict = take()
        if verdict is Intake.REGRESSED:
            self.reset(ResetReason.STAMP_REGRESSED)
            verdict = take()
        return verdict

    def _fail(self, error: Exception) -> None:
        with self._life:
            if self._state is ProducerState.STOPPED or self._failure is not None:
                return
            if not isinstance(error, PhysisError):
                error = EngineError(f"stream '{self._stream}' ended by {error!r}")
            self._failure = error
            self._state = ProducerState.FAILED
            self._pending.clear()
        self._inbox.wake()

    def _is_live(self, result: ChunkResult) -> bool:
        stopped = self._state in (ProducerState.STOPPED, ProducerState.FAILED)
        return result.epoch == self._epoch and not stopped

    def _instant(self, stream_ns: int) -> Instant:
        return Instant(stream_ns, self._ports.steady.now_ns())

    def _state_with(self, lack: Lack | None) -> ProducerState:
        waiting = self._state is ProducerState.RUNNING and lack is not None
        return ProducerState.WAITING if waiting else self._state


def _robot_names(
    config: ProducerConfig, action_names: Sequence[str], joint_names: Sequence[str]
) -> tuple[str, ...]:
    """Name the action columns as the robot does; actions may be named unlike the joints."""
    known = {robot: model for robot, model in config.aliases.items() if model in joint_names}
    return names_after(known, action_names)
