# SPDX-License-Identifier: Apache-2.0
"""
Joint states as the player takes them: our order and units, whole, finite; or refused and counted.

Several publishers may each carry a part of the joints, beside joints that are not ours; the state
is whole when every joint has come lately, and as old as the oldest of them.
"""

from __future__ import annotations

from collections import Counter

import numpy as np
import numpy.typing as npt
from sensor_msgs.msg import JointState

from physis_ros.errors import NamesError
from physis_ros.output.limits import usable
from physis_ros.ros.joint_map import JointMap
from physis_ros.types import FloatArray

OTHER_JOINTS, MALFORMED, NON_FINITE = 'other_joints', 'malformed', 'non_finite'
# So long the parts of a state may take to come for the first time.
PATIENCE_NS = 1_000_000_000
SEEN_NAMES = 256


class ServoJoints:
    """
    Reads joint state messages. Single-threaded.

    :param robot: what it calls our joints, in the order of the commands, and its units.
    :param age_ns: so much older than the newest one another joint may be.
    """

    def __init__(self, robot: JointMap, age_ns: int) -> None:
        self._robot, self._joints, self.age_ns = robot, robot.robot_names, age_ns
        self._places: dict[tuple[str, ...], npt.NDArray[np.intp]] = {}
        self._position = np.full(len(self._joints), np.nan)
        self._stamps_ns = np.zeros(len(self._joints), dtype=np.int64)
        self._seen: dict[str, None] = {}
        self._waits_ns: int | None = None
        # How many were refused, by reason; and what was wrong with the last, empty when nothing.
        self.refused: Counter[str] = Counter()
        self.trouble = ''

    def read(self, message: JointState, stamp_ns: int) -> tuple[FloatArray, int] | None:
        """
        Return the joints in our order [rad or m] and the stamp of the oldest of them [ns].

        :param stamp_ns: of the message.
        :returns: None while some have not come, or, with ``trouble``, when it cannot be used.
        """
        names = tuple(message.name)
        if len(self._seen) < SEEN_NAMES:
            self._seen.update(dict.fromkeys(names))
        if len(message.position) != len(names):
            what = f'position must have {len(names)} values as name has'
            self._refuse(MALFORMED, f'{what}, got {len(message.position)}')
            return None
        places = self._places_in(names)
        ours = places >= 0
        if not ours.any():
            # Beside a state of ours that is somebody else's, and no trouble.
            missing = self._missing(stamp_ns)
            self._refuse(OTHER_JOINTS, self._names(missing) if missing else '')
            return None
        heard, _ = self._robot.heard(names, message.position, ())
        position = np.array(heard, dtype=np.float64)[places[ours]]
        if not usable(position):
            self._refuse(NON_FINITE, f'position must be finite, got {position.tolist()}')
            return None
        if (self._stamps_ns[ours] - stamp_ns > self.age_ns).any():
            # The time went back: what other joints said is of one that is gone.
            self._stamps_ns[:] = 0
        self._position[ours], self._stamps_ns[ours] = position, stamp_ns
        return self._state(stamp_ns)

    def _state(self, stamp_ns: int) -> tuple[FloatArray, int] | None:
        """Return what is known when it is whole."""
        missing = self._missing(stamp_ns)
        if not missing:
            self.trouble, self._waits_ns = '', None
            return self._position.copy(), int(self._stamps_ns.min())
        self._waits_ns = stamp_ns if self._waits_ns is None else self._waits_ns
        waited = abs(stamp_ns - self._waits_ns) > PATIENCE_NS
        self.trouble = self._names(missing) if waited else ''
        return None

    def _places_in(self, names: tuple[str, ...]) -> npt.NDArray[np.intp]:
        """Return where each of our joints is among these; -1 where one is not."""
        places = self._places.get(names)
        if places is None:
            places = np.array([names.index(n) if n in names else -1 for n in self._joints])
            if len(self._places) < SEEN_NAMES:
                self._places[names] = places
        return places

    def _missing(self, stamp_ns: int) -> list[str]:
        """Return which joints have not come, or not lately; a stamp that went back is not late."""
        late = (self._stamps_ns == 0) | (stamp_ns - self._stamps_ns > self.age_ns)
        return [name for name, is_late in zip(self._joints, late, strict=True) if is_late]

    def _names(self, missing: list[str]) -> str:
        """Say which joints are missing, and which came."""
        got = [name for name in self._seen if name not in missing]
        return str(NamesError('joints', self._joints, got))

    def _refuse(self, reason: str, trouble: str) -> None:
        """Count a message that cannot be used."""
        self.refused[reason] += 1
        self.trouble = trouble
