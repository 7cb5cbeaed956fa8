# SPDX-License-Identifier: Apache-2.0
"""The expert, the episodes it teaches with, and the data sets made of them."""

from __future__ import annotations

import json

import numpy as np
import pytest

from physis_ros.errors import ParameterError
from physis_ros.simulation.arm import Arm
from physis_ros.simulation.dataset import ARRAYS, load_shard, write_shards
from physis_ros.simulation.episode import Episode, EpisodeRecorder, ExplorationConfig, halved
from physis_ros.simulation.expert import Expert, ExpertConfig
from physis_ros.simulation.kinematics import tip_position
from physis_ros.simulation.scene import ArmConfig
from physis_ros.simulation.target import Target

LINK_M = (0.25, 0.20)


def recorded(seed: int, seconds: float) -> Episode:
    """Record an episode by itself."""
    with EpisodeRecorder() as recorder:
        return recorder.record(seed, seconds)


def mean_error_m(late_ns: int) -> float:
    """Follow the target with 40 Hz commands interpolated at 200 Hz, late by so much."""
    arm, expert, errors = Arm(), Expert(), []
    for seed in range(4):
        arm.reset(seed, expert.command(0, Target(seed)))
        grid = np.arange(0, 4_025_000_000, 25_000_000)
        commands = expert.commands(np.maximum(grid - late_ns, 0), arm.target)
        for tick in range(800):
            now = tick * 5_000_000
            arm.command(np.array([np.interp(now, grid, commands[:, j]) for j in (0, 1)]))
            arm.advance(5)
            errors.append(np.linalg.norm(arm.tip_position_m - arm.target_position_m))
    return float(np.mean(errors))


def test_in_time_it_follows_closely_and_late_it_does_not():
    in_time, late, later = mean_error_m(0), mean_error_m(100_000_000), mean_error_m(300_000_000)
    assert in_time < 0.003
    assert late > 8 * in_time
    assert later > 2 * late


def test_its_command_puts_the_tip_where_the_target_will_be():
    target, expert = Target(4), Expert(ExpertConfig(lead_s=0.25, link_m=LINK_M))
    command = expert.command(1_000_000_000, target)
    np.testing.assert_allclose(
        tip_position(command, LINK_M), target.position_m(1_250_000_000), atol=1e-12
    )


def test_its_commands_are_continuous_and_within_the_joint_limits():
    times = np.arange(0, 20_000_000_000, 5_000_000)
    config = ArmConfig()
    for seed in range(5):
        commands = Expert().commands(times, Target(seed))
        assert (commands > config.lower_rad).all() and (commands < config.upper_rad).all()
        assert np.abs(np.diff(commands, axis=0)).max() < 0.06


def test_one_and_many_commands_agree():
    target, times = Target(4), np.array([0, 25_000_000, 777_000_000])
    many = Expert().commands(times, target)
    assert np.array_equal(np.stack([Expert().command(int(t), target) for t in times]), many)


@pytest.mark.parametrize('lead_s', [-0.01, float('nan')])
def test_leads_into_the_past_are_refused(lead_s):
    with pytest.raises(ParameterError, match='lead_s must be finite and 0 or greater'):
        ExpertConfig(lead_s=lead_s)


def test_halving_takes_the_mean_of_each_square_and_rounds_halves_up():
    image = np.zeros((2, 4, 3), np.uint8)
    image[..., 0] = [[1, 0, 255, 255], [0, 0, 255, 255]]
    image[..., 1] = [[1, 1, 0, 0], [0, 0, 1, 2]]
    assert halved(image).tolist() == [[[0, 1, 0], [255, 1, 0]]]


def test_an_episode_has_its_shapes_and_the_experts_labels():
    episode = recorded(seed=7, seconds=0.5)
    assert episode.frames.shape == (20, 64, 64, 3) and episode.frames.dtype == np.uint8
    assert episode.joints.shape == (20, 4) and episode.joints.dtype == np.float32
    assert episode.labels.shape == (80, 2) and episode.labels.dtype == np.float32
    assert episode.target.shape == (20, 4) and episode.target.dtype == np.float32
    times, target = np.arange(80) * 25_000_000, Target(7)
    assert np.array_equal(episode.labels, Expert().commands(times, target).astype(np.float32))
    assert np.array_equal(episode.target, target.states(times[:20]).astype(np.float32))


