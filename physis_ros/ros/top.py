# SPDX-License-Identifier: Apache-2.0
"""
``physis top``: a running system on one screen, until a signal comes.

Only listens. Where there is no screen, or when asked, one picture and an exit code that says
whether everything was heard.
"""

from __future__ import annotations

import time
from typing import TextIO

from rich.console import Console
from rich.live import Live

from physis_ros.ros.signals import Stop
from physis_ros.ros.top_fleet import PATIENCE_S
from physis_ros.ros.top_monitor import Seen, TopMonitor
from physis_ros.ros.top_view import screen

EVERY_S = 0.2
MISSING = 1
# A moment longer than the patience, so that what is missing is said.
ONCE_S = PATIENCE_S + 0.5


def watch(monitor: TopMonitor, stop: Stop, stream: TextIO) -> None:
    """Show the newest state until told to stop."""
    console = Console(file=stream)
    with Live(console=console, auto_refresh=False, screen=True) as live:
        while not stop.requested:
            live.update(screen(monitor.look(time.monotonic())), refresh=True)
            time.sleep(EVERY_S)


def show_once(monitor: TopMonitor, stop: Stop, stream: TextIO) -> int:
    """Show the state once, as soon as all is heard, and return 1 when something is missing."""
    seen, end_s = Seen(), time.monotonic() + ONCE_S
    while not stop.requested and time.monotonic() < end_s:
        seen = monitor.look(time.monotonic())
        if seen.stream is not None and seen.playback is not None and not seen.fleet:
            break
        time.sleep(EVERY_S)
    Console(file=stream).print(screen(seen))
    return MISSING if seen.missing else 0


def run(namespace: str, once: bool, stream: TextIO) -> int:
    """
    Watch one pair of nodes.

    :param namespace: of the nodes.
    :param once: one picture only; always so where ``stream`` is no terminal.
    :param stream: where to show it.
    """
    stop = Stop.installed()
    stop.arm()
    monitor = TopMonitor(namespace)
    try:
        if once or not stream.isatty():
            return show_once(monitor, stop, stream)
        watch(monitor, stop, stream)
    finally:
        monitor.close()
    return 0
