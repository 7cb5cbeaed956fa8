# SPDX-License-Identifier: Apache-2.0
"""
The demo's nodes as child processes: started, watched, stopped in order, never left behind.

Each has a process group of its own, so that Ctrl-C in the terminal reaches the demo alone, which
then stops them in the order that lets the final hold reach the robot and the recorder see it. If
the demo is killed, the kernel tells the children (parent-death signal).
"""

from __future__ import annotations

import ctypes
import os
import signal
import subprocess
import sys
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from physis_ros.errors import PhysisError

PR_SET_PDEATHSIG = 1
LAST_LINES = 12
POLL_S = 0.01


class ChildDied(PhysisError):
    """
    A node ended while it was needed.

    :param name: which.
    :param code: exit code; negative is a signal.
    :param tail: the last lines of its log.
    """

    def __init__(self, name: str, code: int, tail: str) -> None:
        self.name, self.code, self.tail = name, code, tail
        super().__init__(f'{name} ended with {meaning(code)}; its last lines:\n{tail}')


@dataclass
class Child:
    """
    One started node.

    :param name: what a person calls it.
    :param log: where its output goes.
    :param asked: it was told to stop.
    :param reported: its death has been reported.
    """

    name: str
    process: subprocess.Popen[bytes]
    log: Path
    asked: bool = False
    reported: bool = False

    @property
    def code(self) -> int | None:
        """Its exit code; None while it runs."""
        return self.process.poll()

    def tail(self) -> str:
        """Return its last lines."""
        text = self.log.read_text(errors='replace') if self.log.exists() else ''
        return '\n'.join(text.splitlines()[-LAST_LINES:])

    def ask(self) -> None:
        """Tell it to stop, once."""
        if not self.asked and self.code is None:
            self.process.send_signal(signal.SIGINT)
        self.asked = True


class Children:
    """
    All of them. Single-threaded; start from the main thread, whose death the kernel tells them.

    :param folder: for their logs.
    :param environment: of all of them.
    """

    def __init__(self, folder: Path, environment: Mapping[str, str]) -> None:
        self._folder, self._environment = folder, dict(environment)
        self._children: dict[str, Child] = {}

    def __iter__(self):  # type: ignore[no-untyped-def]
        """Go through the children in the order of their start."""
        return iter(self._children.values())

    def start(
        self,
        name: str,
        module: str,
        parameters: Mapping[str, object],
        *rest: str,
        niceness: int = 0,
    ) -> Child:
        """
        Start one node.

        :param module: with a ``main``, run by this interpreter; its last part names the node.
        :param parameters: ROS parameters; kept in a file beside the log.
        :param rest: further ROS arguments, such as remappings and files with other parameters.
        :param niceness: below 0 it comes before other processes, where that is permitted.
        """
        given = self._folder / f'{name}.yaml'
        given.write_text(_section(module.rsplit('.', 1)[-1], parameters))
        # The last file wins.
        arguments = ['--ros-args', *rest, '--params-file', str(given)]
        log = self._folder / f'{name}.log'
        parent = os.getpid()
        with log.open('wb') as output:
            process = subprocess.Popen(
                [sys.executable, '-m', module, *arguments],
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=subprocess.STDOUT,
                env=self._environment,
                start_new_session=True,
                preexec_fn=lambda: _die_with(parent),
            )
        if niceness:
            _prefer(process.pid, niceness)
        child = self._children[name] = Child(name, process, log)
        return child

    def check(self) -> None:
        """
        Look whether all run that should.

        :raises ChildDied: naming the first that does not.
        """
        for child in self._children.values():
            code = child.code
            if code is not None and not child.asked:
                child.reported = True
                raise ChildDied(child.name, code, child.tail())

    def ask(self, *names: str) -> None:
        """Tell some to stop."""
        for name in names:
            if name in self._children:
                self._children[name].ask()

    def wait(self, names: Sequence[str], timeout_s: float) -> bool:
        """Wait until these have ended; return whether they have."""
        deadline_s = time.monotonic() + timeout_s
        waited = [self._children[name] for name in names if name in self._children]
        while any(child.code is None for child in waited):
            if time.monotonic() >= deadline_s:
                return False
            time.sleep(POLL_S)
        return True

    def kill(self) -> list[str]:
        """End at once whatever still runs, with its whole group; return the names."""
        left = [child for child in self._children.values() if child.code is None]
        for child in self._children.values():
            # The group may outlive its leader: workers whose node was killed.
            _kill_group(child.process.pid)
        for child in left:
            child.process.wait()
        return [child.name for child in left]

    def failures(self) -> dict[str, int]:
        """Return the exit codes that were not 0 and have not been reported."""
        children = [child for child in self._children.values() if not child.reported]
        return {child.name: child.code for child in children if child.code}


def meaning(code: int) -> str:
    """Say an exit code."""
    if code >= 0:
        return f'exit code {code}'
    try:
        return f'signal {signal.Signals(-code).name}'
    except ValueError:
        return f'signal {-code}'


def _kill_group(group: int) -> None:
    """Kill a process group, which may be gone already."""
    try:
        os.killpg(group, signal.SIGKILL)
    except ProcessLookupError:
        return


def _prefer(pid: int, niceness: int) -> None:
    """Change a process's priority; without the permission it stays an ordinary one."""
    try:
        os.setpriority(os.PRIO_PROCESS, pid, niceness)
    except PermissionError:
        return


def _die_with(parent: int) -> None:
    """Ask the kernel for SIGTERM when the parent dies. Runs in the child before its program."""
    ctypes.CDLL(None).prctl(PR_SET_PDEATHSIG, signal.SIGTERM)
    if os.getppid() != parent:
        os._exit(1)


def _section(node: str, parameters: Mapping[str, object]) -> str:
    """Write the parameters of a node, in whatever namespace it is."""
    lines = [f'    {name}: {_yaml(value)}\n' for name, value in parameters.items()]
    return f'/**/{node}:\n  ros__parameters:\n{"".join(lines) or "    {}"}'


def _yaml(value: object) -> str:
    """Write a parameter as YAML: ``true``, ``1.0``, ``'text'``, ``['a', 'b']``."""
    if isinstance(value, bool):
        return 'true' if value else 'false'
    if isinstance(value, (list, tuple)):
        return '[' + ', '.join(_yaml(item) for item in value) + ']'
    if isinstance(value, str):
        return "'" + value.replace("'", "''") + "'"
    return repr(value)
