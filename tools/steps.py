# SPDX-License-Identifier: Apache-2.0
"""
Small parts of the set-up: progress lines, whole files, commands whose output goes to a log.

Standard library only: this runs before there is an environment.
"""

from __future__ import annotations

import hashlib
import os
import subprocess
import time
from collections.abc import Sequence
from pathlib import Path

STARTED_S = time.monotonic()
HEARTBEAT_S = 15.0
LOG_TAIL_LINES = 25


class SetupError(Exception):
    """Set-up cannot go on; the message says why and what to do."""


def say(text: str) -> None:
    """Print one progress line with the time since the start."""
    print(f'[{time.monotonic() - STARTED_S:5.1f} s] {text}', flush=True)


def digest(*parts: str | bytes) -> str:
    """Return one hash of all parts."""
    total = hashlib.sha256()
    for part in parts:
        total.update(part.encode() if isinstance(part, str) else part)
        total.update(b'\0')
    return total.hexdigest()


def read(path: Path) -> str:
    """Return a file's text, empty when there is none."""
    return path.read_text() if path.is_file() else ''


def write_whole(path: Path, text: str) -> None:
    """Write a file so that it is there whole or not at all."""
    partial = path.with_name(path.name + '.partial')
    partial.write_text(text)
    partial.replace(path)


class Steps:
    """
    Runs commands with their output in a log file.

    :param log: the file; started anew.
    """

    def __init__(self, log: Path) -> None:
        self._log = log
        log.write_text('')

    def attempt(self, title: str, command: Sequence[str | Path], **environment: str) -> bool:
        """Run ``command``, telling now and then that it still runs; say whether it went well."""
        say(title)
        with self._log.open('a') as log:
            log.write(f'$ {" ".join(map(str, command))}\n')
            log.flush()
            process = subprocess.Popen(
                [str(word) for word in command],
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=subprocess.STDOUT,
                env={**os.environ, **environment},
            )
            while True:
                try:
                    return process.wait(HEARTBEAT_S) == 0
                except subprocess.TimeoutExpired:
                    say('  still at it')
                except BaseException:
                    process.terminate()
                    process.wait()
                    raise

    def must(self, title: str, command: Sequence[str | Path], **environment: str) -> None:
        """
        Run ``command``.

        :raises SetupError: with the end of the log, when it fails.
        """
        if not self.attempt(title, command, **environment):
            tail = '\n'.join(read(self._log).splitlines()[-LOG_TAIL_LINES:])
            raise SetupError(f'{title}: failed; the end of {self._log}:\n{tail}')
