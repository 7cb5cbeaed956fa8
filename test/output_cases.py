# SPDX-License-Identifier: Apache-2.0
"""Small real chunks and players for the tests of the output side."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from physis_ros.output.interpolate import Interpolation
from physis_ros.output.merge import Merge
from physis_ros.session.player import Player, PlayerConfig
from physis_ros.types import ActionChunk, ChunkTimes, Command

MS = 1_000_000
NAMES = ('shoulder', 'elbow')
PLAIN: dict[str, Any] = {'interpolation': (Interpolation.LINEAR,) * 2, 'merge': Merge.REPLACE}


def chunk(
    number: int = 0,
    start_ms: float = 0,
    steps: Sequence[float] | np.ndarray = (0.0, 1.0, 2.0, 3.0),
    *,
    dt_ms: float = 25,
    epoch: int = 0,
    observed_ms: float = 0,
    joints_ms: float | None = None,
    publish_ms: float | None = None,
    names: tuple[str, ...] = NAMES,
) -> ActionChunk:
    """Make a chunk; one value a step goes to all joints."""
    values = np.asarray(steps, dtype=np.float64)
    if values.ndim == 1:
        values = np.repeat(values[:, None], len(names), axis=1)
    observed = round(observed_ms * MS)
    publish = observed if publish_ms is None else round(publish_ms * MS)
    inputs = {'camera': observed}
    if joints_ms is not None:
        inputs['joints'] = round(joints_ms * MS)
    return ActionChunk(
        stream='arm',
        epoch=epoch,
        chunk=number,
        start_ns=round(start_ms * MS),
        dt_ns=round(dt_ms * MS),
        names=names,
        actions=values,
        input_stamps_ns=inputs,
        times=ChunkTimes(observed, observed, observed, publish, publish, publish),
    )


def player(measured: float | None = 0.0, **changes: Any) -> Player:
    """Make an active player at time 0, at rest at ``measured``, without a settling time."""
    changes = {'settle_ns': 0, 'start_speed': 1e6, 'names': NAMES, **changes}
    made = Player(PlayerConfig(**changes))
    if measured is not None:
        made.measured(np.full(len(changes['names']), measured), 0)
    made.activate(0)
    return made


def tick(made: Player, at_ms: float) -> Command:
    """Tick at ``at_ms``, on time."""
    now_ns = round(at_ms * MS)
    return made.tick(now_ns, now_ns)


def run(made: Player, first_ms: int, last_ms: int, every_ms: int = 5) -> list[Command]:
    """Tick from ``first_ms`` to ``last_ms``, both included."""
    return [tick(made, at) for at in range(first_ms, last_ms + 1, every_ms)]
