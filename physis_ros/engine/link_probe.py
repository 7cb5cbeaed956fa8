# SPDX-License-Identifier: Apache-2.0
"""
What a message from one device to another costs: measured between two real workers.

Their model hands on what came and computes nothing, so what is timed is the way. States are large
and go there, estimates are small and come back: two sizes give what a byte costs and what a
message costs whatever its size. On an accelerator the way leads through the memory of the host,
as it does for every model.
"""

from __future__ import annotations

from physis_ros.engine.config import PoolConfig
from physis_ros.engine.devices import device_kind
from physis_ros.engine.lap import STREAM, lap
from physis_ros.engine.models import REGISTRY
from physis_ros.engine.pool import Pool
from physis_ros.engine.profile import Link

_TOKENS, _WIDTH, _CHANNELS, _FLOAT = 4096, 256, 4, 4
# One state is 4 MiB, one estimate 64 KiB. The pause between messages lets receivers sleep.
_MODEL = f'synthetic:blocks=2,steps=3,tokens={_TOKENS},width={_WIDTH},window=1,stage_ms=0.5'
_LARGE, _SMALL = (_TOKENS * columns * _FLOAT for columns in (_WIDTH, _CHANNELS))
_START_S = 120.0
# The clock's own step: no way is shorter.
_LEAST_S = 1e-9


class LinkProbe:
    """
    Two workers, one on each of two devices. Not thread-safe.

    :param device: torch device that sends.
    :param to: torch device that receives; may be the same.
    """

    def __init__(self, device: str, to: str, chunks: int = 20) -> None:
        self._to, self._chunks = to, chunks
        config = PoolConfig(
            _MODEL, 2, 'block', devices=(device, to), max_streams=1, in_flight=1, mailbox_depth=2
        )
        self._pool = Pool(config, REGISTRY)
        try:
            self._pool.start(_START_S)
            self._pool.open_stream(STREAM)
        except BaseException:
            self.close()
            raise

    def close(self) -> None:
        """End the workers."""
        self._pool.close()

    def measure(self) -> Link:
        """Return what is measured now."""
        seen = lap(self._pool, 1, self._chunks)
        return link_of(device_kind(self._to), seen.way_s(0, 1), seen.way_s(1, 0))


def link_of(to: str, large_s: float, small_s: float) -> Link:
    """
    Return the straight line through the times of two messages.

    :param large_s: of a state.
    :param small_s: of an estimate.
    """
    byte_s = max(large_s - small_s, _LEAST_S) / (_LARGE - _SMALL)
    return Link(to, max(0.0, small_s - byte_s * _SMALL), 1 / byte_s)
