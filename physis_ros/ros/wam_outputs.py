# SPDX-License-Identifier: Apache-2.0
"""
What a stream publishes of each chunk: the chunk, the frames it expects to see, an overlay.

Called from the collector's thread. Epochs are counted on over the life of several engines: whoever
plays the chunks takes a lower number for something old.
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from dataclasses import replace

from rclpy.node import Node
from sensor_msgs.msg import Image

from physis_ros.msg import ActionChunk as ActionChunkMessage
from physis_ros.output.sketch import Quantiles, Sketch
from physis_ros.ros import conversions, qos
from physis_ros.ros.overlay import Overlay
from physis_ros.ros.qos import QosWatch
from physis_ros.ros.stream_config import StreamNames
from physis_ros.session.produced import Produced

WARM_UP_CHUNKS = 5


class WamOutputs:
    """
    The publishers for chunks and frames, and the overlay. Thread-safe.

    :param node: the owner.
    :param watch: makes the publishers.
    :param names: of the topics.
    :param frame_id: gives the camera's frame.
    :param unit: of the actions.
    :param epoch: the first one.
    """

    def __init__(
        self,
        node: Node,
        watch: QosWatch,
        names: StreamNames,
        frame_id: Callable[[], str],
        unit: str = 'rad',
        epoch: int = 0,
    ) -> None:
        self._node, self._frame_id, self._unit = node, frame_id, unit
        self._chunks = watch.advertise(ActionChunkMessage, names.own('action_chunk'), qos.CHUNK)
        self._frames = watch.advertise(Image, names.own('predicted_image'), qos.SENSOR_OUT)
        self.overlay = Overlay(node, watch, names, frame_id)
        self._lock = threading.Lock()
        self._age_ms = Sketch()
        self._base = self._epoch = epoch
        self._begun = False
        self._delivered = 0
        self._wanted = False

    @property
    def topic(self) -> str:
        """Where the chunks go."""
        return str(self._chunks.topic_name)

    @property
    def epoch(self) -> int:
        """The epoch of the last chunk published, or the first one to come."""
        return self._epoch

    @property
    def next_epoch(self) -> int:
        """The first epoch that nothing was published of."""
        return self._epoch + self._begun

    @property
    def delivered(self) -> int:
        """Chunks published since activation."""
        return self._delivered

    @property
    def warming_up(self) -> bool:
        """Whether the first chunks are still awaited."""
        return self._delivered < WARM_UP_CHUNKS

    @property
    def subscribers(self) -> int:
        """How many take the chunks."""
        return self._chunks.get_subscription_count()

    def age_figures(self) -> Quantiles:
        """Return the ages at publication [ms], warm-up left out."""
        with self._lock:
            return self._age_ms.figures()

    def new_engine(self) -> None:
        """Go on above the last epoch: a new engine counts its own from 0 again."""
        self._base = self._epoch = self.next_epoch
        self._begun = False

    def activate(self) -> None:
        """Begin to count anew."""
        with self._lock:
            self._age_ms, self._delivered = Sketch(), 0

    def frames_wanted(self) -> bool:
        """Whether somebody looks at predicted frames, here or in the overlay; as of a look."""
        return self._wanted or self.overlay.wanted

    def look(self) -> None:
        """Look who listens; asking the middleware for every chunk would cost more."""
        self._wanted = self._frames.get_subscription_count() > 0
        self.overlay.look()

    def deliver(self, produced: Produced) -> None:
        """Publish a chunk and its frames."""
        chunk = replace(produced.chunk, epoch=self._base + produced.chunk.epoch)
        self._chunks.publish(conversions.chunk_message(chunk, self._unit))
        self.overlay.produced(replace(produced, chunk=chunk))
        for frame in produced.frames if self._wanted else ():
            self._frames.publish(conversions.predicted_image_message(frame, self._frame_id()))
        with self._lock:
            self._epoch, self._begun = chunk.epoch, True
            self._delivered += 1
            if not self.warming_up:
                self._age_ms.add((chunk.times.publish_ns - chunk.observed_ns) * 1e-6)

    def close(self) -> None:
        """Take the publishers away; nothing may be delivered any more."""
        self.overlay.close()
        self._node.destroy_publisher(self._chunks)
        self._node.destroy_publisher(self._frames)
