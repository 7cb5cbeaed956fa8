# SPDX-License-Identifier: Apache-2.0
"""How a demo with several robots goes: a row, or some words, for each. Only shows."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence

from rich.table import Table

from physis_ros.ros.demo_monitor import Heard
from physis_ros.ros.demo_robots import Robot
from physis_ros.ros.status_view import NONE, depth_bar, hertz, millimetres, pair, play_words
from physis_ros.ros.wam_report import WORDS as STATES

COLUMNS = ('episode', 'stream', 'chunk', 'age p50 / p99', 'response', 'missed / due', 'underrun')
LAST_COLUMNS = ('buffer', 'playing', 'error')


def fleet_table(robots: Sequence[Robot], fleet: Sequence[Heard]) -> Table:
    """Return what is measured now, a row for each robot."""
    table = Table(box=None, padding=(0, 2, 0, 0), header_style='dim')
    for name in ('', *COLUMNS, *LAST_COLUMNS):
        table.add_column(name, justify='left' if not name or name == 'playing' else 'right')
    for robot, heard in zip(robots, fleet, strict=True):
        stream, play = heard.stream, heard.playback
        table.add_row(
            robot.stream,
            str(heard.episode + 1) if heard.episode >= 0 else NONE,
            NONE if stream is None else STATES.get(stream.state, 'unknown'),
            NONE if stream is None else hertz(stream.chunk_hz),
            NONE if play is None else pair(play.action_age),
            NONE if stream is None else pair(stream.response_latency),
            NONE if play is None else f'{play.deadline_misses} / {play.deadline_due}',
            NONE if play is None else f'{play.underrun_ticks} ticks',
            NONE if play is None else depth_bar(play),
            play_words(play),
            millimetres(heard.tracking.mean_m),
        )
    return table


def fleet_words(robots: Iterable[Robot], fleet: Iterable[Heard]) -> Iterator[str]:
    """Yield some words for each robot that plays."""
    for robot, heard in zip(robots, fleet, strict=True):
        play = heard.playback
        if play is None or not play.ticks:
            continue
        words = [f'{robot.stream} age p50 {play.action_age.p50:.0f} ms']
        words.append(f'missed {play.deadline_misses}/{play.deadline_due}')
        if heard.tracking.count:
            words.append(f'error {millimetres(heard.tracking.mean_m)}')
        yield ', '.join(words)
