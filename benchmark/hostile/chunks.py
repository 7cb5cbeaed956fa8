# SPDX-License-Identifier: Apache-2.0
"""Hostile action chunks: recipes around a whole one, and why each must be refused."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

from hypothesis import strategies as st

from hostile.messages import (
    FLOATS,
    JOINTS,
    MS,
    NAMES,
    NEAR_RAD,
    UINT32,
    WHEN,
    When,
    rarely,
)
from physis_ros.msg import ActionChunk, ChunkTimes, InputStamp
from physis_ros.output.limits import GREATEST
from physis_ros.output.verdict import ChunkReject
from physis_ros.ros.conversions import duration_message, header

DT_NS = 25 * MS


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
    topic = 'action_chunk'

    def message(self, now_ns: int) -> Any:
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


WHOLE = ChunkRecipe(
    epoch=0,
    chunk=0,
    start=When(0, False),
    observed=When(-50 * MS, False),
    dt_ns=DT_NS,
    names=JOINTS,
    units=(),
    horizon=16,
    length=32,
    fill=(1.0,),
    inputs=2,
    kv_rule=0,
    stream='robot',
    taken_over=0,
    taken_inputs=0,
)


@st.composite
def chunks(draw: st.DrawFn) -> ChunkRecipe:
    """Draw an action chunk with a few fields that are not as they should be."""
    names = draw(rarely(JOINTS, NAMES))
    horizon = draw(rarely(16, UINT32))
    whole = min(horizon, 32) * len(names)
    taken_over = draw(rarely(0, UINT32))
    return ChunkRecipe(
        epoch=draw(rarely(0, UINT32)),
        chunk=draw(st.one_of(st.integers(0, 30), UINT32)),
        start=draw(rarely(WHOLE.start, WHEN)),
        observed=draw(rarely(WHOLE.observed, WHEN)),
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
