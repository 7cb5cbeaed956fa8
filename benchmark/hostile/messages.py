# SPDX-License-Identifier: Apache-2.0
"""
Hostile messages: strategies for everything but chunks that comes in from a topic.

Values are drawn as recipes around a whole message, so that most get past the first check and each
check is met; stamps are distances from the instant at which the message is made. A recipe says of
which topic it is: the name that its messages are counted under.
"""

from __future__ import annotations

import struct
from dataclasses import dataclass
from typing import Any

import cv2
import numpy as np
from builtin_interfaces.msg import Time
from hypothesis import strategies as st
from rosgraph_msgs.msg import Clock
from sensor_msgs.msg import CompressedImage, Image, JointState
from std_msgs.msg import String

MS, SECOND_NS = 1_000_000, 1_000_000_000
JOINTS = ('shoulder', 'elbow')
# The ends of what builtin_interfaces/Time holds.
FIRST_NS, LAST_NS = -(2**31) * SECOND_NS, (2**31 - 1) * SECOND_NS + 999_999_999
SIDE = 128

Strategy = st.SearchStrategy[Any]
FLOATS = st.floats(allow_nan=True, allow_infinity=True)
NEAR_RAD = st.floats(0.2, 2.5)
NEAR_NS = st.integers(-600 * MS, 600 * MS)
FAR_NS = st.sampled_from([FIRST_NS, -1, 0, 1, SECOND_NS, LAST_NS])
UINT32 = st.one_of(st.integers(0, 3), st.just(2**32 - 1))
NAMES = st.one_of(
    st.just(JOINTS),
    st.just(JOINTS[::-1]),
    st.lists(st.sampled_from([*JOINTS, 'wrist', '', 'é/~']), max_size=5).map(tuple),
)


@dataclass(frozen=True)
class When:
    """
    An instant.

    :param value_ns: a distance from now, or an absolute time.
    :param spilled: a second of it is told in nanoseconds, of which there are too many then.
    """

    value_ns: int
    absolute: bool
    spilled: bool = False

    def at(self, now_ns: int) -> Any:
        """Return it as a message."""
        wanted_ns = self.value_ns if self.absolute else now_ns + self.value_ns
        sec, nanosec = divmod(min(max(wanted_ns, FIRST_NS), LAST_NS), SECOND_NS)
        if self.spilled and sec > FIRST_NS // SECOND_NS:
            sec, nanosec = sec - 1, nanosec + SECOND_NS
        return Time(sec=sec, nanosec=nanosec)


def rarely(usual: Any, hostile: Strategy) -> Strategy:
    """Return what is usual seven times of eight."""
    return st.integers(0, 7).flatmap(lambda n: hostile if n == 7 else st.just(usual))


NEAR = st.builds(When, NEAR_NS, st.just(False))
WHEN = st.one_of(
    NEAR,
    st.builds(When, NEAR_NS, st.just(False), st.booleans()),
    st.builds(When, FAR_NS, st.just(True), st.booleans()),
)
LATELY = When(-5 * MS, False)


@dataclass(frozen=True)
class JointRecipe:
    """A joint state before its stamp is known."""

    names: tuple[str, ...]
    position: tuple[float, ...]
    velocity: tuple[float, ...]
    stamp: When
    topic = 'joint_states'

    def message(self, now_ns: int) -> Any:
        """Return the message."""
        made = JointState(name=list(self.names))
        made.header.stamp = self.stamp.at(now_ns)
        made.position, made.velocity = list(self.position), list(self.velocity)
        return made


@st.composite
def joints(draw: st.DrawFn) -> JointRecipe:
    """Draw a joint state with a few fields that are not as they should be."""
    names = draw(rarely(JOINTS, NAMES))
    value = draw(rarely(NEAR_RAD, st.just(FLOATS)))
    length = draw(rarely(len(names), st.integers(0, 6)))
    speeds = draw(rarely(0, st.integers(0, 6)))
    return JointRecipe(
        names=names,
        position=tuple(draw(st.lists(value, min_size=length, max_size=length))),
        velocity=tuple(draw(st.lists(FLOATS, min_size=speeds, max_size=speeds))),
        stamp=draw(rarely(LATELY, WHEN)),
    )


@dataclass(frozen=True)
class ClockRecipe:
    """A time on /clock."""

    time: When
    topic = 'clock'

    def message(self, now_ns: int) -> Any:
        """Return the message."""
        return Clock(clock=self.time.at(now_ns))


def clocks() -> Strategy:
    """Return a strategy of times: steps of a simulator, jumps, and what is no time at all."""
    steps = st.builds(When, st.integers(0, 20 * MS), st.just(False))
    jumps = st.builds(When, st.integers(-5 * SECOND_NS, 5 * SECOND_NS), st.just(False))
    return st.builds(ClockRecipe, st.one_of(steps, jumps, WHEN))


@dataclass(frozen=True)
class TextRecipe:
    """An instruction."""

    text: str
    topic = 'instruction'

    def message(self, now_ns: int) -> Any:
        """Return the message."""
        return String(data=self.text)


