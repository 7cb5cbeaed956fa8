# SPDX-License-Identifier: Apache-2.0
"""
Parameters that may be set while a node runs: all that one call sets, or nothing of it.

The new configuration is checked as a whole before anything is taken. It is taken between two
callbacks of the executor's thread, so never in the middle of a tick.
"""

from __future__ import annotations

from array import array
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, fields
from typing import Any

from rcl_interfaces.msg import SetParametersResult
from rclpy.exceptions import ParameterNotDeclaredException
from rclpy.node import Node
from rclpy.parameter import Parameter

from physis_ros.errors import ParameterError
from physis_ros.ros.parameters import full_name, overridden

_ARRAYS = {Parameter.Type.DOUBLE_ARRAY: float, Parameter.Type.STRING_ARRAY: str}


@dataclass
class _Part:
    """
    One configuration that follows its parameters.

    :param prefix: before the names of its fields.
    :param heir: what is set without the prefix is set here too.
    :param config: the values that the parameters gave it.
    :param present: gives the values in force, where not only parameters set them.
    :param check: refuses what the rules of the fields do not.
    :param changed: takes the new configuration.
    """

    prefix: str
    heir: bool
    config: Any
    present: Callable[[], Any] | None
    check: Callable[[Any], None]
    changed: Callable[[Any], None]

    def given(self, parameters: Sequence[Parameter]) -> dict[str, object]:
        """Return the values that are ours, by the name of the field."""
        names = {self.prefix + item.name: item.name for item in fields(self.config)}
        return {names[p.name]: p.value for p in parameters if p.name in names}

    def over(self, given: Mapping[str, object]) -> Any:
        """Return the values in force with these in their place."""
        return overridden(self.config if self.present is None else self.present(), given)


class LiveParameters:
    """
    The dynamic parameters of a node. One for each node.

    :param node: the owner.
    :param fixed: parameters of ROS itself that cannot be changed while it runs, and why.
    """

    def __init__(self, node: Node, fixed: Mapping[str, str]) -> None:
        self._node, self._fixed = node, fixed
        self._parts: list[_Part] = []
        node.add_pre_set_parameters_callback(self._widened)
        node.add_on_set_parameters_callback(self._judge)
        node.add_post_set_parameters_callback(self._take)

    def follow(
        self,
        config: Any,
        changed: Callable[[Any], None],
        check: Callable[[Any], None] = lambda config: None,
        prefix: str = '',
        heir: bool = False,
        present: Callable[[], Any] | None = None,
    ) -> Callable[[], None]:
        """
        Have ``changed`` called with each new configuration, until what is returned is called.

        :param config: the values in force.
        :param check: called before, with what may become the new one; raises ParameterError.
        :param prefix: before the names of its fields.
        :param heir: what is set without the prefix is set for this one too.
        :param present: gives the values in force, where not only parameters set them.
        """
        part = _Part(prefix, heir, config, present, check, changed)
        self._parts.append(part)
        return lambda: self._parts.remove(part)

    def _widened(self, parameters: list[Parameter]) -> list[Parameter]:
        """
        Take whole numbers for doubles, and an empty list for a list of whatever is declared.

        Add what is set for the heirs.

        :raises ParameterNotDeclaredException: naming what is not there; rclpy's own names nothing.
        """
        if unknown := [p.name for p in parameters if not self._node.has_parameter(p.name)]:
            raise ParameterNotDeclaredException(unknown)
        wide = [self._wide(parameter) for parameter in parameters]
        named = {parameter.name for parameter in wide}
        for part in self._parts:
            if part.heir:
                known = {item.name for item in fields(part.config)}
                wide += [
                    Parameter(part.prefix + item.name, item.type_, item.value)
                    for item in wide
                    if item.name in known and part.prefix + item.name not in named
                ]
        return wide

    def _wide(self, parameter: Parameter) -> Parameter:
        """Return a parameter in its declared type where that is wider."""
        if not self._node.has_parameter(parameter.name):
            return parameter
        kind = Parameter.Type(self._node.describe_parameter(parameter.name).type)
        value = parameter.value
        if kind is Parameter.Type.DOUBLE and parameter.type_ is Parameter.Type.INTEGER:
            return Parameter(parameter.name, kind, float(value))
        whole = parameter.type_ is Parameter.Type.INTEGER_ARRAY
        listed = isinstance(value, (list, tuple, bytes, array))
        if kind in _ARRAYS and listed and (not len(value) or (whole and _ARRAYS[kind] is float)):
            return Parameter(parameter.name, kind, [_ARRAYS[kind](item) for item in value])
        return parameter

    def _judge(self, parameters: list[Parameter]) -> SetParametersResult:
        """Say whether everything that one call sets can be taken together."""
        try:
            for parameter in parameters:
                self._keep_fixed(parameter)
            for part in self._parts:
                if given := part.given(parameters):
                    part.check(part.over(given))
        except ParameterError as error:
            return SetParametersResult(successful=False, reason=str(error))
        return SetParametersResult(successful=True)

    def _keep_fixed(self, parameter: Parameter) -> None:
        """
        Refuse another value of what cannot change.

        :raises ParameterError: saying why.
        """
        why = self._fixed.get(parameter.name)
        if why is None or not self._node.has_parameter(parameter.name):
            return
        present = self._node.get_parameter(parameter.name).value
        if parameter.value != present:
            name = full_name(self._node, parameter.name)
            raise ParameterError(name, f'{present} while the node runs', parameter.value, why)

    def _take(self, parameters: list[Parameter]) -> None:
        """Hand new configurations over."""
        for part in list(self._parts):
            if given := part.given(parameters):
                part.config = part.over(given)
                part.changed(part.config)
