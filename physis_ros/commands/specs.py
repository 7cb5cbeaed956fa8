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

from physis_ros.engine.devices import Device, DevicePool
from physis_ros.errors import ParameterError

GB = 1_000_000_000
KEYS = ('memory', 'speed', 'link', 'uplink', 'node')
_FORM = re.compile(r'(?P<name>[^*,=]+)(\*(?P<count>\d+))?(,(?P<rest>.*))?')


@dataclass(frozen=True)
class DeviceSpec:
    """
    One entry.

    :param memory_bytes: of each; None: what this machine has.
    :param speed: relative to the profiled device; None: it is that device.
    :param link_bytes_per_s: to devices of its node; None: as profiled.
    :param uplink_bytes_per_s: to other nodes; None: as within the node.
    """

    name: str
    count: int = 1
    memory_bytes: int | None = None
    speed: float | None = None
    link_bytes_per_s: float | None = None
    uplink_bytes_per_s: float | None = None
    node: str = 'local'

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
    count = int(found['count'] or 1)
    if count < 1:
        raise ParameterError('devices', 'at least one of each', text)
    number = {key: _number(key, values[key]) for key in KEYS[:-1] if key in values}
    return DeviceSpec(
        name=found['name'],
        count=count,
        memory_bytes=round(number['memory'] * GB) if 'memory' in number else None,
        speed=number.get('speed'),
        link_bytes_per_s=number['link'] * GB if 'link' in number else None,
        uplink_bytes_per_s=number['uplink'] * GB if 'uplink' in number else None,
        node=values.get('node', 'local'),
    )


def device_pool(
    specs: Sequence[DeviceSpec],
    memory_of: Callable[[str], int],
    reserve_bytes: int,
    hop_s: float,
    link_bytes_per_s: float,
) -> DevicePool:
    """
    Return the devices, numbered where there are several of a kind.

    Devices of one kind on this machine share its memory.

    :param memory_of: memory of a device of this machine.
    :param reserve_bytes: taken off each device for what it needs before it carries anything.
    :raises ParameterError: when a device has no room for that.
    """
    devices = []
    for spec in specs:
        memory = spec.memory_bytes
        if memory is None:
            memory = memory_of(spec.name) // spec.count
        if memory <= reserve_bytes:
            needed = f'above the {reserve_bytes / GB:.3f} GB that the model needs on each device'
            raise ParameterError(f'memory of {spec.name}', needed, f'{memory / GB:.3f} GB')
        link = spec.link_bytes_per_s or link_bytes_per_s
        devices += [
            Device(
                name=spec.name if spec.count == 1 else f'{spec.name}#{number}',
                memory_bytes=memory - reserve_bytes,
                speed=1.0 if spec.speed is None else spec.speed,
                link_bytes_per_s=link,
                uplink_bytes_per_s=spec.uplink_bytes_per_s or link,
                node=spec.node,
            )
            for number in range(spec.count)
        ]
    return DevicePool(tuple(devices), hop_s)


def _number(key: str, text: str) -> float:
    try:
        value = float(text)
    except ValueError:
        value = -1.0
    if not 0 < value < float('inf'):
        raise ParameterError(key, 'a number > 0', text)
    return value
