# SPDX-License-Identifier: Apache-2.0
"""Training: what is drawn, that it runs as the engine will, that it stops and resumes exactly."""

from __future__ import annotations

import argparse
from collections.abc import Iterator, Mapping
from pathlib import Path

import numpy as np
import pytest
import torch
from torch import Tensor

from physis_ros.backbones.base import KvRule
from physis_ros.backbones.reach.checkpoint import load_network, read_header
from physis_ros.backbones.reach.network import ReachNetwork, initialise
from physis_ros.backbones.reach.spec import ReachSizes
from physis_ros.errors import CheckpointError, ParameterError
from physis_ros.simulation.dataset import load_shard, write_shards
from physis_ros.training.cli import add_train_parser
from physis_ros.training.closed_loop import LoopConfig, run_closed_loop
from physis_ros.training.data import Batch, SequenceConfig, SequenceData
from physis_ros.training.fitting import fit_codec
from physis_ros.training.forward import run_chunk, run_pass, train_pass
from physis_ros.training.log import TrainingLog
from physis_ros.training.loss import StemHeads, parts
from physis_ros.training.memory import SerialMemory
from physis_ros.training.schedule import Budget, LearningRate
from physis_ros.training.state import TrainingState
from physis_ros.training.trainer import STATE_FILE, Trainer, TrainerConfig
from physis_ros.training.validate import validate

SMALL = ReachSizes(width=32, heads=2, blocks=2, components=24, keypoints=4, features=32)
SEQUENCES = 3


