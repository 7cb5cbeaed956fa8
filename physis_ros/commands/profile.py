# SPDX-License-Identifier: Apache-2.0
"""``physis profile``: what a model costs on a device of this machine, as a file for plans."""

from __future__ import annotations

import argparse
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

from physis_ros.commands.files import check_writable
from physis_ros.errors import ParameterError, PlanError

if TYPE_CHECKING:
    from physis_ros.engine.measure import Effort
    from physis_ros.engine.profile import Profile

BATCHES, SAMPLES = (1, 2, 4, 8), 100


def add_profile_parser(subparsers: Any) -> None:
    """
    Register the command.

    :param subparsers: what ``ArgumentParser.add_subparsers`` returned; ``run`` is set as default.
    """
    parser = subparsers.add_parser(
        'profile',
        help='measure what a model costs on a device',
        description='Measure what a model costs on a device. A profile that was cut short, or '
        'lacks a batch size, is continued; one of another model, device or version is refused.',
    )
    add = parser.add_argument
    add('model', metavar='MODEL', help="as 'reach', 'reach:clean', 'synthetic:blocks=4,...'")
    add('--device', default='cpu', help='torch device (default: cpu)')
    add('--out', type=Path, required=True, metavar='FILE', help='the profile, JSON')
    add('--batch', type=int, nargs='+', default=list(BATCHES), metavar='ROWS',
        help='batch sizes, ascending from 1 (default: 1 2 4 8)')  # fmt: skip
    add('--samples', type=int, default=SAMPLES, help='for each timing (default: %(default)s)')
    parser.set_defaults(run=profile)


def profile(args: argparse.Namespace) -> int:
    """Measure, or say that nothing is left to measure."""
    from physis_ros.backbones.registry import read_spec
    from physis_ros.commands import local
    from physis_ros.engine.measure import Effort, widened

    try:
        effort = Effort(tuple(args.batch), args.samples)
    except ParameterError as error:
        name = {'batches': '--batch', 'samples': '--samples'}[error.name]
        raise ParameterError(name, error.rule, error.value) from error
    device = local.known_device(args.device)
    earlier = _earlier(args.out, args.model, device)
    if earlier is not None:
        earlier = widened(earlier, read_spec(args.model), device, effort)
    if earlier is not None and earlier.complete:
        print(f'{args.out}: is whole, nothing to measure')
        return 0
    check_writable('--out', args.out)
    made = measured(args.model, device, effort, earlier, args.out)
    print(described(made))
    print(f'  {args.out}')
    return 0


def measured(
    model: str, device: str, effort: Effort, earlier: Profile | None, out: Path | None
) -> Profile:
    """
    Measure with a progress bar.

    :param earlier: a profile that was cut short.
    :param out: where it is saved after each round; None: nowhere.
    """
    import torch
    from tqdm import tqdm

    from physis_ros.backbones.registry import open_backbone
    from physis_ros.commands import local
    from physis_ros.engine.handover import measure_handover
    from physis_ros.engine.measure import begin_profile, measure_profile
    from physis_ros.engine.weights import weigh

    # Like a worker: one compute thread.
    torch.set_num_threads(1)
    backbone = open_backbone(model, device)
    spec = backbone.spec
    begun = earlier
    if begun is None:
        # Nothing of it is kept when it is cut short; it takes longer than many a timing.
        print(f'profile of {spec.name}: weights, hops and ways in real pools ...', file=sys.stderr)
        weights = weigh(lambda blocks: open_backbone(model, device, blocks), spec.blocks)
        handover = measure_handover(model, spec.blocks, device, local.peers(device))
        name = local.device_name(device)
        begun = begin_profile(spec, weights, handover, device, name, local.versions(), effort)
    with tqdm(total=begun.wanted, desc=f'profile of {spec.name}', unit='timing') as bar:

        def progress(now: Profile) -> None:
            bar.update(len(now.timings) - bar.n)
            if out is not None:
                now.save(out)

        made = measure_profile(backbone, begun, device, effort, progress)
    if out is not None:
        made.save(out)
    return made


def described(made: Profile) -> str:
    """Return a profile in a few lines."""
    sizes, mb = made.sizes, 1e6
    lines = [
        f'{made.model} on {made.device}, torch {made.versions["torch"]}',
        f'  weights {min(sizes.weights) / mb:.2f} to {max(sizes.weights) / mb:.2f} MB a block, '
        f'{sizes.shared / mb:.2f} MB around them; KV {sizes.kv / mb:.3f} MB a stage',
        f'  activations {sizes.activations / mb:.2f} MB, workspace {sizes.workspace / mb:.2f} MB',
        f'  engine {made.task_s * 1e6:.0f} us a task, {made.crowding:.2f} x the time beside a '
        'neighbour',
        *(
            f'  hop to {link.to}: {link.hop_s * 1e6:.0f} us + {link.bytes_per_s / 1e9:.1f} GB/s'
            for link in made.links
        ),
        f'  a chunk in after {made.hop_s * 1e6:.0f} us, its result out after '
        f'{(made.deliver_s or made.hop_s) * 1e6:.0f} us, the next one in after '
        f'{made.turn_s * 1e6:.0f} us more',
        f'  {"kind":8}{"rows":>6}{"KV chunks":>11}{"p50 ms":>10}{"chunk ms":>10}{"p99 ms":>10}',
    ]
    lines += [
        f'  {t.kind:8}{t.batch:6}{t.kv_chunks:11}{t.p50_s * 1e3:10.3f}{t.chunk_s * 1e3:10.3f}'
        f'{t.p99_s * 1e3:10.3f}'
        for t in made.timings
    ]
    return '\n'.join(lines)


def _earlier(out: Path, model: str, device: str) -> Profile | None:
    """Return the profile that is there already, when it is of the same kind."""
    from physis_ros.backbones.registry import read_spec
    from physis_ros.commands import local
    from physis_ros.engine.profile import check, load

    spec = read_spec(model)
    if not out.exists():
        return None
    found = load(out, partial=True)
    try:
        check(found, spec, local.device_name(device), local.versions())
    except PlanError as error:
        raise PlanError(f'{out}: {error}; or take another --out') from error
    return found
