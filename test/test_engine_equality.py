# SPDX-License-Identifier: Apache-2.0
"""Any plan, batch, stream mix and order of work equals the serial oracle (E1, E2, E12)."""

from __future__ import annotations

import random
import time

import pytest
from engine_cases import SECOND_NS, Oracle, assert_same, inputs, local_crew
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from physis_ros.engine.config import PoolConfig
from physis_ros.engine.pool import Pool
from physis_ros.errors import PlanError

MODELS = st.builds(
    'synthetic:blocks={},steps={},window={},sink={},tokens={},width=8,heads=1'.format,
    st.integers(1, 4),
    st.integers(1, 4),
    st.integers(0, 3),
    st.integers(0, 2),
    st.integers(1, 5),
)


@st.composite
def configs(draw: st.DrawFn) -> PoolConfig:
    """Draw a model, a grouping that fits it, and everything that must not matter."""
    model = draw(MODELS)
    kwargs = {
        'model': model,
        'seed': draw(st.integers(0, 3)),
        'mailbox_depth': draw(st.integers(1, 3)),
        'max_streams': 3,
        'in_flight': draw(st.integers(1, 6)),
        'max_batch': draw(st.sampled_from([1, 2, 8])),
    }
    grouping = draw(st.sampled_from(['stage', 'step', 'block', 'explicit']))
    blocks, steps = (int(part.partition('=')[2]) for part in model[10:].split(',')[:2])
    if grouping == 'explicit':
        owner = draw(st.lists(st.integers(0, 2), min_size=blocks * steps, max_size=blocks * steps))
        used = sorted(set(owner))
        owner = [used.index(worker) for worker in owner]
        return PoolConfig(assignment=tuple(owner), workers=len(used), **kwargs)
    most = {'stage': blocks * steps, 'step': steps, 'block': blocks}[grouping]
    return PoolConfig(grouping=grouping, workers=draw(st.integers(1, min(most, 4))), **kwargs)


class Story:
    """
    Streams of a pool, driven at random beside the oracle.

    :param config: of the pool.
    :param seed: of everything that happens.
    """

    def __init__(self, config: PoolConfig, seed: int) -> None:
        self.pool = Pool(config, crew=local_crew(seed))
        self.oracle = Oracle(config.model, config.seed, config.override_kv_rule)
        self.chance = random.Random(seed)
        self.epochs: dict[str, int] = {}
        self.expected: dict[tuple[str, int, int], object] = {}
        self.entered = self.delivered = 0

    def open(self, name: str) -> None:
        self.pool.open_stream(name)
        self.oracle.open(name)
        self.epochs[name] = 0

    def reset(self, name: str) -> None:
        self.epochs[name] = self.pool.reset(name)
        assert self.oracle.reset(name) == self.epochs[name]
        self.expected = {key: value for key, value in self.expected.items() if key[0] != name}

    def enter(self, name: str) -> None:
        number = self.chance.randrange(1000)
        deadline_ns = time.monotonic_ns() + self.chance.randrange(SECOND_NS)
        chunk = self.pool.enter(name, inputs(number), deadline_ns, True)
        self.expected[name, self.epochs[name], chunk] = self.oracle.run(name, number)
        self.entered += 1

    def step(self) -> None:
        """Let one thing happen, and check whatever comes out."""
        name = self.chance.choice(sorted(self.epochs))
        if self.pool.ready(name) and self.chance.random() < 0.7:
            self.enter(name)
        self.take(self.pool.next_result(0.0))

    def take(self, result: object) -> None:
        if result is None:
            return
        # A result of an older epoch is no longer expected: the lookup fails.
        assert_same(result, self.expected.pop((result.stream, result.epoch, result.chunk)))
        self.delivered += 1

    def finish(self) -> None:
        until_s = time.monotonic() + 20
        while self.expected:
            assert time.monotonic() < until_s, f'never came: {sorted(self.expected)}'
            self.take(self.pool.next_result(0.0))


def play(config: PoolConfig, seed: int, streams: int, resets: bool) -> Story:
    """Play a story of a few hundred steps to its end."""
    story = Story(config, seed)
    with story.pool:
        story.pool.start()
        for index in range(streams):
            story.open(f'robot {index}')
        for _ in range(80):
            story.step()
            if resets and story.chance.random() < 0.06:
                story.reset(story.chance.choice(sorted(story.epochs)))
        story.finish()
    return story


SETTINGS = settings(
    max_examples=25, deadline=None, suppress_health_check=[HealthCheck.too_slow], database=None
)


@SETTINGS
@given(config=configs(), seed=st.integers(0, 2**16), streams=st.integers(1, 3))
def test_any_plan_equals_the_oracle(config: PoolConfig, seed: int, streams: int) -> None:
    story = play(config, seed, streams, resets=False)
    assert story.delivered == story.entered > 0


@SETTINGS
@given(config=configs(), seed=st.integers(0, 2**16), streams=st.integers(1, 3))
def test_resets_kill_only_their_own_stream(config: PoolConfig, seed: int, streams: int) -> None:
    story = play(config, seed, streams, resets=True)
    assert 0 < story.delivered <= story.entered


@pytest.mark.parametrize('grouping', ['serial', 'block'])
@pytest.mark.parametrize('sink', [0, 1])
def test_clean_weights_equal_their_oracle(grouping: str, sink: int) -> None:
    uri = f'synthetic:blocks=3,steps=2,window=2,sink={sink},kv_rule=clean,width=8,heads=1'
    workers = 1 if grouping == 'serial' else 3
    config = PoolConfig(uri, workers, grouping, max_streams=2, max_batch=2)
    story = play(config, seed=5, streams=2, resets=True)
    assert story.pool.grouping.kv_rule == 'clean'
    assert story.delivered > 4


def test_clean_history_differs_from_noisy_history() -> None:
    uri = 'synthetic:blocks=2,steps=2,window=2,kv_rule=clean,width=8,heads=1'
    clean, noisy = Oracle(uri), Oracle(uri, override=True)
    for oracle in (clean, noisy):
        oracle.open('robot')
    first, second = ([oracle.run('robot', n)[0] for n in range(2)] for oracle in (clean, noisy))
    assert abs(first[0] - second[0]).max() < 1e-6  # no history yet
    assert abs(first[1] - second[1]).max() > 1e-4


def test_overridden_clean_weights_pipeline_and_say_so() -> None:
    uri = 'synthetic:blocks=2,steps=3,window=2,kv_rule=clean,width=8,heads=1'
    with pytest.raises(PlanError, match='override_kv_rule'):
        Pool(PoolConfig(uri, 2))
    config = PoolConfig(uri, 2, override_kv_rule=True, max_streams=1)
    story = Story(config, 0)
    with story.pool:
        story.pool.start()
        story.open('robot')
        story.enter('robot')
        while (result := story.pool.next_result(0.0)) is None:
            pass
        assert result.kv_rule == 'override'
        story.take(result)


def test_a_stream_opened_again_remembers_nothing() -> None:
    uri = 'synthetic:blocks=2,steps=2,width=8,heads=1'
    story = Story(PoolConfig(uri, 2, max_streams=1), 3)
    with story.pool:
        story.pool.start()
        for _ in range(3):
            story.open('robot')
            for _ in range(3):
                while not story.pool.ready('robot'):
                    story.take(story.pool.next_result(0.0))
                story.enter('robot')
            story.pool.close_stream('robot')
            story.expected.clear()
            story.oracle = Oracle(uri)
        story.open('robot')
        story.enter('robot')
        story.finish()
