# SPDX-License-Identifier: Apache-2.0
"""A robot with cameras and joint state publishers, for tests of the model node."""

from __future__ import annotations

import time
from collections import defaultdict
from typing import Any

import numpy as np
from ros_cases import JOINTS, picture
from sensor_msgs.msg import Image, JointState

from physis_ros.ros import conversions

POSITION = {'shoulder': 0.4, 'elbow': 1.1}


class Robot:
    """
    Publishes pictures of every camera and the joint states of every publisher, at 40 Hz.

    :param bench: the probe's.
    :param cameras: their names.
    :param joints: the names that each joint state publisher gives.
    :param size: of the pictures.
    """

    def __init__(
        self,
        bench: Any,
        cameras: tuple[str, ...] = ('camera',),
        joints: tuple[tuple[str, ...], ...] = (JOINTS,),
        size: int = 128,
    ) -> None:
        self._pictures_out = {
            name: bench.probe.create_publisher(Image, f'{name}/image_raw', 10) for name in cameras
        }
        self._joints_out = [
            (names, bench.probe.create_publisher(JointState, 'joint_states', 10))
            for names in joints
        ]
        self.picture = picture(size)
        # Cameras that are off, and by how much the clock of each camera is ahead.
        self.off: set[str] = set()
        self.ahead_ns: dict[str, int] = defaultdict(int)
        self._timer = bench.probe.create_timer(0.025, self._tick)

    def _tick(self) -> None:
        stamp_ns = time.time_ns()
        for names, publisher in self._joints_out:
            position = np.array([POSITION[name] for name in names])
            message = conversions.joint_state_message(
                stamp_ns, names, position, np.zeros(len(names))
            )
            publisher.publish(message)
        for name, publisher in self._pictures_out.items():
            if name not in self.off:
                seen_ns = stamp_ns + self.ahead_ns[name]
                publisher.publish(conversions.image_message(self.picture, seen_ns, name))
