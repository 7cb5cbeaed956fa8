# SPDX-License-Identifier: Apache-2.0
"""
``physis train-reach``: from nothing to weights.

Makes the data set when there is none, trains, can be stopped (Ctrl-C or SIGTERM) and resumed, and
writes the weights that ship.
"""

from __future__ import annotations

import argparse
import signal
from pathlib import Path

import torch
from tqdm import tqdm

from physis_ros.backbones.base import KvRule
from physis_ros.backbones.reach.checkpoint import declare_renewal
from physis_ros.backbones.reach.spec import ReachSizes
from physis_ros.errors import ParameterError
from physis_ros.simulation.dataset import write_shards
from physis_ros.training.data import SequenceData
from physis_ros.training.export import export_log, export_weights
from physis_ros.training.fitting import fit_codec
from physis_ros.training.log import TrainingLog
from physis_ros.training.schedule import Budget
from physis_ros.training.state import TrainingState
from physis_ros.training.trainer import STATE_FILE, Trainer, TrainerConfig
from physis_ros.training.validate import validate

EPISODES, HELD_OUT_EPISODES = 3000, 100
EPISODE_S = 4.0
DATA_SEED, HELD_OUT_SEED = 1, 900_001
DEFAULT_MINUTES = 90.0


def add_train_parser(subparsers: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    """Add ``train-reach`` to a command line."""
    parser = subparsers.add_parser(
        'train-reach', help='train the embedded reach model, from simulated data to weights'
    )
    add = parser.add_argument
    add('--kv-rule', choices=[rule.value for rule in KvRule], default=KvRule.SAME_STEP.value)
    add('--data', type=Path, default=Path('data/reach'), help='training data, made when missing')
    add('--out', type=Path, default=Path('out/reach'), help='state, logs and weights')
    add('--minutes', type=float, help=f'time to train (default {DEFAULT_MINUTES:g})')
    add('--iterations', type=int, help='optimiser steps; makes the result a function of the seed')
    add('--seed', type=int, default=0)
    add('--threads', type=int, default=1, help='compute threads')
    add('--resume', action='store_true', help='go on with the state in --out')
    add('--export', type=Path, help='only write the weights of the state in --out to this file')
    add('--declare-renewal', type=Path, metavar='WEIGHTS',
        help='only declare that these weights allow renewal at each step, once '
        'benchmark/renewal.py has shown it')  # fmt: skip
    add('--export-log', type=Path, help='only write log and curve of the run in --out there')
    parser.set_defaults(run=train_reach)


def train_reach(args: argparse.Namespace) -> int:
    """Run the command; return its exit code."""
    if args.declare_renewal is not None:
        declare_renewal(args.declare_renewal)
        return 0
    if args.export is not None or args.export_log is not None:
        return _export(args)
    if args.threads < 1:
        raise ParameterError('threads', '1 or greater', args.threads)
    torch.set_num_threads(args.threads)
    budget = _budget(args)
    state = TrainingState(ReachSizes(), KvRule(args.kv_rule), args.seed)
    state_path = args.out / STATE_FILE
    if args.resume:
        state.load(state_path)
    elif state_path.exists():
        raise ParameterError('out', 'without a training state', str(args.out), 'or give --resume')
    training = _data(args.data, EPISODES, DATA_SEED, args.threads)
    held_out = _data(
        args.data.with_name(f'{args.data.name}_val'),
        HELD_OUT_EPISODES,
        HELD_OUT_SEED,
        args.threads,
    )
    if not args.resume:
        fit_codec(state.network.codec, training, state.seed)
        state.average.load_state_dict(state.network.state_dict())
    args.out.mkdir(parents=True, exist_ok=True)
    log = TrainingLog(args.out, state.network.spec.steps, state.progress)
    trainer = Trainer(
        state,
        training,
        TrainerConfig(budget),
        args.out,
        log,
        lambda now: validate(now.average, held_out),
    )
    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, lambda *_: trainer.stop())
    with tqdm(total=100, desc=f'train-reach {args.kv_rule}', unit='%') as bar:

        def show(part: float, word: str) -> None:
            bar.update(100 * part - bar.n)
            bar.set_postfix_str(f'{state.progress.iteration} iterations, {word}')

        trainer.run(show)
    export_weights(state, args.out / f'{args.kv_rule}.safetensors')
    return 0


def _export(args: argparse.Namespace) -> int:
    """Write what was asked for of a run, finished or not."""
    state = TrainingState.open(args.out / STATE_FILE)
    if args.export is not None:
        export_weights(state, args.export)
    if args.export_log is not None:
        export_log(args.out, state.network.spec.kv_rule.value, args.export_log)
    return 0


def _budget(args: argparse.Namespace) -> Budget:
    """Return the limits asked for, or the default time."""
    minutes = args.minutes
    if minutes is None and args.iterations is None:
        minutes = DEFAULT_MINUTES
    return Budget(None if minutes is None else minutes * 60, args.iterations)


def _data(folder: Path, episodes: int, seed: int, processes: int) -> SequenceData:
    """Open a data set, making it first when there is none."""
    if not any(folder.glob('shard_*')):
        with tqdm(total=1, desc=f'simulating {folder.name}', unit='shard') as bar:

            def show(done: int, total: int) -> None:
                bar.total = total
                bar.update(done - bar.n)

            write_shards(folder, episodes, seed, EPISODE_S, processes, show)
    return SequenceData(folder)
