# SPDX-License-Identifier: Apache-2.0
"""
Running the network: over sequences with gradients, and chunk by chunk as an engine would.

Training needs the estimate that a step starts from. It is the model's own, made by running its
earlier steps without gradients: what later steps learn to correct is what they will be given.
Under the clean rule predecessors are read through their own final estimates, made chunk by chunk;
were they read through the truth, a chunk could look up its future there.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import torch
from torch import Tensor

from physis_ros.backbones.base import KvRule
from physis_ros.backbones.reach.network import Conditioned, ReachNetwork
from physis_ros.training.memory import SequenceKv, SerialMemory

History = list[tuple[Tensor, Tensor]]


class Pass(NamedTuple):
    """
    One pass over sequences.

    :param estimate: [B * S, latent_numbers].
    :param written: key and value of each block.
    """

    estimate: Tensor
    written: History


def run_pass(
    network: ReachNetwork,
    latent: Tensor | None,
    conditioning: Tensor,
    noise: Tensor,
    step: Tensor,
    chunks: int,
    history: History | None = None,
) -> Pass:
    """
    Take sequences of chunks through one pass, all blocks.

    :param step: int64 [B * S]; equal within a sequence.
    :param history: what predecessors are read from, for each block; None: this very pass.
    """
    hidden = network.enter(latent, conditioning, noise, step)
    written: History = []
    for index in range(network.sizes.blocks):
        past = None if history is None else history[index]
        kv = SequenceKv(chunks, network.sizes.window, past)
        hidden = network.block(index, hidden, step, kv)
        assert kv.written is not None
        written.append(kv.written)
    return Pass(network.leave(hidden, step), written)


def run_chunk(
    network: ReachNetwork,
    conditioning: Sequence[Tensor],
    noise: list[Tensor],
    memory: SerialMemory,
    steps: int | None = None,
) -> list[Tensor]:
    """
    Take one chunk of each stream through its passes; return the estimate after each denoise step.

    :param conditioning: for each pass; the last one given serves all that follow.
    :param noise: for each denoise step.
    :param memory: of these streams; a clean one gets its last pass here too.
    :param steps: denoise steps to run, all by default.
    """
    spec = network.spec
    passes = list(range(spec.steps if steps is None else steps))
    if spec.kv_rule is KvRule.CLEAN:
        passes.append(spec.steps)
    estimates: list[Tensor] = []
    for index in passes:
        tokens = conditioning[min(index, len(conditioning) - 1)]
        step = torch.full((len(tokens),), index)
        latent = estimates[-1] if estimates else None
        hidden = network.enter(latent, tokens, noise[min(index, len(noise) - 1)], step)
        for block in range(spec.blocks):
            hidden = network.block(block, hidden, step, memory.window(index, block))
        if index < spec.steps:
            estimates.append(network.leave(hidden, step))
    return estimates


def train_pass(
    network: ReachNetwork,
    seen: Conditioned,
    truth: Tensor,
    step: Tensor,
    told: Tensor,
    chunks: int,
    generator: torch.Generator,
) -> Tensor:
    """
    Return the estimate each sequence makes at its step, with gradients.

    :param truth: clean latents, [B * S, latent_numbers].
    :param step: int64 [B], each sequence's denoise step.
    :param told: bool [B], sequences that start their step from the truth, not the own estimate.
    """
    rows = step.repeat_interleave(chunks)
    history, latent = _clean_history(network, seen.tokens, chunks, generator)
    past = None if history is None else [(k.detach(), v.detach()) for k, v in history]
    with torch.no_grad():
        latent = _own_estimates(
            network, seen.tokens.detach(), latent, step, chunks, generator, past
        )
        latent = torch.where(told.repeat_interleave(chunks)[:, None], truth, latent)
    noise = torch.randn(truth.shape, generator=generator)
    return run_pass(network, latent, seen.tokens, noise, rows, chunks, history).estimate


def glance(
    network: ReachNetwork,
    seen: Conditioned,
    truth: Tensor,
    step: Tensor,
    told: Tensor,
    chunks: int,
    generator: torch.Generator,
) -> Tensor:
    """
    Return the first step's estimate as it is without any block: entry, then exit.

    The arguments are those of :func:`train_pass`; only the first step can be taken.
    """
    first = torch.zeros(len(truth), dtype=torch.int64)
    noise = torch.randn(truth.shape, generator=generator)
    return network.leave(network.enter(None, seen.tokens, noise, first), first)


def _own_estimates(
    network: ReachNetwork,
    conditioning: Tensor,
    latent: Tensor | None,
    step: Tensor,
    chunks: int,
    generator: torch.Generator,
    history: History | None,
) -> Tensor:
    """Run each sequence's earlier steps from pure noise; return what its step starts from."""
    numbers = network.sizes.latent_numbers
    result = torch.zeros(len(conditioning), numbers) if latent is None else latent.clone()
    # The clean rule's history has been through step 0 already, and that is its estimate.
    first = 0 if latent is None else 1
    for index in range(first, int(step.max()) if len(step) else 0):
        rows = (step > index).repeat_interleave(chunks).nonzero()[:, 0]
        noise = torch.randn(len(rows), numbers, generator=generator)
        past = None if history is None else [(k[rows], v[rows]) for k, v in history]
        now = torch.full((len(rows),), index)
        done = run_pass(network, result[rows], conditioning[rows], noise, now, chunks, past)
        result[rows] = done.estimate
    return result


def _clean_history(
    network: ReachNetwork, conditioning: Tensor, chunks: int, generator: torch.Generator
) -> tuple[History | None, Tensor | None]:
    """
    Return key and value of the clean pass, with gradients, and the latents it ran over.

    Those are one-step estimates, made chunk by chunk, each reading its predecessors' clean pass.
    """
    if network.spec.kv_rule is not KvRule.CLEAN:
        return None, None
    numbers = network.sizes.latent_numbers
    with torch.no_grad():
        memory = SerialMemory(network.spec)
        estimates = []
        for tokens in conditioning.detach().unflatten(0, (-1, chunks)).unbind(1):
            noise = [torch.randn(len(tokens), numbers, generator=generator)]
            estimates.append(run_chunk(network, [tokens], noise, memory, steps=1)[0])
        latent = torch.stack(estimates, 1).flatten(0, 1)
    last = torch.full((len(latent),), network.spec.steps)
    clean = run_pass(network, latent, conditioning, latent, last, chunks)
    return clean.written, latent
