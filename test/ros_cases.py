# SPDX-License-Identifier: Apache-2.0
"""Small real things for the tests of the nodes: chunks, pictures, weights."""

from __future__ import annotations

import time
from pathlib import Path
from typing import Any

import numpy as np

from physis_ros.types import ActionChunk, ChunkTimes

JOINTS = ('shoulder', 'elbow')
DT_NS = 25_000_000
MS = 1_000_000


def steady_chunk(
    number: int, position: tuple[float, float], epoch: int = 0, now_ns: int | None = None
) -> ActionChunk:
    """Return a chunk that keeps the joints where they are told, from now on for 400 ms."""
    now_ns = time.time_ns() if now_ns is None else now_ns
    observed_ns = now_ns - 50 * MS
    return ActionChunk(
        stream='robot',
        epoch=epoch,
        chunk=number,
        start_ns=now_ns,
        dt_ns=DT_NS,
        names=JOINTS,
        actions=np.tile(np.array(position), (16, 1)),
        input_stamps_ns={'camera': observed_ns, 'joints': observed_ns + 5 * MS},
        times=ChunkTimes(*(observed_ns + part * MS for part in (0, 5, 10, 40, 45, 50))),
    )


def picture(size: int = 128) -> Any:
    """Return a picture with a gradient, uint8 [size, size, 3]."""
    row = np.linspace(0, 255, size).astype(np.uint8)
    return np.stack([np.tile(row, (size, 1))] * 3, axis=2)


def small_weights(folder: Path) -> Path:
    """Write a small reach model with random weights; it computes in a few milliseconds."""
    import torch

    from physis_ros.backbones.base import KvRule
    from physis_ros.backbones.reach.checkpoint import save_weights
    from physis_ros.backbones.reach.network import ReachNetwork
    from physis_ros.backbones.reach.spec import ReachSizes

    torch.manual_seed(0)
    sizes = ReachSizes(width=32, heads=2, blocks=2, features=32, keypoints=8)
    path = folder / 'small.safetensors'
    save_weights(path, ReachNetwork(sizes, KvRule.SAME_STEP), {})
    return path


def assert_agreed(live: dict[str, bool | None]) -> None:
    """Look that no figure of the servo differs, and that those that matter could be compared."""
    assert [name for name, agrees in live.items() if agrees is False] == []
    counts = ('ticks', 'deadline_due', 'deadline_misses', 'underruns', 'underrun_ticks')
    chunks = ('chunks_received', 'chunks_accepted', 'chunks_rejected')
    ages = [f'action_age_ms {part}' for part in ('n', 'p50', 'p90', 'p99', 'p999', 'max')]
    must = (*counts, *chunks, *ages)
    assert {name: live.get(name) for name in must} == dict.fromkeys(must, True)
