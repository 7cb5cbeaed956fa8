# SPDX-License-Identifier: Apache-2.0
"""A model of several cameras over real DDS, with joint states of several publishers."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any

import cv2
import numpy as np
import pytest

pytest.importorskip('rclpy')
pytest.importorskip('physis_ros.msg')

from diagnostic_msgs.msg import DiagnosticArray
from rcl_interfaces.srv import SetParametersAtomically
from rclpy.lifecycle import TransitionCallbackReturn
from rclpy.parameter import Parameter
from robot_cases import POSITION, Robot
from ros_cases import picture
from sensor_msgs.msg import CompressedImage

from physis_ros.msg import ActionChunk, StreamStatus
from physis_ros.ros import conversions, qos
from physis_ros.ros.wam import WamNode
from physis_ros.ros.wam_diagnosis import stream_report

TINY = 'blocks=2,steps=2,width=8,heads=1'
GIVEN = {
    'model': f'synthetic:cameras=2,depth=1,{TINY}',
    'cameras': ['top=eye_0', 'wrist=eye_1', 'top/depth=depth'],
    'depth_transport': 'compressedDepth',
    'joint_aliases': ['shoulder=a', 'elbow=b'],
    'joint_units': ['a=deg'],
    'joint_scales': ['b=-2.0'],
    'joint_offsets': ['b=0.5'],
    'workers': 1,
}
MS = 1_000_000


def statuses(found: list[Any]) -> dict[str, Any]:
    """Return the values of the stream on the last diagnosis, and its sentence."""
    (status,) = [s for s in found[-1].status if s.name == '/wam_node: inputs']
    return {'message': status.message, **{v.key: v.value for v in status.values}}


def publish_depth(bench: Any, topic: str) -> tuple[Any, Callable[[], None]]:
    """Let a depth camera see a wall at 1.5 m; return its timer, and what publishes a picture."""
    depth_out = bench.probe.create_publisher(CompressedImage, topic, 10)
    _, png = cv2.imencode('.png', np.full((16, 16), 1500, np.uint16))
    image = CompressedImage(format='16UC1; compressedDepth png')
    image.data = bytes(12) + png.tobytes()

    def publish() -> None:
        image.header.stamp = conversions.time_message(time.time_ns())
        depth_out.publish(image)

    return bench.probe.create_timer(0.025, publish), publish


def assert_losses_are_counted(
    bench: Any, stream: Any, timer: Any, publish: Callable[[], None]
) -> None:
    """Look that each of many pictures sent at once is taken, or counted as lost."""
    source = stream.inputs.cameras['depth']
    timer.cancel()
    # What is still on its way comes.
    assert not bench.spin_until(lambda: False, 0.3)
    before, sent = source.count + source.lost, 20
    for _ in range(sent):
        publish()
    assert bench.spin_until(lambda: source.count + source.lost == before + sent, 10)
    assert source.lost > 0
    assert stream.snapshot().lost[source.topic] == source.lost
    timer.reset()


def assert_gaps_are_counted(stream: Any, camera: str) -> None:
    """Look that two pictures that their camera left out are counted; it is silent otherwise."""

    def missing() -> int:
        return int(stream_report(stream.snapshot()).values[f'missing_{camera}'])

    image = conversions.image_message(picture(16), 0, 'optical')
    found, now_ns = [], time.time_ns()
    # Enough of them for their interval to be known.
    for place in (*range(12), 14):
        image.header.stamp = conversions.time_message(now_ns + place * 10 * MS)
        stream.inputs.cameras[camera]._on_message(image)
        found.append(missing())
    assert {*found[:-1]} == {found[0]} and found[-1] == found[0] + 2


def test_I6_T15_cameras_depth_and_two_joint_publishers_make_one_observation(bench: Any) -> None:
    robot = Robot(bench, ('top', 'wrist'), (('shoulder',), ('elbow',)), size=16)
    robot.ahead_ns['wrist'] = -12 * MS
    depth = publish_depth(bench, 'top/depth/image_raw/compressedDepth')
    found = bench.collect(DiagnosticArray, '/diagnostics')
    states = bench.collect(StreamStatus, 'wam_node/stream_status', qos.LATCHED)
    chunks = bench.collect(ActionChunk, 'wam_node/action_chunk', qos.CHUNK)
    node = bench.add(WamNode, GIVEN)
    assert node.trigger_configure() is TransitionCallbackReturn.SUCCESS
    node.trigger_activate()
    assert bench.spin_until(lambda: len(chunks) >= 6, 60), states[-1]
    chunk = conversions.chunk(chunks[-1])
    stamps_ns = chunk.input_stamps_ns
    assert set(stamps_ns) == {'eye_0', 'eye_1', 'depth', 'joints'}
    assert 0 < abs(stamps_ns['eye_0'] - stamps_ns['eye_1']) <= 50 * MS
    assert chunk.observed_ns == min(stamps_ns.values()) == chunk.times.capture_ns
    assert bench.spin_until(lambda: int(statuses(found).get('frame.eye_1', 0)) > 5, 20)
    (stream,) = node.streams
    seen = stream.producer._inbox.as_of(node._ros_time.now_ns())
    # What the robot says in degrees, and turned about, comes to the model in radians.
    theirs = np.array([POSITION['shoulder'], POSITION['elbow']])
    np.testing.assert_allclose(
        seen.joint_position, [np.deg2rad(theirs[0]), (theirs[1] - 0.5) / -2.0]
    )
    distances = seen.others['depth'].frames
    assert distances.dtype == np.float32
    np.testing.assert_array_equal(distances, np.full((1, 8, 8), 1.5, np.float32))
    values = statuses(found)
    assert float(values['skew_eye_1_ms']) - float(values['skew_eye_0_ms']) > 10
    assert {'skew_joints.a_ms', 'skew_joints.b_ms'} & set(values) == set()
    assert {'skew_joints.shoulder_ms', 'skew_joints.elbow_ms'} <= set(values)
    assert int(values['frame.eye_0']) > 5
    # T1, T15: the way and the gaps of every input, and what never came.
    for name in ('eye_0', 'eye_1', 'depth', 'joints.shoulder', 'joints.elbow'):
        assert float(values[f'transfer_{name}_p50_ms']) <= float(values[f'transfer_{name}_p99_ms'])
        assert float(values[f'gap_{name}_max_ms']) > 0
    assert_losses_are_counted(bench, stream, *depth)

    client = bench.probe.create_client(
        SetParametersAtomically, 'wam_node/set_parameters_atomically'
    )
    assert bench.spin_until(client.service_is_ready, 20)
    values = (Parameter('period_ms', value=50), Parameter('camera_tolerance_ms', value=30))
    request = SetParametersAtomically.Request(parameters=[v.to_parameter_msg() for v in values])
    answer = client.call_async(request)
    assert bench.spin_until(answer.done, 20)
    assert answer.result().result.successful
    assert bench.spin_until(lambda: conversions.duration_ns(states[-1].period) == 50 * MS, 20)
    told = len(chunks)
    assert bench.spin_until(lambda: len(chunks) > told + 3, 20)

    robot.off.add('wrist')
    assert bench.spin_until(
        lambda: states[-1].state == StreamStatus.STATE_WAITING_OBSERVATION, 20
    ), states[-1]
    assert bench.spin_until(lambda: 'nothing on /wrist/image_raw' in states[-1].reason, 20)
    assert bench.spin_until(lambda: int(statuses(found).get('stale_frame.eye_1', 0)) > 0, 20)
    assert_gaps_are_counted(stream, 'eye_1')
    robot.off.clear()
    assert bench.spin_until(lambda: states[-1].state == StreamStatus.STATE_RUNNING, 20)


@pytest.mark.parametrize(
    ('given', 'words'),
    [
        ({'cameras': ['top', 'wrist']}, "cameras missing: ['eye_0', 'eye_1', 'depth']"),
        ({'cameras': []}, "expected ['eye_0', 'eye_1', 'depth'], got ['camera']"),
        ({'model': f'synthetic:{TINY}', 'cameras': ['a=eye_0', 'b=eye_1']}, "['camera']"),
    ],
)
def test_cameras_that_the_model_does_not_have_are_refused_at_configure(
    bench: Any, given: dict[str, Any], words: str
) -> None:
    node = bench.add(WamNode, {**GIVEN, **given})
    assert node.trigger_configure() is TransitionCallbackReturn.FAILURE
    assert words in str(node.refusal)
