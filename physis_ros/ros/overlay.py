# SPDX-License-Identifier: Apache-2.0
"""
``~/overlay``: what the camera sees beside what was predicted of it, with the figures written on.

Made only while somebody looks, in a thread of its own, and no more often than a person can read:
who looks takes nothing from the chunks but the time of decoding frames. While nobody looks there
is no thread and no subscription, and nothing is kept.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence
from typing import Any

import numpy.typing as npt
from rclpy.node import Node
from sensor_msgs.msg import Image

from physis_ros.ros import conversions, qos
from physis_ros.ros.overlay_picture import Panel, drawn
from physis_ros.ros.overlay_scene import Scene, Seen
from physis_ros.ros.qos import QosWatch
from physis_ros.ros.servo_ear import ServoEar
from physis_ros.ros.stream_config import StreamNames
from physis_ros.session.produced import Produced

# Nobody reads figures that change more often.
PERIOD_S = 0.1
END_S = 1.0
# Instant of a frame, the panels, the lines.
Told = tuple[int, Sequence[Panel], Sequence[str]]


class Overlay:
    """
    One stream's overlay. Belongs to the executor's thread, but for :meth:`produced`.

    :param node: the owner.
    :param watch: makes the topic.
    :param names: of the topic.
    :param frame_id: gives the camera's frame.
    """

    def __init__(
        self, node: Node, watch: QosWatch, names: StreamNames, frame_id: Callable[[], str]
    ) -> None:
        self._node, self._stream = node, names.stream
        self._frame_id = frame_id
        self._out = watch.advertise(Image, names.own('overlay'), qos.SENSOR_OUT)
        self._news = threading.Condition()
        self._scene: Scene | None = None
        self._ear: ServoEar | None = None
        self._thread: threading.Thread | None = None

    @property
    def wanted(self) -> bool:
        """Whether somebody looks; as of the last :meth:`look`."""
        return self._scene is not None

    def look(self) -> None:
        """Look who looks, and begin or end."""
        looked_at = self._out.get_subscription_count() > 0
        if looked_at and self._scene is None:
            self._begin()
        elif self._scene is not None and not looked_at:
            self._end()
        if self._ear is not None:
            self._ear.look()

    def seen(self, stamp_ns: int, receive_ns: int, frame: npt.NDArray[Any]) -> None:
        """Take a frame of the camera."""
        scene = self._scene
        if scene is not None:
            with self._news:
                scene.seen = Seen(stamp_ns, receive_ns, frame)
                self._news.notify()

    def produced(self, produced: Produced) -> None:
        """Take a chunk and its frames."""
        scene = self._scene
        if scene is not None:
            with self._news:
                scene.produced(produced)

    def close(self) -> None:
        """Take everything away."""
        self._end()
        if self._thread is not None:
            self._thread.join(END_S)
        self._node.destroy_publisher(self._out)

    def _begin(self) -> None:
        """Begin to gather and to draw."""
        self._scene = scene = Scene()
        self._ear = ServoEar(self._node, self._stream, self._heard)
        name = f'overlay {self._stream}'
        self._thread = threading.Thread(target=self._run, args=(scene,), name=name, daemon=True)
        self._thread.start()

    def _end(self) -> None:
        """Gather and draw no more; who draws ends after the picture in hand."""
        ear, self._ear, self._scene = self._ear, None, None
        if ear is not None:
            ear.close()
        with self._news:
            self._news.notify_all()

    def _heard(self, status: Any) -> None:
        """Take the status of the servo."""
        scene = self._scene
        if scene is not None:
            with self._news:
                scene.playback = status

    def _run(self, scene: Scene) -> None:
        """Draw the newest frame of the camera, until the scene is over."""
        while (told := self._next(scene)) is not None:
            stamp_ns, panels, lines = told
            shown = drawn(panels, lines)
            self._out.publish(conversions.image_message(shown, stamp_ns, self._frame_id()))
            with self._news:
                self._news.wait_for(lambda: self._scene is not scene, PERIOD_S)

    def _next(self, scene: Scene) -> Told | None:
        """Wait for a frame, and return what there is to draw; None when the scene is over."""
        with self._news:
            self._news.wait_for(lambda: scene.seen is not None or self._scene is not scene)
            seen, scene.seen = scene.seen, None
            if self._scene is not scene or seen is None:
                return None
            return seen.stamp_ns, scene.panels(seen), scene.lines()
