# SPDX-License-Identifier: Apache-2.0
"""
An observation as the tensors a model wants, by the names in its spec.

``frames`` uint8 [K, height, width, 3], with several cameras ``frames.<camera>`` of each; ``depth``
or ``depth.<camera>`` float32 [K, height, width] in metres; ``joints`` [2 J], positions then
velocities; ``delay`` [1] or [] in seconds, or in control steps where the model takes an integer;
``prefix`` [H, A] and ``prefix_weight`` [H], which may be left out. A model that wants anything
else is refused when the stream is set up, not later.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
import numpy.typing as npt

from physis_ros.backbones.base import (
    DEPTH,
    FRAMES,
    PREFIX,
    PREFIX_WEIGHT,
    InputSpec,
    ModelSpec,
    camera_of,
)
from physis_ros.errors import ParameterError
from physis_ros.output.prefix import Prefix
from physis_ros.types import Observation

NAMES = (
    FRAMES,
    f'{FRAMES}.<camera>',
    DEPTH,
    f'{DEPTH}.<camera>',
    'joints',
    'delay',
    PREFIX,
    PREFIX_WEIGHT,
)
Dtypes = Mapping[str, type[np.generic]]
FLOATS: Dtypes = {'torch.float32': np.float32, 'torch.float64': np.float64}
INTEGERS: Dtypes = {'torch.int32': np.int32, 'torch.int64': np.int64}
DTYPES: Mapping[str, Dtypes] = {
    FRAMES: {'torch.uint8': np.uint8},
    DEPTH: {'torch.float32': np.float32},
    'joints': FLOATS,
    'delay': {**FLOATS, **INTEGERS},
    PREFIX: FLOATS,
    PREFIX_WEIGHT: FLOATS,
}


class InputBuilder:
    """
    Turns observations into a model's inputs. Stateless after construction.

    :param spec: the model's.
    :param joint_count: joints J of an observation.
    :raises ParameterError: when the model wants what an observation does not have.
    """

    def __init__(self, spec: ModelSpec, joint_count: int) -> None:
        frames, actions = spec.frames, spec.actions
        shapes: Mapping[str, list[tuple[int, ...]]] = {
            FRAMES: [(len(frames.history_ns), frames.height, frames.width, 3)],
            DEPTH: [(len(frames.history_ns), frames.height, frames.width)],
            'joints': [(2 * joint_count,)],
            'delay': [(1,), ()],
            PREFIX: [(actions.horizon, len(actions.names))],
            PREFIX_WEIGHT: [(actions.horizon,)],
        }
        for wanted in spec.inputs:
            _check(spec.name, wanted, shapes)
        self._dt_s = spec.actions.dt_ns * 1e-9
        self._wanted = {
            wanted.name: (tuple(wanted.shape), DTYPES[_kind(wanted.name)][str(wanted.dtype)])
            for wanted in spec.inputs
        }

    def build(
        self, observation: Observation, delay_steps: float, prefix: Prefix | None = None
    ) -> Mapping[str, npt.NDArray[Any]]:
        """
        Make the inputs of one chunk.

        :param delay_steps: control steps from the observation to the chunk's first action; a model
            that takes whole ones is told the nearest.
        :param prefix: committed actions, for a model that takes them.
        """
        _, delay_dtype = self._wanted.get('delay', ((), np.float32))
        whole = issubclass(delay_dtype, np.integer)
        values: dict[str, npt.NDArray[Any]] = {
            **self._pictures(observation),
            'joints': np.concatenate([observation.joint_position, observation.joint_velocity]),
            'delay': np.array(round(delay_steps) if whole else delay_steps * self._dt_s),
        }
        if prefix is not None:
            values |= {PREFIX: prefix.actions, PREFIX_WEIGHT: prefix.weights}
        return {
            name: np.asarray(values[name], dtype=dtype, order='C').reshape(shape)
            for name, (shape, dtype) in self._wanted.items()
            if name in values
        }

    def _pictures(self, observation: Observation) -> dict[str, npt.NDArray[Any]]:
        """Return what the cameras saw, by the names of the inputs."""
        seen = {name: view.frames for name, view in observation.others.items()}
        seen[observation.camera] = observation.frames
        named = ((name, camera_of(name)) for name in self._wanted)
        return {name: seen[camera] for name, camera in named if camera is not None}


def _kind(name: str) -> str:
    """Return what sort of input a name is: without the camera."""
    return name.partition('.')[0]


def _check(model: str, wanted: InputSpec, shapes: Mapping[str, list[tuple[int, ...]]]) -> None:
    kind = _kind(wanted.name)
    if kind not in shapes or (kind != wanted.name and kind not in (FRAMES, DEPTH)):
        raise ParameterError(f'input of {model}', f'one of {list(NAMES)}', wanted.name)
    if tuple(wanted.shape) not in shapes[kind]:
        raise ParameterError(
            f'input {wanted.name} of {model}',
            f'of shape {list(shapes[kind][0])}, as the observation gives it',
            list(wanted.shape),
        )
    known = DTYPES[kind]
    if str(wanted.dtype) not in known:
        raise ParameterError(
            f'dtype of input {wanted.name} of {model}', f'one of {list(known)}', str(wanted.dtype)
        )
