# SPDX-License-Identifier: Apache-2.0
"""
Everything at once: any model, plan, mix and arrivals equal the oracle, in constant memory.

Where the other files look at one rule each, streams here open, close, are reset, commit and arrive
in bursts in one story, on the workers' loops in this process, and a few times on real processes.
"""

from __future__ import annotations

from collections.abc import Iterable
from itertools import product
from typing import Any

import pytest
import torch
from engine_cases import until
from engine_story import Story
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from test_engine_equality import configs

from physis_ros.backbones.registry import open_backbone
from physis_ros.engine.compute import STEPS_KEPT, Compute
from physis_ros.engine.config import PoolConfig
from physis_ros.engine.crew import Crew

NAMES = ('left', 'right', 'rover')
QUIET = [HealthCheck.too_slow]


def live(story: Story, steps: int) -> None:
    """Let streams come, go, begin anew, commit and arrive in bursts."""
    for _ in range(steps):
        chance, there = story.chance.random(), sorted(story.epochs)
        if not there or (chance < 0.06 and len(there) < len(NAMES)):
            story.open(story.chance.choice([name for name in NAMES if name not in there]))
        elif chance < 0.10:
            story.close(story.chance.choice(there))
        elif chance < 0.15:
            story.reset(story.chance.choice(there))
        elif chance < 0.22:
            story.commit(story.chance.choice(there))
        elif chance < 0.30:
            burst(story, story.chance.choice(there))
        else:
            story.step()


def burst(story: Story, name: str) -> None:
    """Enter as many chunks at once as the pipe takes."""
    for _ in range(story.pool.config.in_flight or 1):
        if not story.pool.ready(name):
            break
        story.enter(name)


def rounds(story: Story, count: int) -> None:
    """Let so many chunks of every stream through."""
    for _ in range(count):
        for name in sorted(story.epochs):
            story.enter_at_last(name)
            story.renew()
    story.quiet()


def held(loops: Iterable[object]) -> tuple[int, int]:
    """Return number and bytes of the tensors that workers' loops hold beside their weights."""
    tensors: dict[tuple[int, ...], int] = {}
    seen: set[int] = set()
    waiting: list[Any] = list(loops)
    while waiting:
        value = waiting.pop()
        if id(value) in seen or isinstance(value, Compute):
            continue
        seen.add(id(value))
        if isinstance(value, torch.Tensor):
            tensors[(value.data_ptr(), *value.shape)] = value.nbytes
        elif isinstance(value, dict):
            waiting += value.values()
        elif isinstance(value, list | tuple | set | frozenset):
            waiting += value
        elif type(value).__module__.startswith(('physis_ros', 'collections')):
            waiting += [*vars(value).values()] if hasattr(value, '__dict__') else []
            waiting += [getattr(value, name, None) for name in getattr(value, '__slots__', ())]
            waiting += value if hasattr(value, 'popleft') else []
    return len(tensors), sum(tensors.values())


@settings(max_examples=5, deadline=None, suppress_health_check=QUIET, database=None)
@given(config=configs(), seed=st.integers(0, 2**16))
def test_whatever_happens_equals_the_oracle_in_constant_memory(
    config: PoolConfig, seed: int
) -> None:
    story = Story(config, seed)
    with story.pool as pool:
        pool.start()
        live(story, 40)
        story.finish()
        for name in NAMES:
            story.open_at_last(name)
        loops = pool._desk.crew().loops
        # So many chunks fill whatever is kept of observations; windows are there from the start.
        rounds(story, pool.layout.board.slots + 1)
        full = held(loops)
        assert full[0] > 0
        rounds(story, 3)
        assert held(loops) == full
        for name in NAMES:
            story.close(name)
        until(pool, lambda: not any(x._lanes or x._tasks for x in loops), 'the end of all lanes')
        assert held(loops)[1] < full[1]
    assert story.delivered > 0


def test_however_many_ways_rows_mix_few_are_remembered() -> None:
    compute = Compute(open_backbone('synthetic:blocks=1,steps=4,width=8,heads=1'), 'cpu')
    for steps in product(range(4), repeat=5):
        assert compute._step(steps).tolist() == list(steps)
    assert len(compute._steps) == STEPS_KEPT


@pytest.mark.parametrize(
    ('config', 'seed'),
    [
        (PoolConfig(
            'synthetic:blocks=3,steps=2,window=2,sink=1,tokens=3,width=8,heads=1', 3, 'block',
            max_streams=3, in_flight=4, max_batch=8,
        ), 1),
        (PoolConfig(
            'synthetic:blocks=2,steps=4,window=1,tokens=2,width=8,heads=1', 3,
            assignment=(0, 1, 2, 0, 1, 1, 0, 2), max_streams=3, in_flight=6, max_batch=2,
            mailbox_depth=1,
        ), 2),
    ],
    ids=['block', 'scattered'],
)  # fmt: skip
def test_whatever_happens_on_real_workers(config: PoolConfig, seed: int) -> None:
    story = Story(config, seed, crew=Crew)
    with story.pool as pool:
        pool.start(180.0)
        live(story, 80)
        story.finish()
    assert story.delivered > 5
