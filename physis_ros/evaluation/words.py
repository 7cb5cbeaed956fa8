# SPDX-License-Identifier: Apache-2.0
"""Numbers with their nouns, for a person."""

from __future__ import annotations


def counted(number: int | None, noun: str) -> str:
    """Return ``1 episode``, ``2 episodes``, or ``- episodes`` for a number that nobody knows."""
    return f'{"-" if number is None else number} {noun}{"s" * (number != 1)}'
