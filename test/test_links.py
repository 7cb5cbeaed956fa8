# SPDX-License-Identifier: Apache-2.0
"""What a message costs, link by link: measured, kept in a profile, reckoned with."""

from __future__ import annotations

import json
from contextlib import closing
from dataclasses import replace
from functools import partial
from pathlib import Path

import pytest
from engine_cases import local_crew

from physis_ros.backbones.synthetic import synthetic_spec
from physis_ros.commands import local
from physis_ros.commands.specs import device_pool, parse_spec
from physis_ros.engine import lap
from physis_ros.engine.config import PoolConfig
from physis_ros.engine.cost import BatchCurve, ModelCost
from physis_ros.engine.devices import Device, DevicePool
from physis_ros.engine.door import open_door
from physis_ros.engine.groupings import Grouping
from physis_ros.engine.link_probe import LinkProbe, link_of
from physis_ros.engine.plan import Targets, choose, plans, predict
from physis_ros.engine.pool import Pool
from physis_ros.engine.profile import Link, Profile, Sizes, Timing, load, spec_hash
from physis_ros.errors import AdmissionRefused, ParameterError, PlanError

MODEL = 'synthetic:blocks=2,steps=2,tokens=4,width=8,heads=2,window=1'
SPEC = synthetic_spec(MODEL)
GB = 1_000_000_000
US = 1e-6
CPU, CUDA = Link('cpu', 20 * US, 4e9), Link('cuda', 50 * US, 8e9)


def profile(*links: Link) -> Profile:
    """Return stages of 1 ms, 1 GB kept on each device, states of 1 kB."""
    kinds = ('first', 'last', 'encode', 'decode')
    timings = tuple(Timing(kind, 1, 1, 1e-3, 1e-3, 2, 1e-3) for kind in kinds)
    sizes = Sizes((10, 10), 1, 1000, 100, GB, 0)
    return Profile('synthetic', spec_hash(SPEC), 'some device', {}, 2, 2, sizes, timings, 7 * US,
                   links)  # fmt: skip


def cost() -> ModelCost:
    """Four passes of six blocks of 4 ms."""
    return ModelCost('m', 4, (10,) * 6, 1, 0, 0, (BatchCurve.affine(0.0, 0.004, 8),) * 6)


def test_a_message_takes_as_long_as_the_slower_of_its_ends() -> None:
    """Within the node by the links, beyond it by the uplinks; what is not told is the pool's."""
    devices = (
        Device('a', 1, 1.0, 1e9, 1e8, 'x', hop_s=2 * US, uplink_hop_s=40 * US),
        Device('b', 1, 1.0, 5e8, 1e8, 'x', hop_s=3 * US),
        Device('c', 1, 1.0, 1e9, 5e7, 'y', uplink_hop_s=30 * US),
        Device('d', 1, 1.0, 1e9, 1e9, 'y'),
    )
    pool = DevicePool(devices, 10 * US)

    def wire_us(source: int, target: int) -> float:
        return round(pool.wire_s(source, target, 1000) / US, 6)

    assert wire_us(0, 0) == 0
    assert (wire_us(0, 1), wire_us(1, 0)) == (3 + 2, 3 + 2)
    assert (wire_us(0, 2), wire_us(1, 2)) == (40 + 20, 30 + 20)
    assert (wire_us(1, 3), wire_us(2, 3)) == (10 + 10, 10 + 1)
    assert pool.longest_hop_s == 40 * US
    assert pool.part((0, 1)).longest_hop_s == 10 * US, 'from the pool to a device'
    for name in ('hop_s', 'uplink_hop_s'):
        with pytest.raises(ParameterError, match=rf'd\.{name} must be >= 0, got -1'):
            replace(devices[3], **{name: -1.0})


