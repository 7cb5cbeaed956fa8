# SPDX-License-Identifier: Apache-2.0
"""
A small /diagnostics publisher.

Own, because the Python ``diagnostic_updater`` takes another clock than the node's, which makes its
frequency figures wrong under simulated time. Paced by the steady clock: a paused simulation is
still diagnosed. Names are ``<node>: <task>``, which is what monitors match on.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from enum import Enum
from typing import NamedTuple

from diagnostic_msgs.msg import DiagnosticArray, DiagnosticStatus, KeyValue
from rclpy.clock import Clock, ClockType
from rclpy.node import Node

from physis_ros.ros.qos import SENSOR_OUT, QosWatch


class Level(Enum):
    """How bad it is; the message carries the level as one byte."""

    OK = DiagnosticStatus.OK
    WARN = DiagnosticStatus.WARN
    ERROR = DiagnosticStatus.ERROR
    STALE = DiagnosticStatus.STALE


class Condition(NamedTuple):
    """
    How something is.

    :param name: one word for monitors; the same from version to version.
    :param text: one sentence for a person.
    """

    name: str
    level: Level
    text: str


@dataclass(frozen=True)
class Report:
    """
    The state of one task.

    :param level: how bad.
    :param message: one sentence.
    :param values: figures by name, units in the name.
    """

    level: Level
    message: str
    values: Mapping[str, object] = field(default_factory=dict)


class Diagnostics:
    """
    Publishes the reports of a node's tasks.

    :param node: the owner.
    :param watch: makes the publisher, and is reported as the task ``qos``.
    :param period_s: distance of reports.
    """

    def __init__(self, node: Node, watch: QosWatch, period_s: float = 1.0) -> None:
        self._node = node
        self._watch = watch
        self._tasks: dict[str, Callable[[], Report]] = {'qos': self.qos}
        self._publisher = watch.advertise(DiagnosticArray, '/diagnostics', SENSOR_OUT)
        steady = Clock(clock_type=ClockType.STEADY_TIME)
        self._timer = node.create_timer(period_s, self.publish, clock=steady)

    def add(self, task: str, report: Callable[[], Report]) -> None:
        """Ask ``report`` each period, under the name ``task``."""
        self._tasks[task] = report

    def remove(self, task: str) -> None:
        """Ask for a task no more."""
        self._tasks.pop(task, None)

    def publish(self) -> None:
        """Ask all tasks and publish; also called on a change that cannot wait."""
        message = DiagnosticArray()
        message.header.stamp = self._node.get_clock().now().to_msg()
        message.status = [self._status(task, report()) for task, report in self._tasks.items()]
        self._publisher.publish(message)

    def _status(self, task: str, report: Report) -> DiagnosticStatus:
        """Return one report as a message."""
        name = self._node.get_fully_qualified_name()
        return DiagnosticStatus(
            level=report.level.value,
            name=f'{name}: {task}',
            message=report.message,
            hardware_id=name,
            values=[KeyValue(key=k, value=_text(v)) for k, v in report.values.items()],
        )

    def qos(self) -> Report:
        """Report mismatches, losses, and deadlines where they are set."""
        sentences = self._watch.sentences()
        values = {
            f'{topic} {what}': count
            for topic, item in self._watch.trouble.items()
            for what, count in (
                ('incompatible', item.incompatible),
                ('lost', item.lost),
                ('overdue', item.overdue),
                ('silent', item.silent),
            )
        }
        condition = self._condition('; '.join(sentences))
        return Report(condition.level, condition.text, {'condition': condition.name, **values})

    def _condition(self, trouble: str) -> Condition:
        """Return what is the matter with the topics, the worst first."""
        if not trouble:
            return Condition('matched', Level.OK, 'all peers match, nothing lost')
        items = self._watch.trouble.values()
        if any(item.refused for item in items):
            return Condition('incompatible', Level.ERROR, trouble)
        name = 'lost' if any(item.lost for item in items) else 'overdue'
        return Condition(name, Level.WARN, trouble)


def _text(value: object) -> str:
    """Return a figure as text; floats with four digits."""
    return f'{value:.4g}' if isinstance(value, float) else str(value)
