#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""
What a hop costs: 5 MB of hidden state from one process to another, beside a plain copy.

Both processes are real and run the engine's own mailbox, bells and waiting. A hop begins before
the sender's call and ends when the receiver has header and view. In turn with it, in the same
process, the same bytes are copied between two ordinary buffers, and a message without a payload is
sent: what it takes is the machine's, to wake a process. The receiver always sleeps when the next
hop begins. Gloo and a queue of ``multiprocessing`` stand beside it.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import time
from collections.abc import Callable
from typing import Any

import numpy as np
import torch

from physis_ros.engine.arena import Arena
from physis_ros.engine.bell import Bell, Waiter
from physis_ros.engine.mailbox import Mailbox, Shape
from physis_ros.engine.message import Header, Kind

BAR_COPY, BAR_FIXED_US = 1.2, 60.0
SHAPE = (1, 1280, 1024)  # float32: 5.24 MB
DEPTH = 4
_PAUSE_S = 0.003
_WAIT_S = 10.0


class Wire:
    """
    Both mailboxes of two processes, there and back, in inherited memory.

    :param fds: arena and two bells; None makes them.
    """

    def __init__(self, fds: tuple[int, int, int] | None = None) -> None:
        there = Shape(DEPTH, {Kind.HIDDEN: [(SHAPE, torch.float32)]})
        back = Shape(DEPTH, {}, text=True)
        size = there.bytes + back.bytes
        self.arena = Arena.create(size) if fds is None else Arena(fds[0], size)
        near = Bell.create() if fds is None else Bell(fds[1])
        far = Bell.create() if fds is None else Bell(fds[2])
        self.fds = (self.arena.fd, near.fd, far.fd)
        self.near, self.far = near, far
        self.bells = {'near': Waiter(near), 'far': Waiter(far)}
        # A mailbox rings the other side: `far` hears of states, `near` of answers.
        self.sender = Mailbox(self.arena, 0, there, far)
        self.receiver = Mailbox(self.arena, 0, there, near)
        self.answer = Mailbox(self.arena, there.bytes, back, near)
        self.answers = Mailbox(self.arena, there.bytes, back, far)


def far_end(argv: list[str]) -> int:
    """Be the receiving process: say when each state was there."""
    way, count, *rest = argv
    torch.set_num_threads(1)
    numbers = [int(text) for text in rest]
    return {'mailbox': _far_mailbox, 'gloo': _far_gloo}[way](int(count), numbers)


def _far_mailbox(count: int, fds: list[int]) -> int:
    wire = Wire((fds[0], fds[1], fds[2]))
    wire.answer.send(Header(Kind.READY))
    for _ in range(2 * count):
        while (got := wire.receiver.receive()) is None:
            wire.bells['far'].wait(_WAIT_S)
        header, held = got
        state = wire.receiver.parts(header.kind, held)[0] if header.kind == Kind.HIDDEN else None
        at_ns = time.monotonic_ns()
        right = state is None or float(state[0, -1, -1]) == header.chunk
        held.release()
        wire.answer.send(Header(Kind.DONE, sent_ns=at_ns, flags=int(right)))
    return 0


def mailbox(count: int) -> dict[str, list[int]]:
    """Return the nanoseconds of hops, and of the plain copies and empty messages between them."""
    wire, spent = Wire(), dict[str, list[int]](mailbox=[], copy=[], empty=[])
    state, plain = torch.ones(SHAPE), [torch.ones(SHAPE) for _ in range(DEPTH)]
    with _child('mailbox', count, wire.fds):
        _answer(wire)
        for number in range(count):
            state[0, -1, -1] = number
            time.sleep(_PAUSE_S)
            start_ns = time.monotonic_ns()
            plain[number % DEPTH].copy_(state)
            spent['copy'].append(time.monotonic_ns() - start_ns)
            spent['empty'].append(_hop(wire, Header(Kind.DONE)))
            spent['mailbox'].append(_hop(wire, Header(Kind.HIDDEN, chunk=number), state))
    return spent


def _hop(wire: Wire, header: Header, *parts: torch.Tensor) -> int:
    time.sleep(_PAUSE_S)
    start_ns = time.monotonic_ns()
    if not wire.sender.send(header, parts):
        raise RuntimeError('the mailbox must take one message at a time, and was full')
    answer = _answer(wire)
    if not answer.flags:
        raise RuntimeError(f'state {header.chunk} arrived damaged')
    return answer.sent_ns - start_ns


def _answer(wire: Wire) -> Header:
    while (got := wire.answers.receive()) is None:
        wire.bells['near'].wait(_WAIT_S)
    got[1].release()
    return got[0]


class _child:  # noqa: N801, reads as a verb phrase
    """A receiving process for the length of a block."""

    def __init__(self, way: str, count: int, numbers: tuple[int, ...]) -> None:
        command = [sys.executable, __file__, '--far', way, str(count), *map(str, numbers)]
        fds = numbers if way == 'mailbox' else ()
        self._process = subprocess.Popen(command, pass_fds=fds)

    def __enter__(self) -> None:
        return

    def __exit__(self, *error: object) -> None:
        if error[0] is not None:
            self._process.kill()
        if self._process.wait(_WAIT_S) and error[0] is None:
            raise RuntimeError('the receiving process failed')


