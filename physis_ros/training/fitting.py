# SPDX-License-Identifier: Apache-2.0
"""
Fitting the codec to the training data, once, before the first iteration.

The basis is that of the largest variance over patch changes; the scale makes the average latent
number 1, so that copying the last frame costs a loss of about 1.
"""

from __future__ import annotations

import numpy as np
import torch

from physis_ros.backbones.reach.codec import PATCH_NUMBERS, Codec, to_patches
from physis_ros.training.data import SequenceData

DRAWS = 30
SEQUENCES = 32


def fit_codec(codec: Codec, data: SequenceData, seed: int, draws: int = DRAWS) -> float:
    """
    Set basis, scale and action statistics; return the share of change the basis can express.

    :param seed: of the generator that draws the data.
    :param draws: batches of data to look at.
    """
    random = np.random.default_rng([seed, 7])
    spread = torch.zeros(PATCH_NUMBERS, PATCH_NUMBERS, dtype=torch.float64)
    actions, patches = [], 0
    for _ in range(draws):
        batch = data.draw(random, SEQUENCES)
        last = batch.inputs['frames'][:, -1].float()
        change = to_patches(batch.future.float() - last[:, None]).reshape(-1, PATCH_NUMBERS)
        spread += (change.T @ change).double()
        patches += len(change)
        actions.append(batch.actions.reshape(-1, batch.actions.shape[-1]))
    energy, vectors = torch.linalg.eigh(spread / patches)
    components = codec.basis.shape[1]
    kept = energy[-components:].sum()
    codec.basis.copy_(vectors[:, -components:].flip(1))
    codec.scale.copy_((kept / components).sqrt())
    codec.action_mean.copy_(torch.cat(actions).mean(0))
    codec.action_spread.copy_(torch.cat(actions).std(0))
    return float(kept / energy.sum())
