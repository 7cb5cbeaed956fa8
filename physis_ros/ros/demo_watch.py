# SPDX-License-Identifier: Apache-2.0
"""What happens to the engine during a run, as one stream tells it. Pure; time is an argument."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from physis_ros.errors import EngineError
from physis_ros.msg import StreamStatus
from physis_ros.ros.wam_report import WORDS as STATES

# A failed engine is begun anew by its node; one that stays failed is not.
FAILED_S = 3.0


class EngineWatch:
    """
    Says when the engine's state changes, and gives up when it stays failed.

    :param who: whose status it is, for a person.
    :param note: is told of every change.
    """

    def __init__(self, who: str, note: Callable[[str], None]) -> None:
        self.who, self._note = who, note
        # What happened: the figures are not those of an undisturbed run.
        self.failures: list[str] = []
        self._shown: tuple[int, str] = (-1, '')
        self._failed_s: float | None = None

    def look(self, stream: Any | None, now_s: float) -> None:
        """
        Take in the newest status.

        :raises EngineError: when the engine has given up.
        """
        if stream is None:
            return
        shown = (stream.state, stream.reason)
        if shown != self._shown and stream.reason:
            self._note(f'{self.who} {STATES.get(stream.state, "unknown")}: {stream.reason}')
        if stream.state == StreamStatus.STATE_LOADING and stream.reason:
            self._keep(f'the engine failed in the run and began to load again: {stream.reason}')
        elif stream.state == StreamStatus.STATE_RUNNING and self._shown[1]:
            self._note(f'{self.who} running again')
        self._shown = shown
        if stream.state != StreamStatus.STATE_FAILED:
            self._failed_s = None
            return
        self._failed_s = self._failed_s or now_s
        if now_s - self._failed_s > FAILED_S:
            raise EngineError(f'the {self.who} gave up: {stream.reason}')

    def _keep(self, trouble: str) -> None:
        if trouble not in self.failures:
            self.failures.append(trouble)
