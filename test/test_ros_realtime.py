# SPDX-License-Identifier: Apache-2.0
"""What a process asks of the operating system, and gives back when it asks no more."""

from __future__ import annotations

import subprocess
import sys

import pytest

# In a process of its own: what is granted holds for all threads of it.
SCRIPT = """
import os, re, threading
from pathlib import Path
from physis_ros.ros import realtime

held = threading.Event()
threading.Thread(target=held.wait, daemon=True).start()

def policies():
    threads = map(int, os.listdir('/proc/self/task'))
    return sorted({os.sched_getscheduler(thread) & 15 for thread in threads})

def locked():
    return int(re.search(r'VmLck:\\s+(\\d+)', Path('/proc/self/status').read_text())[1]) > 0

print('refused' if realtime.request(10) else 'granted', policies(), locked())
print(realtime.request(0), policies(), locked())
print('refused' if realtime.request(10) else 'granted', policies(), locked())
other = os.SCHED_BATCH | os.SCHED_RESET_ON_FORK
os.sched_setscheduler(0, other, os.sched_param(0))
print(realtime.request(0), os.sched_getscheduler(0) == other)
"""


def test_priority_0_gives_back_what_was_granted_before_and_nothing_else() -> None:
    done = subprocess.run(
        [sys.executable, '-c', SCRIPT], capture_output=True, text=True, timeout=60
    )
    assert (done.returncode, done.stderr) == (0, '')
    first, *others = done.stdout.splitlines()
    if first.startswith('refused'):
        pytest.skip('this machine grants no real-time priority, or no locked memory')
    assert first == 'granted [1] True'
    assert others == ['[] [0] False', 'granted [1] True', '[] True']
