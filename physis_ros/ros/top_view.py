# SPDX-License-Identifier: Apache-2.0
"""The screen of ``physis top``: the stream or streams, what is wrong, and what is missing."""

from __future__ import annotations

from typing import Any

from rich.console import Group
from rich.panel import Panel
from rich.table import Table
from rich.text import Text

from physis_ros.msg import PlaybackStatus, StreamStatus
from physis_ros.ros.conversions import duration_ns
from physis_ros.ros.status_view import (
    NONE,
    counts,
    depth_bar,
    hertz,
    pair,
    play_words,
    workers_line,
)
from physis_ros.ros.top_fleet_view import fleet_table, fleet_words
from physis_ros.ros.top_monitor import Seen
from physis_ros.ros.wam_report import WORDS as STATES

SERVO_STATES = {
    PlaybackStatus.STATE_INACTIVE: 'inactive',
    PlaybackStatus.STATE_WARMING_UP: 'warming up',
    PlaybackStatus.STATE_ACTIVE: 'active',
    PlaybackStatus.STATE_STOPPING: 'stopping',
    PlaybackStatus.STATE_UNCONFIGURED: 'unconfigured',
}
GOOD = 'green'
BAD = 'bold red'
UNDER_WAY = 'yellow'
PLAYING = ('buffer', 'missed / due', 'underruns', 'longest', 'late chunks')


def screen(seen: Seen) -> Panel:
    """Return everything on one screen."""
    if seen.fleet:
        parts: list[Any] = [fleet_table(seen.fleet), Text(), *fleet_words(seen.fleet)]
    else:
        parts = _single(seen)
    wrong = [f'{name}: {message}' for name, message in sorted(seen.trouble.items())]
    if wrong:
        parts += [Text(), Text('\n'.join(wrong), style=UNDER_WAY)]
    if seen.missing:
        parts += [Text(), Text('\n'.join(seen.missing), style=BAD)]
    return Panel(Group(*parts), title='physis top', expand=False, padding=(1, 1))


def _single(seen: Seen) -> list[Any]:
    """Return what there is to say of the only stream."""
    workers = seen.stream.workers if seen.stream is not None else ()
    parts = [_states(seen), Text(), _figures(seen), Text(), workers_line(workers)]
    if seen.stream is not None and seen.stream.overload:
        parts.append(Text(seen.stream.overload, style=BAD))
    return [*parts, *_counts(seen)]


def _states(seen: Seen) -> Table:
    """Return who is in which state and why."""
    table = Table.grid(padding=(0, 2))
    stream, play = seen.stream, seen.playback
    table.add_row(Text('engine', style='dim'), *_engine_state(stream))
    if play is None:
        table.add_row(Text('servo', style='dim'), Text('not heard', style=BAD), '')
        return table
    name = SERVO_STATES.get(play.state, 'unknown')
    active = play.state == PlaybackStatus.STATE_ACTIVE
    words = f'stream {play.stream or NONE}, epoch {play.epoch}, {play_words(play)}'
    table.add_row(
        Text('servo', style='dim'), Text(name, style=GOOD if active else UNDER_WAY), words
    )
    return table


def _engine_state(stream: Any | None) -> tuple[Text, str]:
    """Return the state of the engine and why it is in it."""
    if stream is None:
        return Text('not heard', style=BAD), ''
    styles = {StreamStatus.STATE_RUNNING: GOOD, StreamStatus.STATE_FAILED: BAD}
    name = Text(STATES.get(stream.state, 'unknown'), style=styles.get(stream.state, UNDER_WAY))
    return name, stream.reason or f'stream {stream.stream}, epoch {stream.epoch}'


def _figures(seen: Seen) -> Table:
    """Return what is measured now."""
    table = Table(box=None, show_header=False, padding=(0, 2, 0, 0))
    for _ in range(3):
        table.add_column(style='dim')
        table.add_column(justify='right')
    rows = zip(_rates(seen), _times(seen), _playing(seen), strict=True)
    for row in rows:
        table.add_row(*(cell for cells in row for cell in cells))
    return table


def _rates(seen: Seen) -> list[tuple[str, str]]:
    """Return the rates, which are four different things."""
    stream, play = seen.stream, seen.playback
    return [
        ('sensor', hertz(stream.sensor_hz) if stream else NONE),
        ('replan', hertz(stream.replan_hz) if stream else NONE),
        ('chunk', hertz(stream.chunk_hz) if stream else NONE),
        ('servo', hertz(play.servo_hz) if play else NONE),
        ('told delay', f'{stream.told_delay_steps} steps' if stream else NONE),
    ]


def _times(seen: Seen) -> list[tuple[str, str]]:
    """Return the times, p50 and p99."""
    stream, play = seen.stream, seen.playback
    return [
        ('age p50 / p99', pair(play.action_age) if play else NONE),
        ('age now', _milliseconds(play.last_age) if play else NONE),
        ('response latency', pair(stream.response_latency) if stream else NONE),
        ('output interval', pair(stream.output_interval) if stream else NONE),
        ('servo jitter', pair(play.servo_period_error, 'us') if play else NONE),
    ]


def _playing(seen: Seen) -> list[tuple[str, str | Text]]:
    """Return how the playing goes."""
    play = seen.playback
    if play is None:
        return [(name, NONE) for name in PLAYING]
    values = (
        depth_bar(play),
        f'{play.deadline_misses} / {play.deadline_due}',
        f'{play.underruns} ({play.underrun_ticks} ticks)',
        _milliseconds(play.longest_underrun),
        f'{play.chunks_late} / {play.chunks_accepted}',
    )
    return list(zip(PLAYING, values, strict=True))


def _counts(seen: Seen) -> list[Text]:
    """Return why chunks were refused and ticks missed; nothing where none were."""
    play = seen.playback
    if play is None:
        return []
    named = (('missed ', play.underrun_reasons), ('refused', play.reject_reasons))
    found = [(name, counts(items)) for name, items in named]
    return [Text.assemble((name, 'dim'), f'  {text}') for name, text in found if text]


def _milliseconds(duration: Any) -> str:
    """Return a duration; one below zero is none."""
    value_ns = duration_ns(duration)
    return NONE if value_ns < 0 else f'{value_ns * 1e-6:.0f} ms'
