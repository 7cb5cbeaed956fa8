# SPDX-License-Identifier: Apache-2.0
"""
Pieces of a screen that shows a running system: from status messages to text, for demo and top.

Only words and colours; what is heard, and how pieces are laid out, lives elsewhere.
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from typing import Any

from rich.text import Text

from physis_ros.ros.conversions import duration_ns
from physis_ros.ros.servo_diagnosis import WORDS as REASONS
from physis_ros.types import Reason

NONE = '-'
DEPTH_FULL_MS, DEPTH_CELLS = 400.0, 8
DEPTH_LOW_MS, DEPTH_ENOUGH_MS = 50.0, 120.0


def play_words(play: Any | None) -> str:
    """Say what the servo does."""
    if play is None:
        return NONE
    reason = list(Reason)[play.reason]
    return REASONS[reason] if reason is not Reason.NONE else 'from chunks'


def workers_line(workers: Iterable[Any]) -> Text:
    """Return one line for the engine's workers."""
    text = Text('workers  ', style='dim')
    for worker in workers:
        mark(text, worker.alive)
        busy = '' if math.isnan(worker.busy) else f', {worker.busy:.0%} busy'
        text.append(f'{worker.worker} (pid {worker.pid}, {worker.queue_length} waiting{busy})   ')
    return text


def mark(text: Text, alive: bool) -> Text:
    """Add a mark for something that lives, or does not."""
    return text.append('● ' if alive else '✗ ', style='green' if alive else 'bold red')


def depth_bar(play: Any) -> Text:
    """Return the buffer's depth as a bar."""
    depth = depth_ms(play)
    filled = round(min(max(depth / DEPTH_FULL_MS, 0.0), 1.0) * DEPTH_CELLS)
    style = 'red' if depth < DEPTH_LOW_MS else 'yellow' if depth < DEPTH_ENOUGH_MS else 'green'
    text = Text('█' * filled + '·' * (DEPTH_CELLS - filled), style=style)
    return text.append(f' {depth:.0f} ms', style='default')


def depth_ms(play: Any) -> float:
    """Return how much motion lies ahead [ms]."""
    return duration_ns(play.buffer_depth) * 1e-6


def pair(quantiles: Any, unit: str = 'ms') -> str:
    """Return p50 and p99."""
    p50, p99 = quantiles.p50, quantiles.p99
    return NONE if math.isnan(p50) else f'{p50:.0f} / {p99:.0f} {unit}'


def hertz(value: float) -> str:
    """Return a rate."""
    return NONE if math.isnan(value) else f'{value:.1f} Hz'


def millimetres(value_m: float) -> str:
    """Return a distance."""
    return NONE if math.isnan(value_m) else f'{value_m * 1e3:.1f} mm'


def counts(items: Iterable[Any]) -> str:
    """Return counts by name, greatest first, without those that are zero."""
    found = sorted(
        ((int(item.count), item.name) for item in items if item.count), key=lambda one: -one[0]
    )
    return ', '.join(f'{name} {count}' for count, name in found)
