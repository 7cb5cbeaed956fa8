# SPDX-License-Identifier: Apache-2.0
"""
How the messages of one input come: how long they are on their way, and what is missing.

On their way is ``receive - stamp``, which is the transfer plus what the clocks differ by, and
tells a stamp that was taken at another time than the picture. Gaps are between receipts. What its
publisher never made shows in the stamps: one that is two intervals after the last leaves one out.
"""

from __future__ import annotations

from dataclasses import dataclass

from physis_ros.output.sketch import Quantiles, Sketch
from physis_ros.session.pacing import IntervalEstimate


@dataclass(frozen=True)
class ArrivalFigures:
    """
    Since production began.

    :param transfer_ms: ``receive - stamp``; below zero where the publisher's clock is ahead.
    :param gap_ms: from one receipt to the next.
    :param missing: messages left out, by the stamps of those that came.
    """

    transfer_ms: Quantiles
    gap_ms: Quantiles
    missing: int


class Arrivals:
    """Measures one input in constant memory. Single-threaded."""

    def __init__(self) -> None:
        self._transfer_ms, self._gap_ms = Sketch(), Sketch()
        self._missing = 0
        self.forget()

    def forget(self) -> None:
        """Forget the last message: time went back, and no gap reaches across that."""
        self._interval = IntervalEstimate()
        self._stamp_ns: int | None = None
        self._receive_ns: int | None = None

    def add(self, stamp_ns: int, receive_ns: int) -> None:
        """
        Take a message.

        :param stamp_ns: as its header says; 0 when it says nothing.
        """
        if self._receive_ns is not None:
            self._gap_ms.add(max(receive_ns - self._receive_ns, 0) * 1e-6)
        self._receive_ns = receive_ns
        if stamp_ns > 0:
            self._transfer_ms.add((receive_ns - stamp_ns) * 1e-6)
            self._stamped(stamp_ns)

    def figures(self) -> ArrivalFigures:
        """Return what was measured."""
        return ArrivalFigures(self._transfer_ms.figures(), self._gap_ms.figures(), self._missing)

    def _stamped(self, stamp_ns: int) -> None:
        """Look for what was left out before a stamp."""
        before_ns, usual_ns = self._stamp_ns, self._interval.value_ns
        if before_ns is not None and usual_ns > 0:
            # Late by less than three quarters of an interval is late, and not one left out.
            self._missing += max(int((stamp_ns - before_ns) / usual_ns + 0.25) - 1, 0)
        self._interval.add(stamp_ns)
        self._stamp_ns = stamp_ns if before_ns is None else max(before_ns, stamp_ns)
