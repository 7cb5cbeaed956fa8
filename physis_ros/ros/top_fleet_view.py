# SPDX-License-Identifier: Apache-2.0
"""The rows of ``physis top`` where a model node has several streams."""

from __future__ import annotations

from collections.abc import Mapping

from rich.table import Table
from rich.text import Text

from physis_ros.msg import StreamStatus
from physis_ros.ros.conversions import duration_ns
from physis_ros.ros.status_view import NONE, depth_bar, hertz, pair, play_words, workers_line
from physis_ros.ros.top_fleet import Pair
from physis_ros.ros.wam_report import WORDS as STATES

COLUMNS = ('stream', 'state', 'period', 'chunk', 'response', 'age')
PLAYING = ('missed / due', 'underruns', 'buffer', 'playing')
STYLES = {StreamStatus.STATE_RUNNING: 'green', StreamStatus.STATE_FAILED: 'bold red'}
LEFT = ('stream', 'state', 'playing')


def fleet_table(fleet: Mapping[str, Pair]) -> Table:
    """Return a row for each stream."""
    table = Table(box=None, padding=(0, 1, 0, 0), header_style='dim')
    for name in (*COLUMNS, *PLAYING):
        table.add_column(name, justify='left' if name in LEFT else 'right', no_wrap=True)
    for name, one in fleet.items():
        stream, play = one.stream, one.playback
        cells: list[str | Text] = [name, *_engine_cells(stream)]
        cells.append(NONE if play is None else pair(play.action_age))
        cells.append(NONE if play is None else f'{play.deadline_misses} / {play.deadline_due}')
        cells.append(NONE if play is None else f'{play.underruns}')
        cells.append(NONE if play is None else depth_bar(play))
        cells.append(play_words(play))
        table.add_row(*cells)
    return table


def fleet_words(fleet: Mapping[str, Pair]) -> list[Text]:
    """Return what is to be told below the rows: reasons, overload and the workers of each."""
    streams = {name: one.stream for name, one in fleet.items() if one.stream is not None}
    found = [
        Text(f'{name}: {stream.reason}', style='yellow')
        for name, stream in streams.items()
        if stream.reason
    ]
    overloads = dict.fromkeys(stream.overload for stream in streams.values() if stream.overload)
    found += [Text(text, style='bold red') for text in overloads]
    workers = {worker.worker: worker for one in streams.values() for worker in one.workers}
    return [*found, workers_line(worker for _, worker in sorted(workers.items()))]


def _engine_cells(stream: StreamStatus | None) -> list[str | Text]:
    """Return state, period, rate and response, p50 / p99."""
    if stream is None:
        return [Text('not heard', style='bold red'), *[NONE] * 3]
    word = STATES.get(stream.state, 'unknown')
    return [
        Text(word, style=STYLES.get(stream.state, 'yellow')),
        f'{duration_ns(stream.period) * 1e-6:.0f} ms',
        hertz(stream.chunk_hz),
        pair(stream.response_latency),
    ]
