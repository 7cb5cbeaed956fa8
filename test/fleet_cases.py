# SPDX-License-Identifier: Apache-2.0
"""What tests of several streams share: a model node with its robots, and what the model costs."""

from __future__ import annotations

import time
from pathlib import Path
from typing import Any

import numpy as np
from rclpy.lifecycle import TransitionCallbackReturn
from ros_cases import picture
from sensor_msgs.msg import Image, JointState

from physis_ros.backbones.registry import read_spec
from physis_ros.commands.local import device_name, versions
from physis_ros.engine.profile import Link, Profile, Sizes, Timing, spec_hash
from physis_ros.msg import ActionChunk
from physis_ros.ros import conversions, qos
from physis_ros.ros.wam import WamNode
from physis_ros.srv import ListStreams

SUCCESS = TransitionCallbackReturn.SUCCESS
MODEL = 'synthetic:'
SPEC = read_spec(MODEL)
SIZE = SPEC.frames.height
NAMES = SPEC.actions.names


class Fleet:
    """
    A model node with several streams, and the robots of all of them.

    :param bench: the probe's.
    """

    def __init__(self, bench: Any, **parameters: Any) -> None:
        self.bench = bench
        given = {'model': MODEL, 'workers': 1, 'max_streams': 3, **parameters}
        self.node = bench.add(WamNode, given)
        self.chunks: dict[str, list[Any]] = {}
        self._robots: dict[str, tuple[Any, Any]] = {}
        bench.probe.create_timer(0.025, self._tick)

    def robot(self, prefix: str, camera: str = 'camera') -> None:
        """Begin to publish for a stream, and to listen to its chunks."""
        probe = self.bench.probe
        self._robots[prefix] = (
            probe.create_publisher(Image, f'{prefix}{camera}/image_raw', 10),
            probe.create_publisher(JointState, f'{prefix}joint_states', 10),
        )
        self.chunks[prefix] = self.bench.collect(
            ActionChunk, f'wam_node/{prefix}action_chunk', qos.CHUNK
        )

    def _tick(self) -> None:
        stamp_ns, rest = time.time_ns(), np.zeros(len(NAMES))
        for images, joints in self._robots.values():
            joints.publish(conversions.joint_state_message(stamp_ns, NAMES, rest, rest))
            images.publish(conversions.image_message(picture(SIZE), stamp_ns, 'eye'))

    def up(self) -> None:
        """Configure and activate."""
        assert self.node.trigger_configure() is SUCCESS, self.node.refusal
        assert self.node.trigger_activate() is SUCCESS

    def call(self, kind: Any, name: str, **request: Any) -> Any:
        """Call a service of the node."""
        client = self.bench.probe.create_client(kind, f'wam_node/{name}')
        assert self.bench.spin_until(client.service_is_ready, 60), name
        answer = client.call_async(kind.Request(**request))
        assert self.bench.spin_until(answer.done, 60), name
        self.bench.probe.destroy_client(client)
        return answer.result()

    def states(self) -> dict[str, Any]:
        """Return what the node lists."""
        return {one.stream: one for one in self.call(ListStreams, 'list_streams').streams}

    def flows(self, prefix: str, more: int = 3) -> bool:
        """Wait until so many chunks more have come."""
        told = len(self.chunks[prefix])
        return bool(self.bench.spin_until(lambda: len(self.chunks[prefix]) >= told + more, 60))

    def offered(self) -> set[str]:
        """Return the topics and services of the node."""
        node = self.node
        names = (node.get_name(), node.get_namespace())
        graph = self.bench.probe
        found = [
            *graph.get_publisher_names_and_types_by_node(*names),
            *graph.get_subscriber_names_and_types_by_node(*names),
            *graph.get_service_names_and_types_by_node(*names),
        ]
        return {name for name, _ in found}


def profile(path: Path, link_bytes_per_s: float = 1e9) -> Path:
    """Write what the model costs: twelve stages of 5 ms a chunk."""
    timings = tuple(
        Timing(kind, 1, chunks, 0.005, 0.005, 10, 0.005)
        for kind in ('first', 'inner', 'last')
        for chunks in range(1, SPEC.window + SPEC.sink + 2)
    )
    ends = tuple(Timing(kind, 1, 1, 1e-6, 1e-6, 10, 1e-6) for kind in ('encode', 'decode'))
    sizes = Sizes((10,) * SPEC.blocks, 7, 128, 20, 100, 200)
    made = Profile(
        SPEC.name, spec_hash(SPEC), device_name('cpu'), versions(), SPEC.steps, SPEC.blocks,
        sizes, (*timings, *ends), 1e-6, (Link('cpu', 1e-6, link_bytes_per_s),),
    )  # fmt: skip
    made.save(path)
    return path
