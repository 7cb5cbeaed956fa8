# SPDX-License-Identifier: Apache-2.0
"""``physis profile`` and ``physis plan`` as a user meets them."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from physis_ros import cli
from physis_ros.commands import local
from physis_ros.commands.files import check_writable
from physis_ros.commands.specs import US, DeviceSpec, device_pool, parse_spec
from physis_ros.engine import plan as planning
from physis_ros.engine.profile import load
from physis_ros.errors import ParameterError

MODEL = 'synthetic:blocks=3,steps=2,tokens=4,width=8,heads=2,window=1'
QUICK = ['--batch', '1', '2', '--samples', '2']
GB = 1_000_000_000


@pytest.fixture(scope='module')
def profile(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Measure a profile once."""
    path = tmp_path_factory.mktemp('profile') / 'tiny.json'
    assert cli.main(['profile', MODEL, '--out', str(path), *QUICK]) == 0
    return path


def changed(profile: Path, path: Path, **fields: object) -> Path:
    """Write a profile with other contents."""
    path.write_text(json.dumps({**json.loads(profile.read_text()), **fields}))
    return path


def refused(arguments: list[str], capsys: pytest.CaptureFixture[str]) -> str:
    """Return the one line that a refused command says."""
    assert cli.main(arguments) == 2
    said = capsys.readouterr()
    assert said.out == ''
    assert said.err.startswith('physis: ')
    assert said.err.count('\n') == 1
    return said.err.removeprefix('physis: ').strip()


def planned(profile: Path, *more: str) -> list[str]:
    """Return the arguments of a plan on this machine."""
    return ['plan', '--model', MODEL, '--devices', 'cpu*2', '--profile', str(profile), *more]


def test_a_profile_is_a_readable_file(profile: Path) -> None:
    content = json.loads(profile.read_text())
    assert content['device'] == local.device_name('cpu')
    assert content['versions'] == local.versions()
    assert len(content['timings']) == content['wanted'] == 14
    assert content['task_s'] > 0
    assert content['hop_s'] > 0
    kinds = [device.partition(':')[0] for device in local.peers('cpu')]
    assert [link['to'] for link in content['links']] == kinds
    assert len(content['sizes']['weights']) == 3


