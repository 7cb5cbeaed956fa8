# SPDX-License-Identifier: Apache-2.0
"""The demo: refusals before anything starts, a whole short run, and every way to end one."""

from __future__ import annotations

import json
import os
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import pytest
import yaml
from ros_cases import assert_agreed, small_weights

from physis_ros.errors import ParameterError
from physis_ros.evaluation import topics
from physis_ros.evaluation.bag import Bag
from physis_ros.evaluation.recording import read
from physis_ros.output.merge import Merge
from physis_ros.types import Play, Reason

pytest.importorskip('rclpy')
pytest.importorskip('physis_ros.msg')
from physis_ros.msg import StreamStatus
from physis_ros.ros import demo, demo_options, demo_preflight
from physis_ros.ros.demo_options import MERGES
from physis_ros.ros.demo_processes import ChildDied, Children, meaning
from physis_ros.ros.demo_run import DemoRun
from physis_ros.ros.signals import SIGNALS, Stop
from physis_ros.ros.stream_config import StreamConfig

ROOT = Path(__file__).resolve().parents[1]
START_S = 240.0


def options(tmp_path: Path, *arguments: str) -> demo_options.DemoOptions:
    return demo_options.parse(['--out', str(tmp_path / 'out'), *arguments])


@pytest.mark.parametrize(
    ('arguments', 'said'),
    [
        (['--episodes', '0'], '--episodes must be from 1 to 10000, got 0'),
        (['--seconds', 'nan'], '--seconds must be from 2 to 86400, got nan'),
        (['--servo-hz', '5'], '--servo-hz must be from 10 to 1000, got 5.0'),
        (['--servo-hz', '0'], '--servo-hz must be from 10 to 1000, got 0.0'),
        (['--period-ms', '0'], '--period-ms must be from 1 to 60000, got 0.0'),
        (['--delay-ms', '-1'], '--delay-ms must be from 0 to 5000, got -1.0'),
        (['--streams', '0'], '--streams must be from 1 to 8, got 0'),
        (['--streams', '2', '--speed', '2'], '--speed must be 1 with several arms'),
        (['--period-ms', '-3'], '--period-ms must be from 1 to 60000, got -3.0'),
        (['--speed', '0'], '--speed must be from 0.05 to 20, got 0.0'),
        (['--workers', '200'], '--workers must be at most '),
        (['--model', 'other'], "--model must be 'reach', 'reach:clean' or"),
        (['--model', 'reach:/nowhere.safetensors'], '/nowhere.safetensors do not exist; fetch'),
        (['--out', '/proc/nothing'], "--out must be a place that can be written to, got '/proc"),
        (['--trace', '/proc/x.json'], "--trace must be a place that can be written to, got '/pro"),
    ],
)
@pytest.mark.ros
def test_what_cannot_be_run_is_refused_in_one_line(
    arguments: list[str], said: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
):
    handlers = {number: signal.getsignal(number) for number in SIGNALS}
    model = [] if '--model' in arguments else ['--model', 'synthetic:']
    out = [] if '--out' in arguments else ['--out', str(tmp_path / 'out')]
    try:
        assert demo.main([*out, *model, *arguments]) == 2
    finally:
        for number, handler in handlers.items():
            signal.signal(number, handler)
    err = capsys.readouterr().err
    assert err.startswith('demo: ')
    assert said in err
    assert err.count('\n') == 1
    assert not (tmp_path / 'out' / 'log').exists()


@pytest.mark.ros
def test_a_weights_file_of_another_kind_is_refused(tmp_path: Path):
    wrong = tmp_path / 'wrong.safetensors'
    wrong.write_bytes(b'no weights')
    asked = options(tmp_path, '--model', f'reach:{wrong}')
    with pytest.raises(Exception, match=r'wrong\.safetensors are damaged'):
        demo_preflight.check(asked)


@pytest.mark.ros
def test_renewal_is_for_weights_that_allow_it(tmp_path: Path):
    step = ('--conditioning', 'step', '--workers', '1')
    assert demo_preflight.check(options(tmp_path, *step)).kv_rule == 'same_step'
    with pytest.raises(ParameterError, match=r"--conditioning must be 'entry' for reach:clean"):
        demo_preflight.check(options(tmp_path, '--kv-rule', 'clean', *step))


