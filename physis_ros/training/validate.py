# SPDX-License-Identifier: Apache-2.0
"""
Open-loop validation: sampled from pure noise, all steps, with KV history, as an engine does it.

The figures are about held-out episodes, for fixed told delays, and drawn the same every time.
"""

from __future__ import annotations

import numpy as np
import torch
from torch import Tensor

from physis_ros.backbones.reach.network import ReachNetwork
from physis_ros.simulation.kinematics import tip_position
from physis_ros.simulation.scene import ArmConfig
from physis_ros.training.data import Batch, SequenceData
from physis_ros.training.forward import run_chunk
from physis_ros.training.memory import SerialMemory

DELAYS = (2, 4, 6, 12, 20)
PLAYED = 8


def psnr_db(mean_square: float) -> float:
    """Return the peak signal-to-noise ratio of 8-bit images."""
    return float(10 * np.log10(255.0**2 / max(mean_square, 1e-9)))


def sample(network: ReachNetwork, batch: Batch, generator: torch.Generator) -> list[list[Tensor]]:
    """Run a batch chunk by chunk; return the estimates, [chunk][denoise step] [B, numbers]."""
    memory, spec = SerialMemory(network.spec), network.spec
    conditioning = network.encode(batch.inputs).unflatten(0, (-1, batch.chunks))
    result = []
    for tokens in conditioning.unbind(1):
        shape = (len(tokens), *spec.latent_shape)
        noise = [torch.randn(shape, generator=generator) for _ in range(spec.steps)]
        result.append(run_chunk(network, [tokens], noise, memory))
    return result


def validate(
    network: ReachNetwork, data: SequenceData, sequences: int = 12, seed: int = 5
) -> dict[str, float]:
    """
    Score a network on held-out data.

    :param sequences: sequences for each told delay.
    :param seed: of the sequences and of the noise.
    """
    figures: dict[str, float] = {}
    with torch.no_grad():
        for delay in DELAYS:
            batch = data.draw(np.random.default_rng([seed, delay]), sequences, delay)
            estimates = sample(network, batch, torch.Generator().manual_seed(seed))
            for name, value in _scores(network, batch, estimates).items():
                figures[f'{name}_k{delay}'] = value
    return figures


def _scores(
    network: ReachNetwork, batch: Batch, estimates: list[list[Tensor]]
) -> dict[str, float]:
    """Score the first and the last step's estimates of all chunks of a batch."""
    figures: dict[str, float] = {}
    last = batch.inputs['frames'][:, -1]
    copied = (batch.future.float() - last.float()[:, None]).square().mean()
    for name, index in (('first', 0), ('final', -1)):
        latent = torch.stack([steps[index] for steps in estimates], 1).flatten(0, 1)
        actions = network.codec.actions(latent)
        figures[f'{name}_tip_m'] = _tip_error_m(actions, batch.actions)
        frames = network.codec.frames(latent, last)
        wrong = (frames.float() - batch.future.float()).square().mean()
        figures[f'{name}_gain_db'] = psnr_db(float(wrong)) - psnr_db(float(copied))
    wrong_rad = (actions - batch.actions)[:, :PLAYED]
    figures['final_rms_rad'] = float(wrong_rad.square().mean().sqrt())
    return figures


def _tip_error_m(actions: Tensor, wanted: Tensor) -> float:
    """Return the mean distance of commanded and expert's tip over the steps usually played."""
    link = ArmConfig().link_m
    ours = tip_position(actions[:, :PLAYED].double().numpy(), link)
    theirs = tip_position(wanted[:, :PLAYED].double().numpy(), link)
    return float(np.linalg.norm(ours - theirs, axis=-1).mean())
