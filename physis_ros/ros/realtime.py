# SPDX-License-Identifier: Apache-2.0
"""
What a process may ask of the operating system so that its ticks come in time.

Real-time priority, locked memory and exact timers where permitted; each refusal is a sentence,
never an error. Garbage collection is taken out of the tick and done in the gaps.
"""

from __future__ import annotations

import ctypes
import gc
import os
import resource
import sys
import threading
import time
from contextlib import suppress

_MCL_CURRENT, _MCL_FUTURE, _MCL_ONFAULT = 1, 2, 4
_PR_SET_TIMERSLACK = 29
# With the flag that tells our class from one that others gave: new threads do not inherit it.
_TAKEN = os.SCHED_FIFO | os.SCHED_RESET_ON_FORK
# Longest time that another thread of Python, such as one that serves metrics, may hold up a tick.
_SWITCH_S = 1e-4


def request(priority: int) -> list[str]:
    """
    Ask for real-time treatment of the threads that there are and locked memory of the process.

    The calling thread is the one that ticks. Call it once the node is made.

    :param priority: of SCHED_FIFO, 1 to 99; 0 asks for nothing and gives back what was had.
    :returns: what was refused, as sentences; empty when all was granted.
    """
    libc = ctypes.CDLL(None, use_errno=True)
    libc.prctl(_PR_SET_TIMERSLACK, 1, 0, 0, 0)
    sys.setswitchinterval(_SWITCH_S)
    if not priority:
        _give_back(libc)
        return []
    return [text for text in (_fifo(priority), _lock_memory(libc)) if text]


def freeze_garbage() -> None:
    """Exempt everything alive from collection and collect only in :func:`collect_garbage`."""
    gc.collect()
    gc.freeze()
    gc.disable()


def thaw_garbage() -> None:
    """Undo :func:`freeze_garbage`: what was alive then may go now, and collection is automatic."""
    gc.unfreeze()
    gc.enable()


def collect_garbage() -> None:
    """Collect what was made since :func:`freeze_garbage`: little, in a tenth of a millisecond."""
    gc.collect()


def sleep_until(steady_ns: int) -> None:
    """Sleep to an instant of the steady clock; return at once when it has passed."""
    left_ns = steady_ns - time.monotonic_ns()
    if left_ns > 0:
        time.sleep(left_ns * 1e-9)


def _fifo(priority: int) -> str:
    """
    Take SCHED_FIFO for this thread and, one step below it, for those that the process has.

    They are the middleware's, and hold locks that a tick needs: left in the normal class they
    could be kept from giving them back. Threads made later keep the normal class.
    """
    try:
        os.sched_setscheduler(0, _TAKEN, os.sched_param(priority))
        for thread in _threads():
            if thread != threading.get_native_id():
                with suppress(ProcessLookupError):  # it has ended meanwhile
                    os.sched_setscheduler(thread, _TAKEN, os.sched_param(max(priority - 1, 1)))
    except OSError as error:
        return (
            f'no real-time priority {priority} ({error.strerror}); allow it with an rtprio line '
            f'in /etc/security/limits.conf, or expect late ticks under load'
        )
    return ''


def _give_back(libc: ctypes.CDLL) -> None:
    """
    Leave the class and unlock the memory that :func:`request` was granted before.

    A class that others gave the process (``chrt``) is left alone.
    """
    for thread in _threads():
        with suppress(OSError):
            if os.sched_getscheduler(thread) == _TAKEN:
                # To take the flag away again would need a privilege.
                left = os.SCHED_OTHER | os.SCHED_RESET_ON_FORK
                os.sched_setscheduler(thread, left, os.sched_param(0))
    libc.munlockall()


def _threads() -> list[int]:
    """Return the threads of this process."""
    return [int(name) for name in os.listdir('/proc/self/task')]


def _lock_memory(libc: ctypes.CDLL) -> str:
    """Keep pages in memory; only without a limit, as later allocations would fail at one."""
    limit, _ = resource.getrlimit(resource.RLIMIT_MEMLOCK)
    if os.geteuid() and limit != resource.RLIM_INFINITY:
        return f'memory not locked (limit {limit} bytes); allow it with a memlock unlimited line'
    if libc.mlockall(_MCL_CURRENT | _MCL_FUTURE | _MCL_ONFAULT):
        return f'memory not locked ({os.strerror(ctypes.get_errno())})'
    return ''