def test_a_plan_takes_the_devices_with_the_shorter_links() -> None:
    """Of three that are equally fast; a faster one comes first whatever its link."""
    devices = tuple(Device(f'd{i}', 1000, hop_s=hop_s) for i, hop_s in enumerate((2e-3, 1e-3, 0)))
    step = Grouping('step', 2, 1)
    plan = predict(cost(), DevicePool(devices), Targets(max_batch=1), step, 1)
    assert plan is not None
    assert plan.devices == (1, 2)
    assert plan.response_s == pytest.approx(0.096 + 0.001), 'one hop'
    fast = (replace(devices[0], speed=1.1), *devices[1:])
    plan = predict(cost(), DevicePool(fast), Targets(max_batch=1), step, 1)
    assert plan is not None
    assert plan.devices == (0, 2)


def test_long_links_decide_how_a_model_is_cut() -> None:
    """Two devices, 48 ms each: one hop of 2 ms a chunk by steps, seven by blocks."""
    both = [Grouping('step', 2, 1), Grouping('block', 1, 2)]
    pool = DevicePool(tuple(Device(f'd{i}', 1000, hop_s=0.002) for i in range(2)))
    targets = Targets(max_batch=1, slo_s=0.2)
    found = plans(cost(), pool, targets, both)
    assert [plan.response_s for plan in found] == pytest.approx([0.098, 0.110])
    assert choose(found, targets).grouping.scheme == 'step'


def test_a_profile_holds_its_links(tmp_path: Path) -> None:
    """One a line, its own kind first; impossible ones are damage."""
    path, found = tmp_path / 'p.json', profile(CPU, CUDA)
    found.save(path)
    assert load(path) == found
    assert json.loads(path.read_text())['links'][1] == {
        'to': 'cuda', 'hop_s': 50 * US, 'bytes_per_s': 8e9,
    }  # fmt: skip
    assert sum('bytes_per_s' in line for line in path.read_text().splitlines()) == 2
    assert (found.link(), found.link('cuda')) == (CPU, CUDA)
    for bad, told in (
        (replace(CPU, hop_s=-1.0), r'links\[0\]\.hop_s must be a number >= 0, got -1'),
        (replace(CPU, bytes_per_s=0.0), 'link must be of bytes_per_s > 0'),
    ):
        profile(bad).save(path)
        with pytest.raises(PlanError, match=f'damaged: {told}'):
            load(path)


def test_a_link_that_was_not_measured_is_refused() -> None:
    """By a plan as at the door."""
    text = "must hold the link to 'cuda', got .'cpu'.; measure it again"
    with pytest.raises(PlanError, match=f'of synthetic on some device {text}'):
        profile(CPU).link('cuda')
    with pytest.raises(PlanError, match=r"link to 'its own kind', got \[\]"):
        profile().link()
    config = PoolConfig(MODEL, 2, devices=('cpu', 'cuda:0'))
    with pytest.raises(PlanError, match=text):
        open_door(profile(CPU), SPEC, config, [2 * GB] * 2)
    mixed = [parse_spec('cpu'), parse_spec('cuda:0,speed=9')]
    with pytest.raises(PlanError, match=text):
        device_pool(mixed, lambda name: 2 * GB, profile(CPU))
    others = [parse_spec('cuda:0,speed=9'), parse_spec('cuda:1,speed=9')]
    with pytest.raises(PlanError, match=r'between cuda:0 and cuda:1.*measure it again on one'):
        device_pool(others, lambda name: 2 * GB, profile(CPU, CUDA))


def test_a_plan_takes_the_link_of_each_kind_of_device() -> None:
    """Told ones first, to other nodes as within; of devices not of this machine as its own."""
    specs = [
        parse_spec('cpu'), parse_spec('cuda:0,speed=9'), parse_spec('far,memory=2,speed=1'),
        parse_spec('told,memory=2,speed=1,link=1,uplink=2,hop=3,uplink_hop=4'),
    ]  # fmt: skip
    pool = device_pool(specs, lambda name: 2 * GB, profile(CPU, CUDA))
    assert pool.hop_s == 7 * US
    assert [
        (d.hop_s, d.uplink_hop_s, d.link_bytes_per_s, d.uplink_bytes_per_s) for d in pool.devices
    ] == [
        (20 * US, 20 * US, 4e9, 4e9), (50 * US, 50 * US, 8e9, 8e9), (20 * US, 20 * US, 4e9, 4e9),
        (3 * US, 4 * US, 1e9, 2e9),
    ]  # fmt: skip
    assert pool.wire_s(0, 1, 4000) == pytest.approx(51 * US)


