# SPDX-License-Identifier: Apache-2.0
"""
The pool of a simulation: devices, and models by what they cost, as a JSON file or made by code.

What the file does not say of a model that was profiled is as in a plan and at a node's door: its
hop and links, what each device keeps for it, how much slower neighbours make each other, and the
share of time that stays free. Everything is checked here, before anything is simulated.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from physis_ros.engine.cost import MAILBOX_DEPTH, MOST_ROWS, BatchCurve, ModelCost
from physis_ros.engine.devices import MOST_DEVICES, Device, DevicePool, usable_bytes
from physis_ros.engine.door import HEADROOM, crowded, limited
from physis_ros.engine.profile import Profile, load
from physis_ros.errors import ParameterError
from physis_ros.evaluation.pool.entry import MOST, MOST_BYTES, Entry, read

GB = 1_000_000_000
# More blocks, and more passes, than any model has.
_MOST_STAGES = 10_000
_MODEL = {
    'blocks', 'passes', 'block_bytes', 'kv_bytes', 'hidden_bytes', 'latent_bytes', 'times_s',
    'mailbox_depth', 'entry_s', 'exit_s',
}  # fmt: skip
_RATES = ('speed', 'link_bytes_per_s', 'uplink_bytes_per_s', 'hop_s', 'uplink_hop_s')


@dataclass(frozen=True)
class PoolFile:
    """
    What is simulated.

    :param models: costs by the name traces use.
    :param max_batch: most rows of one batch.
    :param headroom: share of each device's time that admission leaves free.
    :param batch_wait_s: longest time a batch that is not full waits for company.
    """

    pool: DevicePool
    models: Mapping[str, ModelCost]
    max_batch: int = 16
    headroom: float = 0.0
    batch_wait_s: float = 0.0


def read_pool(path: Path) -> PoolFile:
    """
    Read a pool file.

    :raises ParameterError: naming the entry that is wrong.
    :raises PlanError: when a profile is none, or lacks a link.
    """
    content = read(path, {'devices', 'models', 'hop_s', 'max_batch', 'headroom', 'batch_wait_us'})
    entries, profiles = content.entries('models'), dict[str, Profile]()
    for name, entry in entries.items():
        if entry.has('profile'):
            entry.only({'profile'})
            profiles[name] = load(path.parent / entry.text('profile'))
    if not entries:
        raise ParameterError('models', 'at least one', dict(entries))
    defaults = _defaults(list(profiles.values()))
    hop_s = content.number('hop_s', defaults.pop('pool_hop_s', 0.0))
    if content.has('hop_s'):
        # One figure for all ways that have none of their own.
        defaults.pop('hop_s', None)
    reserve = sum(profile.sizes.reserve for profile in profiles.values())
    devices = [d for entry in content.list('devices') for d in _devices(entry, defaults, reserve)]
    pool = DevicePool(tuple(devices), hop_s)
    max_batch = content.whole('max_batch', 16, most=MOST_ROWS)
    headroom = content.number('headroom', HEADROOM)
    if not headroom < 1:
        raise ParameterError('headroom', 'at least 0 and below 1', headroom)
    costs = {
        name: _profiled(name, profiles[name], pool) if name in profiles else _made(name, entry)
        for name, entry in entries.items()
    }
    models = {name: limited(cost, max_batch) for name, cost in costs.items()}
    wait_s = content.number('batch_wait_us', 0.0) / 1e6
    return PoolFile(pool, models, max_batch, headroom, wait_s)


def _defaults(profiles: Sequence[Profile]) -> dict[str, float]:
    """Return what devices have unless they say otherwise: of several profiles the slowest."""
    if not profiles:
        return {}
    links = [profile.link() for profile in profiles]
    hop_s, rate = max(link.hop_s for link in links), min(link.bytes_per_s for link in links)
    pool_hop_s = max(profile.hop_s for profile in profiles)
    return {'pool_hop_s': pool_hop_s, 'hop_s': hop_s, 'link_bytes_per_s': rate}


def _devices(entry: Entry, defaults: Mapping[str, float], reserve: int) -> list[Device]:
    entry.only({'name', 'memory_gb', 'count', 'node', *_RATES})
    name, memory_bytes = entry.text('name'), round(entry.number('memory_gb') * GB)
    most = {'link_bytes_per_s': MOST_BYTES, 'uplink_bytes_per_s': MOST_BYTES}
    own = {key: entry.number(key, most=most.get(key, MOST)) for key in _RATES if entry.has(key)}
    fields: dict[str, Any] = {**defaults, **own}
    for key in defaults:
        # As in a plan: to other nodes as within the node, unless something else is said.
        fields.setdefault(f'up{key}' if key.startswith('link') else f'uplink_{key}', fields[key])
    if entry.has('node'):
        fields['node'] = entry.text('node')
    count = entry.whole('count', most=MOST_DEVICES) if entry.has('count') else 0
    names = [f'{name}{i}' for i in range(count)] or [name]
    memory_bytes = usable_bytes(name, memory_bytes, reserve) if reserve else memory_bytes
    return [Device(each, memory_bytes, **fields) for each in names]


def _profiled(name: str, profile: Profile, pool: DevicePool) -> ModelCost:
    cost = replace(profile.cost(), name=name)
    # As at the door: where devices of one node compute side by side, all take longer.
    shared = max(Counter(device.node for device in pool.devices).values()) > 1
    return crowded(cost) if shared else cost


def _made(name: str, entry: Entry) -> ModelCost:
    entry.only(_MODEL)
    blocks = entry.whole('blocks', most=_MOST_STAGES)
    curve = BatchCurve(tuple(entry.numbers('times_s')))
    return ModelCost(
        name=name,
        weight_bytes=(entry.whole('block_bytes', least=0),) * blocks,
        curves=(curve,) * blocks,
        passes=entry.whole('passes', most=_MOST_STAGES),
        kv_bytes=entry.whole('kv_bytes', least=0),
        hidden_bytes=entry.whole('hidden_bytes', least=0),
        latent_bytes=entry.whole('latent_bytes', least=0),
        entry_s=entry.number('entry_s', 0.0),
        exit_s=entry.number('exit_s', 0.0),
        mailbox_depth=entry.whole('mailbox_depth', MAILBOX_DEPTH, least=0, most=MOST_ROWS),
    )
