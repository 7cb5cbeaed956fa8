# SPDX-License-Identifier: Apache-2.0
"""From a worker's configuration to its running loop: attach, load, warm up, report, run."""

from __future__ import annotations

import gc
import sys
import traceback
from dataclasses import asdict
from typing import Any

import torch

from physis_ros.engine.arena import Arena
from physis_ros.engine.bell import Bell, Waiter
from physis_ros.engine.board import Board
from physis_ros.engine.config import PoolConfig
from physis_ros.engine.grid import place
from physis_ros.engine.layout import POOL, Layout, Site
from physis_ros.engine.loop import WorkerLoop
from physis_ros.engine.memory import MemoryCap
from physis_ros.engine.message import Header, Kind
from physis_ros.engine.models import registry
from physis_ros.engine.opening import SWITCH_S
from physis_ros.engine.warm import warm_blocks, warm_shared
from physis_ros.engine.weights import held_bytes


def describe(
    worker: int, layout: Layout, registry_name: str, arena: Arena, bells: dict[int, Bell]
) -> dict[str, Any]:
    """Return what :func:`work` needs, as plain values."""
    config = asdict(layout.config)
    config.pop('trace')
    return {
        'worker': worker,
        'config': config,
        'owner': list(layout.grouping.owner),
        'joint': layout.joint,
        'registry': registry_name,
        'arena': [arena.fd, arena.size],
        'bells': {str(owner): bell.fd for owner, bell in bells.items()},
    }


def work(given: dict[str, Any]) -> int:
    """
    Be the worker; return the exit code.

    Whatever goes wrong is told to the pool in words before the process ends with code 1.
    """
    config = given['config']
    config['devices'] = tuple(config['devices'])
    config['assignment'] = tuple(config['assignment'])
    pool = PoolConfig(**config)
    torch.set_num_threads(pool.threads_per_worker)
    me: int = given['worker']
    models = registry(given['registry'])
    spec = models.read_spec(pool.model)
    grouping = place(spec, given['owner'], pool.workers, pool.override_kv_rule)
    layout = Layout(spec, grouping, pool, given['joint'])
    bells = {int(owner): Bell(fd) for owner, fd in given['bells'].items()}
    arena = Arena(*given['arena'])
    site = Site(layout, arena, me, bells)
    try:
        device, held = pool.device(me), layout.blocks_of(me)
        cap = MemoryCap(pool, me)
        backbone = models.open_backbone(pool.model, device, held)
        cap.check(held_bytes(backbone), 'weights')
        warm_shared(backbone, device)
        warm_blocks(backbone, device, held)
        board = Board(arena, site.board_offset, layout.board)
        loop = WorkerLoop(me, layout, site, board, backbone, Waiter(bells[me]))
        sys.setswitchinterval(SWITCH_S)
        gc.collect()
        gc.freeze()  # what was loaded stays: later collections need not walk it
        loop.say(Kind.READY)
        loop.run()
    except Exception as error:  # the process boundary: told to the pool and printed, then the end
        traceback.print_exc(file=sys.stderr)
        told = f'{type(error).__name__}: {error}'
        site.outboxes[POOL].send_text(Header(Kind.FAILED), told)
        return 1
    return 0
