# SPDX-License-Identifier: Apache-2.0
"""
The servo's figures beside those recomputed from its recording.

The servo counts from its start, a recording from wherever it begins. Where something was counted
before, or is missing in it, what was added since is compared; quantiles, which cannot be taken
apart like that, are where all their samples are in the recording.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Any

from physis_ros.evaluation.accounting import Mark, Recomputed
from physis_ros.output.account import PARTS
from physis_ros.output.figures import Figures
from physis_ros.output.sketch import RELATIVE_ACCURACY, Quantiles
from physis_ros.session import decode
from physis_ros.types import Play

# A chunk that comes as its last step passes is refused or not by the microsecond.
BORDERLINE = 2
# Nobody recorded when the servo took a chunk: recomputed is the least that it can have counted of
# these, and what it refused for that it did not take.
TAKEN = ('chunks_accepted', 'chunks_superseded')
TOO_LATE = ('chunks_rejected all_past', 'chunks_rejected expired')
HELD_UP = ('chunks_late', 'steps_skipped', *TOO_LATE)
QUANTILES = ('p50', 'p90', 'p99', 'p999', 'max')
RUNGS = tuple(play.value for play in Play if play is not Play.PLAYING)
NAMED = {
    'underrun_rungs': 'underrun_',
    'underrun_reasons': 'underrun_reason ',
    'reject_reasons': 'chunks_rejected ',
    'deadline_miss_causes': 'deadline_miss ',
}
# Fed by the chunks that were taken: the same where both have taken the same.
OF_CHUNKS = ('output_interval_ms', 'response_latency_ms')
# Known where the chunk is of what a command was made from.
OF_TICKS = tuple(f'age_{part}_ms' for part in PARTS)
INPUT = 'input_age '


@dataclass(frozen=True)
class Agreement:
    """
    One figure, live and recomputed, since both count.

    :param live: as the servo published it last; None when it published none.
    :param agrees: both are the same: counts exactly but for chunks that came as their time ran
        out, quantiles to the last digit that the sketch guarantees; None when there is nothing to
        compare with, the servo had measured something before the recording began or that is
        missing in it, or it may have taken chunks later than they came (more of them late or too
        late, more steps skipped).
    """

    name: str
    live: float | None
    recomputed: float | None
    agrees: bool | None


def agreements(found: Recomputed) -> list[Agreement]:
    """Compare with the last status that the servo published."""
    if found.last is None:
        return [Agreement(name, None, value, None) for name, value in _alone(found.figures)]
    if found.whole and (found.last.figures.window or _all_agree(found.first)):
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
    yield 'underrun_time_ms', figures.underruns.time_ns * 1e-6
    for name, (_, quantiles, factor) in _spreads(figures).items():
        yield f'{name} n', quantiles.n
        for part in QUANTILES:
            yield f'{name} {part}', _scaled(getattr(quantiles, part), factor)


def _since(base: Mark | None, last: Mark) -> Iterator[Agreement]:
    """Yield the comparison of what was counted since ``base``, or in all."""
    own_base = {} if base is None else _counts(base.figures)
    live_base = {} if base is None else _live_counts(base.status)
    own = _gained(_counts(last.figures), own_base)
    live = _gained(_live_counts(last.status), live_base)
    named = tuple(words for field, words in NAMED.items() if hasattr(last.status, field))
    held_up = sum(max(live.get(name, 0) - own.get(name, 0), 0) for name in TOO_LATE)
    for name in [*own, *(name for name in live if name not in own)]:
        told = live.get(name, 0 if name.startswith(named) else None)
        slack = _slack(name, last)
        row = _agreement(name, told, own.get(name, 0), 0.0, slack)
        yield _unless_held_up(row, held_up + slack)
    yield _longest(base, last)
    yield _underrun_time(base, last)
    taken_alike = live.get('chunks_accepted', 0) == own['chunks_accepted']
    unknown = _unknown(last.figures) - (0 if base is None else _unknown(base.figures))
    for name, (field, quantiles, factor) in _spreads(last.figures).items():
        told = _told(last.status, field)
        if told is None:
            continue
        before = _before(base, name, field)
        more = (int(told.n) - before[0]) - (quantiles.n - before[1])
        covered = taken_alike or name not in OF_CHUNKS
        if name in OF_TICKS:
            covered = not 0 < more <= unknown
        rows = _quantiles(name, told, quantiles, factor, before, covered)
        doubtful = last.doubtful_chunks > 0 and name in OF_CHUNKS
        yield from (_unless(row, doubtful) for row in rows)


def _unless_held_up(row: Agreement, held_up: int) -> Agreement:
    """
    Leave open what a servo that took its chunks later than they came may have counted.

    :param held_up: chunks that were or may have been too late for it, and not by their recording.
    """
    if row.agrees is not False:
        return row
    more = (row.live or 0) - (row.recomputed or 0)
    explained = {'chunks_rejected': more}.get(row.name, -more if row.name in TAKEN else 0)
    return _unless(row, (row.name in HELD_UP and more > 0) or 0 < explained <= held_up)


def _unless(row: Agreement, doubtful: bool) -> Agreement:
    """Leave a difference open that may be none."""
    return replace(row, agrees=None) if doubtful and row.agrees is False else row


def _longest(base: Mark | None, last: Mark) -> Agreement:
    """Compare the longest underrun."""
    live, own = _longest_ms(last.status), last.figures.underruns.longest_ns * 1e-6
    row = _agreement('longest_underrun_ms', live, own)
    covered = base is None or _longest_ms(base.status) == base.figures.underruns.longest_ns * 1e-6
    return row if covered else Agreement(row.name, live, own, None)


def _underrun_time(base: Mark | None, last: Mark) -> Agreement:
    """Compare the time spent in underruns."""
    told, own_ns = getattr(last.status, 'underrun_time', None), last.figures.underruns.time_ns
    if told is None:
        return Agreement('underrun_time_ms', None, own_ns * 1e-6, None)
    live_ns = decode.time_ns(told)
    if base is not None:
        live_ns -= decode.time_ns(base.status.underrun_time)
        own_ns -= base.figures.underruns.time_ns
    return _agreement('underrun_time_ms', live_ns * 1e-6, own_ns * 1e-6)


def _gained(counts: Mapping[str, int], before: Mapping[str, int]) -> dict[str, int]:
    """Return what was counted since."""
    return {name: count - before.get(name, 0) for name, count in counts.items()}


def _unknown(figures: Figures) -> int:
    """Return how many ticks there were of whose age the parts are not known."""
    return figures.age_ms.worst.n - figures.age_ms.buffer.n


def _before(base: Mark | None, name: str, field: str) -> tuple[int, int]:
    """Return how many samples of a distribution there were before, live and recomputed."""
    if base is None:
        return 0, 0
    told, own = _told(base.status, field), _spreads(base.figures).get(name)
    return 0 if told is None else int(told.n), 0 if own is None else own[1].n


def _quantiles(
    name: str, live: Any, own: Quantiles, factor: float, before: tuple[int, int], covered: bool
) -> Iterator[Agreement]:
    """Compare a distribution, when all of it was measured in the recording."""
    live_n, own_n = before
    rows = [_agreement(f'{name} n', int(live.n) - live_n, own.n - own_n)]
    alike = covered and live_n == own_n == 0
    for part in QUANTILES:
        value, found = getattr(live, part), _scaled(getattr(own, part), factor)
        told = math.nan if value is None else float(value)
        row = _agreement(f'{name} {part}', told, found, RELATIVE_ACCURACY)
        rows.append(row if alike else replace(row, agrees=None))
    yield from rows if covered else (replace(row, agrees=None) for row in rows)


def _told(status: Any, field: str) -> Any | None:
    """Return a distribution of a status; None when an older servo has told none."""
    if not field.startswith(INPUT):
        return getattr(status, field, None)
    ages = getattr(status, 'input_age', None)
    named = {item.name: item.quantiles for item in ages or ()}
    return None if ages is None else named.get(field.removeprefix(INPUT), Quantiles())


def _counts(figures: Figures) -> dict[str, int]:
    """Return all counts by the names of the status."""
    underruns, chunks = figures.underruns, figures.chunks
    rejected = sum(chunks.rejected.values())
    return {
        'ticks': figures.ticks,
        'deadline_due': figures.due,
        'deadline_misses': figures.misses,
        **_prefixed('deadline_miss_causes', figures.misses_by_cause),
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
        'chunks_from_future': chunks.future_inputs,
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
    'chunks_from_future',
)


def _prefixed(field: str, counts: Mapping[str, int]) -> dict[str, int]:
    """Return named counts by the names of their rows."""
    return {NAMED[field] + name: count for name, count in counts.items()}


def _spreads(figures: Figures) -> dict[str, tuple[str, Quantiles, float]]:
    """Return field of the status, distribution and factor to the field's unit, by row."""
    ages, chunks = figures.age_ms, figures.chunks
    return {
        'action_age_ms': ('action_age', ages.worst, 1.0),
        **{
            f'{INPUT}{name} ms': (INPUT + name, figure, 1.0)
            for name, figure in ages.inputs.items()
        },
        **{f'age_{part}_ms': (f'age_{part}', getattr(ages, part), 1.0) for part in PARTS},
        'servo_period_error_us': ('servo_period_error', figures.period_error_us, 1.0),
        'tick_late_us': ('tick_late', figures.tick_late_us, 1.0),
        'output_interval_ms': ('output_interval', chunks.interval_ms, 1.0),
        'response_latency_ms': ('response_latency', chunks.response_ms, 1.0),
        'seam_position_milli': ('seam_position', figures.seam_position, 1e3),
        'seam_velocity_milli': ('seam_velocity', figures.seam_velocity, 1e3),
    }


def _slack(name: str, last: Mark) -> int:
    """Return by how much a count of chunks may be off, as nobody recorded when they came."""
    if name == 'steps_skipped':
        return BORDERLINE + last.doubtful_steps
    if name == 'chunks_late':
        return BORDERLINE + last.doubtful_late
    return BORDERLINE + last.doubtful_chunks if name.startswith('chunks_') else 0


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
