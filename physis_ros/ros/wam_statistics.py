# SPDX-License-Identifier: Apache-2.0
"""What the model node tells on /statistics: figures of its statuses once more. Pure."""

from __future__ import annotations

from physis_ros.output.sketch import Quantiles
from physis_ros.ros.statistics_topic import Statistic
from physis_ros.ros.stream_config import StreamNames
from physis_ros.ros.wam_report import Snapshot


def statistics(snapshot: Snapshot, names: StreamNames) -> list[Statistic]:
    """
    Return the figures of a stream.

    :param names: of its topics; where they lie below its name its figures do so too.
    """
    producer = snapshot.producer
    named = (
        ('observation_age', snapshot.age_ms),
        ('output_interval', Quantiles() if producer is None else producer.output_interval_ms),
        ('response_latency', Quantiles() if producer is None else producer.response_latency_ms),
    )
    # A clock that went back makes no window that ends before it begins.
    window = min(snapshot.since_ns, snapshot.now_ns), snapshot.now_ns
    return [Statistic(names.outside(name), 'ms', figures, *window) for name, figures in named]
