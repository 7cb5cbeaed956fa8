# SPDX-License-Identifier: Apache-2.0
"""
What a message from one device to another costs: measured between two real workers.

Their model hands on what came and computes nothing, so what is timed is the way. States are large
and go there, estimates are small and come back: two sizes give what a byte costs and what a
message costs whatever its size. On an accelerator the way leads through the memory of the host,
as it does for every model.
"""

from __future__ import annotations

from contextlib import ExitStack

from physis_ros.engine.config import PoolConfig
from physis_ros.engine.devices import device_kind
from physis_ros.engine.lap import lap, running
from physis_ros.engine.models import REGISTRY
from physis_ros.engine.profile import Link

# Bytes of a token in a state, and in an estimate.
_STATE, _ESTIMATE = 1024, 16
# States of 1 to 16 MiB. The pause between messages lets receivers sleep.
_LEAST, _MOST = 1024, 16384
_MODEL = 'synthetic:blocks=2,steps=3,tokens={tokens},width=256,window=1,stage_ms=0.5'
# The clock's own step: no way is shorter.
_LEAST_S = 1e-9


class LinkProbe:
    """
    Two workers, one on each of two devices. Not thread-safe.

    :param device: torch device that sends.
    :param to: torch device that receives; may be the same.
    :param state_bytes: how large the states of interest are: caches make small ones quick.
    """

    def __init__(self, device: str, to: str, state_bytes: int = 0, chunks: int = 20) -> None:
        self._tokens = min(max(_LEAST, -(-state_bytes // _STATE)), _MOST)
        self._to, self._chunks = to, chunks
        config = PoolConfig(
            _MODEL.format(tokens=self._tokens), 2, 'block', devices=(device, to), max_streams=1,
            in_flight=1, mailbox_depth=2,
        )  # fmt: skip
        self._closing = ExitStack()
        self._pool = self._closing.enter_context(running(config, REGISTRY))

    def close(self) -> None:
        """End the workers."""
        self._closing.close()

    def measure(self) -> Link:
        """Return what is measured now."""
        seen = lap(self._pool, 1, self._chunks)
        return link_of(
            device_kind(self._to),
            (self._tokens * _STATE, seen.way_s(0, 1)),
            (self._tokens * _ESTIMATE, seen.way_s(1, 0)),
        )


def link_of(to: str, large: tuple[int, float], small: tuple[int, float]) -> Link:
    """Return the straight line through the bytes and seconds of two messages."""
    byte_s = max(large[1] - small[1], _LEAST_S) / (large[0] - small[0])
    return Link(to, max(0.0, small[1] - byte_s * small[0]), 1 / byte_s)
