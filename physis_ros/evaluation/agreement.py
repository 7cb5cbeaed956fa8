# SPDX-License-Identifier: Apache-2.0
"""
The servo's figures beside those recomputed from its recording.

The servo counts from its start, a recording from wherever it begins. Where something was counted
before, what was added since is compared; quantiles, which cannot be taken apart like that, are
where all their samples are in the recording.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Any

from physis_ros.evaluation.accounting import Mark, Recomputed
from physis_ros.output.figures import Figures
from physis_ros.output.sketch import RELATIVE_ACCURACY, Quantiles
from physis_ros.session import decode
from physis_ros.types import Play

# A chunk that comes as its last step passes is refused or not by the microsecond.
BORDERLINE = 2
# Nobody recorded when the servo took a chunk: recomputed is the least that it can have counted.
HELD_UP = ('chunks_late', 'steps_skipped')
QUANTILES = ('p50', 'p90', 'p99', 'p999', 'max')
RUNGS = tuple(play.value for play in Play if play is not Play.PLAYING)
NAMED = {
    'underrun_rungs': 'underrun_',
    'underrun_reasons': 'underrun_reason ',
    'reject_reasons': 'chunks_rejected ',
}


@dataclass(frozen=True)
class Agreement:
    """
    One figure, live and recomputed, since both count.

    :param live: as the servo published it last; None when it published none.
    :param agrees: both are the same: counts exactly but for chunks that came as their time ran
        out, quantiles to the last digit that the sketch guarantees; None when there is nothing to
        compare with, the servo had measured something before the recording began, or it may have
        taken chunks later than they came (more of them late, more steps skipped).
    """

    name: str
    live: float | None
    recomputed: float | None
    agrees: bool | None


def agreements(found: Recomputed) -> list[Agreement]:
    """Compare with the last status that the servo published."""
    if found.last is None:
        return [Agreement(name, None, value, None) for name, value in _alone(found.figures)]
    if found.last.figures.window or _all_agree(found.first):
        return list(_since(None, found.last))
    if found.settled is not None and found.settled is not found.last:
        return list(_since(found.settled, found.last))
    return [
        Agreement(row.name, row.live, row.recomputed, None) for row in _since(None, found.last)
    ]


def _all_agree(first: Mark | None) -> bool:
    """Whether nothing had been counted that the recording does not hold."""
    return first is not None and all(row.agrees is not False for row in _since(None, first))


def _alone(figures: Figures) -> Iterator[tuple[str, float | None]]:
    """Yield the figures of a recording in which the servo says nothing."""
    yield from _counts(figures).items()
    yield 'longest_underrun_ms', figures.underruns.longest_ns * 1e-6
    for name, (_, quantiles, factor) in _spreads(figures).items():
        yield f'{name} n', quantiles.n
        for part in QUANTILES:
            yield f'{name} {part}', _scaled(getattr(quantiles, part), factor)


def _since(base: Mark | None, last: Mark) -> Iterator[Agreement]:
    """Yield the comparison of what was counted since ``base``, or in all."""
    own, live = _counts(last.figures), _live_counts(last.status)
    own_base = {} if base is None else _counts(base.figures)
    live_base = {} if base is None else _live_counts(base.status)
    for name in [*own, *(name for name in live if name not in own)]:
        told = live.get(name, 0 if name.startswith(tuple(NAMED.values())) else None)
        gained = None if told is None else told - live_base.get(name, 0)
        slack = _slack(name, last)
        row = _agreement(name, gained, own.get(name, 0) - own_base.get(name, 0), 0.0, slack)
        yield _unless_held_up(row) if name in HELD_UP else row
    yield _longest(base, last)
    for name, (field, quantiles, factor) in _spreads(last.figures).items():
        before = None if base is None else (getattr(base.status, field).n, base, name)
        yield from _quantiles(name, getattr(last.status, field), quantiles, factor, before)


def _unless_held_up(row: Agreement) -> Agreement:
    """Leave open what a servo that took its chunks later than they came may have counted."""
    more = row.agrees is False and (row.live or 0) > (row.recomputed or 0)
    return replace(row, agrees=None) if more else row


def _longest(base: Mark | None, last: Mark) -> Agreement:
    """Compare the longest underrun."""
    live, own = _longest_ms(last.status), last.figures.underruns.longest_ns * 1e-6
    row = _agreement('longest_underrun_ms', live, own)
    covered = base is None or _longest_ms(base.status) == base.figures.underruns.longest_ns * 1e-6
    return row if covered else Agreement(row.name, live, own, None)


def _quantiles(
    name: str,
    live: Any,
    own: Quantiles,
    factor: float,
    before: tuple[int, Mark, str] | None,
) -> Iterator[Agreement]:
    """Compare a distribution, when all of it was measured in the recording."""
    live_n = own_n = 0
    if before is not None:
        live_n, own_n = int(before[0]), _spreads(before[1].figures)[before[2]][1].n
    yield _agreement(f'{name} n', int(live.n) - live_n, own.n - own_n)
    covered = live_n == own_n
    for part in QUANTILES:
        told, found = float(getattr(live, part)), _scaled(getattr(own, part), factor)
        row = _agreement(f'{name} {part}', told, found, RELATIVE_ACCURACY)
        yield row if covered else Agreement(row.name, row.live, row.recomputed, None)


def _counts(figures: Figures) -> dict[str, int]:
    """Return all counts by the names of the status."""
    underruns, chunks = figures.underruns, figures.chunks
    rejected = sum(chunks.rejected.values())
    return {
        'ticks': figures.ticks,
        'deadline_due': figures.due,
        'deadline_misses': figures.misses,
        'underruns': underruns.count,
        'underrun_ticks': underruns.ticks,
        **{f'underrun_{rung}': underruns.by_rung.get(rung, 0) for rung in RUNGS},
        **_prefixed('underrun_reasons', underruns.by_reason),
        'chunks_received': chunks.accepted + rejected,
        'chunks_accepted': chunks.accepted,
        'chunks_late': chunks.late,
        'chunks_superseded': chunks.superseded,
        'chunks_rejected': rejected,
        **_prefixed('reject_reasons', chunks.rejected),
        'steps_skipped': chunks.steps_skipped,
    }


def _live_counts(status: Any) -> dict[str, int]:
    """Return the same counts of a status; without those that an older servo did not have."""
    plain = {name: int(getattr(status, name)) for name in PLAIN if hasattr(status, name)}
    for field in NAMED:
        found = {str(item.name): int(item.count) for item in getattr(status, field, ())}
        plain |= _prefixed(field, found)
    return plain


PLAIN = (
    'ticks',
    'deadline_due',
    'deadline_misses',
    'underruns',
    'underrun_ticks',
    'chunks_received',
    'chunks_accepted',
    'chunks_late',
    'chunks_superseded',
    'chunks_rejected',
    'steps_skipped',
)


def _prefixed(field: str, counts: Mapping[str, int]) -> dict[str, int]:
    """Return named counts by the names of their rows."""
    return {NAMED[field] + name: count for name, count in counts.items()}


def _spreads(figures: Figures) -> dict[str, tuple[str, Quantiles, float]]:
    """Return field of the status, distribution and factor to the field's unit, by row."""
    return {
        'action_age_ms': ('action_age', figures.age_ms.worst, 1.0),
        'servo_period_error_us': ('servo_period_error', figures.period_error_us, 1.0),
        'seam_position_milli': ('seam_position', figures.seam_position, 1e3),
        'seam_velocity_milli': ('seam_velocity', figures.seam_velocity, 1e3),
    }


def _slack(name: str, last: Mark) -> int:
    """Return by how much a count of chunks may be off, as nobody recorded when they came."""
    if name == 'steps_skipped':
        return BORDERLINE + last.doubtful_steps
    if name == 'chunks_late':
        return BORDERLINE + last.doubtful_late
    return BORDERLINE if name.startswith('chunks_') else 0


def _longest_ms(status: Any) -> float:
    """Return the longest underrun of a status."""
    return decode.time_ns(status.longest_underrun) * 1e-6


def _scaled(value: float | None, factor: float) -> float | None:
    """Return a figure in another unit."""
    return None if value is None else value * factor


def _agreement(
    name: str,
    live: float | None,
    recomputed: float | None,
    relative: float = 0.0,
    absolute: float = 0.0,
) -> Agreement:
    """Compare one figure; what neither could give is the same too."""
    if live is None:
        return Agreement(name, None, recomputed, None)
    if math.isnan(live) or recomputed is None:
        absent = math.isnan(live) and recomputed is None
        return Agreement(name, None if math.isnan(live) else live, recomputed, absent)
    close = math.isclose(live, recomputed, rel_tol=relative, abs_tol=absolute)
    return Agreement(name, live, recomputed, close)
