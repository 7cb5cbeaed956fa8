# SPDX-License-Identifier: Apache-2.0
"""
What came in for one stream, behind one lock: the aligner, the camera's rate, and a bell.

Messages come from any thread; one entry thread waits here for news. Calls nothing of its owner,
so its lock is always the innermost.
"""

from __future__ import annotations

import threading
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy.typing as npt

from physis_ros.observation.align import Aligner, Intake, Lack
from physis_ros.observation.config import AlignConfig
from physis_ros.observation.joints import JointReading
from physis_ros.session.arrivals import ArrivalFigures, Arrivals
from physis_ros.session.pacing import IntervalEstimate, Newest
from physis_ros.session.rates import RateMeter
from physis_ros.types import Observation


@dataclass(frozen=True)
class InboxStatus:
    """
    A snapshot; fields as in :class:`physis_ros.session.producer_status.ProducerStatus`.

    :param interval_ns: the camera's interval, 0 when not known yet.
    """

    counts: Mapping[str, int]
    sensor_hz: float
    interval_ns: int
    skew_ns: Mapping[str, int]
    lack: Lack | None
    lagging: str
    missing_joints: tuple[str, ...]
    heard_joints: tuple[str, ...]
    arrivals: Mapping[str, ArrivalFigures]


class Inbox:
    """
    Thread-safe.

    :param config: how observations are joined.
    """

    def __init__(self, config: AlignConfig) -> None:
        self._bell = threading.Condition()
        self._aligner = Aligner(config)
        self._arrivals: dict[str, Arrivals] = {}
        self._interval = IntervalEstimate()
        self._sensor = RateMeter()
        self._news = 0
        self._lacking = False

    @property
    def news(self) -> int:
        """A number that changes whenever something worth a look has come."""
        with self._bell:
            return self._news

    def frame(
        self, stamp_ns: int, receive_ns: int, image: npt.NDArray[Any], camera: str = ''
    ) -> Intake:
        """Take a frame of the model's size; without a name it is the first camera's."""
        with self._bell:
            before = self._aligner.newest
            verdict = self._aligner.frame(stamp_ns, receive_ns, image, camera)
            self._arrived(camera or self._aligner.config.cameras[0], stamp_ns, receive_ns, verdict)
            newest = self._aligner.newest
            if verdict is Intake.TAKEN and newest is not None and newest is not before:
                self._interval.add(newest.stamp_ns)
                self._sensor.add(receive_ns)
                self._ring()
            return verdict

    def joints(self, reading: JointReading) -> Intake:
        """Take a joint state; rings only when an observation was waiting for it."""
        with self._bell:
            verdict = self._aligner.joints(reading)
            self._arrived(reading.source, reading.stamp_ns, reading.receive_ns, verdict)
            if self._lacking:
                self._ring()
            return verdict

    def newest(self) -> tuple[Newest | None, int]:
        """Return the times of the newest frame that can be used, and their interval [ns]."""
        with self._bell:
            frame = self._aligner.newest
            times = None if frame is None else Newest(frame.stamp_ns, frame.receive_ns)
            return times, self._interval.value_ns

    def as_of(self, now_ns: int) -> Observation | Lack:
        """Return the newest possible observation, or why there is none."""
        with self._bell:
            result = self._aligner.as_of(now_ns)
            self._lacking = isinstance(result, Lack)
            return result

    def reconfigure(self, config: AlignConfig) -> None:
        """Join by other tolerances."""
        with self._bell:
            self._aligner.reconfigure(config)

    def clear(self) -> None:
        """Forget what was observed: time went back."""
        with self._bell:
            self._aligner.clear()
            for arrivals in self._arrivals.values():
                arrivals.forget()
            self._interval = IntervalEstimate()
            self._sensor.clear()

    def wake(self) -> None:
        """Make the waiting thread look."""
        with self._bell:
            self._ring()

    def wait(self, known: int, timeout_s: float) -> None:
        """Wait for news after ``known``, at most ``timeout_s``."""
        with self._bell:
            if self._news == known:
                self._bell.wait(timeout_s)

    def status(self, now_ns: int) -> InboxStatus:
        """Return a snapshot."""
        with self._bell:
            return InboxStatus(
                counts=dict(self._aligner.counts),
                sensor_hz=self._sensor.hz(now_ns),
                interval_ns=self._interval.value_ns,
                skew_ns=self._aligner.skew_ns,
                lack=self._aligner.lack(now_ns),
                lagging=self._aligner.lagging(),
                missing_joints=self._aligner.missing_joints,
                heard_joints=self._aligner.heard_joints,
                arrivals={name: one.figures() for name, one in self._arrivals.items()},
            )

    def _arrived(self, source: str, stamp_ns: int, receive_ns: int, verdict: Intake) -> None:
        """Measure how a message came; one before which time went back comes once more."""
        if verdict not in (Intake.REGRESSED, Intake.OTHER_JOINTS):
            self._arrivals.setdefault(source, Arrivals()).add(stamp_ns, receive_ns)

    def _ring(self) -> None:
        self._news += 1
        self._bell.notify_all()
