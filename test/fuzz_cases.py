# SPDX-License-Identifier: Apache-2.0
"""
Hostile messages: strategies for everything that comes in from a topic.

Values are drawn as recipes around a whole message, so that most get past the first check and each
check is met; stamps are distances from the instant at which the message is made.
"""

from __future__ import annotations

import math
import os
from collections import Counter
from dataclasses import dataclass
from typing import Any

from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from ros_cases import DT_NS, JOINTS, MS
from sensor_msgs.msg import CompressedImage, Image, JointState

from physis_ros.msg import ActionChunk, ChunkTimes, InputStamp
from physis_ros.output.limits import GREATEST
from physis_ros.output.verdict import ChunkReject
from physis_ros.ros.conversions import duration_message, header, time_message

# How many messages of each kind were sent: 10,000 and more of each are wanted from time to time.
SENT: Counter[str] = Counter()
# Examples of each kind; more of them, and others every time, when the variable is set.
VARIABLE = 'PHYSIS_FUZZ'
FEW = 40
FUZZ = settings(
    max_examples=int(os.environ.get(VARIABLE, FEW)),
    derandomize=VARIABLE not in os.environ,
    database=None,
    deadline=None,
    suppress_health_check=list(HealthCheck),
)

FLOATS = st.floats(allow_nan=True, allow_infinity=True)
NEAR_RAD = st.floats(0.2, 2.5)
NEAR_NS = st.integers(-600 * MS, 600 * MS)
# To the ends of what builtin_interfaces/Time holds.
FAR_NS = st.sampled_from([-(2**31) * 10**9, -1, 0, 1, 10**9, (2**31 - 1) * 10**9 + 999_999_999])
UINT32 = st.one_of(st.integers(0, 3), st.just(2**32 - 1))
NAMES = st.one_of(
    st.just(JOINTS),
    st.just(JOINTS[::-1]),
    st.lists(st.sampled_from([*JOINTS, 'wrist', '', 'é/~']), max_size=5).map(tuple),
)


@dataclass(frozen=True)
class When:
    """An instant: a distance from now, or an absolute time."""

    value_ns: int
    absolute: bool

    def at(self, now_ns: int) -> Any:
        """Return it as a message."""
        return time_message(self.value_ns if self.absolute else now_ns + self.value_ns)


WHEN = st.one_of(
    st.builds(When, NEAR_NS, st.just(False)),
    st.builds(When, NEAR_NS, st.just(False)),
    st.builds(When, FAR_NS, st.just(True)),
)


def rarely(usual: Any, hostile: Any) -> Any:
    """Return what is usual seven times of eight."""
    return st.integers(0, 7).flatmap(lambda n: hostile if n == 7 else st.just(usual))


@dataclass(frozen=True)
class ChunkRecipe:
    """An action chunk before its stamps are known."""

    epoch: int
    chunk: int
    start: When
    observed: When
    dt_ns: int
    names: tuple[str, ...]
    units: tuple[str, ...]
    horizon: int
    length: int
    fill: tuple[float, ...]
    inputs: int
    kv_rule: int
    stream: str
    taken_over: int
    taken_inputs: int

    def message(self, now_ns: int) -> ActionChunk:
        """Return the message."""
        stamp = self.observed.at(now_ns)
        fill = self.fill or (1.0,)
        return ActionChunk(
            header=header(now_ns),
            stream=self.stream,
            epoch=self.epoch,
            chunk=self.chunk,
            start=self.start.at(now_ns),
            dt=duration_message(self.dt_ns),
            joint_names=list(self.names),
            units=list(self.units),
            horizon=self.horizon,
            positions=[fill[index % len(fill)] for index in range(self.length)],
            inputs=[InputStamp(name=f'input_{n}', stamp=stamp) for n in range(self.inputs)],
            times=ChunkTimes(capture=stamp, publish=self.start.at(now_ns)),
            kv_rule=self.kv_rule,
            taken_over=self.taken_over,
            taken_over_inputs=[
                InputStamp(name=f'input_{n}', stamp=stamp) for n in range(self.taken_inputs)
            ],
        )

    def refusal(self, least_dt_ns: int, most_dt_ns: int) -> ChunkReject | None:
        """
        Return why it is refused whatever came before it; None when that depends.

        :param least_dt_ns: least distance between two steps, of a chunk of one step.
        """
        width, units = len(self.names), list(self.units)
        whole = self.length == self.horizon * width and self.horizon > 0
        known = not units or (len(units) == width and set(units) <= {'rad', 'm'})
        given = self.stream and self.inputs and self.kv_rule < 3 and self.dt_ns > 0
        steps, inputs = self.taken_over, self.taken_inputs
        taken = steps <= self.horizon and (steps > 0) == (inputs > 0)
        if not (whole and known and given and taken):
            return ChunkReject.MALFORMED
        if width != len(JOINTS):
            return ChunkReject.WRONG_WIDTH
        if set(self.names) != set(JOINTS):
            return ChunkReject.WRONG_NAMES
        if not least_dt_ns <= self.dt_ns * self.horizon or self.dt_ns > most_dt_ns:
            return ChunkReject.WRONG_DT
        used = (self.fill or (1.0,))[: self.length]
        finite = all(math.isfinite(value) and abs(value) <= GREATEST for value in used)
        return None if finite else ChunkReject.NON_FINITE


