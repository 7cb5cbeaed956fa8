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

from physis_ros.ros.conversions import duration_ns
from physis_ros.ros.demo_monitor import Heard
from physis_ros.ros.demo_options import DemoOptions
from physis_ros.ros.demo_processes import Child
from physis_ros.ros.servo_report import WORDS as REASONS
from physis_ros.ros.wam_report import WORDS as STATES
from physis_ros.types import Reason

LINE_EVERY_S = 5.0
DEPTH_FULL_MS, DEPTH_CELLS = 400.0, 8
KEPT_NOTES = 6


class View:
    """
    The display. Single-threaded.

    :param options: of the run.
    :param stream: where to show it.
    """

    def __init__(self, options: DemoOptions, stream: TextIO) -> None:
        self._options = options
        self._console = Console(file=stream)
        self._begun_s = time.monotonic()
        self._line_s = -LINE_EVERY_S
        self._notes: list[str] = []
        self._live: Live | None = None
        if self._console.is_terminal:
            self._live = Live(console=self._console, auto_refresh=False, transient=True)
            self._live.start()

    def show(self, heard: Heard, children: Sequence[Child]) -> None:
        """Show the newest state."""
        if self._live is not None:
            self._live.update(self._screen(heard, children), refresh=True)
        elif time.monotonic() - self._line_s >= LINE_EVERY_S:
            self._line_s = time.monotonic()
            self._print(self._line(heard))

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

    def _line(self, heard: Heard) -> str:
        """Return the state as one line."""
        parts = [f'{self._elapsed_s:5.1f} s', self._where(heard)]
        play, stream = heard.playback, heard.stream
        if stream is not None and stream.chunk_hz > 0:
            parts.append(f'chunks {stream.chunk_hz:.1f} Hz')
        if play is not None and play.ticks:
            parts += [
                f'age p50 {play.action_age.p50:.0f} ms',
                f'buffer {_depth_ms(play):.0f} ms',
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

    def _screen(self, heard: Heard, children: Sequence[Child]) -> Panel:
        """Return everything on one screen."""
        done = min(max(heard.episode, 0), self._options.episodes)
        bar = ProgressBar(total=self._options.episodes, completed=done, width=40)
        top = Table.grid(padding=(0, 2))
        top.add_row(Text(self._where(heard), style='bold'), bar, f'{self._elapsed_s:.0f} s')
        lines = (_workers(heard), _nodes(children))
        parts: list[Any] = [top, Text(), self._figures(heard), Text(), *lines]
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
            response = _pair(stream.response_latency)
            interval = _pair(stream.output_interval)
            rates[:3] = [_hz(stream.sensor_hz), _hz(stream.replan_hz), _hz(stream.chunk_hz)]
        if play is not None:
            age, depth = _pair(play.action_age), _depth(play)
            rates[3] = _hz(play.servo_hz)
            misses = f'{play.deadline_misses} / {play.deadline_due}'
            underruns = f'{play.underrun_ticks} ticks'
        now = f'{heard.tracking.last_m * 1e3:.0f} mm' if heard.episode >= 0 else '-'
        mean = _mm(heard.tracking.mean_m)
        before = ' '.join(_mm(value) for value in heard.episodes_m[-5:]) or '-'
        table.add_row('sensor', rates[0], 'age p50 / p99', age, 'tracking error', now)
        table.add_row('replan', rates[1], 'response latency', response, 'this episode', mean)
        table.add_row('chunk', rates[2], 'output interval', interval, 'before', before)
        table.add_row('servo', rates[3], 'missed / due', misses, 'buffer', depth)
        table.add_row('', '', 'underrun', underruns, 'playing', _play(play))
        return table


def _play(play: object | None) -> str:
    """Say what the servo does."""
    if play is None:
        return '-'
    reason = list(Reason)[play.reason]  # type: ignore[attr-defined]
    return REASONS[reason] if reason is not Reason.NONE else 'from chunks'


def _workers(heard: Heard) -> Text:
    """Return one line for the engine's workers."""
    text = Text('workers  ', style='dim')
    for worker in heard.stream.workers if heard.stream is not None else ():
        mark = '●' if worker.alive else '✗'
        text.append(f'{mark} ', style='green' if worker.alive else 'bold red')
        text.append(f'{worker.worker} (pid {worker.pid}, {worker.queue_length} waiting)   ')
    return text


def _nodes(children: Sequence[Child]) -> Text:
    """Return one line for the processes."""
    text = Text('nodes    ', style='dim')
    for child in children:
        alive = child.code is None
        text.append('● ' if alive else '✗ ', style='green' if alive else 'bold red')
        text.append(f'{child.name}   ')
    return text


def _depth(play: object) -> Text:
    """Return the buffer's depth as a bar."""
    depth_ms = _depth_ms(play)
    filled = round(min(max(depth_ms / DEPTH_FULL_MS, 0.0), 1.0) * DEPTH_CELLS)
    style = 'red' if depth_ms < 50 else 'yellow' if depth_ms < 120 else 'green'
    text = Text('█' * filled + '·' * (DEPTH_CELLS - filled), style=style)
    return text.append(f' {depth_ms:.0f} ms', style='default')


def _depth_ms(play: object) -> float:
    """Return how much motion lies ahead [ms]."""
    return duration_ns(play.buffer_depth) * 1e-6  # type: ignore[attr-defined]


def _pair(quantiles: object) -> str:
    """Return p50 and p99."""
    p50, p99 = quantiles.p50, quantiles.p99  # type: ignore[attr-defined]
    return '-' if math.isnan(p50) else f'{p50:.0f} / {p99:.0f} ms'


def _hz(value: float) -> str:
    """Return a rate."""
    return '-' if math.isnan(value) else f'{value:.1f} Hz'


def _mm(value_m: float) -> str:
    """Return a distance."""
    return '-' if math.isnan(value_m) else f'{value_m * 1e3:.1f} mm'