def test_a_profile_cut_short_is_continued(
    profile: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    known = json.loads(profile.read_text())['timings'][:6]
    path = changed(profile, tmp_path / 'cut.json', timings=known)
    assert 'got 6 of 14 timings' in refused(planned(path), capsys)
    arguments = ['profile', MODEL, '--out', str(path), *QUICK]
    assert cli.main(arguments) == 0
    timings = json.loads(path.read_text())['timings']
    assert (timings[:6], len(timings)) == (known, 14)
    assert '14/14' in capsys.readouterr().err
    before = path.read_bytes()
    assert cli.main(arguments) == 0
    assert capsys.readouterr().out == f'{path}: is whole, nothing to measure\n'
    assert path.read_bytes() == before


def test_a_whole_profile_is_widened_by_what_it_lacks(
    profile: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = changed(profile, tmp_path / 'wider.json')
    known = json.loads(path.read_text())
    arguments = ['profile', MODEL, '--out', str(path), '--samples', '2', '--batch']
    assert cli.main([*arguments, '1', '2', '4']) == 0
    found = json.loads(path.read_text())
    assert found['timings'][:14] == known['timings']
    assert len(found['timings']) == found['wanted'] == 20
    assert {timing['batch'] for timing in found['timings'][14:]} == {4}
    assert found['sizes']['workspace'] == 2 * known['sizes']['workspace']
    capsys.readouterr()
    assert cli.main([*arguments, '1', '4']) == 0
    assert capsys.readouterr().out == f'{path}: is whole, nothing to measure\n'


@pytest.mark.parametrize(
    ('fields', 'reason'),
    [
        ({'model': 'other'}, "must be of model 'synthetic', got 'other'"),
        ({'device': 'abacus'}, "got 'abacus'"),
        ({'versions': {'torch': '1.0'}}, 'got 1.0; measure it again'),
        ({'spec_hash': '0'}, 'must be of the present sizes of synthetic'),
    ],
)
def test_foreign_and_old_profiles_are_refused(
    profile: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str],
    fields: dict[str, object], reason: str,
) -> None:  # fmt: skip
    path = changed(profile, tmp_path / 'other.json', **fields)
    assert reason in refused(['profile', MODEL, '--out', str(path)], capsys)
    assert reason in refused(planned(path), capsys)


def test_a_plan_stands_beside_the_named_ones(
    profile: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    picture = tmp_path / 'plans.png'
    assert cli.main(planned(profile, '--draw', str(picture), '--streams', '2')) == 0
    said = capsys.readouterr().out
    named = said.partition('named plans')[2]
    assert all(scheme in named for scheme in ('serial', 'step', 'block', 'stage'))
    assert 'picked for youngest' in said
    assert picture.read_bytes().startswith(b'\x89PNG')


def test_a_plan_as_data(profile: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert (
        cli.main(
            planned(profile, '--json', '--objective', 'fleet', '--slo-ms', '1e6', '--streams', '1')
        )
        == 0
    )
    found = json.loads(capsys.readouterr().out)
    assert set(found['named']) == {'serial', 'step', 'block', 'stage'}
    assert found['picked']['devices'] == [0]
    assert found['picked']['hosts'] == [[0] * 6]


def test_what_there_is_stands_before_the_targets_that_nothing_meets(
    profile: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert cli.main(planned(profile, '--slo-ms', '1e-6')) == 2
    said = capsys.readouterr()
    assert 'response ms  worst age ms  devices' in said.out
    assert 'serial' in said.out
    # Of what was not asked for nothing is said.
    assert said.err.startswith('physis: no plan meets an SLO of 1e-06 ms; the nearest, ')
    assert said.err.count('\n') == 1
    assert cli.main(planned(profile, '--json', '--slo-ms', '1e-6')) == 2
    data = capsys.readouterr()
    found = json.loads(data.out)
    assert found['refusal'] in data.err
    assert set(found) == {'pareto', 'named', 'refusal'}
    assert data.err == f'{said.out}{said.err}', 'a person is told all the same'


@pytest.mark.parametrize(
    ('more', 'reason'),
    [
        (['--slo-ms', '0'], '--slo-ms must be > 0, at most 1e+09, got 0.0'),
        (['--slo-ms', 'nan'], '--slo-ms must be > 0, at most 1e+09, got nan'),
        (['--max-age-ms', '-1'], '--max-age-ms must be > 0, at most 1e+09, got -1.0'),
        (['--sensor-ms', 'inf'], '--sensor-ms must be >= 0, at most 1e+09, got inf'),
        (['--streams', '0'], '--streams must be 1 .. 1024, got 0'),
        (['--streams', '1025'], '--streams must be 1 .. 1024, got 1025'),
        (['--max-batch', '100000000'], '--max-batch must be 1 .. 1024, got 100000000'),
        (['--objective', 'fleet'], '--objective fleet must be given --slo-ms or --streams'),
        (['--draw', 'plan.svg'], "--draw must be a .png file, got 'plan.svg'"),
        (['--draw', 'nowhere/plan.png'], '--draw must be in a folder that exists'),
        (['--draw', '/proc/plan.png'], '--draw must be a file that can be written (No '),
        (['--devices', 'cpu', 'cpu'], "got ['cpu', 'cpu']; write cpu*2 for several that are alik"),
        (['--devices', 'gpu9'], 'or given with memory=GB and speed='),
        (['--devices', 'x,memory=1e-7,speed=1'], 'memory of x must be above the'),
        (['--devices', 'x,memory=1e-3,speed=1', '--streams', '900'], ' MB; take more devices'),
    ],
)
def test_bad_input_is_one_line(
    profile: Path, capsys: pytest.CaptureFixture[str], more: list[str], reason: str
) -> None:
    assert reason in refused(planned(profile, *more), capsys)


def test_bad_input_is_refused_before_anything_is_measured(
    capsys: pytest.CaptureFixture[str],
) -> None:
    plan = ['plan', '--model', MODEL, '--devices', 'cpu']
    assert '--slo-ms must be > 0' in refused([*plan, '--slo-ms', '0'], capsys)
    assert 'backbone must be' in refused(['plan', '--model', 'x', '--devices', 'cpu'], capsys)
    unknown = ['profile', MODEL, '--device', 'tpu', '--out', 'x.json']
    assert "device must be one of ['cpu'" in refused(unknown, capsys)
    svg = refused([*plan, '--draw', 'plan.svg'], capsys)
    assert "--draw must be a .png file, got 'plan.svg'" in svg
    profiled = ['profile', MODEL, '--out']
    assert '--out must be in a folder that' in refused([*profiled, 'nowhere/x.json'], capsys)
    assert '--out must be a file that can be wr' in refused([*profiled, '/proc/x.json'], capsys)
    few = refused([*profiled, 'x.json', '--samples', '1'], capsys)
    assert '--samples must be >= 2, got 1' in few
    none = refused([*profiled, 'x.json', '--batch', '0'], capsys)
    assert '--batch must be ascending from 1, at most 1024, got (0,)' in none


def test_a_plan_that_fits_nowhere_is_told_to_programs_too(
    profile: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    few = ['--devices', 'x,memory=1e-3,speed=1', '--streams', '900', '--json']
    assert cli.main(planned(profile, *few)) == 2
    said = capsys.readouterr()
    found = json.loads(said.out)
    assert (found['pareto'], found['named']) == ([], {})
    assert said.err == f'physis: {found["refusal"]}\n'


def test_a_file_that_is_looked_at_stays_as_it_is(tmp_path: Path) -> None:
    path = tmp_path / 'x'
    check_writable('--out', path)
    assert not path.exists()
    path.write_text('kept')
    check_writable('--out', path)
    assert path.read_text() == 'kept'
    with pytest.raises(ParameterError, match=r'--out must be a file, .*this is a folder'):
        check_writable('--out', tmp_path)
    with pytest.raises(ParameterError, match='--out must be in a folder that exists'):
        check_writable('--out', tmp_path / 'none' / 'x')
    with pytest.raises(ParameterError, match='trace must be a file that can be written'):
        check_writable('trace', Path('/proc/x'))


def test_devices_are_written_short() -> None:
    assert parse_spec('cpu') == DeviceSpec('cpu')
    full = 'h100*8,memory=77,speed=9.5,link=450,uplink=50,node=b,hop=5,uplink_hop=20'
    assert parse_spec(full) == DeviceSpec(
        'h100', 8, 77 * GB, 9.5, 450 * GB, 50 * GB, 'b', 5 * US, 20 * US
    )
    assert parse_spec('cpu,hop=0').hop_s == 0
    for text, reason in (
        ('', 'of the form'), ('cpu*0', 'at least one'), ('cpu,size=3', "got 'size'"),
        ('cpu*5000', 'at most 4096'), ('cpu,node=', 'with a value'),
        ('cpu,memory=1,memory=2', 'given each key once'),
        ('cpu,memory=big', "memory of 'cpu,memory=big' must be a number 1e-09 .. 1e.09, got"),
        ('a,memory=1e300', "got '1e300'"), ('a,speed=1e-300', "got '1e-300'"),
        ('a,link=nan', "got 'nan'"), ('a,hop=-1', 'a number 0 .. '), ('a,hop=inf', "got 'inf'"),
    ):  # fmt: skip
        with pytest.raises(ParameterError, match=reason):
            parse_spec(text)


def test_devices_of_a_kind_share_the_memory_of_this_machine(profile: Path) -> None:
    found = load(profile)
    reserve = found.sizes.reserve
    specs = [DeviceSpec('cpu', 2), DeviceSpec('a', 1, reserve + 7, 2.0)]
    pool = device_pool(specs, lambda name: 2 * reserve + 80, found)
    assert [(d.name, d.memory_bytes, d.speed) for d in pool.devices] == [
        ('cpu#0', 40, 1.0), ('cpu#1', 40, 1.0), ('a', 7, 2.0),
    ]  # fmt: skip


def test_what_is_printed_is_what_is_held_against_runs(
    profile: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Stages of 1 ms at the median and of 2 ms in a whole chunk: the latter count."""
    content = json.loads(profile.read_text())
    for timing in content['timings']:
        end, rows = timing['kind'] in ('encode', 'decode'), timing['batch']
        timing.update(p50_s=1e-3, p99_s=4e-3 * rows, chunk_s=1e-9 if end else 2e-3 * rows)
    content.update(hop_s=0.0, deliver_s=0.0, turn_s=0.0, task_s=0.0, crowding=1.0)
    path = changed(profile, tmp_path / 'skewed.json', **content)
    alone = ['plan', '--model', MODEL, '--devices', 'cpu', '--profile', str(path)]
    assert cli.main([*alone, '--max-batch', '1', '--json']) == 0
    usual = json.loads(capsys.readouterr().out)['picked_usual']
    assert usual == pytest.approx({'period_s': 0.012, 'response_s': 0.012, 'pace_s': 0.0138})
    assert cli.main([*alone, '--max-batch', '1']) == 0
    said = 'usually (median chunk) period 12.00 ms; response 12.00 ms where one enters each 13.80'
    assert said in capsys.readouterr().out


def test_a_fleet_is_planned_for_the_most_streams(
    profile: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:  # fmt: skip
    """Six stages of 1 ms, ends for nothing, no gain from batches: six streams in 20 ms on two."""
    content = json.loads(profile.read_text())
    for timing in content['timings']:
        end = timing['kind'] in ('encode', 'decode')
        timing['p50_s'] = timing['p99_s'] = 1e-9 if end else 1e-3 * timing['batch']
    links = [{'to': 'cpu', 'hop_s': 0.0, 'bytes_per_s': 1e12}]
    costs = {
        'hop_s': 0.0, 'task_s': 0.0, 'crowding': 1.0, 'timings': content['timings'],
        'links': links,
    }  # fmt: skip
    path = changed(profile, tmp_path / 'flat.json', **costs)
    arguments = planned(path, '--objective', 'fleet', '--slo-ms', '20', '--max-batch', '1')
    assert cli.main([*arguments, '--json']) == 0
    found = json.loads(capsys.readouterr().out)
    assert (found['streams'], found['more_may_fit']) == (6, False)
    assert cli.main([*arguments, '--json', '--streams', '2']) == 0
    assert json.loads(capsys.readouterr().out)['streams'] == 2
    # The search has an end, which is told apart from that of the pool.
    monkeypatch.setattr(planning, 'MOST_STREAMS', 5)
    assert cli.main([*arguments, '--json']) == 0
    found = json.loads(capsys.readouterr().out)
    assert (found['streams'], found['more_may_fit']) == (5, True)
    assert cli.main(arguments) == 0
    assert 'no more than 5 streams are tried' in capsys.readouterr().out
