# SPDX-License-Identifier: Apache-2.0
"""
What running in a pool costs beyond the model: measured on real pools.

One worker with this model, then two: the engine's own time for each task, the way of a message to
a worker that waits, that of a result to its collector, what passes until the next chunk enters,
and how much slower a chunk gets when the other worker computes beside it. Then the links of the
device, by :class:`LinkProbe`.
"""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import ExitStack, closing
from dataclasses import dataclass, replace

import numpy as np

from physis_ros.backbones.base import ModelSpec
from physis_ros.engine.arena import tensor_bytes
from physis_ros.engine.config import PoolConfig
from physis_ros.engine.lap import Lap, lap, running
from physis_ros.engine.link_probe import LinkProbe
from physis_ros.engine.models import REGISTRY
from physis_ros.engine.pool import Pool
from physis_ros.engine.profile import Link

# Chunks of one turn where two pools take turns, and of those that come to a worker at rest.
_PART = 8
# Long enough to do what is done ahead, so that what comes then is waited for.
_REST_S = 0.005


@dataclass(frozen=True)
class Handover:
    """
    Costs around the model.

    :param task_s: the engine's own time for each task.
    :param hop_s: from the pool's sending a message to its being received by a worker that waits.
    :param deliver_s: from a worker's sending a result to its being with who waits for it.
    :param turn_s: from there to the entry of the next chunk, by who is at nothing else.
    :param crowding: time of a chunk's stages beside a busy neighbour over their time on a single
        busy worker, at least 1. What serves the pool takes its share of the processors, too.
    :param links: of the device to each kind of device, its own first.
    """

    task_s: float = 0.0
    hop_s: float = 0.0
    deliver_s: float = 0.0
    turn_s: float = 0.0
    crowding: float = 1.0
    links: tuple[Link, ...] = ()


class HandoverProbe:
    """
    Runs the model on one worker and, where it has two blocks, on two, which wait in between.

    :param model: its URI, as workers load it.
    :param peers: devices that it exchanges messages with, one of each kind, one of its own first;
        empty: itself.
    :param chunks: how many chunks each pool makes in a measurement.
    """

    def __init__(
        self,
        model: str,
        blocks: int,
        device: str = 'cpu',
        peers: Sequence[str] = (),
        chunks: int = 40,
        models: str = REGISTRY,
    ) -> None:
        self._device, self._chunks = device, chunks
        self._pools: list[Pool] = []
        self._links: list[LinkProbe] = []
        with ExitStack() as stack:
            for workers, grouping in ((1, 'serial'), (2, 'block'))[: min(blocks, 2)]:
                devices = (device,) * workers
                config = PoolConfig(
                    model, workers, grouping, devices=devices, max_streams=1, in_flight=2
                )
                self._pools.append(stack.enter_context(running(config, models)))
            for peer in peers or (device,):
                probe = LinkProbe(device, peer, _state_bytes(self._pools[0].spec))
                self._links.append(stack.enter_context(closing(probe)))
            self._closing = stack.pop_all()

    def close(self) -> None:
        """End the workers."""
        self._closing.close()

    def measure(self) -> Handover:
        """Return what is measured now."""
        # A lonely chunk meets idle workers: what it waits is the way, not a queue.
        lonely = lap(self._pools[0], 1, self._chunks)
        found = Handover(
            task_s=lonely.task_s,
            hop_s=lap(self._pools[0], 1, _PART, _REST_S).entry_s,
            deliver_s=lonely.deliver_s,
            turn_s=max(0.0, lonely.turn_s),
            links=tuple(probe.measure() for probe in self._links),
        )
        # Two workers on one accelerator are no two devices: only processors say something.
        if len(self._pools) < 2 or self._device != 'cpu':
            return found
        return replace(found, crowding=max(1.0, self._crowding()))

    def _crowding(self) -> float:
        # Workers without a pause on both sides: one that has slept is slow for a while. In turns,
        # and one ratio of each: a machine's pace changes while it is measured.
        one, two = self._pools
        ratios = [
            self._busy(two).stages_s / self._busy(one).stages_s
            for _ in range(max(1, self._chunks // _PART))
        ]
        return float(np.median(ratios))

    def _busy(self, pool: Pool) -> Lap:
        return lap(pool, 2, _PART)


def _state_bytes(spec: ModelSpec) -> int:
    return tensor_bytes((spec.tokens, spec.width), spec.dtype)


def measure_handover(
    model: str,
    blocks: int,
    device: str = 'cpu',
    peers: Sequence[str] = (),
    chunks: int = 40,
    models: str = REGISTRY,
) -> Handover:
    """Start the pools of a :class:`HandoverProbe`, measure once, end them."""
    with closing(HandoverProbe(model, blocks, device, peers, chunks, models)) as probe:
        return probe.measure()
