# SPDX-License-Identifier: Apache-2.0
"""
The devices of a pool, as a plan sees them: memory, relative speed, links.

Read from a pool file or made by code; nothing here opens a device.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace

from physis_ros.errors import ParameterError


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
    """

    name: str
    memory_bytes: int
    speed: float = 1.0
    link_bytes_per_s: float = 1e12
    uplink_bytes_per_s: float = 1e12
    node: str = 'local'

    def __post_init__(self) -> None:
        """
        Refuse impossible devices.

        :raises ParameterError: naming the device and the size.
        """
        for name in ('memory_bytes', 'speed', 'link_bytes_per_s', 'uplink_bytes_per_s'):
            if not 0 < getattr(self, name) < float('inf'):
                raise ParameterError(f'{self.name}.{name}', '> 0', getattr(self, name))


@dataclass(frozen=True)
class DevicePool:
    """
    The devices that streams are placed on.

    :param devices: in an order that puts neighbours side by side.
    :param hop_s: time of handing one message over, beyond its bytes.
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

    def wire_s(self, source: int, target: int, size: int) -> float:
        """Return the time a message of ``size`` bytes takes from one device to another."""
        if source == target:
            return 0.0
        a, b = self.devices[source], self.devices[target]
        if a.node == b.node:
            return self.hop_s + size / min(a.link_bytes_per_s, b.link_bytes_per_s)
        return self.hop_s + size / min(a.uplink_bytes_per_s, b.uplink_bytes_per_s)
