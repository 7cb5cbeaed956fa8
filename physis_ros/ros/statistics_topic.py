# SPDX-License-Identifier: Apache-2.0
"""
The standard /statistics topic, for tools that know it.

Its messages carry no quantiles: mean, greatest value and count since counting began. The package
statistics_msgs comes with every ROS 2 installation, not with the wheels, and is needed only here.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

from rclpy.node import Node

from physis_ros.errors import ParameterError
from physis_ros.output.sketch import Quantiles
from physis_ros.ros import conversions
from physis_ros.ros.clock import steady
from physis_ros.ros.qos import SENSOR_OUT, QosWatch

# As often as rclcpp's own statistics.
PERIOD_S = 1.0


class Statistic(NamedTuple):
    """
    One figure.

    :param source: what was measured, such as ``action_age``.
    :param since_ns: the window, stream clock.
    """

    source: str
    unit: str
    figures: Quantiles
    since_ns: int
    until_ns: int


class Statistics:
    """
    Publishes ``/statistics`` (statistics_msgs/MetricsMessage) once a second, a message a figure.

    :param node: the owner.
    :param watch: makes the publisher.
    :param take: gives the figures.
    :raises ParameterError: when statistics_msgs is not installed.
    """

    def __init__(self, node: Node, watch: QosWatch, take: Callable[[], list[Statistic]]) -> None:
        try:
            from statistics_msgs.msg import MetricsMessage, StatisticDataPoint, StatisticDataType
        except ImportError as error:
            hint = 'install the ROS package statistics_msgs'
            rule = 'false without statistics_msgs'
            raise ParameterError('statistics', rule, True, hint) from error
        self._message, self._point, self._types = (
            MetricsMessage,
            StatisticDataPoint,
            StatisticDataType,
        )
        self._node, self._take = node, take
        self._name = node.get_fully_qualified_name()
        self._out = watch.advertise(MetricsMessage, '/statistics', SENSOR_OUT)
        self._timer = node.create_timer(PERIOD_S, self._publish, clock=steady())

    def close(self) -> None:
        """Publish no more."""
        self._node.destroy_timer(self._timer)
        self._node.destroy_publisher(self._out)

    def _publish(self) -> None:
        """Publish all; one that was not measured has a count of 0 and nothing else."""
        for statistic in self._take():
            self._out.publish(self._made(statistic))

    def _made(self, statistic: Statistic) -> Any:
        """Return one as a message."""
        figures, types = statistic.figures, self._types
        points = {
            types.STATISTICS_DATA_TYPE_AVERAGE: figures.mean,
            types.STATISTICS_DATA_TYPE_MAXIMUM: figures.max,
            types.STATISTICS_DATA_TYPE_SAMPLE_COUNT: float(figures.n),
        }
        return self._message(
            measurement_source_name=self._name,
            metrics_source=statistic.source,
            unit=statistic.unit,
            window_start=conversions.time_message(statistic.since_ns),
            window_stop=conversions.time_message(statistic.until_ns),
            statistics=[
                self._point(data_type=kind, data=value)
                for kind, value in points.items()
                if value is not None
            ],
        )
