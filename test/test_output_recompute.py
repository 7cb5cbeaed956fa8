# SPDX-License-Identifier: Apache-2.0
"""Figures recomputed from what is on the topics equal the live ones, whatever happened."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
from output_cases import MS, chunk, player

from physis_ros.output.account import Account
from physis_ros.output.figures import Figures
from physis_ros.session.player import Player
from physis_ros.types import Play


class Tape:
    """Takes down what a player hears and says, as the topics carry it."""

    def __init__(self, made: Player) -> None:
        self.player = made
        self.items: list[tuple[Any, ...]] = []

    def offer(self, number: int, now_ms: int, ahead_ms: int = 20, **values: Any) -> None:
        steps = np.sin(np.arange(16) / 5 + number)
        offered = chunk(number, now_ms + ahead_ms, steps, **values)
        self.items.append((offered, self.player.offer(offered, now_ms * MS)))

    def tick(self, now_ms: float, late_ms: float = 0) -> None:
        now_ns = round(now_ms * MS)
        late_ns = round(late_ms * MS)
        command = self.player.tick(now_ns, now_ns - late_ns)
        if command.age_ns is None:
            command = replace(command, epoch=-1)  # a recorded tick tells the epoch of chunks only
        self.items.append((command, late_ns))

    def recomputed(self) -> Figures:
        book = Account(self.player.config.account)
        for first, second in self.items:
            if isinstance(second, int):
                book.tick(first, second)
            else:
                book.chunk(first, second)
        return book.figures()


def run(tape: Tape, begin_ms: int, end_ms: int, epoch: int = 0, chunks: bool = True) -> None:
    """Tick at 200 Hz with a chunk each 100 ms, every third of them late."""
    for now in range(begin_ms, end_ms, 5):
        tape.player.measured(np.zeros(2), now * MS)
        if chunks and now % 100 == 0:
            number, ahead = now // 100, -40 if now % 300 == 0 else 20
            seen = {'observed_ms': now - 120, 'joints_ms': now - 80, 'publish_ms': now - 1}
            tape.offer(number, now, ahead, epoch=epoch, **seen)
        tape.tick(now, late_ms=(now % 7) / 2)


def test_figures_are_equal_over_a_pause_a_jump_back_and_a_dead_engine():
    tape = Tape(player(settle_ns=200 * MS, max_action_age_ns=400 * MS))
    run(tape, 0, 1000)
    for _ in range(50):
        tape.tick(995)
    tape.offer(3, 1000)
    run(tape, 1000, 2000, chunks=False)
    run(tape, 2000, 3000, epoch=1)
    assert tape.player.account.figures() == tape.recomputed()
    live = tape.player.account.figures()
    assert live.misses
    assert live.underruns.count
    assert live.chunks.late
    assert live.chunks.rejected == {'out_of_order': 1}
    assert live.paused_ticks == 50
    assert live.age_ms.buffer.n == live.age_ms.worst.n == live.age_ms.inputs['joints'].n
    run(tape, 500, 1500, epoch=2)
    live = tape.player.account.figures()
    assert live == tape.recomputed()
    assert live.window == 1
    assert {item[0].play for item in tape.items if isinstance(item[1], int)} == set(Play)


def test_what_is_played_from_the_older_of_two_chunks_of_one_observation_has_its_times():
    tape = Tape(player())
    tape.offer(0, 100, 0, observed_ms=50, publish_ms=90)
    tape.offer(1, 110, 200, observed_ms=50, publish_ms=105)
    tape.tick(150)
    assert tape.player.account.figures().age_ms.buffer.max == 60.0
    tape.tick(320)
    assert tape.player.account.figures().age_ms.buffer.max == 320.0 - 105.0
