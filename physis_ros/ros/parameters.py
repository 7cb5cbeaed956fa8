# SPDX-License-Identifier: Apache-2.0
"""
Node parameters from one frozen dataclass: declared once, checked whole, never asked for again.

A field made with :func:`parameter` is a parameter of the same name, and its default lives there
alone. Whole numbers are taken for doubles. A given name that nobody declared is refused: ROS would
ignore it in silence, and a typing mistake would run with the default.

A node with several alike parts declares each of them once more under a prefix, with the values of
the whole node as defaults.
"""

from __future__ import annotations

import difflib
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, fields, replace
from typing import Any, TypeVar, get_type_hints

from rcl_interfaces.msg import FloatingPointRange, IntegerRange, ParameterDescriptor
from rclpy.exceptions import InvalidTopicNameException
from rclpy.node import Node
from rclpy.parameter import Parameter
from rclpy.validate_topic_name import validate_topic_name

from physis_ros.errors import ParameterError

Config = TypeVar('Config')
QOS_PREFIX = 'qos_overrides.'

_TYPES: dict[Any, tuple[Parameter.Type, str]] = {
    bool: (Parameter.Type.BOOL, 'true or false'),
    int: (Parameter.Type.INTEGER, 'a whole number'),
    float: (Parameter.Type.DOUBLE, 'a number'),
    str: (Parameter.Type.STRING, 'text'),
    tuple[str, ...]: (Parameter.Type.STRING_ARRAY, 'a list of texts'),
    tuple[int, ...]: (Parameter.Type.INTEGER_ARRAY, 'a list of whole numbers'),
    tuple[float, ...]: (Parameter.Type.DOUBLE_ARRAY, 'a list of numbers'),
}


@dataclass(frozen=True)
class Rule:
    """
    What is known of a parameter besides type and default.

    :param description: for a person, with the unit in brackets.
    :param low: least value, or None.
    :param high: greatest value, or None.
    :param choices: the only values, or empty.
    :param dynamic: it may be set while the node runs, see :mod:`physis_ros.ros.live`.
    """

    description: str
    low: float | None = None
    high: float | None = None
    choices: tuple[str, ...] = ()
    dynamic: bool = False

    def refusal(self, value: object) -> str:
        """Return what ``value`` must be when it breaks the rule, else an empty text."""
        if self.choices and value not in self.choices:
            return f'one of {list(self.choices)}'
        numbers = value if isinstance(value, tuple) else (value,)
        for number in numbers:
            if isinstance(number, bool) or not isinstance(number, (int, float)):
                continue
            # Written so that NaN is refused.
            if self.low is not None and not number >= self.low:
                return f'>= {self.low:g}'
            if self.high is not None and not number <= self.high:
                return f'<= {self.high:g}'
        return ''


def parameter(
    default: object,
    description: str,
    *,
    low: float | None = None,
    high: float | None = None,
    choices: Sequence[str] = (),
    dynamic: bool = False,
) -> Any:
    """Return a dataclass field that is a node parameter; see :class:`Rule`."""
    rule = Rule(description, low, high, tuple(choices), dynamic)
    return field(default=default, metadata={'rule': rule})


def check_topic(name: str, topic: str) -> None:
    """
    Refuse what cannot be the name of a topic; ROS says so when it is too late to say which it was.

    :param name: of the parameter.
    :raises ParameterError: naming it.
    """
    try:
        validate_topic_name(topic)
    except (InvalidTopicNameException, ValueError) as error:
        why = str(error).partition(':\n')[0].rpartition(': ')[2]
        raise ParameterError(name, 'the name of a topic', topic, why) from error


def autostart() -> Any:
    """Return the field that says whether a managed node comes up by itself."""
    return parameter(
        True, 'Configure and activate at start; false leaves it to an operator or a manager.'
    )


def type_name(hint: Any) -> str:
    """Return what ROS calls a field's type."""
    return _TYPES[hint][0].name.lower().replace('_array', '[]')


