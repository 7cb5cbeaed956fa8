# SPDX-License-Identifier: Apache-2.0
"""
The shared memory of one pool: a single anonymous file that lives as long as a process maps it.

It has no name, so nothing can stay behind in /dev/shm, whatever kills whom. Workers get it as an
inherited file descriptor. What is written here is published by a counter that is written after it
and polled by the other side, without a fence, which Python does not have: right only where the
processor keeps stores and loads in order, as x86-64 does.
"""

from __future__ import annotations

import math
import mmap
import os
import platform

import torch
from torch import Tensor

from physis_ros.errors import ParameterError

LINE = 64
WORD = 8
ORDERED = ('x86_64', 'amd64')


def aligned(size: int) -> int:
    """Return ``size`` [bytes] rounded up to whole cache lines."""
    return -(-size // LINE) * LINE


def tensor_bytes(shape: tuple[int, ...], dtype: torch.dtype) -> int:
    """Return the size of a dense tensor [bytes]."""
    return math.prod(shape) * torch.empty(0, dtype=dtype).element_size()


class Arena:
    """
    The mapped memory.

    :param fd: the anonymous file.
    :param size: its length [bytes].
    """

    def __init__(self, fd: int, size: int) -> None:
        self.fd, self.size = fd, size
        # All pages now: the first use of each must not cost a page fault while running.
        self._map = mmap.mmap(fd, size, flags=mmap.MAP_SHARED | mmap.MAP_POPULATE)
        self.buffer = memoryview(self._map)

    @classmethod
    def create(cls, size: int) -> Arena:
        """
        Make zeroed memory of ``size`` bytes.

        :raises ParameterError: on a processor that reorders stores.
        """
        check_processor(platform.machine())
        fd = os.memfd_create('physis-pool')
        try:
            os.ftruncate(fd, size)
            return cls(fd, size)
        except OSError:
            os.close(fd)
            raise

    def words(self, offset: int, count: int) -> memoryview:
        """Return 64-bit integers; aligned, so each is read and written whole."""
        return self.buffer[offset : offset + count * WORD].cast('q')

    def tensor(self, offset: int, shape: tuple[int, ...], dtype: torch.dtype) -> Tensor:
        """Return a tensor over the memory itself."""
        count = math.prod(shape)
        if count == 0:
            return torch.empty(shape, dtype=dtype)
        return torch.frombuffer(self._map, dtype=dtype, count=count, offset=offset).view(shape)

    def close(self) -> None:
        """Give up the descriptor; the memory itself goes with the last view of it."""
        if self.fd >= 0:
            os.close(self.fd)
            self.fd = -1


def check_processor(machine: str) -> None:
    """
    Look whether other processes see stores in the order in which they were made.

    :param machine: as :func:`platform.machine` names it.
    :raises ParameterError: when they may not.
    """
    if machine.lower() not in ORDERED:
        raise ParameterError(
            'processor', 'x86-64, which shows stores to other processes in order', machine,
            'run the engine on such a machine; servo and evaluation run on any',
        )  # fmt: skip
