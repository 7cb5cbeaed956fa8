# SPDX-License-Identifier: Apache-2.0
"""
How devices are written: ``NAME[*COUNT][,KEY=VALUE...]``, such as ``cpu*2``.

``cpu`` and ``cuda:N`` are of this machine and need nothing more. Any other name is a device nobody
here owns: it needs its memory, and its speed relative to the device that was profiled.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from physis_ros.engine.devices import (
    MOST_DEVICES,
    Device,
    DevicePool,
    device_kind,
    usable_bytes,
)
from physis_ros.engine.profile import Profile
from physis_ros.errors import ParameterError, PlanError

GB, US = 1_000_000_000, 1e-6
KEYS = ('memory', 'speed', 'link', 'uplink', 'hop', 'uplink_hop', 'node')
# Of a size, a speed or a rate; hops may take no time.
LEAST, MOST = 1e-9, 1e9
_FORM = re.compile(r'(?P<name>[^*,=]+)(\*(?P<count>\d+))?(,(?P<rest>.*))?')


@dataclass(frozen=True)
class DeviceSpec:
    """
    One entry.

    :param memory_bytes: of each; None: what this machine has.
    :param speed: relative to the profiled device; None: it is that device.
    :param link_bytes_per_s: to devices of its node; None: as profiled.
    :param uplink_bytes_per_s: to other nodes; None: as within the node.
    :param hop_s: of a message beyond its bytes; None: as profiled.
    :param uplink_hop_s: likewise to other nodes; None: as within the node.
    """

    name: str
    count: int = 1
    memory_bytes: int | None = None
    speed: float | None = None
    link_bytes_per_s: float | None = None
    uplink_bytes_per_s: float | None = None
    node: str = 'local'
    hop_s: float | None = None
    uplink_hop_s: float | None = None

    @property
    def foreign(self) -> bool:
        """Whether it is given in full, so that nothing is asked of this machine."""
        return self.memory_bytes is not None and self.speed is not None


def parse_spec(text: str) -> DeviceSpec:
    """
    Read one specification.

    :raises ParameterError: naming what is wrong.
    """
    found = _FORM.fullmatch(text)
    if found is None:
        raise ParameterError('devices', 'of the form NAME[*COUNT][,KEY=VALUE...]', text)
    pairs = [item.partition('=') for item in filter(None, (found['rest'] or '').split(','))]
    unknown = [key for key, _, _ in pairs if key not in KEYS]
    if unknown:
        raise ParameterError('devices', f'of keys {list(KEYS)}', unknown[0])
    values = {key: value for key, _, value in pairs}
    if len(values) < len(pairs) or values.get('node') == '':
        raise ParameterError('devices', 'given each key once, with a value', text)
    count = int(found['count'] or 1)
    if not 1 <= count <= MOST_DEVICES:
        raise ParameterError('devices', f'at least one of each, at most {MOST_DEVICES}', text)
    number = {key: _number(text, key, values[key]) for key in KEYS[:-1] if key in values}
    return DeviceSpec(
        name=found['name'],
        count=count,
        memory_bytes=round(number['memory'] * GB) if 'memory' in number else None,
        speed=number.get('speed'),
        link_bytes_per_s=number['link'] * GB if 'link' in number else None,
        uplink_bytes_per_s=number['uplink'] * GB if 'uplink' in number else None,
        node=values.get('node', 'local'),
        hop_s=number['hop'] * US if 'hop' in number else None,
        uplink_hop_s=number['uplink_hop'] * US if 'uplink_hop' in number else None,
    )


def device_pool(
    specs: Sequence[DeviceSpec], memory_of: Callable[[str], int], found: Profile
) -> DevicePool:
    """
    Return the devices, numbered where there are several of a kind.

    Devices of one kind on this machine share its memory.

    :param memory_of: memory of a device of this machine.
    :param found: what a device needs before it carries anything, which is taken off its memory,
        and what a hop costs where nothing is said of it.
    :raises ParameterError: when a device has no room for that.
    :raises PlanError: when a link to a device of this machine was not measured.
    """
    _check_names(specs)
    _check_pairs(specs, found)
    devices = []
    for spec in specs:
        memory = spec.memory_bytes
        if memory is None:
            memory = memory_of(spec.name) // spec.count
        memory = usable_bytes(spec.name, memory, found.sizes.reserve)
        link_bytes_per_s, hop_s = _link(spec, found)
        devices += [
            Device(
                name=spec.name if spec.count == 1 else f'{spec.name}#{number}',
                memory_bytes=memory,
                speed=1.0 if spec.speed is None else spec.speed,
                link_bytes_per_s=link_bytes_per_s,
                uplink_bytes_per_s=spec.uplink_bytes_per_s or link_bytes_per_s,
                node=spec.node,
                hop_s=hop_s,
                uplink_hop_s=hop_s if spec.uplink_hop_s is None else spec.uplink_hop_s,
            )
            for number in range(spec.count)
        ]
    return DevicePool(tuple(devices), found.hop_s)


def _check_names(specs: Sequence[DeviceSpec]) -> None:
    """Refuse an entry that is there twice."""
    names = [spec.name for spec in specs]
    twice = sorted({name for name in names if names.count(name) > 1})
    if twice:
        hint = f'write {twice[0]}*{names.count(twice[0])} for several that are alike'
        raise ParameterError('devices', 'of different names', names, hint)


def _check_pairs(specs: Sequence[DeviceSpec], found: Profile) -> None:
    """Refuse two devices of this machine when neither is of the kind that was profiled."""
    own = found.link().to
    others = [s for s in specs if not (s.foreign or _told(s)) and device_kind(s.name) != own]
    if sum(spec.count for spec in others) > 1:
        names = ' and '.join(spec.name for spec in others)
        raise PlanError(
            f'profile of {found.model} must hold the link between {names}, got those of '
            f'{found.device}; measure it again on one of them, or give link= and hop='
        )


def _told(spec: DeviceSpec) -> bool:
    return spec.link_bytes_per_s is not None and spec.hop_s is not None


def _link(spec: DeviceSpec, found: Profile) -> tuple[float, float]:
    """Return bytes per second and the time of a hop."""
    if spec.link_bytes_per_s is not None and spec.hop_s is not None:
        return spec.link_bytes_per_s, spec.hop_s
    # Of a device that nobody here owns no more is known than of the one that was profiled.
    measured = found.link('' if spec.foreign else device_kind(spec.name))
    hop_s = measured.hop_s if spec.hop_s is None else spec.hop_s
    return spec.link_bytes_per_s or measured.bytes_per_s, hop_s


def _number(device: str, key: str, text: str) -> float:
    least = 0.0 if key.endswith('hop') else LEAST
    try:
        value = float(text)
    except ValueError:
        value = -1.0
    if not least <= value <= MOST:
        raise ParameterError(f'{key} of {device!r}', f'a number {least:g} .. {MOST:g}', text)
    return value
