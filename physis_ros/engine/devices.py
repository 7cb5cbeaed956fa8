# SPDX-License-Identifier: Apache-2.0
"""
The devices of a pool, as a plan sees them: memory, relative speed, links.

Read from a pool file or made by code; nothing here opens a device.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace

from physis_ros.errors import ParameterError

# More of a kind than anybody plans with.
MOST_DEVICES = 4096


@dataclass(frozen=True)
class Device:
    """
    One device.

    :param memory_bytes: what streams may use: weights, KV and buffers; the reserve for context,
        workspace and whatever else lives there is already taken off.
    :param speed: relative to the device that was profiled.
    :param link_bytes_per_s: to devices of its node, each way.
    :param uplink_bytes_per_s: to other nodes, each way.
    :param node: the machine it is in.
    :param hop_s: of a message to or from a device of its node, beyond its bytes; None: what the
        pool has. A hop takes as long as the slower of its two ends.
    :param uplink_hop_s: likewise to or from another node.
    """

    name: str
    memory_bytes: int
    speed: float = 1.0
    link_bytes_per_s: float = 1e12
    uplink_bytes_per_s: float = 1e12
    node: str = 'local'
    hop_s: float | None = None
    uplink_hop_s: float | None = None

    def __post_init__(self) -> None:
        """
        Refuse impossible devices.

        :raises ParameterError: naming the device and the size.
        """
        for name in ('memory_bytes', 'speed', 'link_bytes_per_s', 'uplink_bytes_per_s'):
            if not 0 < getattr(self, name) < float('inf'):
                raise ParameterError(f'{self.name}.{name}', '> 0', getattr(self, name))
        for name in ('hop_s', 'uplink_hop_s'):
            value = getattr(self, name)
            if value is not None and not 0 <= value < float('inf'):
                raise ParameterError(f'{self.name}.{name}', '>= 0', value)


@dataclass(frozen=True)
class DevicePool:
    """
    The devices that streams are placed on.

    :param devices: in an order that puts neighbours side by side.
    :param hop_s: time of handing one message over, beyond its bytes: from the pool to a device,
        and between devices that have none of their own.
    """

    devices: tuple[Device, ...]
    hop_s: float = 0.0

    def __post_init__(self) -> None:
        """
        Refuse an empty pool and names used twice.

        :raises ParameterError: naming what.
        """
        names = [device.name for device in self.devices]
        if not names:
            raise ParameterError('devices', 'at least one', names)
        if len(set(names)) < len(names):
            raise ParameterError('device names', 'different from each other', names)
        if not self.hop_s >= 0:
            raise ParameterError('hop_s', '>= 0', self.hop_s)

    def __len__(self) -> int:
        """Return the number of devices."""
        return len(self.devices)

    def index(self, name: str) -> int:
        """
        Return the place of a device.

        :raises ParameterError: when there is none of that name.
        """
        for i, device in enumerate(self.devices):
            if device.name == name:
                return i
        raise ParameterError('device', f'one of {[d.name for d in self.devices]}', name)

    def part(self, indices: Iterable[int]) -> DevicePool:
        """Return a pool of some of the devices."""
        return replace(self, devices=tuple(self.devices[i] for i in indices))

    def grown(self, count: int) -> DevicePool:
        """Return the pool with ``count`` more devices like the last."""
        last = self.devices[-1]
        more = tuple(replace(last, name=f'{last.name}+{i + 1}') for i in range(count))
        return replace(self, devices=self.devices + more)

    @property
    def longest_hop_s(self) -> float:
        """The longest time that handing a message over takes, beyond its bytes."""
        ways = (True,) if len({device.node for device in self.devices}) == 1 else (True, False)
        return max(self.hop_s, *(self.end_s(d, near) for d in self.devices for near in ways))

    def end_s(self, device: Device, near: bool) -> float:
        """
        Return the time of a hop as far as one of its ends decides it.

        :param near: whether the other end is in its node.
        """
        own = device.hop_s if near else device.uplink_hop_s
        return self.hop_s if own is None else own

    def wire_s(self, source: int, target: int, size: int) -> float:
        """Return the time a message of ``size`` bytes takes from one device to another."""
        if source == target:
            return 0.0
        a, b = self.devices[source], self.devices[target]
        near = a.node == b.node
        hop_s = max(self.end_s(a, near), self.end_s(b, near))
        if near:
            return hop_s + size / min(a.link_bytes_per_s, b.link_bytes_per_s)
        return hop_s + size / min(a.uplink_bytes_per_s, b.uplink_bytes_per_s)


def device_kind(name: str) -> str:
    """Return what kind of device a torch device is: ``cuda`` of ``cuda:1``."""
    return name.partition(':')[0]


def usable_bytes(name: str, memory_bytes: int, reserve_bytes: int) -> int:
    """
    Return what streams may use of a device's memory.

    :param reserve_bytes: what it needs before it carries anything.
    :raises ParameterError: when nothing is left.
    """
    if memory_bytes <= reserve_bytes:
        needed = f'above the {size_text(reserve_bytes)} that the model needs on each device'
        raise ParameterError(f'memory of {name}', needed, size_text(memory_bytes))
    return memory_bytes - reserve_bytes


def size_text(count: float) -> str:
    """Return bytes for a person: in GB, or in MB where that would show nothing."""
    return f'{count / 1e9:.3f} GB' if count >= 1e8 else f'{count / 1e6:.3f} MB'