def declare(node: Node, kind: type[Config]) -> Config:
    """
    Declare every field of ``kind`` on ``node`` and return the values in force.

    :raises ParameterError: as :func:`declare_part`, and on a name that was given but never
        declared, QoS overrides left out: they are declared with their topics, later.
    """
    config = declare_part(node, kind)
    refuse_unknown(node, is_qos_override)
    return config


def declare_part(
    node: Node, kind: type[Config], prefix: str = '', base: Config | None = None
) -> Config:
    """
    Declare every field of ``kind`` and leave other given names to the caller.

    :param prefix: goes before each name.
    :param base: holds the defaults; those of the fields when not given.
    :raises ParameterError: naming node and parameter, on a wrong type, a value out of range, or a
        combination that ``kind`` refuses.
    """
    return _made(node, kind, prefix, declare_fields(node, kind, prefix, base))


def declare_fields(
    node: Node, kind: type[Config], prefix: str = '', base: Config | None = None
) -> dict[str, Any]:
    """
    Declare every field of ``kind`` and return their values, each of which is good by itself.

    :param prefix: goes before each name.
    :param base: holds the defaults; those of the fields when not given.
    :raises ParameterError: naming node and parameter, on a wrong type or a value out of range.
    """
    hints = get_type_hints(kind)
    values = {}
    for item in fields(kind):  # type: ignore[arg-type]
        default = item.default if base is None else getattr(base, item.name)
        name, rule = prefix + item.name, item.metadata['rule']
        values[item.name] = _declared(node, name, hints[item.name], default, rule)
    return values


def read(node: Node, kind: type[Config]) -> Config:
    """
    Return the values in force of what :func:`declare_fields` declared.

    :raises ParameterError: as :func:`declare_part`.
    """
    hints = get_type_hints(kind)
    values = {}
    for item in fields(kind):  # type: ignore[arg-type]
        value = node.get_parameter(item.name).value
        full, rule = full_name(node, item.name), item.metadata['rule']
        values[item.name] = _checked(full, hints[item.name], rule, value)
    return _made(node, kind, '', values)


def keep(node: Node, names: Iterable[str], kept: bool) -> None:
    """Let declared parameters be set from now on, or no more, as their descriptors tell."""
    for name in names:
        node._descriptors[name].read_only = kept


def _made(node: Node, kind: type[Config], prefix: str, values: Mapping[str, Any]) -> Config:
    """
    Return a configuration.

    :raises ParameterError: naming node and parameter, on a combination that ``kind`` refuses.
    """
    try:
        return kind(**values)
    except ParameterError as error:
        name = full_name(node, prefix + error.name)
        raise ParameterError(name, error.rule, error.value, error.hint) from error


def overridden(config: Config, given: Mapping[str, object]) -> Config:
    """
    Return a configuration with some of its values changed, checked by the rules of its fields.

    :param given: values by the names of the fields.
    :raises ParameterError: naming the parameter.
    """
    hints = get_type_hints(type(config))
    values = {}
    for item in fields(config):  # type: ignore[arg-type]
        if item.name in given:
            hint, rule = hints[item.name], item.metadata['rule']
            value = given[item.name]
            values[item.name] = _checked(item.name, hint, rule, value)
    return replace(config, **values)  # type: ignore[type-var]


def is_qos_override(name: str) -> bool:
    """Tell whether a parameter is one of the standard overrides."""
    return name.startswith(QOS_PREFIX)


def refuse_unknown(node: Node, ignored: Callable[[str], bool] = lambda name: False) -> None:
    """
    Refuse names that were given (YAML, command line) but are not declared.

    :param ignored: tells of a name whether to let it pass.
    :raises ParameterError: listing them beside what there is.
    """
    declared = sorted(node._parameters)
    unknown = [n for n in given(node) if not node.has_parameter(n) and not ignored(n)]
    if not unknown:
        return
    near = [m for n in unknown for m in difflib.get_close_matches(n, declared, n=1)]
    hint = f'did you mean {near}? ' if near else ''
    raise ParameterError(
        f'{node.get_fully_qualified_name()} parameters',
        'declared by the node',
        unknown,
        f'{hint}declared: {_shown(declared, unknown)}',
    )


