# SPDX-License-Identifier: Apache-2.0
"""What the servo node says of itself, on topics and to whoever scrapes its metrics."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Protocol

from rclpy.node import Node

from physis_ros.msg import PlaybackStatus
from physis_ros.output.account import PARTS
from physis_ros.output.figures import Figures
from physis_ros.ros import conversions, qos, servo_metrics, servo_report
from physis_ros.ros.clock import RosClock
from physis_ros.ros.diagnostics import Condition, Diagnostics, Level, Report
from physis_ros.ros.metrics import Page
from physis_ros.ros.qos import QosWatch
from physis_ros.ros.servo_diagnosis import report
from physis_ros.ros.servo_inputs import ServoInputs
from physis_ros.ros.servo_report import Snapshot
from physis_ros.ros.standing import Standing
from physis_ros.ros.statistics_topic import Statistic, Statistics

# In the log already, where it comes about.
LOGGED = ('no_time', 'joint_states', 'chunks_broken')


class Source(Protocol):
    """What is told of."""

    inputs: ServoInputs
    waits: str

    def snapshot(self) -> Snapshot | None:
        """Gather everything; None before the first tick."""


class ServoStatus:
    """
    Publishes ``~/playback_status``, ``/diagnostics``, ``/statistics``; fills the metrics' page.

    What is the matter for longer than a moment it says in the log too.

    As long as the node lives: when it is not configured it says so.

    :param node: the owner.
    :param watch: makes the publishers.
    :param clock: the stream clock.
    """

    def __init__(self, node: Node, watch: QosWatch, clock: RosClock) -> None:
        self._node, self._watch, self._clock = node, watch, clock
        self._out = watch.advertise(PlaybackStatus, '~/playback_status', qos.LATCHED)
        self._source: Source | None = None
        self._told: Snapshot | None = None
        self._before: Figures | None = None
        self._statistics: Statistics | None = None
        self._standing = Standing()
        self._diagnostics = Diagnostics(node, watch)
        self._diagnostics.add('playback', self._report)

    def begin(self, source: Source, statistics: bool) -> None:
        """
        Tell of a configuration from now on.

        :param statistics: whether ``/statistics`` is wanted.
        :raises ParameterError: when that cannot be had.
        """
        self._source, self._told, self._before = source, None, None
        self._standing = Standing()
        if statistics:
            self._statistics = Statistics(self._node, self._watch, self._figures)

    def end(self) -> None:
        """Tell that there is none, with what was counted in the last one."""
        self._source, statistics, self._statistics = None, self._statistics, None
        if statistics is not None:
            statistics.close()
        self.publish()

    def tell(self, task: str, report: Callable[[], Report]) -> None:
        """Ask for a report of another task from now on."""
        self._diagnostics.add(task, report)

    def hush(self, task: str) -> None:
        """Ask for a task no more."""
        self._diagnostics.remove(task)

    def publish(self) -> None:
        """Publish the figures."""
        if self._source is not None:
            self._told = self._source.snapshot()
        self._out.publish(self._message())

    def _message(self) -> PlaybackStatus:
        """Return what there is to say; nothing is known before the first tick."""
        configured = self._source is not None
        now_ns = self._clock.now_ns()
        if self._told is None:
            message = servo_report.nothing(now_ns)
        else:
            message = servo_report.status(self._told)
        if not configured:
            message.header = conversions.header(now_ns)
            message.state, message.warm_up = PlaybackStatus.STATE_UNCONFIGURED, False
        return message

    def fill(self, page: Page) -> None:
        """Add what was published last to a page; called in another thread."""
        told, source = self._told, self._source
        if told is not None and source is not None:
            servo_metrics.fill(page, told, dict(source.inputs.joints.refused))
        self._watch.fill(page)

    def _figures(self) -> list[Statistic]:
        """Return what is told on ``/statistics``."""
        if self._told is None:
            return []
        figures = self._told.figures
        named = (
            ('action_age', 'ms', figures.age_ms.worst),
            *((f'age_{part}', 'ms', getattr(figures.age_ms, part)) for part in PARTS),
            ('servo_period_error', 'us', figures.period_error_us),
            ('tick_late', 'us', figures.tick_late_us),
            ('output_interval', 'ms', figures.chunks.interval_ms),
            ('response_latency', 'ms', figures.chunks.response_ms),
        )
        window = figures.since_ns, figures.until_ns
        return [Statistic(source, unit, measured, *window) for source, unit, measured in named]

    def _report(self) -> Report:
        """Diagnose the playing since the last report."""
        source = self._source
        if source is None:
            return Report(Level.OK, 'unconfigured', {'condition': 'unconfigured'})
        snapshot = source.snapshot()
        if snapshot is None:
            values = {'condition': 'no_time' if source.waits else 'no_tick'}
            return Report(Level.WARN, source.waits or 'no tick yet', values)
        before, self._before = self._before, snapshot.figures
        made = report(snapshot, source.inputs.joints, before)
        self._say(Condition(str(made.values['condition']), made.level, made.message))
        return made

    def _say(self, condition: Condition) -> None:
        """Say in the log what stands."""
        line = self._standing.look(condition, time.monotonic_ns())
        if line is None or line.name in LOGGED:
            return
        log = self._node.get_logger()
        if line.level is Level.OK:
            log.info(line.text)
        else:
            log.warning(line.text)
