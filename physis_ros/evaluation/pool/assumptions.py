# SPDX-License-Identifier: Apache-2.0
"""
The published experiment, as far as it can be rebuilt: five models, one kind of device.

Sizes and work come from the models' own configurations; the device from its data sheet; one curve
of efficiency by rows of a matrix from two published times of one model. See ``docs/published.md``.
"""

from __future__ import annotations

from dataclasses import dataclass

from physis_ros.engine.cost import BatchCurve, ModelCost
from physis_ros.engine.devices import Device, DevicePool

GB = 1e9
DEVICES, SLO_S = 24, 1.6
_MIB = 1 << 20
# Receive slots of each hop between two cards.
MAILBOX_DEPTH = 2


@dataclass(frozen=True)
class DeviceFacts:
    """
    A card.

    :param memory_bytes: as it reports itself.
    :param reserve_bytes: context, workspace, activations of one batch.
    :param flops: dense bf16 peak.
    :param memory_bytes_per_s: of its own memory.
    :param link_bytes_per_s: to the cards of its node, each way.
    :param uplink_bytes_per_s: to other nodes, each way.
    :param node: cards in a node.
    :param best: share of the peak that endless rows would reach.
    :param half_rows: rows that reach half of that.
    :param launch_s: of one stage, whatever its size.
    """

    name: str
    memory_bytes: float
    reserve_bytes: float = 3 * GB
    flops: float = 989e12
    memory_bytes_per_s: float = 3.35e12
    link_bytes_per_s: float = 450e9
    uplink_bytes_per_s: float = 50e9
    node: int = 8
    best: float = 0.7176
    half_rows: float = 1211.0
    launch_s: float = 0.0
    hop_s: float = 20e-6

    def pool(self, count: int = DEVICES) -> DevicePool:
        """Return a pool of such cards, in nodes."""
        memory = round(self.memory_bytes - self.reserve_bytes)
        devices = tuple(
            Device(
                f'gpu{i}', memory, 1.0, self.link_bytes_per_s, self.uplink_bytes_per_s,
                f'node{i // self.node}',
            )
            for i in range(count)
        )  # fmt: skip
        return DevicePool(devices, self.hop_s)

    def stage_s(self, work: Work, batch: int) -> float:
        """Return the time of one block for a batch: compute or memory, whichever is longer."""
        rows = batch * work.rows
        rate = self.flops * self.best * rows / (rows + self.half_rows)
        moved = work.block_bytes + batch * work.kv_bytes
        return self.launch_s + max(batch * work.flop / rate, moved / self.memory_bytes_per_s)


@dataclass(frozen=True)
class Work:
    """
    A stage, one block of one step of one chunk.

    :param rows: tokens of a chunk.
    :param flop: of one stage.
    :param block_bytes: weights it reads.
    :param kv_bytes: KV it reads and keeps.
    """

    rows: int
    flop: float
    block_bytes: float
    kv_bytes: float


@dataclass(frozen=True)
class PublishedModel:
    """
    One of the five, and what was published about it.

    :param latents: in a chunk.
    :param hidden: columns of the hidden state.
    :param even: streams by an even split of 24 devices.
    :param joint: streams by joint placement.
    """

    name: str
    blocks: int
    latents: int
    hidden: int
    work: Work
    even: int
    joint: int
    steps: int = 4

    def cost(self, device: DeviceFacts, rows: int = 16) -> ModelCost:
        """Return what placement and admission need, on one kind of device."""
        times = tuple(device.stage_s(self.work, batch) for batch in range(1, rows + 1))
        hidden_bytes = self.work.rows * self.hidden * 2
        return ModelCost(
            name=self.name,
            passes=self.steps,
            weight_bytes=(round(self.work.block_bytes),) * self.blocks,
            kv_bytes=round(self.work.kv_bytes),
            hidden_bytes=hidden_bytes,
            latent_bytes=hidden_bytes // 16,
            mailbox_depth=MAILBOX_DEPTH,
            curves=(BatchCurve(times),) * self.blocks,
        )


# 80 GB HBM3 card of 81,559 MiB; see docs/published.md for why this one.
H100 = DeviceFacts('H100 80GB', 81_559 * _MIB)

MODELS = (
    PublishedModel('Wan2.1 1.3B', 30, 3, 1536, Work(4680, 1.347e12, 92.8e6, 201.3e6), 12, 39),
    PublishedModel('Wan2.2 TI2V 5B', 30, 1, 3072, Work(880, 0.431e12, 327e6, 194.6e6), 24, 46),
    PublishedModel('Wan2.1 14B', 40, 3, 5120, Work(4680, 4.192e12, 703e6, 223.6e6), 24, 18),
    PublishedModel('LTX-2.5 22B', 48, 1, 4096, Work(880, 0.687e12, 917e6, 302.8e6), 8, 18),
    PublishedModel('MiniMax H3 33B', 50, 1, 5376, Work(1008, 1.301e12, 1290e6, 520.2e6), 6, 10),
)

# Published intervals with one stage on each device: least and greatest of the five, and H3's own.
STAGE_LEAST_S, STAGE_MOST_S, STAGE_H3_S = 1.895e-3, 7.547e-3, 4.083e-3
