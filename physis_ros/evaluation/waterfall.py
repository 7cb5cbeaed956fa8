# SPDX-License-Identifier: Apache-2.0
"""
One chunk's way through everything: parts of its age above, its stages by worker below.

The stages come from the engine's trace; without one only the parts are drawn.
"""

from __future__ import annotations

import json
from collections import defaultdict
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from matplotlib.figure import Figure

from physis_ros.evaluation import canvas, timing
from physis_ros.evaluation.canvas import GREY
from physis_ros.evaluation.recording import Recording
from physis_ros.types import ActionChunk

DECODING = -1
PARTS = ('camera to engine', 'queue', 'denoising', 'decoding', 'hand-over')


@dataclass(frozen=True)
class Slice:
    """
    One stage of one chunk as the trace has it.

    :param step: denoise step; -1 for the decoding.
    :param start_us: on the trace's clock.
    """

    worker: int
    step: int
    block: int
    start_us: float
    duration_us: float


def read_slices(path: Path) -> dict[tuple[int, int], list[Slice]]:
    """
    Return a trace's stages by epoch and chunk; empty when there is no readable trace.

    A trace that was cut short lacks its closing bracket and, at worst, half a line.
    """
    found: dict[tuple[int, int], list[Slice]] = defaultdict(list)
    if not path.is_file():
        return found
    for line in path.read_text(encoding='utf-8', errors='replace').splitlines():
        try:
            event = json.loads(line.strip().strip('[],') or 'null')
        except json.JSONDecodeError:
            continue
        if isinstance(event, dict) and event.get('ph') == 'X':
            about = event['args']
            step = DECODING if 'decode' in event['name'] else about['step']
            found[about['epoch'], about['chunk']].append(
                Slice(event['tid'], step, about['block'], event['ts'], event['dur'])
            )
    return found


@canvas.drawn
def waterfall(recording: Recording, trace: Path | None) -> Figure:
    """Draw the chunk whose response was nearest to the median."""
    slices = read_slices(trace) if trace is not None else {}
    chunk = _typical(recording, slices)
    mine = slices.get((chunk.epoch, chunk.chunk), [])
    workers = sorted({item.worker for item in mine})
    figure, axes = canvas.sheet(height_in=1.7 + 0.55 * len(workers))
    _draw_parts(axes, chunk, row=len(workers))
    _draw_stages(axes, chunk, mine, workers)
    labels = [f'worker {worker}' for worker in reversed(workers)]
    axes.set(
        yticks=range(len(workers) + 1),
        yticklabels=[*labels, f'chunk {chunk.epoch}/{chunk.chunk}'],
        xlabel='time since the oldest input was captured [ms]',
    )
    axes.grid(axis='y', visible=False)
    canvas.legend(figure, axes)
    return figure


def _typical(
    recording: Recording, slices: dict[tuple[int, int], list[Slice]]
) -> ActionChunk:
    """Return the chunk to show."""
    begins = timing.epoch_begins(recording)
    settled = [c for c in recording.chunks if c.times.publish_ns >= begins.get(c.epoch, 0)]
    traced = [c for c in settled if (c.epoch, c.chunk) in slices]
    candidates = traced or settled or list(recording.chunks)
    responses = [c.times.publish_ns - c.times.receive_ns for c in candidates]
    median = float(np.median(responses))
    return candidates[int(np.argmin([abs(response - median) for response in responses]))]


def _draw_parts(axes: Any, chunk: ActionChunk, row: int) -> None:
    """Draw capture to publication as one bar."""
    times = chunk.times
    instants = [
        times.capture_ns, times.receive_ns, times.enter_ns, times.denoised_ns, times.decoded_ns,
        times.publish_ns,
    ]  # fmt: skip
    for index, name in enumerate(PARTS):
        start_ms = (instants[index] - chunk.observed_ns) * 1e-6
        length_ms = (instants[index + 1] - instants[index]) * 1e-6
        colour = canvas.CYCLE[index]
        axes.barh(row, length_ms, left=start_ms, height=0.55, color=colour, alpha=0.85, label=name)
    first_ms = (chunk.start_ns - chunk.observed_ns) * 1e-6
    axes.plot([first_ms], [row], 'D', color=GREY, markersize=5, label='first action is due')


def _draw_stages(axes: Any, chunk: ActionChunk, mine: list[Slice], workers: list[int]) -> None:
    """Draw every stage in its worker's row; the shade tells the denoise step."""
    if not mine:
        return
    # The trace runs on the steady clock: the end of its last stage is the instant of "decoded".
    end_us = max(item.start_us + item.duration_us for item in mine)
    decoded_ms = (chunk.times.decoded_ns - chunk.observed_ns) * 1e-6
    steps = max(item.step for item in mine) + 1
    seen: set[int] = set()
    for item in sorted(mine, key=lambda item: item.start_us):
        label = '_' if item.step in seen or item.step == DECODING else f'step {item.step}'
        seen.add(item.step)
        shade = 0.35 + 0.55 * (item.step + 1) / max(steps, 1)
        axes.barh(
            len(workers) - 1 - workers.index(item.worker),
            item.duration_us * 1e-3,
            left=decoded_ms + (item.start_us - end_us) * 1e-3,
            height=0.7,
            color=canvas.CYCLE[3] if item.step == DECODING else (0.06, 0.30 + 0.1 * shade, shade),
            edgecolor='white',
            linewidth=0.4,
            label=label,
        )