def test_exploration_off_is_the_expert_itself_and_on_is_not():
    def error_m(exploration: ExplorationConfig) -> float:
        with EpisodeRecorder(exploration=exploration) as recorder:
            episode = recorder.record(11, 1.0)
        tip = tip_position(episode.joints[:, :2].astype(np.float64), LINK_M)
        return float(np.linalg.norm(tip - episode.target[:, :2], axis=1).mean())

    assert error_m(ExplorationConfig(away=0, late=0, frozen=0, disturbed=0)) < 0.005
    assert error_m(ExplorationConfig(away=1, late=1, frozen=1, disturbed=1)) > 0.02


def test_an_episode_does_not_depend_on_what_was_recorded_before():
    with EpisodeRecorder() as recorder:
        recorder.record(1, 0.25)
        after = recorder.record(2, 0.25)
    alone = recorded(2, 0.25)
    for name in ARRAYS:
        assert np.array_equal(getattr(after, name), getattr(alone, name)), name


@pytest.mark.parametrize('seconds', [0.0, 0.03, -1.0])
def test_lengths_between_frames_are_refused(seconds):
    with EpisodeRecorder() as recorder, pytest.raises(ParameterError, match='seconds must be'):
        recorder.record(0, seconds)


@pytest.mark.parametrize(
    ('field', 'value'), [('away', 1.1), ('frozen', -0.1), ('late_s', float('inf'))]
)
def test_impossible_exploration_is_refused_by_name(field, value):
    with pytest.raises(ParameterError, match=f'^{field} must be'):
        ExplorationConfig(**{field: value})


def test_shards_hold_the_episodes_in_order_whatever_the_processes(tmp_path):
    paths = write_shards(tmp_path / 'two', 3, 6, 0.1, processes=2, shard_episodes=2)
    assert [path.name for path in paths] == ['shard_0000', 'shard_0001']
    shards = [load_shard(path) for path in paths]
    assert [len(shard.frames) for shard in shards] == [2, 1]
    last = recorded(6_000_002, 0.1)
    for name in ARRAYS:
        assert np.array_equal(getattr(shards[1], name)[0], getattr(last, name)), name


def test_a_broken_run_is_resumed_and_whole_shards_are_kept(tmp_path):
    paths = write_shards(tmp_path, 2, 0, 0.05, shard_episodes=1)
    kept = (paths[0] / 'frames.npy').stat().st_mtime_ns
    expected = np.array(load_shard(paths[1]).joints)
    for file in paths[1].iterdir():
        file.unlink()
    paths[1].rmdir()
    (tmp_path / '.shard_0001.99').mkdir()  # what a killed process leaves
    seen = []
    write_shards(tmp_path, 2, 0, 0.05, shard_episodes=1, progress=lambda *done: seen.append(done))
    assert seen == [(2, 2)]
    assert (paths[0] / 'frames.npy').stat().st_mtime_ns == kept
    assert np.array_equal(load_shard(paths[1]).joints, expected)
    assert sorted(path.name for path in tmp_path.iterdir()) == [
        'manifest.json',
        'shard_0000',
        'shard_0001',
    ]


def test_a_folder_of_other_content_is_refused(tmp_path):
    write_shards(tmp_path / 'set', 1, 0, 0.05)
    with pytest.raises(ParameterError, match='folder must be empty or a data set of the same'):
        write_shards(tmp_path / 'set', 1, 1, 0.05)
    (tmp_path / 'other').mkdir()
    (tmp_path / 'other' / 'notes.txt').write_text('mine')
    with pytest.raises(ParameterError, match='folder must be empty or a data set'):
        write_shards(tmp_path / 'other', 1, 0, 0.05)
    assert json.loads((tmp_path / 'set' / 'manifest.json').read_text())['seed'] == 0


@pytest.mark.parametrize(
    ('name', 'change'),
    [('episodes', {'episodes': 0}), ('processes', {'processes': 0}), ('seed', {'seed': -1})],
)
def test_impossible_sets_are_refused_by_name(tmp_path, name, change):
    settings = {'episodes': 1, 'seed': 0, 'seconds': 0.05} | change
    with pytest.raises(ParameterError, match=f'^{name} must be'):
        write_shards(tmp_path, **settings)
