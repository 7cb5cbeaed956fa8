# SPDX-License-Identifier: Apache-2.0
"""The metrics of the servo node: its status once more, in the words of Prometheus. Pure."""

from __future__ import annotations

from collections.abc import Mapping

from physis_ros.output.account import PARTS
from physis_ros.output.figures import ChunkFigures, Figures, Phase
from physis_ros.ros.metrics import Page
from physis_ros.ros.servo_report import Snapshot

MS, US, NS = 1e-3, 1e-6, 1e-9
PHASES = {phase: phase.value for phase in Phase}


def fill(page: Page, snapshot: Snapshot, joints_refused: Mapping[str, int]) -> None:
    """
    Add everything that the status tells of the playing.

    :param joints_refused: joint states that could not be used, by reason.
    """
    page = page.of(stream=snapshot.stream)
    figures = snapshot.figures
    page.state('physis_playback_state', 'What the player does.', PHASES, figures.phase)
    page.gauge('physis_epoch', "The stream's life between resets.", snapshot.command.epoch)
    page.gauge('physis_servo_rate_hertz', 'Set rate of ticks.', snapshot.settings.servo_rate_hz)
    depth_s = snapshot.depth_ns * NS
    page.gauge('physis_buffer_depth_seconds', 'Motion that lies ahead in the buffer.', depth_s)
    page.gauge('physis_command_subscribers', 'Subscribers of the command.', snapshot.subscribers)
    _ages(page, figures, snapshot.last_age_ns)
    _ticks(page, figures)
    _underruns(page, figures)
    _chunks(page, figures.chunks)
    text = 'Joint states that could not be used.'
    page.counts('physis_joint_states_refused', text, 'reason', joints_refused)


def _ages(page: Page, figures: Figures, last_ns: int | None) -> None:
    """Add how old the observations behind the commands are, and where the age comes from."""
    ages = figures.age_ms
    text = 'Capture of the oldest input behind a command to the command.'
    page.summary('physis_action_age_seconds', text, ages.worst, MS)
    last_s = None if last_ns is None else last_ns * NS
    page.gauge('physis_last_action_age_seconds', 'The same for the last command.', last_s)
    for name, figure in ages.inputs.items():
        text = 'The same for one input.'
        page.summary('physis_input_age_seconds', text, figure, MS, input=name)
    for name in PARTS:
        text = 'Parts of the action age; they add up to it.'
        figure = getattr(ages, name)
        page.summary('physis_action_age_part_seconds', text, figure, MS, part=name)


def _ticks(page: Page, figures: Figures) -> None:
    """Add how regular the ticks are and which deadlines they missed."""
    text = 'Absolute difference of the time between ticks and the period.'
    page.summary('physis_servo_period_error_seconds', text, figures.period_error_us, US)
    text = 'Begin of a tick after its schedule.'
    page.summary('physis_tick_late_seconds', text, figures.tick_late_us, US)
    page.counter('physis_ticks', 'Ticks outside of warm-up.', figures.ticks)
    text = 'Servo periods in which a fresh command had to be played.'
    page.counter('physis_deadlines_due', text, figures.due)
    text = 'Due periods without a fresh command in time.'
    page.counts('physis_deadline_misses', text, 'cause', figures.misses_by_cause)
    text = 'Step of the position at a switch of chunks [rad or m].'
    page.summary('physis_seam_position', text, figures.seam_position, 1.0)
    text = 'Step of the velocity at a switch of chunks [rad/s or m/s].'
    page.summary('physis_seam_velocity', text, figures.seam_velocity, 1.0)


def _underruns(page: Page, figures: Figures) -> None:
    """Add when nothing could be played from a chunk."""
    underruns = figures.underruns
    page.counter('physis_underruns', 'Times that the buffer ran out.', underruns.count)
    text = 'Ticks without a chunk to play.'
    page.counts('physis_underrun_ticks', text, 'reason', underruns.by_reason)
    text = 'The same ticks by rung of the ladder.'
    page.counts('physis_underrun_rung_ticks', text, 'rung', underruns.by_rung)
    page.counter('physis_underrun_seconds', 'Time without a chunk.', underruns.time_ns * NS)
    longest_s = underruns.longest_ns * NS
    page.gauge('physis_longest_underrun_seconds', 'The longest time without one.', longest_s)


def _chunks(page: Page, chunks: ChunkFigures) -> None:
    """Add what became of the chunks."""
    page.counter('physis_chunks_accepted', 'Chunks taken.', chunks.accepted)
    text = 'Chunks taken though some steps had passed.'
    page.counter('physis_chunks_late', text, chunks.late)
    text = 'Chunks taken of which no step was played.'
    page.counter('physis_chunks_superseded', text, chunks.superseded)
    page.counts('physis_chunks_rejected', 'Chunks refused.', 'reason', chunks.rejected)
    text = 'Steps of accepted chunks whose time had passed.'
    page.counter('physis_steps_skipped', text, chunks.steps_skipped)
    text = 'Steps moved onto a position limit.'
    page.counter('physis_steps_clamped', text, chunks.steps_clamped)
    text = 'Chunks with an input stamped after it was received (clock skew).'
    page.counter('physis_future_inputs', text, chunks.future_inputs)
    text = 'Publication of one chunk to that of the next.'
    page.summary('physis_output_interval_seconds', text, chunks.interval_ms, MS)
    text = 'Last input of an observation received to its chunk published.'
    page.summary('physis_response_latency_seconds', text, chunks.response_ms, MS)
