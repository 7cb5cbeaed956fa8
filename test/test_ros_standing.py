# SPDX-License-Identifier: Apache-2.0
"""What stands in the log of a servo that does not play, and how often."""

from __future__ import annotations

import pytest

pytest.importorskip('diagnostic_msgs')

from physis_ros.ros.diagnostics import Condition, Level
from physis_ros.ros.standing import Standing

SECOND = 1_000_000_000
WELL = Condition('playing', Level.OK, 'playing')
LATE = Condition('chunk_late', Level.WARN, 'chunks come too late')
NONE = Condition('no_chunk', Level.WARN, 'no chunk')


def said(conditions: list[Condition]) -> list[tuple[int, str]]:
    """Return what is said of one condition a second: when, and which."""
    standing = Standing()
    lines = [standing.look(one, second * SECOND) for second, one in enumerate(conditions)]
    return [(second, line.name) for second, line in enumerate(lines) if line is not None]


def test_trouble_is_said_when_it_stands_and_seldom_again() -> None:
    assert said([NONE] * 25) == [(3, 'no_chunk'), (13, 'no_chunk'), (23, 'no_chunk')]


def test_what_passes_is_not_worth_a_line_and_neither_is_its_end() -> None:
    assert said([WELL, LATE, LATE, WELL, LATE, NONE, NONE, NONE, WELL, WELL] * 5) == []


def test_other_trouble_is_said_as_soon_as_it_stands_and_the_end_of_all_once() -> None:
    assert said([NONE] * 5 + [LATE] * 5 + [WELL] * 30) == [
        (3, 'no_chunk'), (8, 'chunk_late'), (13, 'playing'),
    ]  # fmt: skip
