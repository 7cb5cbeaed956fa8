# SPDX-License-Identifier: Apache-2.0
"""What a simulation found, as plain data and as text."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np

from physis_ros.engine.virtual import S, VirtualStream
from physis_ros.types import FloatArray

_LINES = 12


@dataclass(frozen=True)
class Quantiles:
    """Seconds; None where there are too few values to say (p99.9 needs 1000)."""

    n: int
    p50_s: float | None
    p99_s: float | None
    p999_s: float | None
    max_s: float | None


@dataclass(frozen=True)
class StreamFigures:
    """
    One life of one stream.

    :param fate: ``ran`` to the end, ``left``, or ``lost`` with a device.
    :param interval: between outputs.
    :param response: from entry to output.
    :param age: of the observation at its output.
    :param misses: chunks out later than one period for each pass after their beat.
    :param over_slo: intervals longer than the SLO, before the output buffer evens them out.
    :param beats_lost: beats that found the pipe full.
    """

    stream: str
    model: str
    slo_s: float
    fate: str
    chunks: int
    interval: Quantiles
    response: Quantiles
    age: Quantiles
    misses: int
    over_slo: int
    beats_lost: int


@dataclass(frozen=True)
class Sample:
    """
    The pool right after an arrival or a departure.

    :param used_share: of all memory.
    :param stranded_share: of the free memory, what lies where no rank of the asked stream fits.
    :param longest_queue: most tasks ready at one device.
    """

    at_s: float
    streams: int
    used_share: float
    stranded_share: float
    longest_queue: int


@dataclass(frozen=True)
class Outcome:
    """
    A whole simulation.

    :param asked: how often a stream asked to open; one that lost its device asks again.
    :param refusals: how many, by binding constraint.
    :param lost: streams that ended with a device.
    :param devices: their names, in the order of the two after them.
    :param utilisation: share of time each device computed.
    :param mean_batch: rows of its mean batch.
    :param sample_s: length of samples that was asked for; 0: none was.
    :param sampled_share: share of the time that was counted from samples instead of being run.
    """

    streams: tuple[StreamFigures, ...]
    asked: int
    refusals: Mapping[str, int]
    lost: tuple[str, ...]
    devices: tuple[str, ...]
    utilisation: tuple[float, ...]
    mean_batch: tuple[float, ...]
    samples: tuple[Sample, ...]
    sample_s: float = 0.0
    sampled_share: float = 0.0

    @property
    def rejection_rate(self) -> float:
        """Share of the openings that were refused."""
        return sum(self.refusals.values()) / self.asked if self.asked else 0.0

    def as_dict(self) -> dict[str, Any]:
        """Return everything, ready for JSON."""
        return {**asdict(self), 'rejection_rate': self.rejection_rate}


def stream_figures(
    stream: VirtualStream, fate: str, settle_ns: int, sampled: bool = False
) -> StreamFigures:
    """
    Compute one stream's figures; outputs within ``settle_ns`` of its opening stay out.

    :param sampled: only as many values as outputs that were run tell anything.
    """
    outs = stream.table()
    outs = outs[outs[:, -1] >= stream.opened_ns + settle_ns]
    _, beat_ns, enter_ns, observed_ns, out_ns = outs.T
    intervals = np.diff(out_ns) / S
    told = len(stream.outputs) if sampled else len(outs)
    return StreamFigures(
        stream=stream.name,
        model=stream.model.name,
        slo_s=stream.period_ns / S,
        fate=fate,
        chunks=len(outs),
        interval=quantiles(intervals, told),
        response=quantiles((out_ns - enter_ns) / S, told),
        age=quantiles((out_ns - observed_ns) / S, told),
        misses=int((out_ns > beat_ns + stream.allowed_ns).sum()),
        over_slo=int((intervals > stream.period_ns / S * (1 + 1e-9)).sum()),
        beats_lost=stream.beats_lost,
    )


def quantiles(values: FloatArray, told: int) -> Quantiles:
    """
    Return quantiles of some values, which may be none.

    :param told: how many of them say anything new.
    """
    n = len(values)
    if not n:
        return Quantiles(0, None, None, None, None)
    p50, p99, p999 = (float(q) for q in np.quantile(values, (0.5, 0.99, 0.999)))
    return Quantiles(n, p50, p99, p999 if min(n, told) >= 1000 else None, float(values.max()))


def text(outcome: Outcome) -> str:
    """Print the figures, a line for each stream and a few for the pool."""
    lines = [
        'times in ms: p50/p99/p99.9',
        f'{"stream":<20}  fate  chunks  {"interval":>22}  {"response":>22}  {"age":>22}  misses',
    ]
    lines += [_line(stream) for stream in outcome.streams]
    use = ' '.join(
        f'{name} {share:.2f}'
        for name, share in zip(outcome.devices, outcome.utilisation, strict=True)
    )
    refusals = ', '.join(f'{n} {what}' for what, n in sorted(outcome.refusals.items())) or 'none'
    lines += [
        f'{outcome.asked} asked, refused: {refusals} ({outcome.rejection_rate:.1%})',
        f'utilisation of each device: {use}',
    ]
    if outcome.sampled_share:
        lines.append(f'{outcome.sampled_share:.1%} of the time counted from samples, not run')
    elif outcome.sample_s:
        lines.append(
            f'nothing counted from samples, all was run: between no two events is there time for '
            f'three of {outcome.sample_s:g} s or more that are whole periods of all that runs'
        )
    if outcome.lost:
        lines.append(f'lost with a device: {", ".join(outcome.lost)}')
    if outcome.samples:
        lines += _fragmentation(outcome.samples)
    return '\n'.join(lines)


def _fragmentation(samples: Sequence[Sample]) -> list[str]:
    """Return how the pool filled and frayed, in at most so many lines."""
    step = -(-len(samples) // _LINES)
    # The last of each stretch of samples, so that the end is among them.
    shown = samples[::-1][::step][::-1]
    worst = max(samples, key=lambda sample: sample.stranded_share)
    return [
        '      at s  streams  memory used  of the free, stranded  longest queue',
        *(
            f'{s.at_s:>10.1f}  {s.streams:>7}  {s.used_share:>11.1%}  {s.stranded_share:>21.1%}  '
            f'{s.longest_queue:>13}'
            for s in shown
        ),
        f'stranded at most {worst.stranded_share:.1%} (at {worst.at_s:.1f} s): free memory where '
        'no rank of the stream that came or went fits',
    ]


def _line(s: StreamFigures) -> str:
    told = '  '.join(f'{_three(q):>22}' for q in (s.interval, s.response, s.age))
    return f'{s.stream:<20}  {s.fate:<4}  {s.chunks:>6}  {told}  {s.misses:>6}'


def _three(q: Quantiles) -> str:
    return '/'.join(_ms(value) for value in (q.p50_s, q.p99_s, q.p999_s))


def _ms(seconds: float | None) -> str:
    return '-' if seconds is None else f'{seconds * 1e3:.1f}'