def texts() -> Strategy:
    """Return a strategy of instructions."""
    encodable = st.characters(exclude_categories=['Cs'])
    return st.builds(TextRecipe, st.text(encodable, max_size=8))


@dataclass(frozen=True)
class ImageRecipe:
    """A picture, of colour or of depth, before its stamp is known."""

    topic: str
    height: int
    width: int
    encoding: str
    big_endian: int
    step: int
    length: int
    fill: int
    stamp: When

    def message(self, now_ns: int) -> Any:
        """Return the message."""
        made = Image(height=self.height, width=self.width, encoding=self.encoding)
        made.header.stamp = self.stamp.at(now_ns)
        made.is_bigendian, made.step = self.big_endian, self.step
        made.data = bytes([self.fill]) * self.length
        return made


SIDES = st.sampled_from([0, 1, 2, 63, 64, 127, SIDE, 200, 2**32 - 1])
STEPS = st.sampled_from([0, 1, 3, 384, 400, 2**32 - 1])
ENCODINGS = st.sampled_from([
    *('rgb8', 'bgr8', 'rgba8', 'bgra8', 'mono8', 'mono16', '8UC1', '8UC3', '16UC1', '32FC1'),
    *('bayer_rggb8', 'bayer_gbrg16', 'yuv422', 'yuv422_yuy2', 'nv21', '', 'rgb9', '8UC99', 'é'),
])
# Encoding and bytes of a pixel of what a camera usually gives.
COLOUR, MILLIMETRES, METRES = ('rgb8', 3), ('16UC1', 2), ('32FC1', 4)


@st.composite
def images(
    draw: st.DrawFn, topic: str = 'image', usual: tuple[tuple[str, int], ...] = (COLOUR,)
) -> ImageRecipe:
    """Draw a picture with a few fields that are not as they should be."""
    encoding, pixel_bytes = draw(st.sampled_from(usual))
    height, width = draw(rarely(SIDE, SIDES)), draw(rarely(SIDE, SIDES))
    step = draw(rarely(min(pixel_bytes * width, 2**32 - 1), STEPS))
    whole = min(step * height, SIDE * SIDE * 4)
    return ImageRecipe(
        topic=topic,
        height=height,
        width=width,
        encoding=draw(rarely(encoding, ENCODINGS)),
        big_endian=draw(rarely(0, st.integers(0, 255))),
        step=step,
        length=draw(rarely(whole, st.integers(0, SIDE * 400))),
        fill=draw(st.integers(0, 255)),
        stamp=draw(rarely(LATELY, WHEN)),
    )


def depths() -> Strategy:
    """Return a strategy of depth pictures."""
    return images('depth', (MILLIMETRES, METRES))


@dataclass(frozen=True)
class CompressedRecipe:
    """A compressed picture, of colour or of depth, before its stamp is known."""

    topic: str
    form: str
    data: bytes
    stamp: When

    def message(self, now_ns: int) -> Any:
        """Return the message."""
        made = CompressedImage(format=self.form, data=self.data)
        made.header.stamp = self.stamp.at(now_ns)
        return made


def _damaged(topic: str, forms: list[str], whole: bytes) -> Strategy:
    """Return a strategy of compressed pictures around one that is as it should be."""
    cut = st.integers(0, len(whole)).map(lambda end: whole[:end])
    changed = st.tuples(st.integers(0, len(whole) - 1), st.integers(0, 255)).map(
        lambda pair: whole[: pair[0]] + bytes([pair[1]]) + whole[pair[0] + 1 :]
    )
    data = st.one_of(st.just(whole), cut, changed, st.binary(max_size=64))
    form, stamp = rarely(forms[0], st.sampled_from(forms)), rarely(LATELY, WHEN)
    return st.builds(CompressedRecipe, st.just(topic), form, data, stamp)


def compressed() -> Strategy:
    """Return a strategy of compressed colour pictures."""
    seen = np.tile(np.linspace(0, 255, SIDE).astype(np.uint8)[:, None, None], (1, SIDE, 3))
    forms = ['rgb8; jpeg compressed bgr8', 'jpeg', 'png', '', 'tiff', 'é;;']
    return _damaged('image/compressed', forms, cv2.imencode('.jpg', seen)[1].tobytes())


def compressed_depths() -> Strategy:
    """Return a strategy of compressed depth pictures; the header tells inverse distances."""
    far = np.tile(np.linspace(0, 5000, SIDE).astype(np.uint16), (SIDE, 1))
    whole = struct.pack('<iff', 0, 10.0, 1.0) + cv2.imencode('.png', far)[1].tobytes()
    forms = [
        *('16UC1; compressedDepth png', '32FC1; compressedDepth png', '32FC1', 'mono16'),
        *('16UC1; compressedDepth rvl', 'rgb8; jpeg compressed bgr8', '', 'é;;'),
    ]
    return _damaged('depth/compressedDepth', forms, whole)
