# SPDX-License-Identifier: Apache-2.0
"""``report.html``: one self-contained page with the figures of a run, their meaning and plots."""

from __future__ import annotations

import base64
import html
import io
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from physis_ros.evaluation import motion_plots, plots, waterfall
from physis_ros.evaluation.agreement import agreements
from physis_ros.evaluation.animation import strip
from physis_ros.evaluation.page import PAGE
from physis_ros.evaluation.summary import Evaluation
from physis_ros.evaluation.table import rows
from physis_ros.evaluation.words import counted


def write_report(path: Path, evaluation: Evaluation, trace: Path | None) -> Path:
    """
    Write the page.

    :param trace: the engine's trace of the run, for the stages of one chunk.
    """
    summary = evaluation.summary
    path.write_text(
        PAGE.format(
            title=_title(summary),
            subtitle=html.escape(_subtitle(summary)),
            cards=''.join(_cards(summary)),
            rows=''.join(_rows(summary)),
            figures=''.join(_figures(evaluation, trace)),
            checks=''.join(_checks(summary)),
            account=''.join(_account(evaluation)),
            configuration=''.join(_pairs(summary['configuration'])),
        ),
        encoding='utf-8',
    )
    return path


def _title(summary: Mapping[str, Any]) -> str:
    """Return the headline."""
    error = summary['track_error_m']['mean']
    if error is None:
        return 'Run without a recorded truth'
    return f'Tracking error {error * 1e3:.1f} mm'


def _subtitle(summary: Mapping[str, Any]) -> str:
    """Say what was run."""
    return (
        f'{counted(summary["episodes"], "episode")}, seed {summary["seed"]}, '
        f'{counted(summary["workers"], "worker")}, {summary["kv_rule"]} KV, '
        f'physis_ros {summary["version"]}'
    )


def _cards(summary: Mapping[str, Any]) -> Iterator[str]:
    """Yield the few figures that are read first."""
    age, due = summary['action_age_ms'], summary['deadline_due']
    hold, track = summary['hold_track_error_m'], summary['track_error_m']['mean']
    yield _card('action age', age['p50'], 'ms', f'p99 {_number(age["p99"])} ms')
    misses = summary['deadline_misses']
    share = 100 * misses / due if due else None
    yield _card('deadline misses', share, '%', f'{misses} of {due} due')
    yield _card('underrun', summary['underrun_ticks'], 'ticks', f'of {summary["ticks"]}')
    better = None if not hold or track is None else hold / track
    yield _card('than no motion', better, 'x better', f'hold {_number(hold, 1e3)} mm')
    frames, copied = summary['frame_psnr_db'], summary['copy_last_psnr_db']
    gain = None if frames is None or copied is None else frames - copied
    yield _card('frames against copying', gain, 'dB', f'PSNR {_number(frames)} dB', sign=True)


def _card(name: str, value: float | None, unit: str, note: str, sign: bool = False) -> str:
    """Return one figure."""
    return (
        f'<div class="card"><div class="name">{name}</div><div class="value">'
        f'{_number(value, sign=sign)} <small>{unit}</small></div><div class="note">{note}</div>'
        f'</div>'
    )


def _number(value: float | None, factor: float = 1.0, sign: bool = False) -> str:
    """Return a number with three significant digits."""
    if value is None:
        return '-'
    if isinstance(value, int):
        return str(value)
    return f'{value * factor:{"+" * sign}.3g}'


def _rows(summary: Mapping[str, Any]) -> Iterator[str]:
    """Yield the table of figures with their definitions."""
    definitions = summary['definitions']
    for row in rows(summary):
        meaning = html.escape(definitions.get(row.meaning, ''))
        yield (
            f'<tr><th>{html.escape(row.name.strip())}</th><td>{html.escape(row.value)}</td>'
            f'<td class="meaning">{meaning}</td></tr>'
        )


def _figures(evaluation: Evaluation, trace: Path | None) -> Iterator[str]:
    """Yield every plot with its caption."""
    recording = evaluation.recording
    if evaluation.episodes:
        yield _figure(
            'Tracking error',
            'Distance from tip to target; logarithmic. The grey second at the start is not '
            'scored, as the arm begins anywhere.',
            motion_plots.tracking_error(evaluation.episodes),
        )
    yield _figure(
        'Action age',
        'How old the oldest input behind each command was when it was commanded. Warm-up is '
        'outside.',
        plots.age_distribution(recording),
    )
    yield _figure(
        'Where the age comes from',
        'Medians of the parts, in the order in which the time passes.',
        plots.age_parts(recording),
    )
    yield _figure(
        'Action age over time',
        'Each dot is one command. The saw-tooth is the wait in the buffer: a chunk ages while it '
        'is played.',
        plots.age_over_time(recording),
    )
    yield _figure(
        'Buffer depth',
        'How long it could have gone on without another chunk. Red: nothing could be played.',
        plots.buffer_depth(recording),
    )
    yield _figure(
        'One chunk',
        'The chunk with the median response: the parts of its age, and its stages (denoise step x '
        'block) on the workers that ran them.',
        waterfall.waterfall(recording, trace),
    )
    yield _figure(
        'Commanded and measured joints',
        'Some seconds of the first episode; vertical lines mark where one chunk takes over from '
        'another.',
        motion_plots.joints(recording),
    )
    if evaluation.compared:
        picture = io.BytesIO()
        strip(evaluation.compared).save(picture, 'PNG')
        data = base64.b64encode(picture.getvalue()).decode()
        yield _figure(
            'Predicted frames',
            'What the camera saw, what had been predicted for that instant, and the last frame '
            'that the prediction was made from.',
            f'<img alt="predicted frames" src="data:image/png;base64,{data}">',
        )


def _figure(title: str, caption: str, body: str) -> str:
    """Return one plot."""
    return f'<section><h2>{title}</h2><p>{html.escape(caption)}</p>{body}</section>'


def _checks(summary: Mapping[str, Any]) -> Iterator[str]:
    """Yield whether the figures are consistent."""
    words = {True: ('yes', 'good'), False: ('no', 'bad'), None: ('not measured', '')}
    for name, holds in summary['checks'].items():
        word, kind = words[holds]
        yield f'<tr><th>{html.escape(name)}</th><td class="{kind}">{word}</td></tr>'


def _account(evaluation: Evaluation) -> Iterator[str]:
    """Yield live figures beside the recomputed ones."""
    for row in agreements(evaluation.account):
        kind = {True: 'good', False: 'bad', None: ''}[row.agrees]
        yield (
            f'<tr><th>{row.name}</th><td>{_number(row.live)}</td>'
            f'<td class="{kind}">{_number(row.recomputed)}</td></tr>'
        )


def _pairs(values: Mapping[str, Any]) -> Iterator[str]:
    """Yield names and values."""
    for name, value in values.items():
        yield f'<tr><th>{html.escape(str(name))}</th><td>{html.escape(str(value))}</td></tr>'
