# SPDX-License-Identifier: Apache-2.0
"""
What must be true before the demo starts its first process; every refusal says what to do.

Imports no torch, whose loading alone would take longer than everything here.
"""

from __future__ import annotations

import importlib.util
import json
import os
import random
import socket
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from safetensors import SafetensorError, safe_open

from physis_ros.errors import CheckpointError, ParameterError, PhysisError
from physis_ros.ros import demo_folder
from physis_ros.ros.demo_options import DemoOptions

# Of the ports that DDS derives from a domain, those of higher domains are the system's own.
DOMAINS = range(1, 101)
PORT_BASE, PORT_GAIN = 7400, 250


@dataclass(frozen=True)
class Ready:
    """
    What the checks found out.

    :param kv_rule: of the weights.
    :param stages: passes times blocks of the model; None when only the engine knows.
    :param domain: the ROS domain of this run.
    """

    kv_rule: str
    stages: int | None
    domain: int


def check(options: DemoOptions) -> Ready:
    """
    Look at everything that can be wrong, then make the output folder.

    :raises PhysisError: naming what is wrong and what to do.
    """
    kv_rule, stages, conditioning = _weights(options.model)
    if options.conditioning == 'step' and conditioning == 'entry':
        rule = f"'entry' for {options.model}, whose weights do not allow renewal"
        raise ParameterError('--conditioning', rule, options.conditioning)
    _workers(options, stages)
    domain = _domain()
    demo_folder.check(options.out)
    _writable(options.out / 'summary.json', '--out')
    _writable(options.trace, '--trace')
    demo_folder.prepare(options.out)
    return Ready(kv_rule, stages, domain)


def _weights(model: str) -> tuple[str, int | None, str | None]:
    """Return KV rule, number of stages and conditioning, from the header of the weights."""
    kind, _, rest = model.partition(':')
    if kind == 'synthetic':
        return 'same_step', None, None
    if kind != 'reach':
        known = "'reach', 'reach:clean' or 'reach:FILE.safetensors'"
        raise ParameterError('--model', known, model)
    shipped = {'': 'same_step', 'same_step': 'same_step', 'clean': 'clean'}
    path = _shipped(shipped[rest]) if rest in shipped else Path(rest)
    header = _header(path)
    try:
        sizes = json.loads(header['sizes'])
        rule, blocks, steps = str(header['kv_rule']), int(sizes['blocks']), len(sizes['noise'])
    except (KeyError, TypeError, ValueError) as error:
        raise CheckpointError(
            f'weights {path} must be written by `physis train-reach`, got another header '
            f'({error}); fetch the file again'
        ) from error
    stages = blocks * (steps + (rule == 'clean'))
    return rule, stages, str(header.get('conditioning', 'entry'))


def _shipped(kv_rule: str) -> Path:
    """Return where the weights are that come with the package."""
    found = importlib.util.find_spec('physis_ros.backbones.reach')
    if found is None or found.origin is None:
        raise CheckpointError('the reach model is not installed; install the whole package')
    return Path(found.origin).parent / 'weights' / f'{kv_rule}.safetensors'


def _header(path: Path) -> Mapping[str, Any]:
    """Return what a weights file says of itself."""
    if not path.is_file():
        raise CheckpointError(
            f'weights {path} do not exist; fetch them with the repository, or make them with '
            f'`./run physis train-reach` (hours) and give --model reach:FILE'
        )
    try:
        with safe_open(path, 'np') as file:
            return dict(file.metadata() or {})
    except (OSError, SafetensorError) as error:
        raise CheckpointError(
            f'weights {path} are damaged ({error}); fetch the file again'
        ) from error


def _workers(options: DemoOptions, stages: int | None) -> None:
    """Refuse more workers than there are stages or cores."""
    if stages is not None and options.workers > stages:
        raise ParameterError(
            '--workers', f'at most {stages}, the stages of {options.model}', options.workers
        )
    cores = len(os.sched_getaffinity(0))
    if options.workers > cores:
        raise ParameterError(
            '--workers',
            f'at most {cores}, the processor cores that this process may use',
            options.workers,
            'each worker computes on a core of its own',
        )


def _writable(path: Path, option: str) -> None:
    """Make sure that a file can be written, by writing one beside it."""
    trial = path.parent / f'.physis-{os.getpid()}'
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        trial.write_bytes(b'')
        trial.unlink()
        if path.exists() and not os.access(path, os.W_OK):
            raise PermissionError(13, 'Permission denied', str(path))
    except OSError as error:
        raise ParameterError(
            option, 'a place that can be written to', str(path.parent),
            f'{error.strerror}; give another one or change its permissions',
        ) from error


def _domain() -> int:
    """Return the user's ROS domain, or one that nobody on this machine uses."""
    given = os.environ.get('ROS_DOMAIN_ID', '')
    if given:
        if not given.isdigit() or int(given) > 232:
            raise ParameterError('ROS_DOMAIN_ID', 'a whole number from 0 to 232', given)
        return int(given)
    for domain in random.sample(DOMAINS, len(DOMAINS)):
        if _free(PORT_BASE + PORT_GAIN * domain):
            return domain
    raise PhysisError('no ROS domain from 1 to 100 is free on this machine; set ROS_DOMAIN_ID')


def _free(port: int) -> bool:
    """Tell whether nobody has bound a UDP port."""
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as trial:
        try:
            trial.bind(('', port))
        except OSError:
            return False
    return True
