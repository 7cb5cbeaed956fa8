# SPDX-License-Identifier: Apache-2.0
"""What share of each device's links is in use: traffic of a period within what they can take."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from physis_ros.engine.devices import DevicePool
from physis_ros.types import FloatArray

BoolArray = npt.NDArray[np.bool_]

# Shares are sums of quotients: equality must not hang on their last bit.
ONE = 1.0 + 1e-9

# An array, a place in it, what stood there.
Change = tuple[FloatArray, int, float]


class Traffic:
    """Links of a pool, within its nodes and between them, each way. Not thread-safe."""

    def __init__(self, pool: DevicePool) -> None:
        nodes = [d.node for d in pool.devices]
        self._same = np.array([[a == b for b in nodes] for a in nodes])
        self._inverse = np.array(
            [[1 / d.uplink_bytes_per_s for d in pool.devices],
             [1 / d.link_bytes_per_s for d in pool.devices]]
        )  # fmt: skip
        # Shares of [uplink, link] in use.
        self._out, self._in = np.zeros((2, len(pool))), np.zeros((2, len(pool)))
        # No share is above the peak: most questions then need no look at single links.
        self._peak, self._slowest = 0.0, float(self._inverse.max())
        self._index = np.arange(len(pool))

    def light(self, rate: float) -> bool:
        """Tell whether so many bytes per second fit whatever link they take."""
        return self._peak + rate * self._slowest <= 1.0

    def fits(self, host: int, rate: float, receives: bool) -> BoolArray:
        """
        Tell which devices could exchange so many bytes per second with a host.

        :param receives: whether they receive from the host, or send to it.
        """
        kind = self._same[host].astype(np.intp)
        mine, theirs = (self._in, self._out) if receives else (self._out, self._in)
        ok = mine[kind, self._index] + rate * self._inverse[kind, self._index] <= ONE
        ok &= (theirs[:, host] + rate * self._inverse[:, host] <= ONE)[kind]
        ok[host] = True
        found: BoolArray = ok
        return found

    def add(self, source: int, target: int, rate: float) -> list[Change]:
        """Enter traffic into the books; return what it changed."""
        kind = int(self._same[source, target])
        changed = []
        for array, i in ((self._out[kind], source), (self._in[kind], target)):
            changed.append((array, i, float(array[i])))
            array[i] += rate * self._inverse[kind, i]
            self._peak = max(self._peak, float(array[i]))
        return changed

    def drop(self, source: int, target: int, rate: float) -> None:
        """Strike traffic out."""
        kind = int(self._same[source, target])
        for array, i in ((self._out[kind], source), (self._in[kind], target)):
            array[i] = max(0.0, array[i] - rate * self._inverse[kind, i])

    def settle(self) -> None:
        """Look for the peak again, after something was struck out."""
        self._peak = float(max(self._out.max(), self._in.max()))

    def padded(self, pool: DevicePool) -> Traffic:
        """Return the same for a pool with more devices at its end."""
        other, n = Traffic(pool), len(self._index)
        other._out[:, :n], other._in[:, :n] = self._out, self._in
        other._peak = self._peak
        return other
