# SPDX-License-Identifier: Apache-2.0
"""
What is known of a running pool, in constant memory (E14).

Fed with spans by the pool; read by status, report and benchmarks. Everything of one chunk is found
by its id for a few hundred chunks back.
"""

from __future__ import annotations

from collections import OrderedDict, defaultdict
from dataclasses import dataclass, field

from physis_ros.engine.sketch import Sketch
from physis_ros.engine.spans import Span
from physis_ros.engine.task import FROM_POOL, LOCAL

_CHUNKS_KEPT = 300


@dataclass
class StageFigures:
    """
    One stage, all streams.

    :param compute: time of the batches it ran in.
    :param queue: from being received to being started.
    :param rows: sum of batch sizes.
    """

    compute: Sketch = field(default_factory=Sketch)
    queue: Sketch = field(default_factory=Sketch)
    rows: int = 0


@dataclass
class EdgeFigures:
    """
    One edge between processes.

    :param wait: from being sent to being received.
    :param bytes: payload so far.
    """

    wait: Sketch = field(default_factory=Sketch)
    bytes: int = 0


class Metrics:
    """
    Figures of one pool. Written by the pool under its lock.

    ``busy_ns`` is the time that each worker has spent in stages and decoding since the start.
    """

    def __init__(self) -> None:
        self.stages: defaultdict[tuple[int, int], StageFigures] = defaultdict(StageFigures)
        self.edges: defaultdict[tuple[int, int], EdgeFigures] = defaultdict(EdgeFigures)
        self.overhead = Sketch()
        self.lost_spans = 0
        self.queue_lengths: list[int] = []
        self.dropped_tasks = 0
        self.busy_ns: defaultdict[int, int] = defaultdict(int)
        self._chunks: OrderedDict[tuple[int, int], list[Span]] = OrderedDict()

    def add(self, span: Span) -> None:
        """Count one task."""
        stage = self.stages[span.step, span.block]
        stage.compute.add(span.ended_ns - span.started_ns)
        stage.queue.add(span.started_ns - span.queued_ns)
        stage.rows += span.batch
        self.overhead.add(span.overhead_ns)
        # Each row of a batch reports the whole of it.
        self.busy_ns[span.worker] += (span.ended_ns - span.started_ns) // span.batch
        if span.source != LOCAL:
            source = -1 if span.source == FROM_POOL else span.source
            self.hop(source, span.worker, span.bytes, span.queued_ns - span.sent_ns)
        self._keep(span)

    def hop(self, source: int, target: int, size: int, wait_ns: int) -> None:
        """Count one message between processes; -1 is the pool."""
        edge = self.edges[source, target]
        edge.wait.add(wait_ns)
        edge.bytes += size

    def of_chunk(self, era: int, chunk: int) -> list[Span]:
        """Return the spans of one chunk, in order of start; empty when forgotten."""
        return sorted(self._chunks.get((era, chunk), []), key=lambda span: span.started_ns)

    def _keep(self, span: Span) -> None:
        key = (span.era, span.chunk)
        if key not in self._chunks:
            self._chunks[key] = []
            while len(self._chunks) > _CHUNKS_KEPT:
                self._chunks.popitem(last=False)
        self._chunks[key].append(span)
