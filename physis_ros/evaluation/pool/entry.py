# SPDX-License-Identifier: Apache-2.0
"""Reading one object of a JSON file: every value checked, every complaint with its place."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from math import inf
from pathlib import Path
from typing import Any

from physis_ros.errors import ParameterError

# Of seconds and ratios, and of bytes: above what anybody means, below what overflows.
MOST, MOST_BYTES = 1e9, 1e18


@dataclass(frozen=True)
class Entry:
    """
    An object of a file. Each reader raises :class:`ParameterError` for a value that is no such.

    :param where: its place, as ``devices[0]``; empty: the whole file.
    """

    where: str
    content: Mapping[str, Any]

    def has(self, key: str) -> bool:
        """Tell whether it has a value."""
        return key in self.content

    def only(self, known: set[str]) -> None:
        """Refuse other keys than these."""
        if not set(self.content) <= known:
            raise ParameterError(self.where, f'of {sorted(known)}', sorted(self.content))

    def number(self, key: str, default: float | None = None, most: float = MOST) -> float:
        """Return a number >= 0."""
        value = self.content.get(key, default)
        if not _is_number(value) or value < 0:
            raise ParameterError(self._place(key), 'a number >= 0', value)
        self._check_most(key, value, most)
        return float(value)

    def numbers(self, key: str) -> list[float]:
        """Return numbers."""
        values = self.content.get(key)
        if not isinstance(values, list) or not all(map(_is_number, values)):
            raise ParameterError(self._place(key), 'a list of numbers', values)
        for i, value in enumerate(values):
            self._check_most(f'{key}[{i}]', value, MOST)
        return [float(value) for value in values]

    def whole(
        self, key: str, default: int | None = None, least: int = 1, most: float = MOST_BYTES
    ) -> int:
        """Return a whole number; 1e9 is one."""
        value = self.content.get(key, default)
        if not _is_number(value) or value != int(value) or value < least:
            raise ParameterError(self._place(key), f'a whole number >= {least}', value)
        self._check_most(key, value, most)
        return int(value)

    def text(self, key: str) -> str:
        """Return a text that is not empty."""
        value = self.content.get(key)
        if not isinstance(value, str) or not value:
            raise ParameterError(self._place(key), 'a text', value)
        return value

    def list(self, key: str) -> list[Entry]:
        """Return the objects of a list; none when there is no list."""
        values = self.content.get(key, [])
        if not isinstance(values, list):
            raise ParameterError(self._place(key), 'a list', values)
        return [self._inner(f'{key}[{i}]', value) for i, value in enumerate(values)]

    def entries(self, key: str) -> dict[str, Entry]:
        """Return the objects of an object by name; none when there is none."""
        values = self.content.get(key, {})
        if not isinstance(values, dict):
            raise ParameterError(self._place(key), 'a JSON object', values)
        return {name: self._inner(f'{key}.{name}', value) for name, value in values.items()}

    def _inner(self, name: str, value: Any) -> Entry:
        if not isinstance(value, dict):
            raise ParameterError(self._place(name), 'a JSON object', value)
        return Entry(self._place(name), value)

    def _check_most(self, key: str, value: float, most: float) -> None:
        if value > most:
            raise ParameterError(self._place(key), f'at most {most:g}', value)

    def _place(self, key: str) -> str:
        return f'{self.where}.{key}' if self.where else key


def read(path: Path, known: set[str]) -> Entry:
    """
    Return the object that a file is.

    :param known: the keys it may have.
    :raises ParameterError: when it cannot be read, or is something else.
    """
    try:
        content = json.loads(path.read_text())
    except (OSError, ValueError, RecursionError) as error:
        raise ParameterError(str(path), 'a readable JSON file', str(error)) from error
    if not isinstance(content, dict) or not set(content) <= known:
        found = sorted(content) if isinstance(content, dict) else content
        raise ParameterError(str(path), f'a JSON object of {sorted(known)}', found)
    return Entry('', content)


def _is_number(value: Any) -> bool:
    # Compared, not turned into a float: whole numbers may be larger than any of those.
    number = isinstance(value, int | float) and not isinstance(value, bool)
    return number and -inf < value < inf
