# SPDX-License-Identifier: Apache-2.0
"""
A process's doorbell: an eventfd that others ring when they have left something.

One for each process, not one for each mailbox: the owner clears it *before* it looks at its
mailboxes, so a ring can be early but never lost.
"""

from __future__ import annotations

import os
import select


class Bell:
    """
    One doorbell.

    :param fd: the eventfd.
    """

    def __init__(self, fd: int) -> None:
        self.fd = fd

    @classmethod
    def create(cls) -> Bell:
        """Make a silent one."""
        return cls(os.eventfd(0, os.EFD_NONBLOCK | os.EFD_CLOEXEC))

    def ring(self) -> None:
        """Wake the owner, now or at its next wait."""
        if self.fd >= 0:
            os.eventfd_write(self.fd, 1)

    def clear(self) -> None:
        """Forget the rings so far."""
        if self.fd < 0:
            return
        try:
            os.eventfd_read(self.fd)
        except BlockingIOError:
            return

    def close(self) -> None:
        """Close the descriptor."""
        if self.fd >= 0:
            os.close(self.fd)
            self.fd = -1


class Waiter:
    """
    Waits for an owner's bell, and for the end of processes.

    :param bell: the owner's bell.
    :param others: further descriptors to watch for reading (pidfds).
    """

    def __init__(self, bell: Bell, others: tuple[int, ...] = ()) -> None:
        self._bell = bell
        self._poll = select.poll()
        for fd in (bell.fd, *others):
            self._poll.register(fd, select.POLLIN)

    def ring(self) -> None:
        """Wake this very owner, from another of its threads."""
        self._bell.ring()

    def wait(self, timeout_s: float) -> tuple[int, ...]:
        """
        Wait at most ``timeout_s``; the bell is cleared.

        :returns: those of ``others`` that became readable.
        """
        events = self._poll.poll(max(0.0, timeout_s) * 1e3)
        ready = tuple(fd for fd, _ in events)
        if self._bell.fd in ready:
            self._bell.clear()
        return tuple(fd for fd in ready if fd != self._bell.fd)