@st.composite
def chunks(draw: Any) -> ChunkRecipe:
    """Draw an action chunk with a few fields that are not as they should be."""
    names = draw(rarely(JOINTS, NAMES))
    horizon = draw(rarely(16, UINT32))
    whole = min(horizon, 32) * len(names)
    soon, seen = When(0, False), When(-50 * MS, False)
    taken_over = draw(rarely(0, UINT32))
    return ChunkRecipe(
        epoch=draw(rarely(0, UINT32)),
        chunk=draw(st.one_of(st.integers(0, 30), UINT32)),
        start=draw(rarely(soon, WHEN)),
        observed=draw(rarely(seen, WHEN)),
        dt_ns=draw(rarely(DT_NS, st.sampled_from([-DT_NS, 0, 1, 2**31 * 10**9 - 1]))),
        names=names,
        units=draw(rarely((), st.lists(st.sampled_from(['rad', 'm', '', 'deg']), max_size=4))),
        horizon=horizon,
        length=draw(rarely(whole, st.integers(0, 70))),
        fill=tuple(draw(st.lists(draw(rarely(NEAR_RAD, st.just(FLOATS))), max_size=4))),
        inputs=draw(rarely(2, st.integers(0, 3))),
        kv_rule=draw(rarely(0, st.integers(0, 255))),
        stream=draw(rarely('robot', st.sampled_from(['', 'robot', 'é']))),
        taken_over=taken_over,
        taken_inputs=draw(rarely(min(taken_over, 2), st.integers(0, 3))),
    )


@dataclass(frozen=True)
class JointRecipe:
    """A joint state before its stamp is known."""

    names: tuple[str, ...]
    position: tuple[float, ...]
    velocity: tuple[float, ...]
    stamp: When

    def message(self, now_ns: int) -> JointState:
        """Return the message."""
        made = JointState(name=list(self.names))
        made.header.stamp = self.stamp.at(now_ns)
        made.position, made.velocity = list(self.position), list(self.velocity)
        return made


@st.composite
def joints(draw: Any) -> JointRecipe:
    """Draw a joint state with a few fields that are not as they should be."""
    names = draw(rarely(JOINTS, NAMES))
    value = draw(rarely(NEAR_RAD, st.just(FLOATS)))
    length = draw(rarely(len(names), st.integers(0, 6)))
    speeds = draw(rarely(0, st.integers(0, 6)))
    return JointRecipe(
        names=names,
        position=tuple(draw(st.lists(value, min_size=length, max_size=length))),
        velocity=tuple(draw(st.lists(FLOATS, min_size=speeds, max_size=speeds))),
        stamp=draw(rarely(When(-5 * MS, False), WHEN)),
    )


@dataclass(frozen=True)
class ImageRecipe:
    """A picture before its stamp is known."""

    height: int
    width: int
    encoding: str
    big_endian: int
    step: int
    data: bytes
    stamp: When

    def message(self, now_ns: int) -> Image:
        """Return the message."""
        made = Image(height=self.height, width=self.width, encoding=self.encoding)
        made.header.stamp = self.stamp.at(now_ns)
        made.is_bigendian, made.step, made.data = self.big_endian, self.step, self.data
        return made


SIDES = st.sampled_from([0, 1, 2, 63, 64, 127, 128, 200, 2**32 - 1])
ENCODINGS = st.sampled_from([
    *('rgb8', 'bgr8', 'rgba8', 'bgra8', 'mono8', 'mono16', '8UC1', '8UC3', '16UC1', '32FC1'),
    *('bayer_rggb8', 'bayer_gbrg16', 'yuv422', 'yuv422_yuy2', 'nv21', '', 'rgb9', '8UC99', 'é'),
])


@st.composite
def images(draw: Any) -> ImageRecipe:
    """Draw a picture with a few fields that are not as they should be."""
    height, width = draw(rarely(128, SIDES)), draw(rarely(128, SIDES))
    step = draw(rarely(min(3 * width, 2**32 - 1), st.sampled_from([0, 1, 3, 384, 400, 2**32 - 1])))
    whole = min(step * height, 128 * 400)
    length = draw(rarely(whole, st.integers(0, 128 * 400)))
    return ImageRecipe(
        height=height,
        width=width,
        encoding=draw(rarely('rgb8', ENCODINGS)),
        big_endian=draw(rarely(0, st.integers(0, 255))),
        step=step,
        data=bytes([draw(st.integers(0, 255))]) * length,
        stamp=draw(rarely(When(-5 * MS, False), WHEN)),
    )


@dataclass(frozen=True)
class CompressedRecipe:
    """A compressed picture before its stamp is known."""

    form: str
    data: bytes
    stamp: When

    def message(self, now_ns: int) -> CompressedImage:
        """Return the message."""
        made = CompressedImage(format=self.form, data=self.data)
        made.header.stamp = self.stamp.at(now_ns)
        return made


def compressed(whole: bytes) -> Any:
    """
    Return a strategy of compressed pictures.

    :param whole: one that is as it should be; it is cut and changed.
    """
    forms = st.sampled_from(['jpeg', 'rgb8; jpeg compressed bgr8', 'png', '', 'tiff', 'é;;'])
    cut = st.integers(0, len(whole)).map(lambda end: whole[:end])
    changed = st.tuples(st.integers(0, len(whole) - 1), st.integers(0, 255)).map(
        lambda pair: whole[: pair[0]] + bytes([pair[1]]) + whole[pair[0] + 1 :]
    )
    data = st.one_of(st.just(whole), cut, changed, st.binary(max_size=64))
    return st.builds(CompressedRecipe, forms, data, WHEN)
