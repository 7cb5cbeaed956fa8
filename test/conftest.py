# SPDX-License-Identifier: Apache-2.0
"""Fixtures for tests over real DDS: a context of its own, a probe node, processes that end."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from endurance.spinning import spin_until

ROOT = Path(__file__).resolve().parents[1]


class Bench:
    """
    A probe node with an executor, and other nodes beside it in the same context.

    :param context: an initialised rclpy context.
    """

    def __init__(self, context: Any) -> None:
        from rclpy.node import Node

        from physis_ros.ros.executor import make_executor

        self.context = context
        self.executor = make_executor(context)
        self.probe = Node('probe', context=context)
        self.executor.add_node(self.probe)
        self._nodes: list[Any] = []

    def add(self, kind: Callable[..., Any], parameters: dict[str, Any] | None = None) -> Any:
        """Make a node with parameters given from outside, and serve it."""
        from rclpy.parameter import Parameter

        overrides = [Parameter(name, value=value) for name, value in (parameters or {}).items()]
        node = kind(context=self.context, parameter_overrides=overrides)
        self._nodes.append(node)
        self.executor.add_node(node)
        return node

    def collect(self, kind: type, topic: str, profile: Any = 10) -> list[Any]:
        """Return a list that fills with the messages of a topic."""
        found: list[Any] = []
        self.probe.create_subscription(kind, topic, found.append, profile)
        return found

    def spin_until(self, condition: Callable[[], Any], timeout_s: float = 10.0) -> bool:
        """Serve callbacks until the condition holds; return whether it does."""
        return spin_until(self.executor, condition, timeout_s)

    def close(self) -> None:
        """Take everything down."""
        for node in [*self._nodes, self.probe]:
            self.executor.remove_node(node)
            if hasattr(node, 'close'):
                node.close()
            node.destroy_node()
        self.executor.shutdown()
        # rclpy leaves this one, which keeps the node in the graph, where later tests would see it.
        for machine in (getattr(node, '_state_machine', None) for node in self._nodes):
            if machine is not None:
                machine.destroy_when_not_in_use()


def shared_domain() -> int:
    """
    Return the domain of what tests of a file share.

    It is not that of single tests: there may be a node of the same name there, and a client that
    meets two servers under one name may never call its service ready.
    """
    own, first, count = int(os.environ.get('ROS_DOMAIN_ID', '0')), 10, 90
    return first + (own - first + count // 2) % count


@contextmanager
def made_bench(domain: int | None = None) -> Iterator[Bench]:
    """
    Make a bench in a context of its own, and take it down.

    :param domain: default: that of the environment.
    """
    rclpy = pytest.importorskip('rclpy')
    from rclpy.signals import SignalHandlerOptions

    context = rclpy.Context()
    rclpy.init(
        context=context, domain_id=domain, signal_handler_options=SignalHandlerOptions.NO
    )
    made = Bench(context)
    yield made
    made.close()
    rclpy.try_shutdown(context=context)


@pytest.fixture
def bench() -> Iterator[Bench]:
    """Give a bench for one test."""
    with made_bench() as made:
        yield made


@pytest.fixture(scope='module')
def shared_bench() -> Iterator[Bench]:
    """Give a bench for the tests of a file, where a shared launcher's processes are, too."""
    with made_bench(shared_domain()) as made:
        yield made


class Launcher:
    """
    Starts nodes as processes.

    :param folder: for their logs.
    :param domain: of the processes; default: that of the environment.
    """

    def __init__(self, folder: Path, domain: int | None = None) -> None:
        self._folder = folder
        self._own = {} if domain is None else {'ROS_DOMAIN_ID': str(domain)}
        self._processes: list[subprocess.Popen[bytes]] = []
        self._logs: list[Path] = []

    def start(self, module: str, *arguments: str) -> subprocess.Popen[bytes]:
        """Start ``python -m module``; its output goes to a file, see :meth:`log`."""
        return self._start('-m', module, *arguments)

    def start_script(self, script: Path, *arguments: str) -> subprocess.Popen[bytes]:
        """Start ``python script``."""
        return self._start(str(script), *arguments)

    def _start(self, *words: str) -> subprocess.Popen[bytes]:
        """Start Python with arguments."""
        path = self._folder / f'{len(self._logs)}.log'
        with path.open('wb') as log:
            process = subprocess.Popen(
                [sys.executable, *words],
                stdout=log,
                stderr=subprocess.STDOUT,
                cwd=ROOT,
                env={**os.environ, 'PYTHONUNBUFFERED': '1', **self._own},
                start_new_session=True,
            )
        self._processes.append(process)
        self._logs.append(path)
        return process

    def log(self, process: subprocess.Popen[bytes]) -> str:
        """Return what a process has said so far."""
        return self._logs[self._processes.index(process)].read_text(errors='replace')

    def close(self) -> None:
        """Leave nothing running, and, unless one must be killed, no shared memory of DDS."""
        running = [process for process in self._processes if process.poll() is None]
        for process in running:
            process.send_signal(signal.SIGINT)
        for process in running:
            try:
                process.wait(10)
            except subprocess.TimeoutExpired:
                os.killpg(process.pid, signal.SIGKILL)
                process.wait()


@pytest.fixture
def launcher(tmp_path: Path) -> Iterator[Launcher]:
    """Give a launcher whose processes end with the test."""
    made = Launcher(tmp_path)
    yield made
    made.close()


@pytest.fixture(scope='module')
def shared_launcher(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Launcher]:
    """Give a launcher whose processes end with the tests of a file."""
    made = Launcher(tmp_path_factory.mktemp('logs'), shared_domain())
    yield made
    made.close()
