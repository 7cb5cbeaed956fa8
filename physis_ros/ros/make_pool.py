# SPDX-License-Identifier: Apache-2.0
"""From the parameters of the model node to a pool, with a door where a profile tells the costs."""

from __future__ import annotations

import sys
from collections import Counter
from pathlib import Path

from physis_ros.commands.files import check_writable
from physis_ros.commands.local import device_name, memory_bytes, versions
from physis_ros.engine.config import PoolConfig
from physis_ros.engine.door import Door, open_door
from physis_ros.engine.models import REGISTRY, registry
from physis_ros.engine.pool import Pool
from physis_ros.engine.profile import check, load
from physis_ros.ros.wam_config import WamConfig


def make_pool(config: WamConfig) -> Pool:
    """
    Make the pool; nothing is started.

    :raises PhysisError: when configuration, model and profile do not fit.
    """
    pool = config.pool
    if pool.trace is not None:
        check_writable('trace', pool.trace)
    return Pool(pool, door=_door(pool, Path(config.profile)) if config.profile else None)


def _door(config: PoolConfig, path: Path) -> Door:
    """Return who decides which streams are taken on, by what they cost on this machine."""
    devices = [config.device(worker) for worker in range(config.workers)]
    profile, spec = load(path), registry(REGISTRY).read_spec(config.model)
    sharing = Counter(devices)
    for device in sharing:
        check(profile, spec, device_name(device), versions())
    caps = [config.memory_bytes(worker) for worker in range(config.workers)]
    memory = [
        min(memory_bytes(device) // sharing[device], cap or sys.maxsize)
        for device, cap in zip(devices, caps, strict=True)
    ]
    return open_door(profile, spec, config, memory)
