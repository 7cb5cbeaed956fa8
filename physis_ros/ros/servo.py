# SPDX-License-Identifier: Apache-2.0
"""
The player as a managed ROS node of its own process, next to the controllers.

Between configure and cleanup it plays (``servo_playing.py``); this brings that up and down with
the lifecycle.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import fields
from typing import Any

from rclpy.executors import Executor
from rclpy.lifecycle import LifecycleState, TransitionCallbackReturn

from physis_ros.ros.clock import RosClock
from physis_ros.ros.live import LiveParameters
from physis_ros.ros.managed import ManagedNode
from physis_ros.ros.parameters import declare_fields, is_qos_override, keep, read, refuse_unknown
from physis_ros.ros.qos import QosWatch
from physis_ros.ros.servo_config import ServoConfig
from physis_ros.ros.servo_playing import Playing
from physis_ros.ros.servo_status import ServoStatus
from physis_ros.ros.signals import Stop

SPIN_S = 0.05
# What may be set only while the node is not configured; whether it comes up by itself never.
FIXED = tuple(
    item.name
    for item in fields(ServoConfig)
    if not item.metadata['rule'].dynamic and item.name != 'autostart'
)


class ServoNode(ManagedNode):
    """
    Plays action chunks at servo rate.

    Subscribes ``action_chunk`` (physis_ros/ActionChunk) and ``joint_states``
    (sensor_msgs/JointState, in the robot's names and units as the parameters ``joint_*`` say;
    so are commands). Publishes ``~/command`` (type by parameter),
    ``~/playback`` (physis_ros/Playback, each tick while someone listens), ``~/playback_status``
    (physis_ros/PlaybackStatus), ``/diagnostics``. Services ``~/reset`` (std_srvs/Trigger): ramp
    to rest and start from the measured state; ``~/pause`` (std_srvs/SetBool): likewise and hold,
    or go on.

    Lifecycle: configure reads the parameters and begins to tick, in silence; activate plays;
    deactivate brings the robot to rest within its limits, and is answered when it is, and so is
    shutdown; cleanup frees everything, and all parameters may be set until it is configured again.
    Every way out ends with a final hold; Ctrl-C, SIGTERM and a terminal that is closed keep limits
    of acceleration and jerk until then, if that takes less than a second. All parameters:
    :class:`ServoConfig`.
    """

    def __init__(self, **options: Any) -> None:
        super().__init__('servo_node', **options)
        self.playing: Playing | None = None
        self._autostart = declare_fields(self, ServoConfig)['autostart']
        refuse_unknown(self, is_qos_override)
        keep(self, FIXED, False)
        self._live = LiveParameters(
            self, {'use_sim_time': 'it ticks on one clock from start to end'}
        )
        self._unfollow: Callable[[], None] = _nothing
        self._ros_time = RosClock(self)
        self._watch = QosWatch(self)
        self._status = ServoStatus(self, self._watch, self._ros_time)
        self._status.publish()

    def run(self, executor: Executor, stop: Stop) -> None:
        """Tick while configured, else wait to be, until told to stop."""
        if self._autostart:
            self.bring_up()
        while not stop.requested:
            if self.playing is None:
                executor.spin_once(timeout_sec=SPIN_S)
            else:
                self.playing.run(executor, stop)

    def close(self) -> None:
        """Send the final hold, and free everything, from whatever state."""
        if self.playing is not None:
            self.playing.close()

    # Lifecycle.

    def set_up(self) -> None:
        """Begin to tick, with the parameters as they are now."""
        config = read(self, ServoConfig)
        self.playing = playing = Playing(
            self, self._watch, self._ros_time, config, self._status, self.look
        )
        self._status.begin(playing, config.statistics)
        refuse_unknown(self)
        self._unfollow = self._live.follow(config, playing.reconfigure, playing.check)
        keep(self, FIXED, True)
        self._status.publish()

    def tear_down(self) -> None:
        """Stop well, and free everything; the next configuration counts anew."""
        playing, self.playing = self.playing, None
        self._unfollow()
        self._unfollow = _nothing
        if playing is not None:
            playing.close()
        self._status.end()
        keep(self, FIXED, False)
        self.look()

    def come_to_rest(self) -> bool:
        """Begin to come to rest within the limits, and say whether it is reached."""
        if self.playing is None:
            return True
        self.playing.deactivate()
        return self.playing.at_rest

    def on_activate(self, state: LifecycleState) -> TransitionCallbackReturn:
        """Play."""
        if self.playing is not None:
            self.playing.activate()
        return super().on_activate(state)

    def on_deactivate(self, state: LifecycleState) -> TransitionCallbackReturn:
        """Be silent; what was not brought to rest before is held where it is."""
        if self.playing is not None:
            self.playing.deactivate()
            self.playing.stand()
        return super().on_deactivate(state)


def _nothing() -> None:
    """Follow nothing."""
