# SPDX-License-Identifier: Apache-2.0
"""
A trace of the wavefront as Chrome trace JSON, which Perfetto opens.

One track for each worker, one slice for each task, an arrow for each hop. Written as it goes; a
trace cut short by a crash still opens.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any, TextIO

from physis_ros.engine.board import epoch_of
from physis_ros.engine.spans import Span
from physis_ros.engine.task import FROM_POOL, LOCAL
from physis_ros.errors import ParameterError


class Trace:
    """
    A trace file being written.

    :param path: the file; replaced when it exists.
    :param workers: one track each.
    :param blocks: blocks of the model; a span beyond them is the decoding.
    :raises ParameterError: when the file cannot be written.
    """

    def __init__(self, path: Path, workers: int, blocks: int) -> None:
        self._file = _opened(path)
        self._blocks, self._flow, self._first = blocks, 0, True
        self._file.write('[')
        for worker in range(workers):
            name = {'name': f'worker {worker}'}
            self._write({'ph': 'M', 'name': 'thread_name', 'pid': 1, 'tid': worker, 'args': name})

    def add(self, span: Span) -> None:
        """Write one task, and the hop it came by."""
        decoding = span.block == self._blocks
        name = 'decode' if decoding else f'd{span.step} b{span.block}'
        self._write({
            'ph': 'X', 'name': f'c{span.chunk} {name}', 'cat': f'stream {span.stream}',
            'pid': 1, 'tid': span.worker, 'ts': span.started_ns / 1e3,
            'dur': (span.ended_ns - span.started_ns) / 1e3,
            'args': {
                'stream': span.stream, 'epoch': epoch_of(span.era), 'chunk': span.chunk,
                'step': span.step, 'block': span.block, 'batch': span.batch,
                'queue_us': (span.started_ns - span.queued_ns) / 1e3,
            },
        })  # fmt: skip
        if span.source not in (LOCAL, FROM_POOL):
            self._arrow(span)

    def close(self) -> None:
        """Finish the file."""
        if not self._file.closed:
            self._file.write('\n]\n')
            self._file.close()

    def _arrow(self, span: Span) -> None:
        self._flow += 1
        common = {'name': 'hop', 'cat': 'hop', 'pid': 1, 'id': self._flow}
        # A flow binds to the slice around its time: just before the sender's end, at our start.
        sent_us = span.sent_ns / 1e3 - 0.5
        self._write({**common, 'ph': 's', 'tid': span.source, 'ts': sent_us})
        self._write({
            **common, 'ph': 'f', 'bp': 'e', 'tid': span.worker, 'ts': span.started_ns / 1e3,
            'args': {'bytes': span.bytes, 'wait_us': (span.queued_ns - span.sent_ns) / 1e3},
        })  # fmt: skip

    def _write(self, event: dict[str, Any]) -> None:
        self._file.write('\n' if self._first else ',\n')
        self._file.write(json.dumps(event))
        self._first = False


def _opened(path: Path) -> TextIO:
    try:
        return path.open('w', encoding='utf-8')
    except OSError as error:
        raise ParameterError(
            'trace', f'a file that can be written ({error.strerror})', str(path)
        ) from error
