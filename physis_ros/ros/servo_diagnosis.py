# SPDX-License-Identifier: Apache-2.0
"""
What is wrong with the playing, in one word, one level and one sentence. Pure.

The word is the value ``condition`` on /diagnostics: made for monitors, while the sentence is for a
person and may change.
"""

from __future__ import annotations

from physis_ros.output.account import PARTS
from physis_ros.output.figures import AgeFigures, Figures
from physis_ros.output.verdict import ChunkReject
from physis_ros.ros.diagnostics import Condition, Level, Report
from physis_ros.ros.servo_joints import ServoJoints
from physis_ros.ros.servo_report import Snapshot, apart
from physis_ros.ros.skew import skewed
from physis_ros.types import Play, Reason

UNDERRUNS = {
    Reason.NO_OBSERVATION: (
        Level.WARN,
        'no joint states: is joint_states published and its QoS compatible?',
    ),
    Reason.NO_CHUNK: (Level.WARN, 'no chunk: is wam_node active, and action_chunk its topic?'),
    Reason.CHUNK_LATE: (Level.WARN, 'chunks come too late'),
    Reason.EXPIRED: (Level.ERROR, 'the observations behind the chunks are too old'),
    Reason.EPOCH: (Level.WARN, 'a new epoch has begun, its first chunk has not come'),
}
WORDS = {
    Reason.NONE: 'playing',
    Reason.INACTIVE: 'paused or inactive',
    **{reason: text for reason, (_, text) in UNDERRUNS.items()},
}
# No stream that is well makes such a chunk, and no clock is to blame.
BROKEN = (
    ChunkReject.NON_FINITE,
    ChunkReject.MALFORMED,
    ChunkReject.WRONG_WIDTH,
    ChunkReject.WRONG_NAMES,
    ChunkReject.WRONG_DT,
)
# So many of the deadlines since the last report may be missed without a word.
FEW = 0.01


def report(snapshot: Snapshot, joints: ServoJoints, before: Figures | None) -> Report:
    """
    Return the diagnosis of the playing.

    :param joints: what is wrong with the joint states.
    :param before: the figures at the last report.
    """
    missed, refused = lately(snapshot.figures, before), broken(snapshot.figures, before)
    condition = diagnose(snapshot, joints.trouble, missed, refused)
    figures, command = snapshot.figures, snapshot.command
    values: dict[str, object] = {
        'condition': condition.name,
        'state': figures.phase.value,
        'epoch': command.epoch,
        'play': command.play.value,
        'reason': command.reason.value,
        'buffer_depth_ms': snapshot.depth_ns * 1e-6,
        'action_age_p50_ms': figures.age_ms.worst.p50,
        'action_age_p99_ms': figures.age_ms.worst.p99,
        **ages(figures.age_ms),
        'servo_period_error_p99_us': figures.period_error_us.p99,
        'tick_late_p99_us': figures.tick_late_us.p99,
        'deadline_misses': figures.misses,
        'deadline_miss_causes': dict(figures.misses_by_cause),
        'deadline_due': figures.due,
        'underrun_ticks': figures.underruns.ticks,
        'underrun_rungs': dict(figures.underruns.by_rung),
        'underrun_reasons': dict(figures.underruns.by_reason),
        'underrun_time_ms': figures.underruns.time_ns * 1e-6,
        'chunks_accepted': figures.chunks.accepted,
        'chunks_rejected': dict(figures.chunks.rejected),
        'joint_states_refused': dict(joints.refused),
        'command_subscribers': snapshot.subscribers,
    }
    values.update({f'skew_{name}_ms': ns * 1e-6 for name, ns in snapshot.skew_ns.items()})
    return Report(condition.level, condition.text, values)


def ages(figures: AgeFigures) -> dict[str, object]:
    """Return the age by input, and the parts that the worst one is made of."""
    named = {f'input_age_{name}': figure for name, figure in figures.inputs.items()}
    named |= {f'age_{part}': getattr(figures, part) for part in PARTS}
    return {
        f'{name}_{quantile}_ms': getattr(figure, quantile)
        for name, figure in named.items()
        for quantile in ('p50', 'p99')
    }


def diagnose(snapshot: Snapshot, joints_trouble: str, missed: str, refused: str = '') -> Condition:
    """
    Return the worst that is the matter.

    :param joints_trouble: what was wrong with the last joint state; empty when nothing.
    :param missed: what is to be said of the deadlines lately.
    :param refused: what is to be said of broken chunks lately.
    """
    command = snapshot.command
    if snapshot.waits:
        return Condition('no_time', Level.WARN, snapshot.waits)
    if joints_trouble:
        return Condition('joint_states', Level.ERROR, f'joint_states: {joints_trouble}')
    if refused and command.reason is not Reason.INACTIVE:
        return Condition('chunks_broken', Level.ERROR, refused)
    if command.play is not Play.PLAYING:
        if command.reason is Reason.INACTIVE:
            return Condition(command.reason.value, Level.OK, snapshot.halt.value)
        far = apart(snapshot.apart_ns)
        if far:
            return Condition('clock_skew', Level.ERROR, f'action_chunk: {far}')
        level, text = UNDERRUNS[command.reason]
        lack = f' ({snapshot.lack})' if snapshot.lack else ''
        return Condition(command.reason.value, level, text + lack)
    if snapshot.strangers:
        return Condition('other_type', Level.ERROR, snapshot.strangers)
    if not snapshot.subscribers:
        return Condition('no_subscriber', Level.WARN, 'nobody listens to the commands')
    if missed:
        return Condition('deadlines_missed', Level.WARN, missed)
    skews = skewed(snapshot.skew_ns)
    if skews:
        return Condition('clock_skew', Level.WARN, '; '.join(skews))
    return Condition('playing', Level.OK, WORDS[Reason.NONE])


def lately(figures: Figures, before: Figures | None) -> str:
    """Say which deadlines were missed since ``before``; nothing when they were few."""
    if before is None or before.window != figures.window:
        return ''
    due, missed = figures.due - before.due, figures.misses - before.misses
    if missed <= FEW * due:
        return ''
    known = before.misses_by_cause
    causes = {
        cause: count - known.get(cause, 0)
        for cause, count in figures.misses_by_cause.items()
        if count > known.get(cause, 0)
    }
    words = ', '.join(f'{cause} {count}' for cause, count in causes.items())
    return f'{missed} of {due} deadlines missed since the last report: {words}'


def broken(figures: Figures, before: Figures | None) -> str:
    """Say which chunks were refused since ``before`` as no model should make them."""
    if before is None or before.window != figures.window:
        return ''
    known = before.chunks.rejected
    found = {
        reason.value: figures.chunks.rejected.get(reason.value, 0) - known.get(reason.value, 0)
        for reason in BROKEN
    }
    words = ', '.join(f'{reason} {count}' for reason, count in found.items() if count > 0)
    return f'broken chunks were refused since the last report: {words}' if words else ''
