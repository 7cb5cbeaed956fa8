# SPDX-License-Identifier: Apache-2.0
"""The overlay: right pictures and figures for who looks, and nothing at all for nobody."""

from __future__ import annotations

import threading
import time
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

pytest.importorskip('rclpy')
pytest.importorskip('physis_ros.msg')

from ros_cases import MS, steady_chunk
from sensor_msgs.msg import Image

from physis_ros.msg import PlaybackStatus
from physis_ros.ros import qos
from physis_ros.ros.overlay_picture import (
    GAP_PX,
    HEIGHT_PX,
    LINE_PX,
    PAPER,
    Panel,
    coloured,
    drawn,
)
from physis_ros.ros.overlay_scene import Scene, Seen
from physis_ros.ros.qos import QosWatch
from physis_ros.ros.servo_ear import ServoEar
from physis_ros.ros.stream_config import StreamNames
from physis_ros.ros.wam_outputs import WamOutputs
from physis_ros.session.delay import ToldDelay
from physis_ros.session.produced import Produced
from physis_ros.types import PredictedFrame

RED, BLUE = (200, 10, 10), (10, 10, 200)


def flat(colour: tuple[int, int, int], height: int = 64, width: int = 64) -> Any:
    """Return a picture of one colour."""
    return np.full((height, width, 3), colour, dtype=np.uint8)


def produced(now_ns: int, about_ms: tuple[int, ...] = (0, 100)) -> Produced:
    """Return a chunk that begins at an instant, and frames about some of its instants."""
    chunk = steady_chunk(4, (0.5, 1.0), epoch=3, now_ns=now_ns)
    frames = tuple(
        PredictedFrame('robot', 3, 4, now_ns + ms * MS, now_ns - 50 * MS, flat(BLUE))
        for ms in about_ms
    )
    return Produced(chunk, frames, ToldDelay(2, False))


def test_panels_stand_side_by_side_above_the_lines() -> None:
    made = drawn([Panel(flat(RED, 480, 640), 'seen'), Panel(flat(BLUE), 'told')], ['a', 'b', 'c'])
    assert made.shape == (HEIGHT_PX + 4 * LINE_PX, 320 + GAP_PX + 240, 3)
    middle = LINE_PX + HEIGHT_PX // 2
    assert tuple(made[middle, 160]) == RED
    assert tuple(made[middle, 320 + GAP_PX + 120]) == BLUE
    written = (made[LINE_PX + HEIGHT_PX :] != PAPER).any(axis=(1, 2)).reshape(3, LINE_PX)
    assert written.any(axis=1).all()


def test_a_long_line_is_written_whole() -> None:
    made = drawn([Panel(None, '')], ['0123456789' * 12])
    ink = np.flatnonzero((made[-LINE_PX:] != PAPER).any(axis=(0, 2)))
    assert 200 < ink[-1] < made.shape[1] - 2


def test_depth_is_grey_near_is_bright_and_what_was_not_measured_is_black() -> None:
    grey = coloured(np.array([[1.0, 4.0], [0.0, np.nan]], dtype=np.float32))[..., 0]
    assert grey[0, 0] > grey[0, 1] > grey[1, 0] == grey[1, 1] == 0
    assert not coloured(np.full((2, 2), np.inf, dtype=np.float32)).any()


def test_the_newest_frame_about_the_nearest_instant_is_shown() -> None:
    scene, now_ns = Scene(), 10**10
    seen = Seen(now_ns + 90 * MS, now_ns + 97 * MS, flat(RED))
    assert scene.panels(seen)[1] == Panel(None, 'nothing predicted yet')
    scene.produced(produced(now_ns))
    newer = produced(now_ns, (100,))
    frame = replace(newer.frames[0], observed_ns=now_ns - 20 * MS)
    scene.produced(replace(newer, frames=(frame,)))
    camera, told = scene.panels(seen)
    assert camera.title == 'camera, 7 ms on its way'
    assert told.title == 'predicted 120 ms ahead, of 10 ms later'
    at_it = scene.panels(seen._replace(stamp_ns=frame.about_ns))[1]
    assert at_it.title == 'predicted 120 ms ahead'
    assert told.picture is frame.image
    # Frames of an epoch that is over say nothing of this one.
    scene.produced(Produced(replace(newer.chunk, epoch=4), (), newer.told))
    assert scene.panels(seen)[1].picture is None