# The others.


def _far_gloo(count: int, numbers: list[int]) -> int:
    import torch.distributed as dist

    _join(1, numbers[0])
    state, stamp = torch.zeros(SHAPE), torch.zeros(1, dtype=torch.int64)
    for _ in range(count):
        dist.recv(state, 0)
        stamp[0] = time.monotonic_ns()
        dist.send(stamp, 0)
    dist.destroy_process_group()
    return 0


def _join(rank: int, port: int) -> None:
    import torch.distributed as dist

    os.environ.setdefault('GLOO_SOCKET_IFNAME', 'lo')
    dist.init_process_group('gloo', f'tcp://127.0.0.1:{port}', rank=rank, world_size=2)


def gloo(count: int) -> list[int]:
    """Return the nanoseconds of gloo's send until its recv returns."""
    import socket

    import torch.distributed as dist

    with socket.socket() as free:
        free.bind(('127.0.0.1', 0))
        port = free.getsockname()[1]
    hops = []
    state, stamp = torch.ones(SHAPE), torch.zeros(1, dtype=torch.int64)
    with _child('gloo', count, (port,)):
        _join(0, port)
        for _ in range(count):
            time.sleep(_PAUSE_S)
            start_ns = time.monotonic_ns()
            dist.send(state, 1)
            dist.recv(stamp, 1)
            hops.append(int(stamp[0]) - start_ns)
        dist.destroy_process_group()
    return hops


def _far_queue(states: Any, stamps: Any, count: int) -> None:
    for _ in range(count):
        np.frombuffer(states.get(), np.float32)
        stamps.put(time.monotonic_ns())


def queue(count: int) -> list[int]:
    """Return the nanoseconds of a put until the get has the bytes."""
    import multiprocessing

    spawn = multiprocessing.get_context('spawn')
    states: Any = spawn.Queue()
    stamps: Any = spawn.Queue()
    far = spawn.Process(target=_far_queue, args=(states, stamps, count))
    far.start()
    state, hops = np.ones(SHAPE, np.float32), []
    for _ in range(count):
        time.sleep(_PAUSE_S)
        start_ns = time.monotonic_ns()
        states.put(state.tobytes())
        hops.append(stamps.get(timeout=60.0) - start_ns)
    far.join(_WAIT_S)
    return hops


def measure(count: int, rounds: int) -> dict[str, Any]:
    """Run everything in rounds, so that all of it meets the same machine."""
    names = ('mailbox', 'copy', 'empty', 'gloo', 'queue')
    spent: dict[str, list[int]] = {name: [] for name in names}
    others: dict[str, Callable[[int], list[int]]] = {'gloo': gloo, 'queue': queue}
    for _ in range(rounds):
        # The first ones start the process and touch its pages.
        for name, values in mailbox(count + 10).items():
            spent[name] += values[10:]
        for name, way in others.items():
            spent[name] += way(count // 4 + 5)[5:]
    p50_us = {name: float(np.median(values)) / 1e3 for name, values in spent.items()}
    p99_us = {name: float(np.percentile(values, 99)) / 1e3 for name, values in spent.items()}
    bound_us = BAR_COPY * p50_us['copy'] + BAR_FIXED_US
    return {
        'bytes': int(np.prod(SHAPE)) * 4,
        'n': {name: len(values) for name, values in spent.items()},
        'p50_us': p50_us,
        'p99_us': p99_us,
        'ratio': p50_us['mailbox'] / p50_us['copy'],
        'fixed_us': p50_us['mailbox'] - p50_us['copy'],
        'bound_us': bound_us,
        'holds': p50_us['mailbox'] <= bound_us,
    }


def main() -> int:
    """Measure, print, judge."""
    if sys.argv[1:2] == ['--far']:
        return far_end(sys.argv[2:])
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument('--count', type=int, default=100, help='hops in each round')
    parser.add_argument('--rounds', type=int, default=3)
    parser.add_argument('--json', action='store_true')
    given = parser.parse_args()
    torch.set_num_threads(1)
    found = measure(given.count, given.rounds)
    for name, spent_us in found['p50_us'].items():
        print(
            f'{name:8} p50 {spent_us:7.0f} us, p99 {found["p99_us"][name]:7.0f} us, '
            f'n {found["n"][name]}'
        )
    print(
        f'{found["bytes"] / 1e6:.2f} MB: a hop is {found["ratio"]:.3f} of a plain copy, '
        f'{found["fixed_us"]:.0f} us above it; at most {found["bound_us"]:.0f} us at p50 '
        f'({BAR_COPY} copies and {BAR_FIXED_US:.0f} us)'
    )
    if given.json:
        print(json.dumps(found))
    return 0 if found['holds'] else 1


if __name__ == '__main__':
    sys.exit(main())
