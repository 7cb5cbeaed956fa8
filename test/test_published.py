# SPDX-License-Identifier: Apache-2.0
"""The published experiment, rebuilt: arithmetic, counts and the command."""

from __future__ import annotations

import argparse
import json
from dataclasses import replace
from pathlib import Path

import pytest

from physis_ros.errors import ParameterError
from physis_ros.evaluation.pool import published
from physis_ros.evaluation.pool.assumptions import H100, MODELS, STAGE_H3_S, STAGE_MOST_S, Work
from physis_ros.evaluation.pool.command import add_simulate_parser
from physis_ros.evaluation.pool.published import Capacity, as_dict, capacity, stage_interval_s

WAN_5B, WAN_14B, H3 = MODELS[1], MODELS[2], MODELS[4]


def parser() -> argparse.ArgumentParser:
    """Return a parser with the one command."""
    found = argparse.ArgumentParser()
    add_simulate_parser(found.add_subparsers())
    return found


def test_the_curve_goes_through_the_two_times_it_was_made_from() -> None:
    """5B on one device: 173 ms a chunk without batches, 98 ms with the four steps in one."""
    curve = WAN_5B.cost(H100).curves[0].times_s
    assert 120 * curve[0] == pytest.approx(0.173, rel=0.005)
    assert 30 * curve[3] == pytest.approx(0.098, rel=0.005)


def test_stage_times_meet_the_published_ones() -> None:
    """Neither was used for the curve: H3's own within 2 %, the slowest of the five within 3 %."""
    assert H100.stage_s(H3.work, 1) == pytest.approx(STAGE_H3_S, rel=0.02)
    assert H100.stage_s(WAN_14B.work, 1) == pytest.approx(STAGE_MOST_S, rel=0.03)


def test_memory_bounds_a_stage_with_little_to_compute() -> None:
    """A byte read costs its time even when there is nothing to multiply."""
    idle = Work(rows=1000, flop=1.0, block_bytes=3.35e9, kv_bytes=0.335e9)
    assert H100.stage_s(idle, 1) == pytest.approx(1.1e-3)
    assert H100.stage_s(idle, 2) == pytest.approx(1.2e-3)


def test_stages_of_one_device_each_run_at_the_slowest() -> None:
    """A small model in virtual time: the interval is one stage, whatever the depth."""
    small = replace(H3, blocks=3)
    assert stage_interval_s(small) == pytest.approx(H100.stage_s(H3.work, 1), rel=1e-6)


def test_joint_beats_even_where_weights_are_heavy() -> None:
    """H3: three cards for each stream alone, one copy of the weights for all together."""
    found = capacity(H3, run=False)
    assert found.even == 8
    assert found.even < found.joint <= found.memory_bound
    assert found.gain >= found.published_gain


def test_the_verdict_needs_every_model() -> None:
    """One model that loses, or gains too little, and it does not hold."""
    good = Capacity(8, 17, 6, 10, 0.0, 0, 1, 0.004, 18.4, 300.0)
    assert as_dict({'m': good})['holds'] is True
    assert as_dict({'m': good, 'n': replace(good, joint=7)})['holds'] is False
    assert as_dict({'m': good, 'n': replace(good, joint=13)})['holds'] is False
    assert as_dict({'m': good})['models']['m']['published_joint'] == 10


def test_the_figures_end_with_what_decides(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """And with the flag that changes it; not among the data."""
    found = {'m': Capacity(8, 17, 6, 10, 0.0, 0, 1, 0.004, 18.4, 300.0)}
    monkeypatch.setattr(published, 'report', lambda: found)
    args = parser().parse_args(['simulate', '--published'])
    assert args.run(args) == 0
    decide, flag = capsys.readouterr().out.splitlines()[-2:]
    assert decide.startswith('what decides: memory that each card keeps for KV')
    assert flag.startswith('--sensitivity changes')
    args.json = True
    assert args.run(args) == 0
    assert json.loads(capsys.readouterr().out)['models']['m']['joint'] == 17


def test_the_command_runs_a_trace(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """From two files to one JSON object."""
    model = {
        'blocks': 1, 'passes': 1, 'block_bytes': 1, 'kv_bytes': 1, 'hidden_bytes': 0,
        'latent_bytes': 0, 'times_s': [0.01],
    }  # fmt: skip
    pool, trace = tmp_path / 'pool.json', tmp_path / 'trace.json'
    pool.write_text(
        json.dumps({'devices': [{'name': 'd', 'memory_gb': 1}], 'models': {'m': model}})
    )
    events = [{'at_s': 0, 'open': 'a', 'model': 'm', 'slo_s': 0.1}]
    trace.write_text(json.dumps({'duration_s': 2, 'events': events}))
    args = parser().parse_args(['simulate', '--pool', str(pool), '--trace', str(trace), '--json'])
    assert args.run(args) == 0
    found = json.loads(capsys.readouterr().out)
    assert found['streams'][0]['interval']['p50_s'] == pytest.approx(0.1)
    assert found['rejection_rate'] == 0.0
    assert found['speed_up'] == pytest.approx(2 / found['took_s'])
    assert {'interval', 'response', 'age', 'misses'} <= set(found['streams'][0])
    assert {'utilisation', 'samples'} <= set(found)
    args.json = False
    assert args.run(args) == 0
    said = capsys.readouterr().out
    assert said.startswith('times in ms: p50/p99/p99.9\nstream ')
    assert '100.0/100.0/-' in said
    assert 'utilisation of each device: d 0.1' in said
    assert 'of the free, stranded' in said
    assert said.splitlines()[-1].endswith('x real time')


@pytest.mark.parametrize(
    ('given', 'told'),
    [
        ((), 'none of them'),
        (('--json',), 'none of them'),
        (('--pool', 'x.json'), '--pool'),
        (('--trace', 'x.json'), '--trace'),
        (('--published', '--trace', 'x.json'), '--published --trace'),
        (('--pool', 'x.json', '--trace', 'y.json', '--sensitivity'), '--pool --sensitivity --tra'),
        (('--sensitivity',), '--sensitivity'),
    ],
)
def test_the_command_wants_both_files(given: tuple[str, ...], told: str) -> None:
    """Or the published experiment; nothing that was given is passed over."""
    args = parser().parse_args(['simulate', *given])
    with pytest.raises(ParameterError, match=f"--pool and --trace, or --published.*got '{told}"):
        args.run(args)
