# SPDX-License-Identifier: Apache-2.0
"""The standard /statistics topic: refused without its package, figures of the status with it."""

from __future__ import annotations

import sys
from dataclasses import replace
from typing import Any

import pytest

pytest.importorskip('rclpy')
pytest.importorskip('physis_ros.msg')

from rclpy.node import Node

from physis_ros.errors import ParameterError
from physis_ros.output.sketch import Quantiles
from physis_ros.ros.qos import QosWatch
from physis_ros.ros.servo import ServoNode
from physis_ros.ros.statistics_topic import Statistic, Statistics
from physis_ros.ros.stream_config import StreamNames
from physis_ros.ros.wam import WamNode
from physis_ros.ros.wam_report import EngineSnapshot, Snapshot
from physis_ros.ros.wam_statistics import statistics

GIVEN = {'joints': ['shoulder', 'elbow'], 'statistics': True}


def test_without_the_package_the_parameter_is_refused_with_what_to_install(
    bench: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ('statistics_msgs', 'statistics_msgs.msg'):
        monkeypatch.setitem(sys.modules, name, None)
    words = 'statistics must be false without statistics_msgs.*install the ROS package'
    with pytest.raises(ParameterError, match=words):
        bench.add(ServoNode, GIVEN).bring_up()


def test_the_model_node_has_the_same_parameter(
    bench: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ('statistics_msgs', 'statistics_msgs.msg'):
        monkeypatch.setitem(sys.modules, name, None)
    with pytest.raises(ParameterError, match='statistics must be false without statistics_msgs'):
        bench.add(WamNode, {'statistics': True, 'autostart': False})


@pytest.mark.parametrize(('plain', 'source'), [(True, 'age'), (False, 'left/age')])
def test_the_model_node_tells_the_figures_of_each_stream(plain: bool, source: str) -> None:
    age = Quantiles(n=4, p50=10.0, p90=20.0, p99=30.0, max=31.0, mean=12.5)
    snapshot = Snapshot(
        now_ns=9 * 10**9, stream='left', epoch=0, state=4, reason='', producer=None, age_ms=age,
        delivered=4, period_ns=1, engine=EngineSnapshot(), since_ns=2 * 10**9,
    )  # fmt: skip
    found = statistics(snapshot, StreamNames('left', plain=plain))
    assert found[0] == Statistic(
        source.replace('age', 'observation_age'), 'ms', age, 2 * 10**9, 9 * 10**9
    )
    assert [one.figures.n for one in found[1:]] == [0, 0]
    earlier = statistics(replace(snapshot, now_ns=10**9), StreamNames('left', plain=plain))
    assert earlier[0].since_ns == earlier[0].until_ns == 10**9


def test_with_the_package_every_figure_has_a_message(bench: Any) -> None:
    messages = pytest.importorskip('statistics_msgs.msg', reason='no wheel carries it')
    figures = Quantiles(n=4, p50=10.0, p90=20.0, p99=30.0, max=31.0, mean=12.5)
    given = [
        Statistic('action_age', 'ms', figures, 1_000_000_000, 3_500_000_000),
        Statistic('output_interval', 'ms', Quantiles(), 1_000_000_000, 3_500_000_000),
    ]
    node = bench.add(lambda **options: Node('sample', **options))
    Statistics(node, QosWatch(node), lambda: given)
    found = bench.collect(messages.MetricsMessage, '/statistics')
    assert bench.spin_until(lambda: len(found) >= 2, 10)
    first, second = found[:2]
    assert (first.measurement_source_name, first.metrics_source) == ('/sample', 'action_age')
    assert (first.unit, first.window_start.sec, first.window_stop.nanosec) == ('ms', 1, 500000000)
    assert {(p.data_type, p.data) for p in first.statistics} == {(1, 12.5), (3, 31.0), (5, 4.0)}
    assert {(p.data_type, p.data) for p in second.statistics} == {(5, 0.0)}