def test_the_figures_are_those_of_the_chunk_and_of_the_servo() -> None:
    scene = Scene()
    assert scene.lines() == ('no chunk yet', 'no servo heard that plays this stream', '')
    scene.produced(produced(10**10))
    status = PlaybackStatus(
        deadline_misses=3, deadline_due=250, underruns=1, chunks_late=2, chunks_rejected=4
    )
    status.last_age.nanosec, status.action_age.p50, status.action_age.p99 = 61 * MS, 60.0, 72.0
    scene.playback = status
    assert scene.lines() == (
        'chunk 3/4: horizon 400 ms, took 45 ms, 50 ms old when it was out',
        'action age 61 ms, p50 60 ms, p99 72 ms',
        'missed 3 of 250, underruns 1, chunks late 2, refused 4',
    )


def test_it_is_made_while_somebody_looks_and_costs_nothing_before_and_after(bench: Any) -> None:
    node, names = bench.probe, StreamNames('robot', plain=True)
    outputs = WamOutputs(node, QosWatch(node), names, lambda: 'camera_optical')
    overlay = outputs.overlay

    def idle() -> bool:
        """Whether nothing is kept, listened to or drawn."""
        drawing = any(thread.name == 'overlay robot' for thread in threading.enumerate())
        return not (overlay.wanted or outputs.frames_wanted() or drawing or servo.heard)

    servo = Servo(node, 'robot')
    outputs.look()
    overlay.seen(0, 0, flat(RED))
    outputs.deliver(produced(time.time_ns()))
    assert idle()
    found: list[Image] = []
    viewer = node.create_subscription(Image, 'probe/overlay', found.append, 10)

    def shown() -> bool:
        outputs.look()
        now_ns = time.time_ns()
        if overlay.wanted:
            outputs.deliver(produced(now_ns))
            overlay.seen(now_ns, now_ns, flat(RED))
        return bool(found) and servo.heard > 0

    assert bench.spin_until(shown, 20)
    assert outputs.frames_wanted()
    message = found[-1]
    assert (message.encoding, message.header.frame_id) == ('rgb8', 'camera_optical')
    picture = np.frombuffer(message.data, np.uint8).reshape(message.height, message.width, 3)
    middle = LINE_PX + HEIGHT_PX // 2
    assert tuple(picture[middle, 120]) == RED
    assert tuple(picture[middle, 240 + GAP_PX + 120]) == BLUE
    node.destroy_subscription(viewer)
    assert bench.spin_until(lambda: outputs.look() or idle(), 20)
    outputs.close()


def test_the_servo_that_plays_the_stream_is_heard_whatever_it_is_called(bench: Any) -> None:
    node, heard = bench.probe, []
    servos = [Servo(node, stream) for stream in ('other', 'robot')]
    ear = ServoEar(node, 'robot', heard.append)

    def listens() -> bool:
        ear.look()
        return all(servo.heard for servo in servos) and bool(heard)

    assert bench.spin_until(listens, 20)
    assert {status.stream for status in heard} == {'robot'}
    ear.close()
    assert bench.spin_until(lambda: not any(servo.heard for servo in servos), 20)


class Servo:
    """Publishes the status of a servo that plays a stream."""

    def __init__(self, node: Any, stream: str) -> None:
        topic = f'{stream}/servo_node/playback_status'
        self._out = node.create_publisher(PlaybackStatus, topic, qos.LATCHED)
        self._out.publish(PlaybackStatus(stream=stream))

    @property
    def heard(self) -> int:
        """How many listen to it."""
        return int(self._out.get_subscription_count())
