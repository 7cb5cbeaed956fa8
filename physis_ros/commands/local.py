# SPDX-License-Identifier: Apache-2.0
"""What this machine computes on: names, memory and versions that profiles carry."""

from __future__ import annotations

import os
import platform
from pathlib import Path

from physis_ros import __version__
from physis_ros.engine.devices import device_kind
from physis_ros.errors import ParameterError

CPU = 'cpu'
CPUINFO = Path('/proc/cpuinfo')


def known_devices() -> list[str]:
    """Return the torch devices of this machine."""
    import torch

    return [CPU, *(f'cuda:{index}' for index in range(torch.cuda.device_count()))]


def known_device(name: str) -> str:
    """
    Return a device of this machine under its full name.

    :raises ParameterError: listing those there are.
    """
    full, known = 'cuda:0' if name == 'cuda' else name, known_devices()
    if full not in known:
        raise ParameterError('device', f'one of {known}', name)
    return full


def peers(device: str) -> list[str]:
    """
    Return a device of each kind that one can exchange messages with, one of its own kind first.

    Another one of its kind where there is, else itself.
    """
    found: dict[str, str] = {}
    for name in (*(name for name in known_devices() if name != device), device):
        found.setdefault(device_kind(name), name)
    return [found.pop(device_kind(device)), *found.values()]


def device_name(device: str) -> str:
    """Return what a device calls itself, with the cores for a processor."""
    import torch

    if device != CPU:
        return str(torch.cuda.get_device_name(device))
    return f'{_processor()}, {len(os.sched_getaffinity(0))} cores'


def memory_bytes(device: str) -> int:
    """Return the memory of a device."""
    import torch

    if device != CPU:
        return int(torch.cuda.get_device_properties(device).total_memory)
    return os.sysconf('SC_PAGE_SIZE') * os.sysconf('SC_PHYS_PAGES')


def versions() -> dict[str, str]:
    """Return the versions that times depend on."""
    from physis_ros.engine.measure import present_versions

    return present_versions({'physis_ros': __version__})


def _processor() -> str:
    if CPUINFO.is_file():
        for line in CPUINFO.read_text().splitlines():
            key, _, value = line.partition(':')
            if key.strip() == 'model name':
                return value.strip()
    return platform.processor() or platform.machine()
