# SPDX-License-Identifier: Apache-2.0
"""The one-sided mailbox: order, fullness, slots given back, wake-ups (E4, E5)."""

import select
import threading
import time

import torch

from physis_ros.engine.arena import Arena
from physis_ros.engine.bell import Bell, Waiter
from physis_ros.engine.mailbox import Mailbox, Shape
from physis_ros.engine.message import Header, Kind

HIDDEN = ((1, 5, 7), torch.float32)
RESULT = [((1, 2), torch.float32), ((1, 3), torch.uint8)]


class Ends:
    """Both ends of a mailbox."""

    def __init__(self, depth: int, text: bool = False) -> None:
        shape = Shape(depth, {Kind.HIDDEN: [HIDDEN], Kind.RESULT: RESULT}, text)
        arena = Arena.create(shape.bytes + 64)
        self.sender_bell, self.receiver_bell = Bell.create(), Bell.create()
        self.sender = Mailbox(arena, 64, shape, self.receiver_bell)
        self.receiver = Mailbox(arena, 64, shape, self.sender_bell)

    def send(self, number: int) -> bool:
        return self.sender.send(Header(Kind.HIDDEN, chunk=number), [hidden(number)])


def hidden(number: int) -> torch.Tensor:
    return torch.full(HIDDEN[0], float(number))


def rung(bell: Bell) -> bool:
    ready, _, _ = select.select([bell.fd], [], [], 0)
    bell.clear()
    return bool(ready)


def test_messages_come_whole_and_in_order() -> None:
    ends = Ends(depth=3)
    for number in range(20):
        assert ends.send(number)
        header, held = ends.receiver.receive()
        assert header.chunk == number
        assert torch.equal(ends.receiver.parts(header.kind, held)[0], hidden(number))
        held.release()
    assert ends.receiver.receive() is None


def test_a_full_mailbox_takes_nothing_and_loses_nothing() -> None:
    ends = Ends(depth=2)
    assert [ends.send(number) for number in range(4)] == [True, True, False, False]
    first, second = ends.receiver.receive(), ends.receiver.receive()
    assert not ends.send(9), 'received but not released is still full'
    second[1].release()
    assert not ends.send(9), 'slots are freed in order'
    assert torch.equal(ends.receiver.parts(Kind.HIDDEN, first[1])[0], hidden(0))
    first[1].release()
    assert ends.send(9)
    assert ends.send(10)
    assert not ends.send(11)
    assert ends.receiver.receive()[0].chunk == 9


def test_bells_ring_for_a_message_and_for_a_slot_waited_for() -> None:
    ends = Ends(depth=1)
    assert not rung(ends.receiver_bell)
    ends.send(1)
    assert rung(ends.receiver_bell)
    ends.receiver.receive()[1].release()
    assert not rung(ends.sender_bell), 'nobody waited'
    ends.send(2)
    assert not ends.send(3)
    ends.receiver.receive()[1].release()
    assert rung(ends.sender_bell)


def test_results_of_several_parts_and_text() -> None:
    ends = Ends(depth=2, text=True)
    actions, frames = torch.tensor([[1.5, 2.5]]), torch.tensor([[7, 8, 9]], dtype=torch.uint8)
    ends.sender.send(Header(Kind.RESULT), [actions, frames])
    ends.sender.send_text(Header(Kind.FAILED, stream=3), 'grün')
    header, held = ends.receiver.receive()
    got = ends.receiver.parts(header.kind, held)
    assert torch.equal(got[0], actions)
    assert torch.equal(got[1], frames)
    header, held = ends.receiver.receive()
    said = ends.receiver.text(header, held)
    assert (header.kind, header.stream, said) == (Kind.FAILED, 3, 'grün')


def test_two_threads_that_never_meet() -> None:
    ends = Ends(depth=2)
    count, until_s = 3000, time.monotonic() + 60

    def send() -> None:
        waiter = Waiter(ends.sender_bell)
        for number in range(count):
            while not ends.send(number) and time.monotonic() < until_s:
                waiter.wait(0.01)

    sender = threading.Thread(target=send)
    sender.start()
    waiter = Waiter(ends.receiver_bell)
    for number in range(count):
        while (got := ends.receiver.receive()) is None:
            assert time.monotonic() < until_s, f'{number} of {count} messages'
            waiter.wait(0.01)
        header, held = got
        assert header.chunk == number
        assert float(ends.receiver.parts(header.kind, held)[0][0, 4, 6]) == number
        held.release()
    sender.join(60)
    assert not sender.is_alive()