def _shown(declared: Iterable[str], unknown: Sequence[str]) -> list[str]:
    """Return what a person who mistook these names wants to see of those there are."""
    if all(map(is_qos_override, unknown)):
        # Every topic has one for each policy: more than anybody reads.
        return sorted({f'{n.rpartition(".")[0]}.*' for n in declared if is_qos_override(n)})
    return [name for name in declared if not is_qos_override(name)]


def given(node: Node) -> dict[str, Any]:
    """Return the values given from outside by name; rclpy keeps them, but has no public way."""
    return {name: item.value for name, item in node._parameter_overrides.items()}


def _declared(node: Node, name: str, hint: Any, default: Any, rule: Rule) -> Any:
    """Declare one parameter with its checked value and return it."""
    full = full_name(node, name)
    kind, _ = _TYPES[hint]
    value = _checked(full, hint, rule, given(node).get(name, default))
    listed = list(value) if isinstance(value, tuple) else value
    node.declare_parameters(
        '', [(name, Parameter(name, kind, listed).value, _descriptor(rule, kind))], True
    )
    if listed == []:
        # rclpy takes an empty list for one of bytes, and would refuse any other later.
        node._parameters[name] = Parameter(name, kind, listed)
        node._descriptors[name].type = kind.value
    return value


def _checked(full: str, hint: Any, rule: Rule, value: Any) -> Any:
    """Return a value in the field's type, when it keeps the rule."""
    value = _converted(full, hint, _TYPES[hint][1], value)
    refusal = rule.refusal(value)
    if refusal:
        raise ParameterError(full, refusal, value)
    return value


def _converted(full: str, hint: Any, words: str, value: Any) -> Any:
    """Return the value in the field's type; whole numbers become doubles, nothing else bends."""
    if hint is float and type(value) is int:
        return float(value)
    if hint in (bool, int, float, str):
        if type(value) is hint:
            return value
        raise ParameterError(full, words, value)
    if value is None:
        # An empty list in a file, of which a type cannot be told: as `ros2 param dump` writes it.
        return ()
    # rclpy hands lists over as lists or array.array.
    if isinstance(value, (str, bytes)) or not hasattr(value, '__len__'):
        raise ParameterError(full, words, value)
    if hint == tuple[float, ...] and all(type(v) in (int, float) for v in value):
        return tuple(float(v) for v in value)
    if hint == tuple[int, ...] and all(type(v) is int for v in value):
        return tuple(value)
    if hint == tuple[str, ...] and all(isinstance(v, str) for v in value):
        return tuple(value)
    raise ParameterError(full, words, list(value))


def _descriptor(rule: Rule, kind: Parameter.Type) -> ParameterDescriptor:
    """Return what ``ros2 param describe`` shows."""
    result = ParameterDescriptor(description=rule.description, read_only=not rule.dynamic)
    if rule.choices:
        result.additional_constraints = f'one of {list(rule.choices)}'
    if rule.low is None and rule.high is None:
        return result
    low = -1e300 if rule.low is None else rule.low
    high = 1e300 if rule.high is None else rule.high
    if kind is Parameter.Type.DOUBLE:
        result.floating_point_range = [FloatingPointRange(from_value=low, to_value=high, step=0.0)]
    elif kind is Parameter.Type.INTEGER:
        low, high = max(low, -(2**63)), min(high, 2**63 - 1)
        result.integer_range = [IntegerRange(from_value=int(low), to_value=int(high), step=1)]
    return result


def full_name(node: Node, name: str) -> str:
    """Return a parameter's name for a person: node and parameter."""
    return f'{node.get_fully_qualified_name()}.{name}'
