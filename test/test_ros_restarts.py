# SPDX-License-Identifier: Apache-2.0
"""When a failed engine is loaded again, and when that would be in vain."""

from __future__ import annotations

import pytest

from physis_ros.errors import CheckpointError, EngineError, PhysisError, WorkerDied
from physis_ros.ros.restarts import FORGET_NS, MOST, Restarts

TRACEBACK = """Traceback (most recent call last):
  File "x.py", line 1, in <module>
physis_ros.errors.CheckpointError: weights are damaged; fetch them again"""


@pytest.mark.parametrize(
    ('failure', 'was_ready', 'may'),
    [
        (WorkerDied(0, -9), False, True),
        (WorkerDied(0, -9), True, True),
        (WorkerDied(0, 1, 'RuntimeError: odd'), True, True),
        (WorkerDied(0, 1, 'RuntimeError: odd'), False, False),
        (WorkerDied(0, 1, 'CheckpointError: weights are damaged'), False, False),
        (WorkerDied(0, -6, TRACEBACK), False, False),
        (WorkerDied(0, -6, 'terminate: CheckpointError: not ours'), False, True),
        (EngineError('stands still'), True, False),
        (CheckpointError('weights are damaged'), False, False),
    ],
)
def test_a_death_is_worth_another_try_and_a_refusal_is_not(
    failure: PhysisError, was_ready: bool, may: bool
) -> None:
    assert Restarts(True).may(failure, was_ready) is may
    assert not Restarts(False).may(failure, was_ready)


def test_deaths_are_forgotten_after_minutes_without_a_break() -> None:
    restarts, died = Restarts(True), WorkerDied(0, -9)
    for _ in range(MOST):
        assert restarts.may(died, True)
        restarts.again()
    assert not restarts.may(died, True)
    restarts.look(True, 0)
    restarts.look(True, FORGET_NS - 1)
    restarts.look(False, FORGET_NS - 1)
    restarts.look(True, FORGET_NS)
    restarts.look(True, 2 * FORGET_NS - 1)
    assert not restarts.may(died, True)
    restarts.look(True, 2 * FORGET_NS)
    assert restarts.count == 0
    assert restarts.may(died, True)
