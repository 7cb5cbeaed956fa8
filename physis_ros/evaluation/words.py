# SPDX-License-Identifier: Apache-2.0
"""Numbers with their nouns, for a person."""

from __future__ import annotations


def counted(number: int | None, noun: str) -> str:
    """Return ``1 episode``, ``2 episodes``, or ``- episodes`` for a number that nobody knows."""
    return f'{"-" if number is None else number} {noun}{"s" * (number != 1)}'


def incomplete(ticks: int, chunks: int) -> str:
    """Say what a recording lacks; nothing when it lacks nothing."""
    if not ticks and not chunks:
        return ''
    return f'recording incomplete: {ticks} playback, {counted(chunks, "chunk")} missing'
