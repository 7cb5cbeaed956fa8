# SPDX-License-Identifier: Apache-2.0
"""
Ctrl-C, SIGTERM, and a terminal that is closed, as a flag that the main loop looks at.

rclpy's own handlers invalidate the context first, so nothing could be published any more: a node
could not send its final hold. These never touch the context. While modules are imported there is
nothing to hold, and a signal ends the process at once; afterwards it only sets the flag, however
often.
"""

from __future__ import annotations

import os
import signal
import sys
from contextlib import suppress
from types import FrameType

# The last when the terminal is closed, or the connection to it breaks.
SIGNALS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)


class Stop:
    """Whether to stop. Made in the main thread; read from any."""

    def __init__(self) -> None:
        self._armed = False
        self.requested = False
        self.reason = ''

    @classmethod
    def installed(cls) -> Stop:
        """Return a flag that the signals set."""
        stop = cls()
        for number in SIGNALS:
            outlives = number == signal.SIGHUP and signal.getsignal(number) == signal.SIG_IGN
            # Under nohup it is to go on without its terminal.
            if not outlives:
                signal.signal(number, stop._handle)
        return stop

    def arm(self) -> None:
        """From here on a signal sets the flag instead of ending the process."""
        self._armed = True

    def request(self, reason: str) -> None:
        """Ask the main loop to end."""
        if not self.requested:
            self.requested, self.reason = True, reason

    def finish(self) -> None:
        """Ignore signals for the rest of the process: leaving must not be interrupted."""
        for number in SIGNALS:
            signal.signal(number, signal.SIG_IGN)

    def _handle(self, number: int, frame: FrameType | None) -> None:
        """Run between two byte codes of the main thread."""
        self.request(signal.Signals(number).name)
        if not self._armed:
            # Nothing is started yet that would have to be left well, and an interpreter that is
            # torn down in the middle of an import can crash: half-made extension modules.
            for stream in (sys.stdout, sys.stderr):
                with suppress(OSError):  # its terminal is gone
                    stream.flush()
            os._exit(0)
