# SPDX-License-Identifier: Apache-2.0
"""
A worker process: ``python -m physis_ros.engine.worker CONFIG`` with inherited descriptors.

It ends when told, on SIGTERM, and when its parent is gone, however that went. Started by
:mod:`physis_ros.engine.launch` only.
"""

from __future__ import annotations

import ctypes
import faulthandler
import json
import os
import signal
import sys
import threading
from typing import Any

from setproctitle import setproctitle

_PR_SET_TIMERSLACK = 29
_SLACK_NS = 1000


def main() -> int:
    """Run the worker described in the first argument; return the exit code."""
    given: dict[str, Any] = json.loads(sys.argv[1])
    setproctitle(f'physis: worker {given["worker"]}')
    faulthandler.enable()
    # Ctrl-C, and the end of the terminal, reach all of it; the pool decides when its workers end.
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    signal.signal(signal.SIGHUP, signal.SIG_IGN)
    signal.signal(signal.SIGTERM, signal.SIG_DFL)
    _follow_parent(given['lifeline'], given['parent'])
    # Sleeping ends on time, not up to 50 us later.
    ctypes.CDLL(None).prctl(_PR_SET_TIMERSLACK, ctypes.c_ulong(_SLACK_NS), 0, 0, 0)
    from physis_ros.engine.work import work  # torch, only now: the threads above come first

    return work(given)


def _follow_parent(lifeline: int, parent: int) -> None:
    # Not PR_SET_PDEATHSIG: that fires when the *thread* that started us ends, and pools may be
    # started by a thread. The other end of this pipe closes only with the parent process.
    def watch() -> None:
        os.read(lifeline, 1)
        os._exit(0)

    if os.getppid() != parent:
        os._exit(0)
    threading.Thread(target=watch, name='lifeline', daemon=True).start()


if __name__ == '__main__':
    sys.exit(main())
