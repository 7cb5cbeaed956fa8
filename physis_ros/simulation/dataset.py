# SPDX-License-Identifier: Apache-2.0
"""
Data sets on disk: episodes in shards of plain ``.npy`` files, made by several processes.

A shard is a folder with one file per array of :class:`Episode`, the episodes stacked. It appears
by a rename when complete, so whatever exists is whole and a broken run is simply started again.
``manifest.json`` says what the folder holds; a folder of other content is refused.
"""

from __future__ import annotations

import json
import multiprocessing
import os
import shutil
from collections.abc import Callable, Iterator
from concurrent.futures import ProcessPoolExecutor, as_completed
from dataclasses import asdict, dataclass, fields
from pathlib import Path

import numpy as np

from physis_ros.errors import ParameterError
from physis_ros.simulation.episode import Episode, EpisodeRecorder, ExplorationConfig
from physis_ros.simulation.expert import ExpertConfig
from physis_ros.simulation.scene import ArmConfig
from physis_ros.simulation.target import TargetConfig

SHARD_EPISODES = 100
ARRAYS = tuple(field.name for field in fields(Episode))

Progress = Callable[[int, int], None]


@dataclass(frozen=True)
class Shard:
    """
    One shard to make.

    :param folder: where, of the whole data set.
    :param index: its number.
    :param first_seed: seed of its first episode; the others follow.
    :param episodes: how many.
    :param seconds: length of each.
    """

    folder: Path
    index: int
    first_seed: int
    episodes: int
    seconds: float

    @property
    def path(self) -> Path:
        """Where it ends up."""
        return self.folder / f'shard_{self.index:04d}'


def write_shards(
    folder: Path,
    episodes: int,
    seed: int,
    seconds: float,
    processes: int = 1,
    progress: Progress | None = None,
    shard_episodes: int = SHARD_EPISODES,
) -> list[Path]:
    """
    Make a data set, or what is missing of it; return its shards in order.

    :param folder: made if it does not exist; only one run at a time may write to it.
    :param episodes: how many in all.
    :param seed: decides all content; episode ``i`` of the set has seed ``seed * 1000000 + i``.
    :param seconds: length of each episode.
    :param processes: how many work at once; the content does not depend on it.
    :param progress: called with shards done and shards in all, after each.
    :param shard_episodes: episodes per shard; the last may have fewer.
    """
    counts = {'episodes': episodes, 'processes': processes, 'shard_episodes': shard_episodes}
    for name, value in counts.items():
        if value < 1:
            raise ParameterError(name, '1 or greater', value)
    if seed < 0 or episodes > 1_000_000:
        raise ParameterError('seed', '0 or greater, for at most 1000000 episodes', seed)
    folder.mkdir(parents=True, exist_ok=True)
    _claim(folder, _manifest(episodes, seed, seconds, shard_episodes))
    shards = [
        Shard(
            folder,
            start // shard_episodes,
            seed * 1_000_000 + start,
            min(shard_episodes, episodes - start),
            seconds,
        )
        for start in range(0, episodes, shard_episodes)
    ]
    for leftover in folder.glob('.shard_*'):
        shutil.rmtree(leftover)
    missing = [shard for shard in shards if not shard.path.is_dir()]
    done = len(shards) - len(missing)
    for _ in _write_all(missing, processes):
        done += 1
        if progress is not None:
            progress(done, len(shards))
    return [shard.path for shard in shards]


def load_shard(path: Path) -> Episode:
    """Return a shard's arrays, mapped and not read: an :class:`Episode` with an axis in front."""
    arrays = {name: np.load(path / f'{name}.npy', 'r', allow_pickle=False) for name in ARRAYS}
    return Episode(**arrays)


def write_shard(shard: Shard) -> None:
    """Record the episodes of one shard and put it in place."""
    with EpisodeRecorder() as recorder:
        seeds = range(shard.first_seed, shard.first_seed + shard.episodes)
        recorded = [recorder.record(seed, shard.seconds) for seed in seeds]
    partial = shard.path.with_name(f'.{shard.path.name}.{os.getpid()}')
    partial.mkdir()
    for name in ARRAYS:
        stacked = np.stack([getattr(episode, name) for episode in recorded])
        np.save(partial / f'{name}.npy', stacked, allow_pickle=False)
    partial.rename(shard.path)


def _write_all(shards: list[Shard], processes: int) -> Iterator[None]:
    """Write the shards, yielding after each; fresh processes, since OpenGL hates forks."""
    if processes == 1 or len(shards) < 2:
        for shard in shards:
            write_shard(shard)
            yield
        return
    context = multiprocessing.get_context('spawn')
    with ProcessPoolExecutor(min(processes, len(shards)), context) as pool:
        for future in as_completed([pool.submit(write_shard, shard) for shard in shards]):
            future.result()
            yield


def _manifest(episodes: int, seed: int, seconds: float, shard_episodes: int) -> dict[str, object]:
    """Return all that decides the content."""
    return {
        'format': 1,
        'arrays': list(ARRAYS),
        'episodes': episodes,
        'seed': seed,
        'seconds': seconds,
        'shard_episodes': shard_episodes,
        'arm': asdict(ArmConfig()),
        'target': asdict(TargetConfig()),
        'expert': asdict(ExpertConfig()),
        'exploration': asdict(ExplorationConfig()),
    }


def _claim(folder: Path, manifest: dict[str, object]) -> None:
    """Write the manifest, or refuse the folder if it has another one or other content."""
    path = folder / 'manifest.json'
    text = json.dumps(manifest, indent=2) + '\n'
    if path.exists():
        if json.loads(path.read_text()) != json.loads(text):
            raise ParameterError(
                'folder', 'empty or a data set of the same settings', str(folder), 'use another'
            )
    elif any(folder.iterdir()):
        raise ParameterError('folder', 'empty or a data set', str(folder), 'use another')
    else:
        partial = path.with_name('.manifest.json')
        partial.write_text(text)
        partial.rename(path)
