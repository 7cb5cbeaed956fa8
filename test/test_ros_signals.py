# SPDX-License-Identifier: Apache-2.0
"""A signal before and after there is something to leave well."""

from __future__ import annotations

import signal
import subprocess
import sys
from pathlib import Path

import pytest

from physis_ros.ros import signals

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
UNDER_NOHUP = """
import os, signal
signal.signal(signal.SIGHUP, signal.SIG_IGN)
from physis_ros.ros.signals import Stop
stop = Stop.installed()
stop.arm()
os.kill(os.getpid(), {number})
print(stop.requested)
"""
# Where there is no terminal any more every write fails, and so does what is left to be written.
WITHOUT_TERMINAL = """
import io, os, signal, sys
from physis_ros.ros.signals import Stop
class Gone(io.StringIO):
    def flush(self): raise OSError(5, 'Input/output error')
stop = Stop.installed()
sys.stdout = sys.stderr = Gone()
os.kill(os.getpid(), {number})
"""


# As in a terminal, however these tests were started.
WITH_TERMINAL = 'import signal; signal.signal(signal.SIGHUP, signal.SIG_DFL)\n'
LEAVING = """
import sys
from physis_ros.ros import process
from physis_ros.ros.signals import Stop
class Node:
    def run(self, executor, stop): executor.remove_node(self)
    def close(self): raise OSError('one joint failed')
    def destroy_node(self): print('destroyed')
process.make_executor = lambda: Executor()
class Executor:
    def add_node(self, node): pass
    def remove_node(self, node): print('removed')
    def shutdown(self): print('shut down')
sys.exit(process.run('test', Node, Stop.installed(), []))
"""


def said(script: str, number: int) -> str:
    """Run a script to its end, which must be a good one; return what it printed."""
    done = subprocess.run(
        [sys.executable, '-c', WITH_TERMINAL + script.format(number=number)],
        capture_output=True,
        text=True,
        timeout=60,
    )
    assert (done.returncode, done.stderr) == (0, '')
    return done.stdout


@pytest.mark.parametrize('number', signals.SIGNALS)
def test_while_importing_the_process_ends_at_once_and_well(number: int) -> None:
    """Without tearing down what is half made, but with everything printed."""
    assert said(BEFORE, int(number)) == 'begun\n'


@pytest.mark.parametrize('number', signals.SIGNALS)
def test_X14_afterwards_it_is_a_flag_however_often(number: int) -> None:
    """The main loop decides."""
    assert said(AFTER, int(number)) == f'True {signal.Signals(number).name}\n'


def test_a_terminal_that_is_closed_ends_a_node_well_but_not_under_nohup() -> None:
    assert signal.SIGHUP in signals.SIGNALS
    assert said(UNDER_NOHUP, int(signal.SIGHUP)) == 'False\n'
    assert said(WITHOUT_TERMINAL, int(signal.SIGHUP)) == ''


def test_help_says_what_a_node_is_and_starts_nothing() -> None:
    module = 'physis_ros.ros.servo_node'
    done = subprocess.run(
        [sys.executable, '-m', module, '--help', '--ros-args', '-p', 'a:=1'],
        capture_output=True, text=True, timeout=60,
    )  # fmt: skip
    assert (done.returncode, done.stderr) == (0, '')
    assert done.stdout.startswith('usage: servo_node ')
    assert 'action chunks' in done.stdout


def test_X24_a_step_of_leaving_that_fails_keeps_no_other_from_being_done() -> None:
    """The failure is told, and is in the exit code."""
    done = subprocess.run(
        [sys.executable, '-c', LEAVING], capture_output=True, text=True, timeout=60
    )
    assert done.returncode == 1
    assert done.stdout.split('\n')[1:] == ['removed', 'destroyed', 'shut down', '']
    assert 'one joint failed' in done.stderr


def test_X16_callbacks_run_in_one_thread() -> None:
    """No executor of several threads is made anywhere: they race at shutdown."""
    sources = (Path(signals.__file__).parent).glob('*.py')
    assert not [path for path in sources if 'MultiThreadedExecutor' in path.read_text()]


# A signal in an import, a child before its program, a worker that was told to go.
LEFT_AT_ONCE = {'signals.py', 'demo_processes.py', 'worker.py'}


def test_X24_no_node_leaves_without_cleaning_up() -> None:
    package = Path(signals.__file__).parents[1]
    found = {path.name for path in package.rglob('*.py') if 'os._exit(' in path.read_text()}
    assert found == LEFT_AT_ONCE
