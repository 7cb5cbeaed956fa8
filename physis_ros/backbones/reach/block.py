# SPDX-License-Identifier: Apache-2.0
"""
One transformer block: attention over the chunk and its predecessors, then an MLP.

Keys and values are kept without a position; how old they are is added when they are read.

The block never keeps a key or value: it hands its own to the window it is given and attends to
what comes back. Training and inference differ only in that window.
"""

from __future__ import annotations

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from physis_ros.backbones.base import KvWindow
from physis_ros.backbones.reach.spec import ReachSizes


class Block(nn.Module):
    """
    Pre-norm block, modulated by the pass: one constant row for each pass, no net to run.

    :param sizes: of the network.
    :param passes: rows of modulation.
    """

    def __init__(self, sizes: ReachSizes, passes: int) -> None:
        super().__init__()
        width, self.heads = sizes.width, sizes.heads
        self.modulation = nn.Parameter(torch.zeros(passes, 6, width))
        self.qkv = nn.Linear(width, 3 * width)
        self.out = nn.Linear(width, width)
        self.up = nn.Linear(width, sizes.mlp_ratio * width)
        self.down = nn.Linear(sizes.mlp_ratio * width, width)
        # Learned, relative to the reader; ages run to window + 1, the capped age of sink slots.
        ages = torch.zeros(2, sizes.window + 2, self.heads, width // self.heads)
        self.key_age, self.value_age = (nn.Parameter(part) for part in ages)

    def forward(self, hidden: Tensor, step: Tensor, kv: KvWindow) -> Tensor:
        """
        Run the block.

        :param hidden: [B, N, width].
        :param step: int64 [B], the row's pass.
        :param kv: the memory to write and read.
        """
        shift, gain, gate, mlp_shift, mlp_gain, mlp_gate = self.modulation[step].unbind(1)
        attended = self._attend(_modulated(hidden, shift, gain), kv)
        hidden = hidden + attended * (1 + gate[:, None])
        # The weights were trained with the tanh form: it differs by less than 5e-4, and takes four
        # times as long on a processor.
        inner = F.gelu(self.up(_modulated(hidden, mlp_shift, mlp_gain)))
        return torch.as_tensor(hidden + self.down(inner) * (1 + mlp_gate[:, None]))

    def _attend(self, hidden: Tensor, kv: KvWindow) -> Tensor:
        """Write own key and value, attend to own and predecessors' tokens."""
        rows, tokens, width = hidden.shape
        query, key, value = self.qkv(hidden).view(rows, tokens, 3, self.heads, -1).unbind(2)
        read = kv.extend(key, value)
        mask = read.valid.repeat_interleave(tokens, 1)[:, None, None]
        # On CPUs the bfloat16 kernel is four times slower backwards than the float32 one.
        with torch.autocast(hidden.device.type, enabled=False):
            keys = (read.key.float() + self.key_age[read.age][:, :, None]).flatten(1, 2)
            values = (read.value.float() + self.value_age[read.age][:, :, None]).flatten(1, 2)
            ask, keys, values = (part.float().transpose(1, 2) for part in (query, keys, values))
            mixed = F.scaled_dot_product_attention(ask, keys, values, mask)
        return torch.as_tensor(self.out(mixed.transpose(1, 2).reshape(rows, tokens, width)))


def _modulated(hidden: Tensor, shift: Tensor, gain: Tensor) -> Tensor:
    """Normalise rows of the hidden state, then shift and scale them by the pass's constants."""
    normal = F.layer_norm(hidden, hidden.shape[-1:])
    return normal * (1 + gain[:, None]) + shift[:, None]