@pytest.fixture(scope='module')
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Four recorded episodes of two seconds, and the same again as held-out data."""
    root = tmp_path_factory.mktemp('reach')
    write_shards(root / 'data', 4, 3, 2.0, shard_episodes=3)
    write_shards(root / 'data_val', 2, 4, 2.0)
    return root / 'data'


@pytest.fixture(scope='module')
def data(folder: Path) -> SequenceData:
    return SequenceData(folder)


@pytest.fixture
def batch(data: SequenceData) -> Batch:
    return data.draw(np.random.default_rng(0), SEQUENCES)


@pytest.fixture(autouse=True)
def one_thread() -> Iterator[None]:
    """Fix the number of threads: sums depend on it, and exact comparisons on them."""
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(before)


def network(kv_rule: KvRule, data: SequenceData, draws: int = 1) -> ReachNetwork:
    """Return a network in which every weight matters."""
    torch.manual_seed(1)
    net = ReachNetwork(SMALL, kv_rule).requires_grad_(False)
    initialise(net)
    for parameter in net.parameters():
        parameter.add_(0.05 * torch.randn_like(parameter))
    fit_codec(net.codec, data, 0, draws=draws)
    return net


def trained(data: SequenceData, out: Path, iterations: int, stop_at: int = -1) -> TrainingState:
    """Train, going on with what is in ``out``; stop early where a check says so."""
    state = TrainingState(SMALL, KvRule.CLEAN, seed=5)
    if (out / STATE_FILE).exists():
        state.load(out / STATE_FILE)
    else:
        fit_codec(state.network.codec, data, 0, draws=1)
    out.mkdir(exist_ok=True)
    log = TrainingLog(out, SMALL_STEPS, state.progress)
    config = TrainerConfig(
        Budget(iterations=iterations), sequences=4, note_every=1, check_every_s=-1.0, eyes=0.3
    )

    def check(now: TrainingState) -> dict[str, float]:
        if now.progress.iteration == stop_at:
            trainer.stop()
        return {'iteration_seen': float(now.progress.iteration)}

    trainer = Trainer(state, data, config, out, log, check)
    trainer.run(lambda part, word: None)
    return state


SMALL_STEPS = len(SMALL.noise)


def test_a_folder_without_shards_is_refused(tmp_path: Path) -> None:
    with pytest.raises(ParameterError, match='data must be a folder with shards'):
        SequenceData(tmp_path)


def test_rows_belong_together(folder: Path) -> None:
    data = SequenceData(folder, SequenceConfig(jittered=1.0, wide=1.0))
    batch = data.draw(np.random.default_rng(1), 6)
    episodes = [load_shard(path) for path in sorted(folder.glob('shard_*'))]
    labels = np.concatenate([one.labels for one in episodes])
    frames = np.concatenate([one.frames for one in episodes])
    target = np.concatenate([one.target for one in episodes])
    for row in range(len(batch.target)):
        newest = batch.inputs['frames'][row, -1].numpy()
        episode, now = np.argwhere((frames == newest).all((2, 3, 4)))[-1]
        start = now + round(float(batch.inputs['delay'][row, 0]) / 0.025)
        assert np.array_equal(batch.actions[row], labels[episode, start : start + 16])
        assert np.array_equal(batch.future[row], frames[episode, [start, start + 2]])
        assert np.array_equal(
            batch.inputs['frames'][row], frames[episode, [now - 4, now - 2, now]]
        )
        assert np.array_equal(batch.target[row], target[episode, now])


def test_a_fixed_delay_is_every_chunks_delay(data: SequenceData) -> None:
    batch = data.draw(np.random.default_rng(1), 2, delay=4)
    assert torch.equal(batch.inputs['delay'], torch.full((10, 1), 0.1))


@pytest.mark.parametrize('kv_rule', list(KvRule))
def test_sequences_in_training_equal_chunks_in_turn(
    kv_rule: KvRule, data: SequenceData, batch: Batch
) -> None:
    net, chunks = network(kv_rule, data), batch.chunks
    conditioning = net.encode(batch.inputs)
    noise = torch.randn(net.spec.steps, SEQUENCES * chunks, SMALL.latent_numbers)
    memory, serial = SerialMemory(net.spec), []
    for index, tokens in enumerate(conditioning.unflatten(0, (-1, chunks)).unbind(1)):
        own = [one.unflatten(0, (-1, chunks))[:, index] for one in noise]
        serial.append(run_chunk(net, [tokens], own, memory))
    history, latent = None, None
    if kv_rule is KvRule.CLEAN:
        final = torch.stack([steps[-1] for steps in serial], 1).flatten(0, 1)
        last = torch.full((len(final),), net.spec.steps)
        history = run_pass(net, final, conditioning, noise[0], last, chunks).written
    for step in range(net.spec.steps):
        now = torch.full((SEQUENCES * chunks,), step)
        latent = run_pass(net, latent, conditioning, noise[step], now, chunks, history).estimate
        expected = torch.stack([steps[step] for steps in serial], 1).flatten(0, 1)
        torch.testing.assert_close(latent, expected, atol=1e-5, rtol=1e-5)


def test_same_step_history_is_noisy_and_clean_history_is_not(data: SequenceData) -> None:
    for kv_rule, rings in ((KvRule.SAME_STEP, 4 * 2), (KvRule.CLEAN, 2)):
        net = network(kv_rule, data)
        memory = SerialMemory(net.spec)
        batch = data.draw(np.random.default_rng(0), 1)
        tokens = net.encode(batch.inputs)[:1]
        noise = [torch.randn(1, SMALL.latent_numbers) for _ in range(4)]
        run_chunk(net, [tokens], noise, memory)
        assert len(memory._rings) == rings
        assert [len(ring) for ring in memory._rings] == [1] * rings


def test_all_sequences_of_a_batch_learn_at_their_own_step(
    data: SequenceData, batch: Batch
) -> None:
    for kv_rule in KvRule:
        net = network(kv_rule, data).requires_grad_(True)
        seen = net.condition(batch.inputs)
        truth = torch.zeros(len(batch.target), SMALL.latent_numbers)
        step, told = torch.tensor([0, 3, 1]), torch.tensor([False, False, True])
        estimate = train_pass(
            net, seen, truth, step, told, batch.chunks, torch.Generator().manual_seed(0)
        )
        estimate.square().mean().backward()
        grads = {name: value.grad for name, value in net.named_parameters()}
        assert [name for name, value in grads.items() if value is None] == []
        used = net.blocks['0'].modulation.grad.abs().sum((1, 2)) > 0
        expected = [True, True, False, True]
        assert used.tolist() == expected + ([True] if kv_rule is KvRule.CLEAN else [])


def test_a_perfect_estimate_costs_nothing(data: SequenceData, batch: Batch) -> None:
    truth = torch.randn(len(batch.target), SMALL.latent_numbers)
    heads = StemHeads(SMALL)(torch.randn(len(truth), SMALL.features))
    losses = parts(truth, truth, heads, batch, SMALL)
    assert losses.video.sum() == losses.action.sum() == 0
    assert (losses.scene > 0).all() and (losses.early > 0).all()
    wrong = truth.clone()
    wrong[:, 0] += 1.0
    once = parts(wrong, truth, heads, batch, SMALL)
    torch.testing.assert_close(once.video, torch.full_like(once.video, 1 / SMALL.video_numbers))
    assert once.action.sum() == 0


def test_fitted_basis_makes_copying_cost_what_can_be_expressed(data: SequenceData) -> None:
    net = network(KvRule.SAME_STEP, data, draws=8)
    gram = net.codec.basis.T @ net.codec.basis
    torch.testing.assert_close(gram, torch.eye(24), atol=1e-5, rtol=0)
    drawn = data.draw(np.random.default_rng([0, 8]), 100)
    latent = net.codec.write(drawn.inputs['frames'][:, -1], drawn.future, drawn.actions)
    video, actions = latent.split([SMALL.video_numbers, 32], 1)
    assert 0.8 < float(video.square().mean()) < 1.2
    assert abs(float(actions.mean())) < 0.2


def test_learning_rate_warms_up_and_ends_at_its_floor() -> None:
    rate = LearningRate(peak=1.0, floor=0.1, warmup=10)
    assert rate.at(0.0, 0) == pytest.approx(0.1)
    assert rate.at(0.0, 9) == pytest.approx(1.0)
    assert rate.at(0.5, 100) == pytest.approx(0.55)
    assert rate.at(1.0, 100) == pytest.approx(0.1)


def test_budget_ends_at_the_nearer_limit() -> None:
    assert Budget(seconds=100, iterations=10).part(10, 5) == 0.5
    assert Budget(seconds=100, iterations=10).part(60, 5) == 0.6
    assert Budget(iterations=10).part(1e9, 20) == 1.0
    with pytest.raises(ParameterError, match='minutes must be given'):
        Budget()
    with pytest.raises(ParameterError, match='iterations must be greater than 0, got 0'):
        Budget(iterations=0)


def test_a_stopped_and_resumed_run_equals_an_unbroken_one(
    data: SequenceData, tmp_path: Path
) -> None:
    whole = trained(data, tmp_path / 'whole', 6)
    stopped = trained(data, tmp_path / 'parts', 6, stop_at=4)
    assert stopped.progress.iteration == 4
    resumed = trained(data, tmp_path / 'parts', 6)
    assert resumed.progress.iteration == 6

    def everything(state: TrainingState) -> dict[str, Tensor]:
        return {
            f'{part}.{name}': value
            for part in ('network', 'average', 'heads')
            for name, value in getattr(state, part).state_dict().items()
        }

    expected, got = everything(whole), everything(resumed)
    assert [name for name in expected if not torch.equal(expected[name], got[name])] == []
    lines = [
        (tmp_path / run / 'losses.csv').read_text().splitlines() for run in ('whole', 'parts')
    ]
    without_time = [[line.split(',')[0::1][2:] for line in run] for run in lines]
    assert without_time[0] == without_time[1]
    assert len(lines[0]) == 1 + 6


def test_state_of_other_settings_is_refused(data: SequenceData, tmp_path: Path) -> None:
    trained(data, tmp_path / 'run', 1)
    path = tmp_path / 'run' / STATE_FILE
    with pytest.raises(CheckpointError, match='has kv_rule clean, not same_step'):
        TrainingState(SMALL, KvRule.SAME_STEP, 5).load(path)
    with pytest.raises(CheckpointError, match='has seed 5, not 6'):
        TrainingState(SMALL, KvRule.CLEAN, 6).load(path)
    opened = TrainingState.open(path)
    assert (opened.seed, opened.network.sizes) == (5, SMALL)
    path.write_bytes(path.read_bytes()[:-8])
    with pytest.raises(CheckpointError, match='cannot be read'):
        TrainingState.open(path)


def test_log_drops_what_was_done_but_not_saved(data: SequenceData, tmp_path: Path) -> None:
    state = trained(data, tmp_path / 'run', 3)
    state.progress.iteration = 2
    TrainingLog(tmp_path / 'run', SMALL_STEPS, state.progress)
    lines = (tmp_path / 'run' / 'losses.csv').read_text().splitlines()
    assert [line.split(',')[0] for line in lines] == ['iteration', '1', '2']


def test_validation_is_the_same_every_time(data: SequenceData) -> None:
    net = network(KvRule.SAME_STEP, data)
    first = validate(net, data, sequences=2)
    assert first == validate(net, data, sequences=2)
    assert {'first_tip_m_k4', 'final_tip_m_k4', 'final_gain_db_k20'} <= first.keys()


def test_closed_loop_is_deterministic_and_the_expert_follows(data: SequenceData) -> None:
    net = network(KvRule.SAME_STEP, data)
    config = LoopConfig(delay_steps=3, episodes=2, seconds=1.5, skipped_s=1.0, seed=11)
    runs = [run_closed_loop(net, config) for _ in range(2)]
    assert np.array_equal(runs[0].error_m, runs[1].error_m)
    assert runs[0].error_m.shape == (2, 100)
    figures = runs[0].figures()
    assert figures['expert_track_error_m'] < 0.01 < figures['hold_track_error_m']
    # Chunks of steps 4, 8, ... are about steps 7 and 9, 11 and 13, ...; scored from step 40 on.
    assert len(runs[0].frame_square) == len(runs[0].copy_square) == 10


def test_a_renewed_step_sees_and_is_told_what_is_then(
    data: SequenceData, monkeypatch: pytest.MonkeyPatch
) -> None:
    net = network(KvRule.SAME_STEP, data)
    told: list[float] = []
    encode = net.encode

    def heard(inputs: Mapping[str, torch.Tensor]) -> torch.Tensor:
        told.append(float(inputs['delay'][0]) / 0.025)
        return encode(inputs)

    monkeypatch.setattr(net, 'encode', heard)
    config = LoopConfig(3, (0, 1, 1, 2), episodes=1, seconds=0.2, skipped_s=0.0, seed=11)
    run_closed_loop(net, config)
    # The only chunk enters at step 4 and is meant for step 7: its last step sees step 6.
    assert told == pytest.approx([3, 2, 2, 1])
    for wrong in ((0, 2, 1, 1), (0, 1, 2, 4), (-1, 0, 0, 0)):
        with pytest.raises(ParameterError, match='newer_steps must be rising'):
            LoopConfig(3, wrong)


def test_command_trains_exports_and_resumes(folder: Path, tmp_path: Path) -> None:
    parser = argparse.ArgumentParser()
    add_train_parser(parser.add_subparsers(required=True))

    def call(*words: str) -> int:
        args = parser.parse_args(
            ['train-reach', '--data', str(folder), '--out', str(tmp_path / 'run'), *words]
        )
        code: int = args.run(args)
        return code

    assert call('--iterations', '1') == 0
    weights = tmp_path / 'run' / 'same_step.safetensors'
    assert read_header(weights).training['iterations'] == 1
    assert load_network(weights).spec.blocks == 6
    with pytest.raises(ParameterError, match='out must be without a training state'):
        call('--iterations', '2')
    assert call('--iterations', '2', '--resume') == 0
    docs = tmp_path / 'docs'
    assert call('--export', str(tmp_path / 'w.safetensors'), '--export-log', str(docs)) == 0
    assert read_header(tmp_path / 'w.safetensors').training['iterations'] == 2
    assert (docs / 'same_step.png').read_bytes()[:4] == b'\x89PNG'
