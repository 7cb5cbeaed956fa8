# SPDX-License-Identifier: Apache-2.0
"""
What a worker may hold of its device's memory, and that it holds no more.

Counted are weights and KV, which is what grows with models and streams. On an accelerator torch
itself is held to it too, with all that it needs besides: what is left is for others.
"""

from __future__ import annotations

import torch

from physis_ros.engine.config import PoolConfig
from physis_ros.errors import ParameterError

MB = 1_000_000


class MemoryCap:
    """
    One worker's share of its device.

    :param config: of the pool.
    :param worker: whose.
    """

    def __init__(self, config: PoolConfig, worker: int) -> None:
        self._bytes = share = config.memory_bytes(worker)
        device = torch.device(config.device(worker))
        if share and device.type == 'cuda':
            index = device.index or 0
            whole = torch.cuda.get_device_properties(index).total_memory
            torch.cuda.set_per_process_memory_fraction(min(share / whole, 1.0), index)

    def check(self, held: int, what: str) -> None:
        """
        Refuse to hold more.

        :param held: weights and KV [bytes].
        :param what: they are for.
        :raises ParameterError: saying how much is needed.
        """
        if self._bytes and held > self._bytes:
            rule = f'so that a worker may hold the {held / MB:.3f} MB of {what}'
            share = f'{self._bytes / MB:.3f} MB for each'
            raise ParameterError('memory_mb', rule, share, 'or use more devices')
