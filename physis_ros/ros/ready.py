# SPDX-License-Identifier: Apache-2.0
"""A command that was worked out ahead of its instant, and waits for it."""

from __future__ import annotations

from dataclasses import replace
from typing import Any, NamedTuple

from physis_ros.session.player_config import PlayerConfig
from physis_ros.types import Command


class Ready(NamedTuple):
    """
    A command that waits for its instant.

    :param steady_ns: the instant.
    :param message: what to publish; None when there is nothing to say.
    """

    steady_ns: int
    command: Command
    message: Any

    def overtaken(self, now_ns: int, config: PlayerConfig) -> bool:
        """Whether its instant has passed for so long that it is wrong or too old now."""
        late_ns, age_ns = now_ns - self.steady_ns, self.command.age_ns
        too_old = age_ns is not None and age_ns + late_ns > config.max_action_age_ns
        return too_old or late_ns > config.period_ns // 2

    def sent(self, steady_ns: int) -> Command:
        """Return the command as it was sent at another instant: older by the difference."""
        late_ns, command = steady_ns - self.steady_ns, self.command
        if not late_ns:
            return command
        ages_ns = {name: age_ns + late_ns for name, age_ns in command.input_age_ns.items()}
        age_ns = None if command.age_ns is None else command.age_ns + late_ns
        stamp_ns = command.stamp_ns + late_ns
        return replace(command, stamp_ns=stamp_ns, age_ns=age_ns, input_age_ns=ages_ns)
