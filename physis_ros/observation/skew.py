# SPDX-License-Identifier: Apache-2.0
"""
How far a publisher's clock is from ours, as far as one-way messages can tell.

The least ``receive - stamp`` over a window: transport delay plus clock offset. A negative value
proves that the publisher's clock is ahead; a large positive one, that it is behind or the way is
long. Shown, never used to correct stamps.
"""

from __future__ import annotations

from physis_ros.errors import ParameterError


class SkewEstimate:
    """
    Windowed minimum in constant memory. Single-threaded.

    :param window_ns: the minimum covers between one and two of these.
    """

    def __init__(self, window_ns: int) -> None:
        if window_ns < 1:
            raise ParameterError('window_ns', '>= 1', window_ns)
        self._window_ns = window_ns
        self._began_ns: int | None = None
        self._least_ns: int | None = None
        self._before_ns: int | None = None

    def add(self, stamp_ns: int, receive_ns: int) -> None:
        """Take one message into account."""
        delay_ns = receive_ns - stamp_ns
        if self._began_ns is None or not 0 <= receive_ns - self._began_ns < self._window_ns:
            self._began_ns, self._before_ns, self._least_ns = receive_ns, self._least_ns, None
        self._least_ns = delay_ns if self._least_ns is None else min(self._least_ns, delay_ns)

    @property
    def least_ns(self) -> int | None:
        """The least ``receive - stamp`` lately; None before the first message."""
        if self._least_ns is None or self._before_ns is None:
            return self._least_ns
        return min(self._least_ns, self._before_ns)
