# SPDX-License-Identifier: Apache-2.0
"""The figures of a run as rows for a person, and as a table for a terminal."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from rich.table import Table

from physis_ros.evaluation.fleet import fleet_table
from physis_ros.evaluation.words import counted, incomplete


@dataclass(frozen=True)
class Row:
    """
    One figure.

    :param name: what it is called.
    :param value: with its unit.
    :param meaning: key of its definition; empty where the name says it.
    """

    name: str
    value: str
    meaning: str = ''


def rows(summary: Mapping[str, Any]) -> list[Row]:
    """Return the figures that a person looks for, the most important first."""
    track, age = summary['track_error_m'], summary['action_age_ms']
    rates = summary['rates_hz']
    expert, hold = summary['expert_track_error_m']['mean'], summary['hold_track_error_m']
    due, misses = summary['deadline_due'], summary['deadline_misses']
    share = f' ({100 * misses / due:.2f} %)' if due else ''
    return [
        Row('tracking error', f'{_mm(track["mean"])} mean, {_mm(track["p95"])} p95',
            'track_error_m'),
        Row('  expert / no motion', f'{_mm(expert)} / {_mm(hold)}', 'hold_track_error_m'),
        Row('action age', f'{_p50_p99(age)}, n = {age["n"]}', 'action_age_ms'),
        Row('response latency', _p50_p99(summary['response_latency_ms']), 'response_latency_ms'),
        Row('output interval', _p50_p99(summary['output_interval_ms']), 'output_interval_ms'),
        Row('rates', ', '.join(f'{name} {_rate(value)}' for name, value in rates.items()) + ' Hz',
            'rates_hz.replan'),
        Row('servo jitter', _p50_p99(summary['servo_jitter_us'], 'us'), 'servo_jitter_us'),
        Row('deadline misses', f'{misses} of {due} due{share}', 'deadline_misses'),
        Row('underrun', f'{summary["underrun_ticks"]} of {summary["ticks"]} ticks',
            'underrun_ticks'),
        Row('predicted frames', f'{_db(summary["frame_psnr_db"])}, copying the last '
            f'{_db(summary["copy_last_psnr_db"])}, n = {summary["frames_compared"]}',
            'frame_psnr_db'),
        Row('engine', f'{summary["kv_rule"]} KV, {summary["stages"]} stages on '
            + counted(summary['workers'], 'worker')),
        Row('run', f'{counted(summary["episodes"], "episode")}, seed {summary["seed"]}, '
            f'version {summary["version"]}'),
    ]  # fmt: skip


def summary_table(summary: Mapping[str, Any]) -> Table:
    """Return the figures as a table for a terminal; of several streams a row for each."""
    if 'streams' in summary:
        return fleet_table(summary)
    table = Table(title='result', show_header=False, title_justify='left')
    table.add_column(style='bold')
    table.add_column()
    for row in rows(summary):
        table.add_row(row.name, row.value)
    lacks = incomplete(*summary['recording_missing'].values())
    if lacks:
        table.add_row('[red]incomplete', lacks)
    wrong = [name for name, holds in summary['checks'].items() if holds is False]
    if wrong:
        table.add_row('[red]inconsistent', '; '.join(wrong))
    differs = [name for name, agrees in summary['live_agrees'].items() if agrees is False]
    if differs:
        table.add_row('live differs', '; '.join(differs))
    return table


def _mm(value_m: float | None) -> str:
    """Return a distance in millimetres."""
    return '-' if value_m is None else f'{value_m * 1e3:.1f} mm'


def _rate(value: float | None) -> str:
    """Return a rate, without its unit."""
    return '-' if value is None else f'{value:.1f}'


def _db(value: float | None) -> str:
    """Return a ratio in decibels."""
    return '-' if value is None else f'{value:.1f} dB'


def _p50_p99(figures: Mapping[str, Any], unit: str = 'ms') -> str:
    """Return median and p99."""
    if figures['p50'] is None:
        return '-'
    return f'{figures["p50"]:.1f} {unit} p50, {figures["p99"]:.1f} {unit} p99'
