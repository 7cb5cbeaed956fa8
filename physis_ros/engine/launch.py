# SPDX-License-Identifier: Apache-2.0
"""
Starting and ending worker processes.

A worker's output goes to an anonymous file, so that its last words can be read after its death
and nothing of it blocks or leaks.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import physis_ros
from physis_ros.engine import threads

_WORDS_BYTES = 4000


class WorkerProcess:
    """
    One worker process, seen from the pool.

    :param worker: its index.
    :param given: its configuration.
    :param inherited: descriptors it needs.
    :param thread_count: compute threads.
    """

    def __init__(
        self, worker: int, given: dict[str, Any], inherited: tuple[int, ...], thread_count: int
    ) -> None:
        self.worker = worker
        self._log = os.memfd_create(f'physis-worker-{worker}')
        try:
            self._popen = subprocess.Popen(
                [sys.executable, '-m', 'physis_ros.engine.worker', json.dumps(given)],
                stdin=subprocess.DEVNULL,
                stdout=self._log,
                stderr=self._log,
                pass_fds=inherited,
                env=_environment(thread_count),
            )
        except OSError:
            os.close(self._log)
            raise
        self.pidfd = os.pidfd_open(self._popen.pid)

    @property
    def pid(self) -> int:
        """The process id."""
        return self._popen.pid

    @property
    def exitcode(self) -> int | None:
        """How it ended; None while it runs."""
        return self._popen.poll()

    def last_words(self) -> str:
        """Return the end of what it printed; the last line of a traceback tells most."""
        if self._log < 0:
            return ''
        size = os.fstat(self._log).st_size
        start = max(0, size - _WORDS_BYTES)
        return os.pread(self._log, _WORDS_BYTES, start).decode(errors='replace').strip()

    def kill(self) -> None:
        """End it at once; what is left of it stays until :meth:`end`."""
        self._popen.kill()

    def end(self, patience_s: float) -> None:
        """Wait for its end, then kill it; frees all descriptors."""
        try:
            self._popen.wait(max(0.0, patience_s))
        except subprocess.TimeoutExpired:
            self._popen.kill()
            self._popen.wait()
        for fd in (self.pidfd, self._log):
            if fd >= 0:
                os.close(fd)
        self.pidfd = self._log = -1


def _environment(thread_count: int) -> dict[str, str]:
    env = threads.environment(os.environ, thread_count)
    root = str(Path(physis_ros.__file__).resolve().parent.parent)
    path = [root, *filter(None, [env.get('PYTHONPATH')])]
    return {**env, 'PYTHONPATH': os.pathsep.join(path)}