@pytest.mark.ros
@pytest.mark.parametrize('name', MERGES)
def test_every_way_to_take_over_is_known_to_both_nodes(tmp_path: Path, name: str):
    asked = options(tmp_path, '--merge', name)
    servo, model = MERGES[asked.merge]
    assert Merge(servo['merge']).value == ('replace' if name == 'rtc' else name)
    producer = StreamConfig(**model).producer
    assert (producer.rtc_frozen_ns > 0) == (name == 'rtc')


@pytest.mark.ros
def test_the_domain_is_the_users_or_a_free_one(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    asked = options(tmp_path, '--model', 'synthetic:', '--workers', '1')
    monkeypatch.setenv('ROS_DOMAIN_ID', '17')
    assert demo_preflight.check(asked).domain == 17
    monkeypatch.setenv('ROS_DOMAIN_ID', 'x')
    with pytest.raises(ParameterError, match='ROS_DOMAIN_ID must be a whole number'):
        demo_preflight.check(asked)
    monkeypatch.delenv('ROS_DOMAIN_ID')
    monkeypatch.setattr(demo_preflight, 'DOMAINS', range(50, 52))
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as taken:
        taken.bind(('', 7400 + 250 * 50))
        assert {demo_preflight.check(asked).domain for _ in range(5)} == {51}


def children(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, code: str) -> Children:
    """Make children that can start a module ``noded`` with the given code."""
    (tmp_path / 'noded.py').write_text(code)
    return Children(tmp_path, {**os.environ, 'PYTHONPATH': str(tmp_path)})


@pytest.mark.ros
def test_a_child_that_dies_is_reported_with_its_last_words(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    made = children(tmp_path, monkeypatch, 'print("no paper left"); raise SystemExit(3)')
    made.start('printer', 'noded', {'colour': "b'lue", 'fast': True, 'names': ['a', 'b']})
    assert made.wait(['printer'], 20)
    with pytest.raises(ChildDied, match='printer ended with exit code 3') as died:
        made.check()
    assert died.value.tail == 'no paper left'
    given = yaml.safe_load((tmp_path / 'printer.yaml').read_text())
    parameters = {'colour': "b'lue", 'fast': True, 'names': ['a', 'b']}
    assert given == {'/**/noded': {'ros__parameters': parameters}}
    assert made.failures() == {}
    assert meaning(-9) == 'signal SIGKILL'


@pytest.mark.ros
def test_a_child_that_will_not_stop_is_killed_with_its_group(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    code = (
        'import os, signal, subprocess, sys, time\n'
        'signal.signal(signal.SIGINT, signal.SIG_IGN)\n'
        'inner = subprocess.Popen([sys.executable, "-c", "import time; time.sleep(60)"])\n'
        'print(inner.pid, flush=True)\n'
        'time.sleep(60)\n'
    )
    made = children(tmp_path, monkeypatch, code)
    child = made.start('mule', 'noded', {})
    deadline_s = time.monotonic() + 20
    while not child.tail() and time.monotonic() < deadline_s:
        time.sleep(0.02)
    inner = int(child.tail())
    made.ask('mule')
    assert not made.wait(['mule'], 0.2)
    assert made.kill() == ['mule']
    assert gone([inner, child.process.pid])


def gone(pids: list[int], timeout_s: float = 5.0) -> bool:
    """Wait until none of the processes runs; a zombie does not."""
    deadline_s = time.monotonic() + timeout_s
    while any(runs(pid) for pid in pids):
        if time.monotonic() > deadline_s:
            return False
        time.sleep(0.02)
    return True


def runs(pid: int) -> bool:
    """Tell whether a process runs."""
    try:
        return Path(f'/proc/{pid}/stat').read_text().rsplit(')', 1)[1].split()[0] != 'Z'
    except OSError:
        return False


def descendants(pid: int) -> list[int]:
    """Return all processes below one."""
    below: dict[int, list[int]] = {}
    for path in Path('/proc').glob('[0-9]*/stat'):
        try:
            parent = int(path.read_text().rsplit(')', 1)[1].split()[1])
        except OSError:
            continue
        below.setdefault(parent, []).append(int(path.parent.name))
    found, todo = [], [pid]
    while todo:
        todo += (children := below.get(todo.pop(), []))
        found += children
    return found


def start_demo(out: Path, *arguments: str) -> subprocess.Popen[str]:
    """Start the demo as ``./run demo`` does."""
    shipped = ROOT / 'physis_ros' / 'backbones' / 'reach' / 'weights' / 'same_step.safetensors'
    model = os.environ.get('PHYSIS_TEST_MODEL', 'reach')
    if model == 'reach' and not shipped.is_file():
        pytest.skip('the weights are not in this tree')
    return subprocess.Popen(
        [sys.executable, '-m', 'physis_ros.ros.demo', '--out', str(out), '--model', model,
         '--episodes', '1', '--seconds', '3', '--workers', '1', *arguments],
        stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, cwd=ROOT,
        env={name: value for name, value in os.environ.items() if name != 'ROS_DOMAIN_ID'},
    )  # fmt: skip


@pytest.mark.ros
@pytest.mark.slow
def test_a_whole_run_ends_with_figures_report_and_recording(tmp_path: Path):
    process = start_demo(tmp_path, '--json')
    out, err = process.communicate(timeout=START_S)
    assert process.returncode == 0, err
    summary = json.loads(out)
    assert summary['troubles'] == []
    assert summary['episodes'] == 1
    assert summary['ticks'] > 0
    assert summary['kv_rule'] == 'same_step'
    assert summary['seed'] == 0
    # The expert follows closely, and doing nothing does not.
    assert summary['expert_track_error_m']['mean'] < 0.01 < summary['hold_track_error_m']
    assert_agreed(summary['live_agrees'])
    files = ('run.mcap', 'summary.json', 'report.html', 'trace.json')
    assert {path.name for path in map(Path, summary['files'])} >= set(files)
    for name in files:
        assert (tmp_path / name).stat().st_size > 0
    assert (tmp_path / 'run' / 'metadata.yaml').is_file()


@pytest.mark.ros
@pytest.mark.slow
def test_several_arms_on_one_engine_end_with_a_row_for_each(tmp_path: Path):
    # A small model: it is the arms that are many here.
    model = f'reach:{small_weights(tmp_path)}'
    out = tmp_path / 'out'
    process = start_demo(out, '--json', '--streams', '2', '--model', model)
    said, err = process.communicate(timeout=START_S)
    assert process.returncode == 0, err
    summary = json.loads(said)
    assert summary['troubles'] == []
    assert summary['episodes'] == 1
    streams = summary['streams']
    assert list(streams) == ['arm_1', 'arm_2']
    assert [one['seed'] for one in streams.values()] == [0, 1000]
    for one in streams.values():
        assert one['ticks'] > 0
        assert one['configuration']['period_ms'] == 200.0
        assert one['expert_track_error_m']['mean'] < 0.01 < one['hold_track_error_m']
        assert_agreed(one['live_agrees'])
    assert {path.name for path in map(Path, summary['files'])} >= {
        'run.mcap', 'summary.json', 'report.html', 'report_arm_1.html', 'report_arm_2.html',
    }  # fmt: skip
    assert 'report_arm_2.html' in (out / 'report.html').read_text()


@pytest.mark.ros
@pytest.mark.slow
@pytest.mark.parametrize('number', [signal.SIGINT, signal.SIGTERM])
def test_a_signal_while_loading_leaves_nothing_behind(tmp_path: Path, number: signal.Signals):
    process = start_demo(tmp_path)
    assert wait_for_nodes(process)
    below = descendants(process.pid)
    process.send_signal(number)
    _, err = process.communicate(timeout=30)
    assert process.returncode == 0
    assert f'stopped by {number.name}' in err
    assert gone(below)


@pytest.mark.ros
@pytest.mark.slow
def test_a_killed_demo_takes_its_nodes_with_it(tmp_path: Path):
    process = start_demo(tmp_path)
    assert wait_for_nodes(process)
    below = descendants(process.pid)
    process.kill()
    process.communicate(timeout=30)
    assert gone(below, 15.0)


def wait_for_nodes(process: subprocess.Popen[str], count: int = 4) -> bool:
    """Wait until the nodes run."""
    deadline_s = time.monotonic() + 60
    while len(descendants(process.pid)) < count:
        if process.poll() is not None or time.monotonic() > deadline_s:
            return False
        time.sleep(0.05)
    return True


class Notes:
    """A view that only keeps what happened."""

    def __init__(self) -> None:
        self.notes: list[str] = []

    def note(self, text: str) -> None:
        self.notes.append(text)


@pytest.mark.ros
def test_an_engine_that_was_loaded_again_is_told_at_the_end(tmp_path: Path):
    asked = options(tmp_path, '--model', 'synthetic:', '--workers', '1')
    view = Notes()
    run = DemoRun(asked, demo_preflight.check(asked), view, Stop())  # type: ignore[arg-type]
    (watch,) = run._watches
    died = 'worker 0 ended with exit code -9'
    for state, reason in (
        (StreamStatus.STATE_RUNNING, ''),
        (StreamStatus.STATE_LOADING, died),
        (StreamStatus.STATE_LOADING, died),
        (StreamStatus.STATE_RUNNING, ''),
    ):
        watch.look(StreamStatus(state=state, reason=reason), 0.0)
    assert view.notes == [f'engine loading: {died}', 'engine running again']
    assert run.finish() == [f'the engine failed in the run and began to load again: {died}']


@pytest.mark.ros
@pytest.mark.slow
def test_a_killed_worker_is_told_and_the_arm_comes_to_rest(tmp_path: Path):
    process = start_demo(tmp_path, '--seconds', '60')
    assert process.stdout
    # A line each five seconds; an age is of commands that were played from chunks.
    while 'age p50' not in (line := process.stdout.readline()):
        assert line, log(tmp_path, 'wam')
    below = descendants(process.pid)
    (worker,) = [pid for pid in below if title(pid).startswith('physis: worker 0')]
    shared = {name for pid in below for name in segments(pid)}
    assert shared
    killed_ns = time.time_ns()
    os.kill(worker, signal.SIGKILL)
    told = 'worker 0 ended with exit code -9; loading it again'
    assert until(lambda: told in log(tmp_path, 'wam'), 30), log(tmp_path, 'wam')
    # Loaded again, or at least long enough without it for the whole ladder.
    until(lambda: log(tmp_path, 'wam').count('the engine is ready') == 2, 20)
    below += descendants(process.pid)
    process.send_signal(signal.SIGINT)
    out, err = process.communicate(timeout=30)
    assert process.returncode == 0, err
    assert 'engine loading: worker 0 ended with exit code -9' in out
    assert gone(below)
    assert [name for name in shared if (Path('/dev/shm') / name).exists()] == []
    with Bag(tmp_path / 'run') as bag:
        after = [t for t in read(bag, topics.find(bag)).ticks if t.log_ns > killed_ns]
    plays = [tick.command.play for tick in after]
    assert Play.RAMP in plays
    rest = plays.index(Play.SILENT, plays.index(Play.RAMP))
    assert after[rest].command.reason in (Reason.CHUNK_LATE, Reason.NO_CHUNK)
    last = next(tick for tick in reversed(after[:rest]) if tick.command.play is Play.RAMP)
    assert abs(last.command.velocity).max() < 0.1


def until(condition: Callable[[], object], timeout_s: float) -> bool:
    """Wait until a condition holds; return whether it does."""
    deadline_s = time.monotonic() + timeout_s
    while not condition():
        if time.monotonic() > deadline_s:
            return False
        time.sleep(0.05)
    return True


def log(out: Path, name: str) -> str:
    """Return what a node of a run has said so far."""
    path = out / 'log' / f'{name}.log'
    return path.read_text(errors='replace') if path.exists() else ''


def title(pid: int) -> str:
    """Return what ps shows of a process."""
    try:
        return Path(f'/proc/{pid}/cmdline').read_text().replace('\0', ' ')
    except OSError:
        return ''


def segments(pid: int) -> set[str]:
    """Return the data segments of DDS that a process has made: those of a participant's own."""
    try:
        lines = Path(f'/proc/{pid}/maps').read_text().splitlines()
    except OSError:
        return set()
    names = (Path(line.split()[-1]) for line in lines if '/dev/shm/fastrtps_' in line)
    return {name.name for name in names if not name.name.startswith('fastrtps_port')}
