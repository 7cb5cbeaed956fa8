# SPDX-License-Identifier: Apache-2.0
"""What the servo node says of itself, on topics and to whoever scrapes its metrics."""

from __future__ import annotations

from collections.abc import Callable

from rclpy.node import Node

from physis_ros.msg import PlaybackStatus
from physis_ros.output.figures import Figures
from physis_ros.ros import qos, servo_metrics, servo_report
from physis_ros.ros.diagnostics import Diagnostics, Level, Report
from physis_ros.ros.metrics import Page
from physis_ros.ros.qos import QosWatch
from physis_ros.ros.servo_diagnosis import report
from physis_ros.ros.servo_joints import ServoJoints
from physis_ros.ros.servo_report import Snapshot
from physis_ros.ros.statistics import Statistic, Statistics


class ServoStatus:
    """
    Publishes ``~/playback_status``, ``/diagnostics``, ``/statistics``; fills the metrics' page.

    :param node: the owner.
    :param watch: makes the publishers.
    :param wanted: whether ``/statistics`` is.
    :param joints: what is wrong with the joint states.
    :param take: gathers everything; None before the first tick.
    :param waits: says what is waited for before it.
    """

    def __init__(
        self,
        node: Node,
        watch: QosWatch,
        wanted: bool,
        joints: ServoJoints,
        take: Callable[[], Snapshot | None],
        waits: Callable[[], str],
    ) -> None:
        self._watch, self._joints, self._take, self._waits = watch, joints, take, waits
        self._out = watch.advertise(PlaybackStatus, '~/playback_status', qos.LATCHED)
        self._told: Snapshot | None = None
        self._before: Figures | None = None
        self._diagnostics = Diagnostics(node, watch)
        self._diagnostics.add('playback', self._report)
        self._statistics = Statistics(node, watch, self._figures) if wanted else None

    def publish(self) -> None:
        """Publish the figures."""
        self._told = self._take()
        if self._told is not None:
            self._out.publish(servo_report.status(self._told))

    def fill(self, page: Page) -> None:
        """Add what was published last to a page; called in another thread."""
        told = self._told
        if told is not None:
            servo_metrics.fill(page, told, dict(self._joints.refused))
        self._watch.fill(page)

    def _figures(self) -> list[Statistic]:
        """Return what is told on ``/statistics``."""
        if self._told is None:
            return []
        figures = self._told.figures
        named = (
            ('action_age', 'ms', figures.age_ms.worst),
            ('servo_period_error', 'us', figures.period_error_us),
            ('output_interval', 'ms', figures.chunks.interval_ms),
            ('response_latency', 'ms', figures.chunks.response_ms),
        )
        window = figures.since_ns, figures.until_ns
        return [Statistic(source, unit, measured, *window) for source, unit, measured in named]

    def _report(self) -> Report:
        """Diagnose the playing since the last report."""
        snapshot = self._take()
        if snapshot is None:
            waits = self._waits()
            values = {'condition': 'no_time' if waits else 'no_tick'}
            return Report(Level.WARN, waits or 'no tick yet', values)
        before, self._before = self._before, snapshot.figures
        return report(snapshot, self._joints, before)
