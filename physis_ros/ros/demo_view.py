# SPDX-License-Identifier: Apache-2.0
"""
How the demo goes, on one screen while it runs; where there is no screen, a line now and then.

Only shows; what is heard and what is decided lives elsewhere.
"""

from __future__ import annotations

import math
import time
from collections.abc import Sequence
from typing import Any, TextIO

from rich.console import Console, Group
from rich.live import Live
from rich.panel import Panel
from rich.progress_bar import ProgressBar
from rich.table import Table
from rich.text import Text

from physis_ros.ros.demo_fleet_view import fleet_table, fleet_words
from physis_ros.ros.demo_monitor import Heard
from physis_ros.ros.demo_options import DemoOptions
from physis_ros.ros.demo_processes import Child
from physis_ros.ros.demo_robots import robots
from physis_ros.ros.status_view import (
    depth_bar,
    depth_ms,
    hertz,
    mark,
    millimetres,
    pair,
    play_words,
    workers_line,
)
from physis_ros.ros.wam_report import WORDS as STATES

LINE_EVERY_S = 5.0
KEPT_NOTES = 6


class View:
    """
    The display. Single-threaded.

    :param options: of the run.
    :param stream: where to show it.
    """

    def __init__(self, options: DemoOptions, stream: TextIO) -> None:
        self._options = options
        self._robots = robots(options.streams, options.seed)
        self._console = Console(file=stream)
        self._begun_s = time.monotonic()
        self._line_s = -LINE_EVERY_S
        self._notes: list[str] = []
        self._live: Live | None = None
        if self._console.is_terminal:
            self._live = Live(console=self._console, auto_refresh=False, transient=True)
            self._live.start()

    def show(self, fleet: Sequence[Heard], children: Sequence[Child]) -> None:
        """Show the newest state of every robot."""
        if self._live is not None:
            self._live.update(self._screen(fleet, children), refresh=True)
        elif time.monotonic() - self._line_s >= LINE_EVERY_S:
            self._line_s = time.monotonic()
            self._print(self._line(fleet))

    def note(self, text: str) -> None:
        """Say that something happened."""
        self._notes = [*self._notes, f'{self._elapsed_s:6.1f} s  {text}'][-KEPT_NOTES:]
        if self._live is None:
            self._print(text)

    def close(self) -> None:
        """Give the screen back; the notes stay to be read."""
        if self._live is not None:
            self._live.stop()
            self._live = None
            for note in self._notes:
                self._print(note)

    @property
    def _elapsed_s(self) -> float:
        """Seconds since the start."""
        return time.monotonic() - self._begun_s

    def _print(self, text: str) -> None:
        """Print one line as it is."""
        self._console.print(f'demo: {text}', markup=False, highlight=False, soft_wrap=True)

    def _line(self, fleet: Sequence[Heard]) -> str:
        """Return the state as one line."""
        heard = _hindmost(fleet)
        parts = [f'{self._elapsed_s:5.1f} s', self._where(heard)]
        if len(fleet) > 1:
            return '; '.join([', '.join(parts), *fleet_words(self._robots, fleet)])
        play, stream = heard.playback, heard.stream
        if stream is not None and stream.chunk_hz > 0:
            parts.append(f'chunks {stream.chunk_hz:.1f} Hz')
        if play is not None and play.ticks:
            parts += [
                f'age p50 {play.action_age.p50:.0f} ms',
                f'buffer {depth_ms(play):.0f} ms',
                f'missed {play.deadline_misses}/{play.deadline_due}',
            ]
        if heard.tracking.count:
            parts.append(f'error {heard.tracking.mean_m * 1e3:.1f} mm')
        return ', '.join(parts)

    def _where(self, heard: Heard) -> str:
        """Say where the run is."""
        count = self._options.episodes
        if heard.episode >= count:
            return 'all episodes done'
        if heard.episode >= 0:
            return f'episode {heard.episode + 1} of {count}'
        if heard.stream is None:
            return 'starting the nodes'
        return f'engine {STATES.get(heard.stream.state, "unknown")}'

    def _screen(self, fleet: Sequence[Heard], children: Sequence[Child]) -> Panel:
        """Return everything on one screen."""
        heard = _hindmost(fleet)
        done = min(max(heard.episode, 0), self._options.episodes)
        bar = ProgressBar(total=self._options.episodes, completed=done, width=40)
        top = Table.grid(padding=(0, 2))
        top.add_row(Text(self._where(heard), style='bold'), bar, f'{self._elapsed_s:.0f} s')
        workers = heard.stream.workers if heard.stream is not None else ()
        lines = (workers_line(workers), _nodes(children))
        figures = self._figures(heard) if len(fleet) == 1 else fleet_table(self._robots, fleet)
        parts: list[Any] = [top, Text(), figures, Text(), *lines]
        if self._notes:
            parts += [Text(), Text('\n'.join(self._notes), style='yellow')]
        return Panel(
            Group(*parts),
            title='physis demo',
            subtitle=str(self._options.out),
            expand=False,
            padding=(1, 1),
        )

    def _figures(self, heard: Heard) -> Table:
        """Return what is measured now."""
        table = Table(box=None, show_header=False, padding=(0, 2, 0, 0))
        for _ in range(3):
            table.add_column(style='dim')
            table.add_column(justify='right')
        stream, play = heard.stream, heard.playback
        age = response = interval = '-'
        rates, depth, misses, underruns = ['-'] * 4, Text('-'), '-', '-'
        if stream is not None:
            response = pair(stream.response_latency)
            interval = pair(stream.output_interval)
            rates[:3] = [hertz(stream.sensor_hz), hertz(stream.replan_hz), hertz(stream.chunk_hz)]
        if play is not None:
            age, depth = pair(play.action_age), depth_bar(play)
            rates[3] = hertz(play.servo_hz)
            misses = f'{play.deadline_misses} / {play.deadline_due}'
            underruns = f'{play.underrun_ticks} ticks'
        last_m = heard.tracking.last_m
        now = '-' if math.isnan(last_m) else f'{last_m * 1e3:.0f} mm'
        mean = millimetres(heard.tracking.mean_m)
        before = ' '.join(millimetres(value) for value in heard.episodes_m[-5:]) or '-'
        table.add_row('sensor', rates[0], 'age p50 / p99', age, 'tracking error', now)
        table.add_row('replan', rates[1], 'response latency', response, 'this episode', mean)
        table.add_row('chunk', rates[2], 'output interval', interval, 'before', before)
        table.add_row('servo', rates[3], 'missed / due', misses, 'buffer', depth)
        table.add_row('', '', 'underrun', underruns, 'playing', play_words(play))
        return table


def _hindmost(fleet: Sequence[Heard]) -> Heard:
    """Return the robot that is in the earliest episode."""
    return min(fleet, key=lambda heard: heard.episode)


def _nodes(children: Sequence[Child]) -> Text:
    """Return one line for the processes."""
    text = Text('nodes    ', style='dim')
    for child in children:
        mark(text, child.code is None).append(f'{child.name}   ')
    return text
