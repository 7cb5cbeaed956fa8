# SPDX-License-Identifier: Apache-2.0
"""From a worker's configuration to its running loop: attach, load, warm up, report, run."""

from __future__ import annotations

import gc
import sys
import traceback
from dataclasses import asdict
from typing import Any

import torch

from physis_ros.backbones.base import Backbone
from physis_ros.engine.arena import Arena
from physis_ros.engine.bell import Bell, Waiter
from physis_ros.engine.board import Board
from physis_ros.engine.compute import Compute, Row
from physis_ros.engine.config import PoolConfig
from physis_ros.engine.grid import assign
from physis_ros.engine.kv import KvRing
from physis_ros.engine.layout import POOL, Layout, Site
from physis_ros.engine.loop import WorkerLoop
from physis_ros.engine.message import Header, Kind
from physis_ros.engine.models import registry


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
    grouping = assign(spec, given['owner'], pool.override_kv_rule)
    layout = Layout(spec, grouping, pool)
    bells = {int(owner): Bell(fd) for owner, fd in given['bells'].items()}
    arena = Arena(*given['arena'])
    site = Site(layout, arena, me, bells)
    try:
        backbone = models.open_backbone(
            pool.model, pool.device(me), frozenset(grouping.blocks_of(me))
        )
        warm_up(backbone, layout, me)
        board = Board(arena, site.board_offset, layout.board)
        loop = WorkerLoop(me, layout, site, board, backbone, Waiter(bells[me]))
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


def warm_up(backbone: Backbone, layout: Layout, me: int) -> None:
    """Run each of the worker's stages once, with its entry, exit and decoding."""
    spec, device = layout.spec, layout.config.device(me)
    compute, ring = Compute(backbone, device), KvRing(spec, device)
    noise = torch.zeros((1, *spec.latent_shape), device=device)
    hidden = torch.zeros((1, spec.tokens, spec.width), dtype=spec.dtype, device=device)
    inputs = {
        i.name: torch.zeros((1, *i.shape), dtype=i.dtype, device=device) for i in spec.inputs
    }
    with torch.inference_mode():
        for step, block in layout.grouping.stages_of(me):
            ring.clear(0)
            ring.begin(0, 0)
            row = Row(step, hidden)
            if block == 0:
                latent = noise if step else None
                row = Row(step, latent, backbone.encode(inputs), noise)
            (out,) = compute.run(block, [row], ring)
            if block == spec.blocks - 1 and step == spec.steps - 1 and out is not None:
                backbone.decode(out, inputs, True)
