# SPDX-License-Identifier: Apache-2.0
"""
Several streams of one run: one summary, one table and one page, with a row for each stream.

Every stream is evaluated as if it were alone; here they are set side by side.
"""

from __future__ import annotations

import html
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from rich.box import SIMPLE
from rich.table import Table

from physis_ros.evaluation.page import FLEET_PAGE
from physis_ros.evaluation.words import counted, incomplete

COMMON = ('kv_rule', 'workers', 'stages', 'episodes', 'version', 'definitions')
# Percentiles are p50 / p99.
COLUMNS = (
    'stream',
    'period [ms]',
    'error [mm]',
    'age [ms]',
    'response [ms]',
    'interval [ms]',
    'misses of due',
    'underrun ticks',
    'expert / no motion [mm]',
    'frames over copying [dB]',
)
# Of these as many as have room in a terminal.
SHOWN = 8


def join(summaries: Mapping[str, dict[str, Any]]) -> dict[str, Any]:
    """
    Return the summary of all streams.

    :param summaries: of each stream, by name.
    :returns: what they have in common, and under ``streams`` each one's own.
    """
    one = next(iter(summaries.values()))
    streams = {
        name: {key: value for key, value in summary.items() if key not in COMMON}
        for name, summary in summaries.items()
    }
    return {**{key: one[key] for key in COMMON}, 'streams': streams}


def fleet_table(summary: Mapping[str, Any]) -> Table:
    """Return the figures as a table for a terminal, a row for each stream."""
    table = Table(
        title=_title(summary), title_justify='left', box=SIMPLE, padding=(0, 1, 0, 0),
        caption='p50 / p99', caption_justify='left',
    )  # fmt: skip
    for name in COLUMNS[:SHOWN]:
        table.add_column(name, justify='left' if name == 'stream' else 'right')
    for cells in rows(summary):
        table.add_row(*cells[:SHOWN])
    for name, one in summary['streams'].items():
        lacks = incomplete(*one['recording_missing'].values())
        if lacks:
            table.add_row(f'[red]{name} {lacks}')
        wrong = [check for check, holds in one['checks'].items() if holds is False]
        wrong += [f'live {what}' for what, agrees in one['live_agrees'].items() if agrees is False]
        if wrong:
            table.add_row(f'[red]{name} inconsistent: {"; ".join(wrong)}')
    return table


def write_fleet_report(path: Path, summary: Mapping[str, Any], pages: Mapping[str, Path]) -> Path:
    """
    Write the page that sets the streams side by side.

    :param pages: the report of each stream.
    """
    head = ''.join(f'<th>{html.escape(name)}</th>' for name in COLUMNS)
    body = [f'<tr>{head}</tr>']
    for name, *cells in rows(summary):
        link = f'<a href="{html.escape(pages[name].name)}">{html.escape(name)}</a>'
        body.append(f'<tr><td>{link}</td>{"".join(f"<td>{cell}</td>" for cell in cells)}</tr>')
    path.write_text(
        FLEET_PAGE.format(
            title=f'{len(summary["streams"])} streams', subtitle=html.escape(_title(summary)),
            rows=''.join(body),
        ),
        encoding='utf-8',
    )  # fmt: skip
    return path


def rows(summary: Mapping[str, Any]) -> Iterator[tuple[str, ...]]:
    """Yield the cells of each stream, as in COLUMNS."""
    for name, one in summary['streams'].items():
        track, expert = one['track_error_m'], one['expert_track_error_m']
        yield (
            name,
            _number(one['configuration'].get('period_ms'), digits=0),
            _number(track['mean'], 1e3),
            _pair(one['action_age_ms']),
            _pair(one['response_latency_ms']),
            _pair(one['output_interval_ms']),
            f'{one["deadline_misses"]} of {one["deadline_due"]}',
            str(one['underrun_ticks']),
            f'{_number(expert["mean"], 1e3)} / {_number(one["hold_track_error_m"], 1e3)}',
            _gain(one['frame_psnr_db'], one['copy_last_psnr_db']),
        )


def _title(summary: Mapping[str, Any]) -> str:
    """Say what was run."""
    return (
        f'{len(summary["streams"])} streams on {counted(summary["workers"], "worker")}, '
        f'{summary["kv_rule"]} KV, {counted(summary["episodes"], "episode")} each, '
        f'physis_ros {summary["version"]}'
    )


def _number(value: float | None, factor: float = 1.0, digits: int = 1) -> str:
    return '-' if value is None else f'{value * factor:.{digits}f}'


def _pair(figures: Mapping[str, Any]) -> str:
    return '-' if figures['p50'] is None else f'{figures["p50"]:.0f} / {figures["p99"]:.0f}'


def _gain(frames: float | None, copied: float | None) -> str:
    return '-' if frames is None or copied is None else f'{frames - copied:+.1f}'
