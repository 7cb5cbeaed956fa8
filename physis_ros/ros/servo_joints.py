# SPDX-License-Identifier: Apache-2.0
"""Joint states as the player takes them: in our order, whole, finite; or refused and counted."""

from __future__ import annotations

from collections import Counter

import numpy as np
from sensor_msgs.msg import JointState

from physis_ros.errors import NamesError
from physis_ros.output.limits import usable
from physis_ros.types import FloatArray

OTHER_JOINTS, MALFORMED, NON_FINITE = 'other_joints', 'malformed', 'non_finite'


class ServoJoints:
    """
    Reads joint state messages. Single-threaded.

    :param joints: ours, in the order of the commands.
    """

    def __init__(self, joints: tuple[str, ...]) -> None:
        self._joints = joints
        self._order: tuple[tuple[str, ...], list[int]] | None = None
        # How many were refused, by reason; and what was wrong with the last, empty when nothing.
        self.refused: Counter[str] = Counter()
        self.trouble = ''

    def position(self, message: JointState) -> FloatArray | None:
        """Return the joints in our order; None, with ``trouble``, when they cannot be used."""
        names = tuple(message.name)
        order = self._order_in(names)
        if order is None:
            self._refuse(OTHER_JOINTS, str(NamesError('joints', self._joints, names)))
            return None
        if len(message.position) != len(names):
            what = f'position must have {len(names)} values as name has'
            self._refuse(MALFORMED, f'{what}, got {len(message.position)}')
            return None
        position = np.array(message.position, dtype=np.float64)[order]
        if not usable(position):
            self._refuse(NON_FINITE, f'position must be finite, got {position.tolist()}')
            return None
        self.trouble = ''
        return position

    def _order_in(self, names: tuple[str, ...]) -> list[int] | None:
        """Return where our joints are among these; None when some are not."""
        if self._order is None or self._order[0] != names:
            if not set(self._joints) <= set(names):
                return None
            self._order = (names, [names.index(name) for name in self._joints])
        return self._order[1]

    def _refuse(self, reason: str, trouble: str) -> None:
        """Count a message that cannot be used."""
        self.refused[reason] += 1
        self.trouble = trouble
