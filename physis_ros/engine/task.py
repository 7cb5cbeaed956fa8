# SPDX-License-Identifier: Apache-2.0
"""One task: a chunk of a stream, waiting at one stage of one worker."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from physis_ros.engine.message import COMMIT, FRAMES, Header, Kind

if TYPE_CHECKING:
    from torch import Tensor

    from physis_ros.engine.kv import KvRing
    from physis_ros.engine.mailbox import Held

# In place of a worker's index: handed on within the worker, or entered by the pool.
LOCAL, FROM_POOL = 0xFFFF, 0xFFFE


@dataclass(slots=True, eq=False)
class Task:
    """
    Where a chunk is and what it carries.

    :param stream: the stream's index in the pool.
    :param era: life and epoch of the stream it was born in; see :mod:`physis_ros.engine.board`.
    :param turn: place in the order of the stream's chunks and commits.
    :param deadline_ns: steady time by which the chunk should be out.
    :param frames: whether predicted frames are wanted.
    :param commit: it replaces the KV of ``chunk`` and delivers nothing.
    :param observation: version of the inputs it uses.
    :param state: hidden state, or latent at block 0; None at the very beginning.
    :param held: the mailbox slot that ``state`` lies in; None when it came from this worker.
    :param ring: the KV of its stage.
    :param source: the worker it came from, ``LOCAL`` or ``FROM_POOL``.
    :param bytes: size of what came.
    :param denoised_ns: steady time of the last step's end, 0 before.
    """

    stream: int
    era: int
    chunk: int
    turn: int
    step: int
    block: int
    deadline_ns: int
    frames: bool
    commit: bool
    observation: int
    created_ns: int
    queued_ns: int
    state: Tensor | None = None
    held: Held | None = None
    ring: KvRing | None = None
    source: int = LOCAL
    bytes: int = 0
    sent_ns: int = 0
    denoised_ns: int = 0
    decoded_ns: int = 0

    @classmethod
    def of(cls, header: Header, now_ns: int, source: int) -> Task:
        """Take over what a message said."""
        return cls(
            stream=header.stream, era=header.era, chunk=header.chunk, turn=header.turn,
            step=header.step, block=header.block, deadline_ns=header.deadline_ns,
            frames=bool(header.flags & FRAMES), commit=bool(header.flags & COMMIT),
            observation=header.observation, created_ns=header.created_ns, queued_ns=now_ns,
            source=source, bytes=header.bytes, sent_ns=header.sent_ns,
            denoised_ns=header.denoised_ns, decoded_ns=header.decoded_ns,
        )  # fmt: skip

    def header(self, kind: Kind, sent_ns: int, size: int) -> Header:
        """Say where it is now, to whoever goes on with it."""
        return Header(
            kind=kind, flags=FRAMES * self.frames | COMMIT * self.commit, stream=self.stream,
            step=self.step, block=self.block, bytes=size, sent_ns=sent_ns, era=self.era,
            chunk=self.chunk, turn=self.turn, deadline_ns=self.deadline_ns,
            observation=self.observation, created_ns=self.created_ns,
            denoised_ns=self.denoised_ns, decoded_ns=self.decoded_ns,
        )  # fmt: skip

    def lies_in(self, out: Tensor) -> bool:
        """Tell whether a block worked in place, in a mailbox slot about to be given back."""
        if self.held is None or self.state is None:
            return False
        return out.data_ptr() == self.state.data_ptr()

    def release(self) -> None:
        """Give the mailbox slot back, once what lay in it is used up."""
        if self.held is not None:
            self.held.release()
            self.held = None
