# SPDX-License-Identifier: Apache-2.0
"""Dataclasses read from JSON: every value checked against the type of its field. Pure."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import MISSING, fields, is_dataclass
from math import isfinite
from types import UnionType
from typing import Any, TypeVar, get_args, get_origin, get_type_hints

from physis_ros.errors import ParameterError

# Above what is meant by any count, size or time, and far below what overflows.
GREATEST = 1e18

Made = TypeVar('Made')


def made(kind: type[Made], content: Any, where: str = '') -> Made:
    """
    Return a dataclass of plain values, which are all at least 0.

    Its fields may be texts, whole numbers, numbers, tuples and mappings of these, and dataclasses
    like it.

    :param content: what JSON gave.
    :param where: its place, which goes before the names of its fields.
    :raises ParameterError: naming the value that is missing, unknown or of another type.
    """
    if not isinstance(content, dict):
        raise ParameterError(where or kind.__name__, 'a JSON object', content)
    known = {item.name: item for item in fields(kind)}  # type: ignore[arg-type]
    unknown = sorted(set(content) - set(known))
    if unknown:
        raise ParameterError(where or kind.__name__, f'of {sorted(known)}', unknown)
    hints, values = get_type_hints(kind), {}
    for name, item in known.items():
        if name in content:
            values[name] = _value(hints[name], content[name], _place(where, name))
        elif item.default is MISSING:
            raise ParameterError(_place(where, name), 'given', 'nothing')
    return kind(**values)


def _place(where: str, name: str) -> str:
    return f'{where}.{name}' if where else name


def _value(hint: Any, value: Any, where: str) -> Any:
    """Return a value as its field has it."""
    if isinstance(hint, UnionType):
        # All that may be left out is None there.
        (inner,) = (one for one in get_args(hint) if one is not type(None))
        return None if value is None else _value(inner, value, where)
    if is_dataclass(hint):
        return made(hint, value, where)  # type: ignore[arg-type]
    if get_origin(hint) is tuple:
        if not isinstance(value, list):
            raise ParameterError(where, 'a list', value)
        inner = get_args(hint)[0]
        return tuple(_value(inner, one, f'{where}[{i}]') for i, one in enumerate(value))
    if hint in _RULES:
        rule, fits = _RULES[hint]
        if not fits(value):
            raise ParameterError(where, rule, value)
        return float(value) if hint is float else value
    if not isinstance(value, dict):
        raise ParameterError(where, 'a JSON object', value)
    inner = get_args(hint)[1]
    return {name: _value(inner, one, f'{where}.{name}') for name, one in value.items()}


def _is_number(value: Any) -> bool:
    # Whole numbers may be too large to be compared as floats: they are not taken for such first.
    return (
        isinstance(value, int | float)
        and not isinstance(value, bool)
        and 0 <= value <= GREATEST
        and isfinite(value)
    )


def _is_whole(value: Any) -> bool:
    return isinstance(value, int) and _is_number(value)


_RULES: Mapping[Any, tuple[str, Callable[[Any], bool]]] = {
    str: ('a text', lambda value: isinstance(value, str)),
    int: ('a whole number >= 0', _is_whole),
    float: ('a number >= 0', _is_number),
}
