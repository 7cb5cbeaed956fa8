# SPDX-License-Identifier: Apache-2.0
"""A signal before and after there is something to leave well."""

from __future__ import annotations

import signal
import subprocess
import sys

import pytest

pytestmark = pytest.mark.ros
BEFORE = """
from physis_ros.ros.signals import Stop
import os, signal
stop = Stop.installed()
print('begun')
try:
    os.kill(os.getpid(), {number})
finally:
    print('torn down')
"""
AFTER = """
from physis_ros.ros.signals import Stop
import os, signal
stop = Stop.installed()
stop.arm()
os.kill(os.getpid(), {number})
os.kill(os.getpid(), {number})
print(stop.requested, stop.reason)
"""


def said(script: str, number: int) -> str:
    """Run a script to its end, which must be a good one; return what it printed."""
    done = subprocess.run(
        [sys.executable, '-c', script.format(number=number)],
        capture_output=True,
        text=True,
        timeout=60,
    )
    assert (done.returncode, done.stderr) == (0, '')
    return done.stdout


@pytest.mark.parametrize('number', [signal.SIGINT, signal.SIGTERM])
def test_while_importing_the_process_ends_at_once_and_well(number: int) -> None:
    """Without tearing down what is half made, but with everything printed."""
    assert said(BEFORE, int(number)) == 'begun\n'


@pytest.mark.parametrize('number', [signal.SIGINT, signal.SIGTERM])
def test_afterwards_it_is_a_flag_however_often(number: int) -> None:
    """The main loop decides."""
    assert said(AFTER, int(number)) == f'True {signal.Signals(number).name}\n'
