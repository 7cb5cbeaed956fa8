# SPDX-License-Identifier: Apache-2.0
"""Any plan, batch, stream mix and order of work equals the serial oracle (E1, E2, E12)."""

from __future__ import annotations

from typing import Any

import pytest
from engine_cases import Oracle, collect, inputs, spec_of, witnessed
from engine_story import Story, play
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from physis_ros.backbones.base import KvRule, ModelSpec
from physis_ros.engine.config import PoolConfig
from physis_ros.engine.pool import Pool
from physis_ros.errors import EngineError, ObservationError, PlanError

MODELS = st.builds(
    'synthetic:blocks={},steps={},window={},sink={},tokens={},kv_rule={},conditioning={},'
    'width=8,heads=1'.format,
    st.integers(1, 4),
    st.integers(1, 4),
    st.integers(0, 3),
    st.integers(0, 2),
    st.integers(1, 5),
    st.sampled_from(['same_step', 'same_step', 'clean']),
    st.sampled_from(['entry', 'step']),
)


@st.composite
def configs(draw: st.DrawFn) -> PoolConfig:
    """Draw a model, a grouping that fits it, and everything that must not matter."""
    model = draw(MODELS)
    spec = spec_of(model)
    override = spec.kv_rule is KvRule.CLEAN and draw(st.booleans())
    kwargs = {
        'model': model,
        'seed': draw(st.integers(0, 3)),
        'mailbox_depth': draw(st.integers(1, 3)),
        'max_streams': 3,
        'in_flight': draw(st.integers(1, 6)),
        'max_batch': draw(st.sampled_from([1, 2, 8])),
        'batch_wait_us': draw(st.sampled_from([0.0, 100.0, 2000.0])),
        'conditioning': draw(st.sampled_from(sorted({'entry', spec.conditioning}))),
        'override_kv_rule': override,
    }
    return PoolConfig(**kwargs, **draw(groupings(spec, spec.steps if override else spec.passes)))


@st.composite
def groupings(draw: st.DrawFn, spec: ModelSpec, passes: int) -> dict[str, Any]:
    """Draw who runs what; clean weights that are not overridden keep a block's passes together."""
    together = passes > spec.steps
    scheme = draw(st.sampled_from(['stage', 'step', 'block', 'serial', 'explicit']))
    if scheme == 'explicit':
        count = spec.blocks if together else spec.blocks * passes
        owner = draw(st.lists(st.integers(0, 2), min_size=count, max_size=count))
        used = sorted(set(owner))
        owner = [used.index(worker) for worker in owner] * (passes if together else 1)
        return {'assignment': tuple(owner), 'workers': len(used)}
    units = {'stage': spec.blocks * passes, 'step': passes, 'block': spec.blocks, 'serial': 1}
    most = 1 if together and scheme in ('stage', 'step') else min(units[scheme], 4)
    return {'grouping': scheme, 'workers': draw(st.integers(1, most))}


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
    assert streams <= story.delivered <= story.entered


@pytest.mark.parametrize('grouping', ['serial', 'block'])
@pytest.mark.parametrize('sink', [0, 1])
def test_clean_weights_equal_their_oracle(grouping: str, sink: int) -> None:
    uri = f'synthetic:blocks=3,steps=2,window=2,sink={sink},kv_rule=clean,width=8,heads=1'
    workers = 1 if grouping == 'serial' else 3
    config = PoolConfig(uri, workers, grouping, max_streams=2, max_batch=2)
    story = play(config, seed=5, streams=2, resets=True)
    assert story.pool.grouping.kv_rule == 'clean'
    assert story.delivered > 4


@SETTINGS
@given(config=configs(), seed=st.integers(0, 2**16), streams=st.integers(1, 2))
def test_commits_take_their_turn_in_any_plan(config: PoolConfig, seed: int, streams: int) -> None:
    story = play(config, seed, streams, resets=True, commits=True)
    assert streams <= story.delivered <= story.entered


@pytest.mark.parametrize('rule', ['same_step', 'clean'])
@pytest.mark.parametrize('grouping', ['serial', 'block', 'stage'])
def test_steps_take_what_was_newest_as_they_began(grouping: str, rule: str) -> None:
    uri = f'synthetic:blocks=3,steps=3,kv_rule={rule},conditioning=step,width=8,heads=1'
    workers = 1 if grouping == 'serial' else 3
    clean = rule == 'clean'
    config = PoolConfig(
        uri, workers, grouping, conditioning='step', max_streams=2, max_batch=4, in_flight=3,
        batch_wait_us=200.0, override_kv_rule=clean and grouping == 'stage',
    )  # fmt: skip
    story = play(config, seed=7, streams=2, resets=False, commits=True)
    assert story.renewed > 0
    assert story.pool.grouping.overlaps == (not clean or grouping == 'stage')


@pytest.mark.parametrize('rule', ['same_step', 'clean'])
def test_a_commit_changes_what_comes_after_it(rule: str) -> None:
    uri = f'synthetic:blocks=2,steps=2,window=2,kv_rule={rule},width=8,heads=1'
    plain, told = Oracle(uri), Oracle(uri)
    for oracle in (plain, told):
        oracle.open('robot')
        oracle.run('robot', 1)
    told.commit('robot', 0, 1)
    apart = plain.run('robot', 2)[0] - told.run('robot', 2)[0]
    assert abs(apart).max() > 1e-4


def test_commits_that_cannot_be_are_refused() -> None:
    uri = 'synthetic:blocks=2,steps=2,window=1,width=8,heads=1'
    story = Story(PoolConfig(uri, 2, max_streams=1, in_flight=4), 0)
    with story.pool as pool:
        pool.start()
        story.open('robot')
        with pytest.raises(EngineError, match="'robot' must have a chunk to commit, and none"):
            pool.commit('robot', 0, witnessed(0))
        for _ in range(3):
            story.enter('robot')
        with pytest.raises(EngineError, match=r"commit of stream 'robot' must be 1 .. 2, got 0"):
            pool.commit('robot', 0, witnessed(0))
        with pytest.raises(ObservationError, match=r"inputs must be \['actions', .* got \['del"):
            pool.commit('robot', 1, inputs(0))
        with pytest.raises(ObservationError, match='inputs must be'):
            pool.enter('robot', witnessed(0), 0, False)
        story.finish()


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
        (result,) = collect(story.pool, 1)
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
                story.enter_at_last('robot')
            story.pool.close_stream('robot')
            story.expected.clear()
            story.oracle = Oracle(uri)
        before = story.delivered
        story.open('robot')
        story.enter('robot')
        story.finish()
        assert story.delivered == before + 1
