# SPDX-License-Identifier: Apache-2.0
"""A pool driven at random beside the serial oracle."""

from __future__ import annotations

import random
import time
from collections import deque
from dataclasses import dataclass, field
from typing import NamedTuple

from engine_cases import SECOND_NS, Oracle, assert_same, inputs, local_crew, witnessed

from physis_ros.engine.config import PoolConfig
from physis_ros.engine.crew import Crew
from physis_ros.engine.door import Door
from physis_ros.engine.pool import Pool
from physis_ros.engine.result import ChunkResult
from physis_ros.errors import AdmissionRefused


class Shown(NamedTuple):
    """
    An observation, by its number, and since when a chunk may use it.

    :param version: what the pool calls it; that of the first is not told.
    """

    since_ns: int
    number: int
    version: int | None = None


@dataclass
class Turn:
    """
    A chunk, or a commit of one.

    :param number: what is committed.
    :param shown: observations of a chunk, in order; empty for a commit.
    """

    chunk: int
    number: int = 0
    shown: list[Shown] = field(default_factory=list)


class Story:
    """
    Streams of a pool, driven at random beside the oracle.

    The oracle computes a chunk when it is out: only then is it known what each step could see.

    :param config: of the pool.
    :param seed: of everything that happens.
    :param door: of the pool.
    :param crew: its workers; by default in this process, turned in the order of the seed.
    """

    def __init__(
        self,
        config: PoolConfig,
        seed: int,
        door: Door | None = None,
        crew: type[Crew] | None = None,
    ) -> None:
        self.pool = Pool(config, crew=crew or local_crew(seed), door=door)
        self.oracle = Oracle(config.model, config.seed, config.override_kv_rule)
        self.chance = random.Random(seed)
        self.epochs: dict[str, int] = {}
        self.expected: dict[tuple[str, int, int], Turn] = {}
        self.turns: dict[str, deque[Turn]] = {}
        self.entered = self.delivered = self.renewed = 0

    def open(self, name: str) -> None:
        try:
            self.pool.open_stream(name, slo_s=1.0)
        except AdmissionRefused as refused:
            # A story asks for all the pool can do: nobody is taken on while it is behind.
            if 'refused: closed' in str(refused):
                return
            raise
        self.oracle.open(name)
        self.epochs[name], self.turns[name] = 0, deque()

    def open_at_last(self, name: str) -> None:
        """Open a stream, however long nobody is taken on."""
        until_s = time.monotonic() + 20
        while name not in self.epochs:
            assert time.monotonic() < until_s, f'{name} is never taken on: {self.pool.overload}'
            self.open(name)
            self.take(self.pool.next_result(0.01))

    def close(self, name: str) -> None:
        self.pool.close_stream(name)
        self.oracle.close(name)
        del self.epochs[name]
        self._forget(name)

    def _forget(self, name: str) -> None:
        self.turns[name] = deque()
        self.expected = {key: turn for key, turn in self.expected.items() if key[0] != name}

    def commit(self, name: str) -> None:
        """Replace a chunk that is still in the window, if there is one."""
        stream, window = self.pool._streams.named(name), self.pool.spec.window
        if stream.next_chunk and self.pool.ready(name):
            oldest = max(0, stream.next_chunk - 1 - window)
            chunk = self.chance.randrange(oldest, stream.next_chunk)
            number = self.chance.randrange(1000)
            self.pool.commit(name, chunk, witnessed(number))
            self.turns[name].append(Turn(chunk, number))

    def reset(self, name: str) -> None:
        self.epochs[name] = self.pool.reset(name)
        assert self.oracle.reset(name) == self.epochs[name]
        self._forget(name)

    def enter(self, name: str) -> None:
        number = self.chance.randrange(1000)
        deadline_ns = time.monotonic_ns() + self.chance.randrange(SECOND_NS)
        chunk = self.pool.enter(name, inputs(number), deadline_ns, True)
        turn = Turn(chunk, shown=[Shown(0, number)])
        self.expected[name, self.epochs[name], chunk] = turn
        self.turns[name].append(turn)
        self.entered += 1

    def renew(self) -> None:
        """Show a newer observation to a chunk that may be in the pipe, if one can be."""
        open_to = [key for key, turn in self.expected.items()
                   if len(turn.shown) <= self.pool.renewals]  # fmt: skip
        if not self.pool.renewals or not open_to:
            return
        key, number = self.chance.choice(sorted(open_to)), self.chance.randrange(1000)
        version = self.pool.observe(key[0], key[2], inputs(number))
        if version is not None:
            self.expected[key].shown.append(Shown(time.monotonic_ns(), number, version))

    def step(self) -> None:
        """Let one thing happen, and check whatever comes out."""
        name = self.chance.choice(sorted(self.epochs))
        if self.pool.ready(name) and self.chance.random() < 0.7:
            self.enter(name)
        if self.chance.random() < 0.5:
            self.renew()
        self.take(self.pool.next_result(0.0))

    def take(self, result: ChunkResult | None) -> None:
        if result is None:
            return
        # A result of an older epoch is no longer expected: the lookup fails.
        turn = self.expected.pop((result.stream, result.epoch, result.chunk))
        while (before := self.turns[result.stream].popleft()) is not turn:
            assert not before.shown, f'chunk {before.chunk} never came'
            self.oracle.commit(result.stream, before.chunk, before.number)
        assert_same(result, self.oracle.run(result.stream, *self._used(result, turn)))
        self.delivered += 1

    def _used(self, result: ChunkResult, turn: Turn) -> list[int]:
        """Return what each step must have used: the newest that was shown before it began."""
        begun = {}
        # Workers in this process take turns with whoever shows: no showing falls into a beginning.
        for span in self.pool.chunk_spans(result.stream, result.chunk) if turn.shown[1:] else ():
            if span.block == 0:
                begun.setdefault(span.step, span.started_ns)
        steps = range(self.pool.spec.steps) if begun else [0]
        used = [[s for s in turn.shown if s.since_ns <= begun.get(d, 0)][-1] for d in steps]
        versions = [shown.version for shown in turn.shown]
        assert used[-1].version == (result.observation if result.observation in versions else None)
        self.renewed += used[-1].version is not None
        return [shown.number for shown in used]

    def enter_at_last(self, name: str) -> None:
        """Let a stream's next chunk in, as soon as its way is free."""
        until_s = time.monotonic() + 20
        while not self.pool.ready(name):
            assert time.monotonic() < until_s, f'{name} is never ready again'
            self.take(self.pool.next_result(0.0))
        self.enter(name)

    def close_with_one_each(self) -> None:
        """Let one more chunk of every stream in, whatever resets have killed, and take all."""
        for name in sorted(self.epochs):
            self.enter_at_last(name)
        self.finish()

    def finish(self) -> None:
        until_s = time.monotonic() + 20
        while self.expected:
            assert time.monotonic() < until_s, f'never came: {sorted(self.expected)}'
            self.take(self.pool.next_result(0.0))

    def quiet(self) -> None:
        """Wait until nothing is in the pipe: no commit, no pass that comes after a result."""
        self.finish()
        until_s = time.monotonic() + 20
        while set(self.epochs) - set(self.pool._streams.idle()):
            assert time.monotonic() < until_s, 'something never ends'
            assert self.pool.next_result(0.0) is None


def play(
    config: PoolConfig, seed: int, streams: int, resets: bool, commits: bool = False
) -> Story:
    """Play a story of a few hundred steps to its end."""
    story = Story(config, seed)
    with story.pool:
        story.pool.start()
        for index in range(streams):
            story.open(f'robot {index}')
        for _ in range(80):
            story.step()
            if resets and story.chance.random() < 0.06:
                story.reset(story.chance.choice(sorted(story.epochs)))
            if commits and story.chance.random() < 0.2:
                story.commit(story.chance.choice(sorted(story.epochs)))
        story.close_with_one_each()
    return story