def test_the_door_counts_links_and_mailboxes_as_the_pool_has_them() -> None:
    """Alone on two workers, one hop each way of both steps: 4 + 2 ms of work, 3 hops of 1 ms."""
    slow = replace(CPU, hop_s=1e-3, bytes_per_s=1e12)
    made = replace(profile(slow), sizes=replace(profile().sizes, weights=(10_000, 10_000)))
    config = PoolConfig(MODEL, 2, mailbox_depth=3)
    # No device has room for both blocks, so each state of 1000 bytes crosses, into three slots.
    room = GB + 10_000 + 2 + 3 * 1000
    with pytest.raises(AdmissionRefused, match=r'alone it answers in 9\.0 ms, asked 8\.9 ms'):
        open_door(made, SPEC, config, [room] * 2).admit('s', 1.0, 8.9e-3)
    assert open_door(made, SPEC, config, [room] * 2).admit('s', 1.0, 9.1e-3) in (
        (0, 1, 0, 1), (1, 0, 1, 0),
    )  # fmt: skip
    with pytest.raises(AdmissionRefused, match='memory'):
        open_door(made, SPEC, replace(config, mailbox_depth=4), [room] * 2).admit('s', 1.0)


def test_one_peer_of_each_kind_of_device(monkeypatch: pytest.MonkeyPatch) -> None:
    """Its own kind first, another one of it where there is."""
    monkeypatch.setattr(local, 'known_devices', lambda: ['cpu', 'cuda:0', 'cuda:1'])
    assert local.peers('cpu') == ['cpu', 'cuda:0']
    assert local.peers('cuda:0') == ['cuda:1', 'cpu']
    monkeypatch.setattr(local, 'known_devices', lambda: ['cpu', 'cuda:0'])
    assert local.peers('cuda:0') == ['cuda:0', 'cpu']


def test_two_sizes_of_messages_make_a_line() -> None:
    """What they take beyond their bytes is the hop; noise makes no time run backwards."""
    found = link_of('cpu', (8_000_000, 2e-3), (800_000, 1.1e-3))
    assert found.to == 'cpu'
    assert (found.hop_s, found.bytes_per_s) == pytest.approx((1e-3, 8e9))
    assert link_of('cpu', (8_000_000, 1e-3), (800_000, 9e-5)).hop_s == 0.0
    assert link_of('cpu', (101, 1e-3), (1, 2e-3)).bytes_per_s == pytest.approx(100 * 1e9)


def test_a_link_is_measured_between_two_workers(monkeypatch: pytest.MonkeyPatch) -> None:
    """States go there and estimates come back, at every step, of the sizes that are reckoned."""
    monkeypatch.setattr(lap, 'Pool', partial(Pool, crew=local_crew(1)))
    for wanted, tokens in ((0, 1024), (2_000_000, 1954)):
        with closing(LinkProbe('cpu', 'cpu', wanted, chunks=2)) as probe:
            found = probe.measure()
            edges = probe._pool.metrics.edges
            large, small = edges[0, 1], edges[1, 0]
            assert large.bytes == 2 * 3 * tokens * 1024
            assert small.bytes == 2 * 2 * tokens * 16
        ways = ((b, e.wait.percentile_ns(50) / 1e9) for b, e in ((1024, large), (16, small)))
        assert found == link_of('cpu', *((size * tokens, seconds) for size, seconds in ways))
