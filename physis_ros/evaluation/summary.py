# SPDX-License-Identifier: Apache-2.0
"""``summary.json``: every figure of a run, with what it means, from the recording alone."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import Any

from physis_ros import __version__
from physis_ros.errors import BagError
from physis_ros.evaluation import accounting, frames, timing, topics, tracking
from physis_ros.evaluation.accounting import Recomputed
from physis_ros.evaluation.agreement import RUNGS, agreements
from physis_ros.evaluation.bag import Bag
from physis_ros.evaluation.frames import Compared, FrameFigures
from physis_ros.evaluation.recording import Recording, read
from physis_ros.evaluation.scores import rounded, spread
from physis_ros.evaluation.tracking import Tracked, TrackingFigures

DEFINITIONS = {
    'track_error_m': 'distance from tip to target, truth topics, the first '
    f'{tracking.SETTLE_S:g} s of each episode left out',
    'expert_track_error_m': 'the same for the scripted expert with perfect knowledge: same arm, '
    'same seeds, simulated without ROS and without delay',
    'hold_track_error_m': 'the same for an arm that stays in its first pose (mean)',
    'action_age_ms': 'instant of the command minus capture of the oldest input behind it, every '
    'tick played from a chunk after warm-up',
    'action_age_parts_ms': 'medians of where that age came from, tick by tick: transport, waiting '
    'for entry, engine, decoding, hand-over, waiting in the buffer to be played',
    'response_latency_ms': 'one chunk: last input of the observation it used last received to '
    'chunk published',
    'engine_latency_ms': 'one chunk: entry of that observation into the engine to chunk published',
    'output_interval_ms': 'chunk published to next chunk published, within one epoch',
    'rates_hz.sensor': 'camera frames',
    'rates_hz.replan': 'chunks made from an observation newer than that of the chunk before',
    'rates_hz.chunk': 'chunks published',
    'rates_hz.servo': 'commands',
    'servo_jitter_us': 'absolute difference of the time between two commands and the set period, '
    'steady clock, when they were handed to the middleware',
    'deadline_due': 'servo periods after warm-up, lost ticks included',
    'deadline_misses': 'of these, periods in which no fresh command was played: tick lost, no '
    'chunk to play, command older than max_action_age, or tick late by more than half a period',
    'misses_by_cause': 'the same periods by cause: lost, old, late, or why nothing was played',
    'ticks': 'servo ticks after warm-up',
    'underrun_ticks': 'of these, ticks at which nothing could be played from a chunk',
    'underrun_by_rung': 'the same ticks by what was commanded instead: hold, ramp to rest, silent',
    'underrun_by_reason': 'the same ticks by why nothing could be played',
    'underrun_longest_ms': 'the longest time from a tick without a chunk to play to the next '
    'played one',
    'servo_lives': 'times that the servo was started or configured; what it counts, misses, '
    'underruns and ticks, is of the last one',
    'warm_up_ticks': 'ticks from the start or a new epoch until settle_ms after its first '
    'played chunk; outside all tick figures, and outside the chunk figures up to the first tick '
    'that counts',
    'frame_psnr_db': 'predicted frame against the camera frame captured at exactly the instant it '
    'is about, reduced to its size; PSNR of the mean square error over all frames',
    'copy_last_psnr_db': 'the same for the newest frame that the prediction was made from',
    'frames_compared': 'predicted frames with a camera frame of exactly the instant that they '
    'are about',
    'frames_unmatched': 'predicted frames without one, as at the end of a run',
    'live_agrees': "for each figure of the servo's last status whether it is the one recomputed "
    'from the recording: counts exactly, chunks that came as their time ran out excepted, '
    'quantiles to 0.5 %; null where there is nothing to compare with, the servo had measured '
    'something before the recording began or that is missing in it, or it may have taken chunks '
    'later than they came',
    'recording_missing': 'messages that the recorder knows to have missed, and chunks that were '
    'played and are not recorded; what depends on them is wrong in every other figure',
    'checks': 'whether figures that depend on each other do; null where one is missing',
    'quantiles': 'nearest rank over all samples; null where there is none',
}


@dataclass(frozen=True)
class Evaluation:
    """
    A run, evaluated: the figures and everything the report draws.

    :param summary: what ``summary.json`` holds.
    """

    recording: Recording
    account: Recomputed
    episodes: list[Tracked]
    tracking: TrackingFigures
    compared: list[Compared]
    frames: FrameFigures
    summary: dict[str, Any]


def evaluate(bag: Bag, stream: str = '') -> Evaluation:
    """
    Read a recording and compute everything.

    :param stream: one of several (:func:`topics.streams`); empty: the only one.
    :raises BagError: when it lacks chunks or ticks, or cannot be read.
    """
    names = topics.find(bag, stream)
    recording = _own(read(bag, names), stream)
    if not recording.chunks:
        raise BagError(f'recording {bag.path} must hold chunks, got malformed ones alone')
    lives = accounting.lives(recording)
    account = accounting.recompute(lives[-1])
    episodes = tracking.tracked(recording)
    track = tracking.figures(episodes)
    pictures, unmatched = frames.compared(bag, names, recording)
    quality = frames.figures(pictures, unmatched)
    summary = _summary(recording, account, track, quality)
    summary['servo_lives'] = len(lives)
    return Evaluation(recording, account, episodes, track, pictures, quality, summary)


def _own(recording: Recording, stream: str) -> Recording:
    """Return a recording with what was configured for this stream alone in place of the rest."""
    given = dict(recording.configuration)
    robots = given.get('robots', {})
    if not stream or stream not in robots:
        return recording
    return replace(recording, configuration={**given, **robots[stream]})


def _summary(
    recording: Recording, recomputed: Recomputed, track: TrackingFigures, quality: FrameFigures
) -> dict[str, Any]:
    """Return the figures by the names that are promised."""
    account, given = recomputed.figures, recording.configuration
    chunks = timing.ChunkSeries.of(recording)
    age = spread([c.age_ns * 1e-6 for c in timing.counted(recording) if c.age_ns is not None])
    result = {
        'track_error_m': {**track.model.as_dict('mean', 'p95', 'n')},
        'expert_track_error_m': track.expert.as_dict('mean', 'p95', 'n'),
        'hold_track_error_m': rounded(track.hold.mean),
        'action_age_ms': age.as_dict('p50', 'p99', 'max', 'n'),
        'action_age_parts_ms': timing.age_parts(recording),
        'response_latency_ms': spread(chunks.response_ms).as_dict('p50', 'p99', 'max', 'n'),
        'engine_latency_ms': spread(chunks.engine_ms).as_dict('p50', 'p99', 'max', 'n'),
        'output_interval_ms': spread(chunks.interval_ms).as_dict('p50', 'p99', 'max', 'n'),
        'rates_hz': {name: rounded(value) for name, value in timing.rates_hz(recording).items()},
        'servo_jitter_us': timing.jitter_us(recording).as_dict('p50', 'p99', 'max', 'n'),
        'deadline_misses': account.misses,
        'deadline_due': account.due,
        'misses_by_cause': dict(account.misses_by_cause),
        'underrun_ticks': account.underruns.ticks,
        'underrun_by_rung': {rung: account.underruns.by_rung.get(rung, 0) for rung in RUNGS},
        'underrun_by_reason': dict(account.underruns.by_reason),
        'underrun_longest_ms': rounded(account.underruns.longest_ns * 1e-6),
        'ticks': account.ticks,
        'warm_up_ticks': account.warmup_ticks,
        'frame_psnr_db': _finite(quality.frame_psnr_db),
        'copy_last_psnr_db': _finite(quality.copy_last_psnr_db),
        'frames_compared': quality.n,
        'frames_unmatched': quality.unmatched,
        'kv_rule': given.get('kv_rule', recording.chunks[0].kv_rule),
        'workers': given.get('workers'),
        'stages': given.get('stages'),
        'seed': given.get('seed'),
        'episodes': len(recording.episodes),
        'chunks': len(recording.chunks),
        'version': given.get('version', __version__),
        'configuration': dict(given),
        'recording_missing': {
            'playback': sum(lost.ticks for lost in recording.lost),
            'chunks': max(
                sum(lost.chunks for lost in recording.lost), recomputed.missing_chunks
            ),
        },
        'live_agrees': {row.name: row.agrees for row in agreements(recomputed)},
        'definitions': DEFINITIONS,
    }
    result['checks'] = checks(recording, chunks, result)
    return result


def checks(
    recording: Recording, chunks: timing.ChunkSeries, summary: dict[str, Any]
) -> dict[str, bool | None]:
    """
    Return whether the figures are consistent with each other; None where one is missing.

    Every action is older than its chunk's response took; a chunk comes once in an interval;
    nothing is replanned more often than chunks or frames come; the servo is the fastest.
    """
    rates = summary['rates_hz']
    responses = {(c.epoch, c.chunk): c.times for c in recording.chunks}
    played = [(c, responses.get((c.epoch, c.chunk))) for c in timing.counted(recording)]
    # A clock that is slow by milliseconds seems to receive before the capture: not a response.
    ages = [
        (c.age_ns or 0, t.publish_ns - max(t.receive_ns, c.stamp_ns - (c.age_ns or 0)))
        for c, t in played
        if t is not None
    ]
    return {
        'age >= response, every tick': all(age >= own for age, own in ages) if ages else None,
        'engine <= response, p50': _at_most(
            summary['engine_latency_ms']['p50'], summary['response_latency_ms']['p50']
        ),
        'replan <= chunk': _at_most(rates['replan'], rates['chunk'], 1.001),
        'replan <= sensor': _at_most(rates['replan'], rates['sensor'], 1.001),
        'chunk <= servo': _at_most(rates['chunk'], rates['servo']),
        'chunk rate within 1 / interval': _within(rates['chunk'], chunks.interval_ms),
        'misses <= due': _at_most(summary['deadline_misses'], summary['deadline_due']),
        'underrun ticks <= misses': _at_most(
            summary['underrun_ticks'], summary['deadline_misses']
        ),
    }


def _at_most(low: float | None, high: float | None, slack: float = 1.0) -> bool | None:
    """Tell whether ``low`` is at most ``high``; None when one of them is not known."""
    return None if low is None or high is None else low <= high * slack


def _within(rate_hz: float | None, intervals_ms: list[float]) -> bool | None:
    """Tell whether a rate lies between those of the longest and the shortest interval."""
    if rate_hz is None or not intervals_ms:
        return None
    # Warm-up is outside the intervals but inside the rate.
    slack = 1.02
    return min(intervals_ms) / slack <= 1e3 / rate_hz <= max(intervals_ms) * slack


def _finite(value: float | None) -> float | int | None:
    """Return the value for JSON, which knows no infinity."""
    return None if value is None or not math.isfinite(value) else rounded(value)
