# SPDX-License-Identifier: Apache-2.0
"""What a simulation found, as plain data and as text."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np

from physis_ros.engine.virtual import S, VirtualStream


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

    :param asked: streams that asked to open.
    :param refusals: how many, by binding constraint.
    :param lost: streams that ended with a device.
    :param utilisation: share of time each device computed.
    :param mean_batch: rows of its mean batch.
    """

    streams: tuple[StreamFigures, ...]
    asked: int
    refusals: Mapping[str, int]
    lost: tuple[str, ...]
    utilisation: tuple[float, ...]
    mean_batch: tuple[float, ...]
    samples: tuple[Sample, ...]

    @property
    def rejection_rate(self) -> float:
        """Share of the openings that were refused."""
        return sum(self.refusals.values()) / self.asked if self.asked else 0.0

    def as_dict(self) -> dict[str, Any]:
        """Return everything, ready for JSON."""
        return {**asdict(self), 'rejection_rate': self.rejection_rate}


def stream_figures(stream: VirtualStream, fate: str, settle_ns: int) -> StreamFigures:
    """Compute one stream's figures; outputs within ``settle_ns`` of its opening stay out."""
    outs = [o for o in stream.outputs if o.out_ns >= stream.opened_ns + settle_ns]
    intervals = np.diff([o.out_ns for o in outs]) / S
    misses = sum(o.out_ns > o.beat_ns + stream.allowed_ns for o in outs)
    return StreamFigures(
        stream=stream.name,
        model=stream.model.name,
        slo_s=stream.period_ns / S,
        fate=fate,
        chunks=len(outs),
        interval=quantiles(intervals),
        response=quantiles([(o.out_ns - o.enter_ns) / S for o in outs]),
        age=quantiles([(o.out_ns - o.observed_ns) / S for o in outs]),
        misses=misses,
        over_slo=int((intervals > stream.period_ns / S * (1 + 1e-9)).sum()),
        beats_lost=stream.beats_lost,
    )


def quantiles(values: Sequence[float] | np.ndarray[Any, Any]) -> Quantiles:
    """Return quantiles of some values, which may be none."""
    n = len(values)
    if not n:
        return Quantiles(0, None, None, None, None)
    p50, p99, p999 = (float(q) for q in np.quantile(values, (0.5, 0.99, 0.999)))
    return Quantiles(n, p50, p99, p999 if n >= 1000 else None, float(max(values)))


def text(outcome: Outcome) -> str:
    """Print the figures, a line for each stream and a few for the pool."""
    lines = [
        'stream                fate  chunks  interval p50/p99/p99.9 ms   response p99   age p99  '
        'misses'
    ]
    lines += [_line(stream) for stream in outcome.streams]
    use = ' '.join(f'{share:.2f}' for share in outcome.utilisation)
    refusals = ', '.join(f'{n} {what}' for what, n in sorted(outcome.refusals.items())) or 'none'
    lines += [
        f'{outcome.asked} asked, refused: {refusals} ({outcome.rejection_rate:.1%})',
        f'utilisation of each device: {use}',
    ]
    if outcome.lost:
        lines.append(f'lost with a device: {", ".join(outcome.lost)}')
    if outcome.samples:
        worst = max(outcome.samples, key=lambda sample: sample.stranded_share)
        last = outcome.samples[-1]
        lines.append(
            f'memory used {last.used_share:.1%} at the end; of the free memory at most '
            f'{worst.stranded_share:.1%} could hold no rank (at {worst.at_s:.1f} s)'
        )
    return '\n'.join(lines)


def _line(s: StreamFigures) -> str:
    interval = '/'.join(_ms(v) for v in (s.interval.p50_s, s.interval.p99_s, s.interval.p999_s))
    return (
        f'{s.stream:<20}  {s.fate:<4}  {s.chunks:>6}  {interval:>26}  '
        f'{_ms(s.response.p99_s):>13}  {_ms(s.age.p99_s):>8}  {s.misses:>6}'
    )


def _ms(seconds: float | None) -> str:
    return '-' if seconds is None else f'{seconds * 1e3:.1f}'
