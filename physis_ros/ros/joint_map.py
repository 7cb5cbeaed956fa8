# SPDX-License-Identifier: Apache-2.0
"""
Between our joints and a robot's: what it calls them, and in which units it counts them.

Ours are in rad or m, as the model knows them; so are chunks and all limits. Only what is said to a
robot and heard from it is in its names and units: commands and joint states.
"""

from __future__ import annotations

import math
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np

from physis_ros.errors import ParameterError
from physis_ros.types import Command, FloatArray

# How many of a unit are one rad or one m.
UNITS = {'rad': 1.0, 'deg': 180.0 / math.pi, 'm': 1.0, 'mm': 1000.0}


@dataclass(frozen=True)
class JointMap:
    """
    A robot's position of a joint is ``ours * factor + offset``, its velocity ``ours * factor``.

    :param names: our joints, in our order.
    :param robot_names: what the robot calls them.
    :param factor: float64 [A], not 0 [robot's unit/rad or robot's unit/m].
    :param offset: float64 [A] [robot's unit].
    """

    names: tuple[str, ...]
    robot_names: tuple[str, ...]
    factor: FloatArray
    offset: FloatArray

    @classmethod
    def of(
        cls,
        names: Sequence[str],
        aliases: Sequence[str] = (),
        units: Sequence[str] = (),
        scales: Sequence[str] = (),
        offsets: Sequence[str] = (),
    ) -> JointMap:
        """
        Make a map of parameters; what they leave out is as it is here.

        :param names: our joints.
        :param aliases: 'robot_joint=joint' each.
        :param units: 'joint=unit' each.
        :param scales: 'joint=factor' each, which comes after the unit.
        :param offsets: 'joint=offset' each, which comes last.
        :raises ParameterError: naming the parameter, our joints and what was given instead.
        """
        called = _robot_names(names, aliases)
        unit = {joint: _unit(text) for joint, text in by_joint('joint_units', units, names)}
        scale = numbers('joint_scales', scales, names)
        if zero := [joint for joint, value in scale.items() if value == 0.0]:
            raise ParameterError('joint_scales', 'other than 0', zero)
        offset = numbers('joint_offsets', offsets, names)
        return cls(
            tuple(names),
            tuple(called.get(name, name) for name in names),
            np.array([unit.get(name, 1.0) * scale.get(name, 1.0) for name in names]),
            np.array([offset.get(name, 0.0) for name in names]),
        )

    @cached_property
    def plain(self) -> bool:
        """Whether nothing differs."""
        same = self.names == self.robot_names
        return same and bool((self.factor == 1.0).all() and (self.offset == 0.0).all())

    def told(self, command: Command) -> Command:
        """Return a command as the robot understands it."""
        if self.plain:
            return command
        return replace(
            command,
            names=self.robot_names,
            position=command.position * self.factor + self.offset,
            velocity=command.velocity * self.factor,
        )

    def heard(
        self, names: Sequence[str], position: Sequence[float], velocity: Sequence[float]
    ) -> tuple[Sequence[float], Sequence[float]]:
        """
        Return positions and velocities of a robot in rad or m; joints of others as they are.

        :param names: the robot's, one for each position.
        :param velocity: one for each position, or empty.
        """
        if self.plain or len(position) != len(names):
            return position, velocity
        places = {name: index for index, name in enumerate(self.robot_names)}
        at = np.array([places.get(name, len(places)) for name in names], dtype=np.intp)
        factor, offset = np.append(self.factor, 1.0)[at], np.append(self.offset, 0.0)[at]
        ours = (np.asarray(position, dtype=np.float64) - offset) / factor
        if len(velocity) != len(names):
            return ours.tolist(), velocity
        return ours.tolist(), (np.asarray(velocity, dtype=np.float64) / factor).tolist()


def pairs(name: str, texts: Sequence[str], form: str) -> list[tuple[str, str]]:
    """
    Split a list of 'left=right'.

    :param form: what one must look like, for a person.
    :raises ParameterError: naming the parameter ``name``.
    """
    found = []
    for text in texts:
        left, _, right = (part.strip() for part in text.partition('='))
        if not left or not right:
            raise ParameterError(name, f"a list of '{form}'", text)
        found.append((left, right))
    return found


def by_joint(name: str, texts: Sequence[str], joints: Sequence[str]) -> list[tuple[str, str]]:
    """
    Split a list of 'joint=value', one for a joint at most.

    :raises ParameterError: naming the parameter, the joints there are and those that were given.
    """
    found = pairs(name, texts, 'joint=value')
    _known(name, [joint for joint, _ in found], joints)
    return found


def numbers(name: str, texts: Sequence[str], joints: Sequence[str]) -> dict[str, float]:
    """
    Return numbers by joint.

    :raises ParameterError: as :func:`by_joint`, and on what is no finite number.
    """
    found = {}
    for joint, text in by_joint(name, texts, joints):
        try:
            value = float(text)
        except ValueError:
            value = math.nan
        if not math.isfinite(value):
            raise ParameterError(name, "a list of 'joint=finite number'", f'{joint}={text}')
        found[joint] = value
    return found


def _unit(text: str) -> float:
    """Return how many of a unit are one rad or m."""
    if text not in UNITS:
        raise ParameterError('joint_units', f'of {list(UNITS)}', text)
    return UNITS[text]


def _robot_names(names: Sequence[str], aliases: Sequence[str]) -> Mapping[str, str]:
    """Return what the robot calls those of our joints that it calls otherwise."""
    found = pairs('joint_aliases', aliases, 'robot_joint=joint')
    _known('joint_aliases', [joint for _, joint in found], names)
    called = {joint: robot for robot, joint in found}
    robot = [called.get(name, name) for name in names]
    if len(set(robot)) != len(robot):
        raise ParameterError('joint_aliases', 'a name of its own for each joint', robot)
    return called


def _known(name: str, given: Sequence[str], joints: Collection[str]) -> None:
    """Refuse joints that are not ours, and one that is given twice."""
    unknown = [joint for joint in given if joint not in joints]
    if unknown or len(set(given)) != len(given):
        raise ParameterError(name, f'for some of {list(joints)}, each once', list(given))
