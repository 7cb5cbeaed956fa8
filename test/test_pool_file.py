# SPDX-License-Identifier: Apache-2.0
"""Pool files: what they say, and what stands in for what they do not say."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from physis_ros.backbones.synthetic import synthetic_spec
from physis_ros.engine.config import PoolConfig
from physis_ros.engine.devices import Device
from physis_ros.engine.door import HEADROOM, open_door
from physis_ros.engine.profile import Link, Profile, Sizes, Timing, spec_hash
from physis_ros.errors import ParameterError
from physis_ros.evaluation.pool.pool_file import PoolFile, read_pool
from physis_ros.evaluation.pool.simulate import simulate
from physis_ros.evaluation.pool.trace import Event, Trace

MODEL = 'synthetic:blocks=2,steps=2,tokens=4,width=8,heads=2,window=1'
SPEC = synthetic_spec(MODEL)
GB = 1_000_000_000
US = 1e-6


def profile(rows: int = 1) -> Profile:
    """Return stages of 10 ms whatever the batch, twice that beside a neighbour; 1 GB is kept."""
    timings = [
        Timing(kind, batch, 1, 0.01, 0.01, 2, 0.01)
        for kind in ('first', 'last')
        for batch in range(1, rows + 1)
    ]
    timings += [Timing(kind, 1, 1, 1e-3, 1e-3, 2, 1e-3) for kind in ('encode', 'decode')]
    sizes = Sizes((10, 10), 1, 1000, 100, GB, 0)
    links = (Link('cpu', 20 * US, 4e9),)
    return Profile('synthetic', spec_hash(SPEC), 'some device', {}, 2, 2, sizes, tuple(timings),
                   7 * US, links, crowding=2.0)  # fmt: skip


def pool(tmp_path: Path, device: dict[str, Any], rows: int = 1, **changes: Any) -> PoolFile:
    """Read a pool file of one entry of devices and one profiled model."""
    profile(rows).save(tmp_path / 'profile.json')
    path = tmp_path / 'pool.json'
    devices = [{'name': 'd', 'memory_gb': 3, **device}]
    models = {'m': {'profile': 'profile.json'}}
    path.write_text(json.dumps({'devices': devices, 'models': models, **changes}))
    return read_pool(path)


def admitted(file: PoolFile, slo_s: float = 0.1, most: int = 12) -> int:
    """Return how many streams of a kind the simulator takes on at once."""
    events = tuple(Event(0.0, 'open', f's{i}', 'm', slo_s) for i in range(most))
    return most - sum(simulate(file, Trace(0.5, events)).refusals.values())


def test_what_a_file_does_not_say_is_as_profiled(tmp_path: Path) -> None:
    """Hop, links, what devices keep, and the share of time that stays free."""
    found = pool(tmp_path, {})
    expected = Device('d', 2 * GB, 1.0, 4e9, 4e9, hop_s=20 * US, uplink_hop_s=20 * US)
    assert (found.pool.devices, found.pool.hop_s) == ((expected,), 7 * US)
    assert found.headroom == HEADROOM
    with pytest.raises(ParameterError, match=r'memory of d must be above the 1\.000 GB .*1\.000'):
        pool(tmp_path, {'memory_gb': 1})


def test_what_a_file_says_goes_before(tmp_path: Path) -> None:
    """Of one device, or one hop for all."""
    told = {'link_bytes_per_s': 1e9, 'hop_s': 3 * US}
    (device,) = pool(tmp_path, told).pool.devices
    assert device == Device('d', 2 * GB, 1.0, 1e9, 1e9, hop_s=3 * US, uplink_hop_s=3 * US)
    told = {'uplink_bytes_per_s': 2e9, 'uplink_hop_s': 5 * US}
    found = pool(tmp_path, told, hop_s=1 * US, headroom=0.2)
    assert found.pool.devices[0] == Device('d', 2 * GB, 1.0, 4e9, 2e9, uplink_hop_s=5 * US)
    assert (found.pool.hop_s, found.headroom) == (1 * US, 0.2)


def test_neighbours_are_counted_as_at_the_door(tmp_path: Path) -> None:
    """Alone 10 ms a stage; 20 ms where a node has two devices, and so at the door."""
    alone = pool(tmp_path, {}).models['m']
    both = pool(tmp_path, {'count': 2}).models['m']
    door = open_door(profile(), SPEC, PoolConfig(MODEL, 2), [3 * GB] * 2)
    assert (alone.curves[0].times_s, alone.crowding) == ((0.01,), 2.0)
    assert (both.curves[0].times_s, both.entry_s, both.crowding) == ((0.02,), 2e-3, 1.0)
    assert both.curves == door._cost.curves
    assert (alone.name, both.mailbox_depth) == ('m', PoolConfig(MODEL).mailbox_depth)


def test_the_simulator_admits_what_the_door_admits(tmp_path: Path) -> None:
    """A chunk is 42 ms, 84 ms beside a neighbour; 180 ms of 200 ms are there for them."""
    for workers in (1, 2):
        door = open_door(profile(), SPEC, PoolConfig(MODEL, workers), [3 * GB] * workers)
        fits = sum(not answer for answer in door.what_if(12, 0.2))
        assert admitted(pool(tmp_path, {'count': workers}), 0.2) == fits == 4


@pytest.mark.parametrize(('max_batch', 'fits'), [(1, 2), (2, 5), (4, 10), (16, 10)])
def test_no_larger_batch_is_admitted_than_is_run(
    tmp_path: Path, max_batch: int, fits: int
) -> None:
    """Stages of 10 ms for up to four rows: five batches of each of two blocks in 100 ms."""
    path = tmp_path / 'pool.json'
    model = {
        'blocks': 2, 'passes': 2, 'block_bytes': 10, 'kv_bytes': 1, 'hidden_bytes': 0,
        'latent_bytes': 0, 'times_s': [0.01] * 4,
    }  # fmt: skip
    devices = [{'name': 'd', 'memory_gb': 1}]
    content = {'devices': devices, 'models': {'m': model}, 'headroom': 0, 'max_batch': max_batch}
    path.write_text(json.dumps(content))
    found = read_pool(path)
    assert found.models['m'].curves[0].limit == min(4, max_batch)
    assert admitted(found) == fits
