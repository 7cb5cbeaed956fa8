# SPDX-License-Identifier: Apache-2.0
"""
A one-sided, bounded mailbox between two processes (E5).

A ring of slots in shared memory with one sender and one receiver. The sender writes header and
payload straight into the receiver's slot, then publishes it by moving a counter: the two never
meet. A full mailbox is back-pressure. The receiver may use a payload where it lies, and gives the
slot back when done.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from physis_ros.engine import message
from physis_ros.engine.arena import Arena, aligned, tensor_bytes
from physis_ros.engine.bell import Bell
from physis_ros.engine.message import Header, Kind

# Words of the control area; a cache line each, as two processes write them.
_SENT, _RELEASED, _WAITING = 0, 8, 16
_CONTROL_WORDS = 24
TEXT_BYTES = 4096

Part = tuple[tuple[int, ...], torch.dtype]
Formats = Mapping[Kind, Sequence[Part]]


@dataclass(frozen=True)
class Shape:
    """
    Size of a mailbox.

    :param depth: slots.
    :param formats: for each kind with a payload, the tensors it consists of.
    :param text: room for text messages as well.
    """

    depth: int
    formats: Formats
    text: bool = False

    @property
    def payload_bytes(self) -> int:
        """Room for the largest payload, text included."""
        sizes = [sum(aligned(tensor_bytes(*part)) for part in p) for p in self.formats.values()]
        return max([TEXT_BYTES if self.text else 0, *sizes])

    @property
    def slot_bytes(self) -> int:
        """One header and one payload."""
        return message.BYTES + self.payload_bytes

    @property
    def bytes(self) -> int:
        """The whole mailbox."""
        return _CONTROL_WORDS * 8 + self.depth * self.slot_bytes


class Mailbox:
    """
    One end of a mailbox; a process uses it either to send or to receive.

    :param arena: the pool's memory.
    :param offset: where this mailbox begins in it.
    :param shape: its size.
    :param bell: the other side's doorbell.
    """

    def __init__(self, arena: Arena, offset: int, shape: Shape, bell: Bell) -> None:
        self._words = arena.words(offset, _CONTROL_WORDS)
        self._depth, self._bell, self._buffer = shape.depth, bell, arena.buffer
        first = offset + _CONTROL_WORDS * 8
        self._headers = [first + i * shape.slot_bytes for i in range(shape.depth)]
        self._text_bytes = shape.payload_bytes
        self._parts: dict[int, list[tuple[Tensor, ...]]] = {
            int(kind): [_views(arena, at + message.BYTES, parts) for at in self._headers]
            for kind, parts in shape.formats.items()
        }
        self._sent = self._words[_SENT]
        self._taken = self._words[_SENT]
        self._held = [Held(self) for _ in range(shape.depth)]
        self._released = self._words[_RELEASED]

    # Sender's side.

    def has_room(self) -> bool:
        """Tell whether a slot is free; if not, the receiver will ring when one is."""
        if self._sent - self._words[_RELEASED] < self._depth:
            return True
        self._words[_WAITING] = 1
        return self._sent - self._words[_RELEASED] < self._depth

    def send(self, header: Header, parts: Sequence[Tensor] = ()) -> bool:
        """
        Leave a message; one copy of the payload, no waiting.

        :returns: False when full; nothing was done then.
        """
        if not self.has_room():
            return False
        slot = self._sent % self._depth
        if parts:
            for view, part in zip(self._parts[header.kind][slot], parts, strict=False):
                view.copy_(part)
        self._publish(header, slot)
        return True

    def send_text(self, header: Header, text: str) -> bool:
        """Leave a message whose payload is text, cut to what fits."""
        if not self.has_room():
            return False
        slot = self._sent % self._depth
        data = text.encode()[: self._text_bytes]
        at = self._headers[slot] + message.BYTES
        self._buffer[at : at + len(data)] = data
        self._publish(header._replace(bytes=len(data)), slot)
        return True

    def _publish(self, header: Header, slot: int) -> None:
        header.pack_into(self._buffer, self._headers[slot])
        self._sent += 1
        # x86-64 keeps stores in order: whoever sees the new count sees the payload. The count is
        # one aligned 8-byte store. The arena refuses other processors: a receiver polls the count
        # without a system call, so the doorbell orders nothing for it.
        self._words[_SENT] = self._sent
        self._bell.ring()

    # Receiver's side.

    def has_mail(self) -> bool:
        """Tell whether a message waits."""
        return self._taken != self._words[_SENT]

    def receive(self) -> tuple[Header, Held] | None:
        """Return the next message and the hold on its slot; None when there is none."""
        if not self.has_mail():
            return None
        slot = self._taken % self._depth
        self._taken += 1
        held = self._held[slot]
        held.slot, held.free = slot, False
        return message.unpack(self._buffer, self._headers[slot]), held

    def skip(self) -> None:
        """Take nothing of what was sent so far: it was for a predecessor in this place."""
        self._taken = self._released = self._words[_RELEASED] = self._words[_SENT]
        self._bell.ring()

    def parts(self, kind: int, held: Held) -> tuple[Tensor, ...]:
        """Return the payload where it lies; valid until the hold is released."""
        return self._parts[kind][held.slot]

    def text(self, header: Header, held: Held) -> str:
        """Return a text payload."""
        at = self._headers[held.slot] + message.BYTES
        return bytes(self._buffer[at : at + header.bytes]).decode(errors='replace')

    def give_back(self) -> None:
        """Free the slots released so far, in order; wake a sender that waits for one."""
        before = self._released
        while self._released < self._taken and self._held[self._released % self._depth].free:
            self._released += 1
        if self._released == before:
            return
        self._words[_RELEASED] = self._released
        if self._words[_WAITING]:
            self._words[_WAITING] = 0
            self._bell.ring()


class Held:
    """A received slot in use; slots are freed in the order they came."""

    __slots__ = ('_mailbox', 'free', 'slot')

    def __init__(self, mailbox: Mailbox) -> None:
        self._mailbox, self.slot, self.free = mailbox, 0, True

    def release(self) -> None:
        """Say that the payload is used up."""
        self.free = True
        self._mailbox.give_back()


def _views(arena: Arena, offset: int, parts: Sequence[Part]) -> tuple[Tensor, ...]:
    views = []
    for shape, dtype in parts:
        views.append(arena.tensor(offset, shape, dtype))
        offset += aligned(tensor_bytes(shape, dtype))
    return tuple(views)
