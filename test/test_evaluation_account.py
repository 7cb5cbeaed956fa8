# SPDX-License-Identifier: Apache-2.0
"""
What a servo counts and what is recomputed of its recording, whatever happens to either.

In virtual time, so that a machine may be as busy as it likes: chunks come to the recorder after
ticks that were played from them, ticks come late or not at all, clocks are set.
"""

from __future__ import annotations

import json
import random
from dataclasses import replace
from pathlib import Path

import pytest
from bag_cases import CHUNK_MS, PERIOD_MS, BagMaker, at, put_chunk, put_tick
from rich.console import Console

pytest.importorskip('physis_ros.msg')

from account_cases import MS, S, Traits, World

from physis_ros.cli import main
from physis_ros.evaluation import topics
from physis_ros.evaluation.accounting import Recomputed, lives, recompute
from physis_ros.evaluation.agreement import Agreement, agreements
from physis_ros.evaluation.bag import Bag
from physis_ros.evaluation.fleet import fleet_table, join
from physis_ros.evaluation.summary import evaluate
from physis_ros.evaluation.table import summary_table
from physis_ros.output.account import PARTS

pytestmark = pytest.mark.ros
BUSY = Traits(late=0.3, stall=0.005, lag=0.3, busy=0.2, blind=0.2, old=0.1)
PART_ROWS = {f'age_{part}_ms {what}' for part in PARTS for what in ('n', 'p50', 'p99', 'max')}


def found(world: World) -> Recomputed:
    """End the servo and return what its recording gives."""
    world.end_servo()
    (life,) = lives(world.recorded())
    return recompute(life)


def rows(world: World) -> dict[str, Agreement]:
    """End the servo and return its account beside that of its recording."""
    return {row.name: row for row in agreements(found(world))}


def differing(compared: dict[str, Agreement]) -> list[Agreement]:
    """Return what is not the same."""
    return [row for row in compared.values() if row.agrees is False]


def happens(world: World, chance: random.Random) -> None:
    """Let something happen that may happen to a robot."""
    what = chance.choice(['pause', 'reset', 'kill', 'engine', 'back', 'ahead', 'set'])
    if what == 'pause':
        world.pause(True)
        world.run(chance.random())
        world.pause(False)
    elif what == 'reset':
        world.new_epoch()
        world.reset()
    elif what in ('kill', 'engine'):
        world.running = False
        world.run(chance.random() * 2.0)
        world.running = True
        (world.new_epoch if what == 'kill' else world.new_engine)()
    elif what == 'set':
        world.set(settle_ns=chance.choice([0, 300]) * MS)
    else:
        world.jump((-1 if what == 'back' else 1) * chance.randrange(1000, 9000) * MS)
    world.run(chance.random() * 2.0)


@pytest.mark.parametrize('seed', range(20))
def test_whatever_happens_no_figure_is_another_one(seed: int) -> None:
    world, chance = World(seed, BUSY), random.Random(seed)
    world.run(1.5)
    for _ in range(8):
        happens(world, chance)
    world.run(3.0)
    compared = rows(world)
    assert differing(compared) == []
    # Each tick of each age is in the recording.
    assert {compared[name].agrees for name in PART_ROWS} == {True}
    assert compared['age_buffer_ms n'].live > 0


def test_a_chunk_that_is_recorded_after_its_first_tick_was_there_before_it() -> None:
    world = World(1, Traits(lag=1.0))
    world.run(6.0)
    world.end_servo()
    recording = world.recorded()
    came = zip(recording.chunks, recording.chunk_log_ns, strict=True)
    came_ns = {chunk.chunk: log_ns for chunk, log_ns in came}
    ticks = recording.ticks
    assert sum(came_ns.get(tick.command.chunk, 0) > tick.log_ns for tick in ticks) > 20
    compared = {row.name: row for row in agreements(recompute(lives(recording)[0]))}
    assert differing(compared) == []
    assert {compared[name].agrees for name in PART_ROWS} == {True}
    assert compared['age_buffer_ms n'].live == compared['action_age_ms n'].live


def test_a_servo_that_stood_still_lost_its_ticks_and_its_clock_was_not_set() -> None:
    world = World(2, Traits())
    world.run(2.0)
    world.now_ns += 1500 * MS
    world.run(2.0)
    compared = rows(world)
    assert differing(compared) == []
    assert compared['deadline_miss lost'].live >= 74


def test_a_clock_that_is_set_ahead_while_the_robot_is_brought_to_rest() -> None:
    world = World(3, Traits())
    world.run(2.0)
    world.running = False
    world.run(0.45)
    world.pause(True)
    world.offset_ns += 100 * S
    world.run(0.5)
    compared = rows(world)
    assert differing(compared) == []
    assert 0 < compared['underrun_time_ms'].live < 1000


def test_a_camera_whose_clock_is_ahead() -> None:
    world = World(4, Traits())
    world.ahead_ns = 400 * MS
    world.run(3.0)
    compared = rows(world)
    assert differing(compared) == []
    assert compared['chunks_from_future'].live > 20


def test_two_chunks_of_one_observation_have_each_their_own_times() -> None:
    world = World(5, Traits(blind=1.0))
    world.run(4.0)
    compared = rows(world)
    assert differing(compared) == []
    assert {compared[name].agrees for name in PART_ROWS} == {True}


@pytest.mark.parametrize('after_ms', range(0, 900, 60))
def test_a_recording_that_begins_in_warm_up_counts_from_where_both_do(after_ms: int) -> None:
    world = World(6, Traits())
    world.recording = False
    world.run(after_ms / 1000)
    world.recording = True
    world.run(3.0)
    compared = rows(world)
    assert differing(compared) == []
    assert compared['ticks'].agrees is True


def test_what_the_recorder_missed_is_told_and_nothing_is_compared_across_it() -> None:
    world = World(7, Traits())
    world.run(3.0)
    world.keeps = lambda topic: topic != 'ticks'
    world.run(0.1)
    world.keeps = lambda topic: topic != 'chunks'
    world.run(0.25)
    world.keeps = lambda topic: True
    world.run(3.0)
    account = found(world)
    compared = {row.name: row for row in agreements(account)}
    assert (account.missing_ticks, account.missing_chunks) == (5, 3)
    assert differing(compared) == []
    assert compared['ticks'].agrees is compared['action_age_ms n'].agrees is True
    # What is missing may still fade out.
    assert compared['age_engine_ms n'].live - compared['age_engine_ms n'].recomputed in range(3)
    assert compared['ticks'].live < 150


def test_chunks_that_were_played_and_are_not_there_are_missed_where_no_recorder_says_so() -> None:
    world = World(8, Traits())
    world.run(3.0)
    world.keeps = lambda topic: topic != 'chunks'
    world.run(0.35)
    world.keeps = lambda topic: True
    world.kept.lost.clear()
    world.run(3.0)
    account = found(world)
    assert (account.missing_ticks, account.missing_chunks) == (0, 4)
    assert [row for row in agreements(account) if row.agrees is False] == []


def test_ticks_that_were_sent_again_are_in_their_place() -> None:
    world = World(9, Traits())
    world.run(4.0)
    ticks = world.kept.ticks
    for index in range(50, 150, 10):
        # It was lost on its way, and came after four others.
        ticks[index] = (ticks[index + 4][0] + 1, ticks[index][1])
    ticks.sort(key=lambda item: item[0])
    compared = rows(world)
    assert differing(compared) == []
    assert compared['seam_position_milli n'].agrees is True


@pytest.mark.parametrize('old', [0.0, 0.6])
def test_a_recorder_that_is_held_up_gets_ticks_seconds_after_the_chunks(old: float) -> None:
    world = World(12, Traits(old=old))
    world.run(10.0)
    ticks = world.kept.ticks
    for first in (100, 280):
        # The heartbeat of the middleware is what brings them: all at once.
        came_ns = ticks[first + 170][0]
        held = slice(first, first + 170)
        ticks[held] = [(came_ns, message) for _, message in ticks[held]]
    compared = rows(world)
    assert differing(compared) == []
    assert {compared[name].agrees for name in PART_ROWS} == {True}
    if not old:
        assert {row.agrees for row in compared.values()} == {True}


def test_a_servo_that_was_started_again_has_a_life_of_its_own() -> None:
    world = World(10, BUSY)
    for _ in range(3):
        world.run(3.0)
        world.end_servo()
        world.now_ns += 400 * MS
        world.start_servo()
    world.run(3.0)
    world.end_servo()
    found_lives = lives(world.recorded())
    assert len(found_lives) == 4
    for life in found_lives:
        assert [row for row in agreements(recompute(life)) if row.agrees is False] == []


def test_an_account_that_counts_wrongly_is_found_out() -> None:
    world = World(11, replace(BUSY, stall=0.0))
    world.run(3.0)
    taken = world.player.account._parts['engine']
    world.run(1.0)
    taken.add(1.0)
    assert 'age_engine_ms n' in {row.name for row in differing(rows(world))}


def test_what_a_recording_lacks_is_said_with_its_figures(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    maker = BagMaker(tmp_path / 'run')
    for number, ms in enumerate(range(0, 600, CHUNK_MS)):
        put_chunk(maker, number, ms)
    for ms in range(0, 700, PERIOD_MS):
        put_tick(maker, ms, begun_ms=-1)
    missed = {'/servo_node/playback': 3, '/joint_states': 20}
    for ms, chunks in ((300, {}), (500, {'/wam_node/action_chunk': 1})):
        told = json.dumps({**missed, **chunks})
        maker.put(topics.MISSING, at(ms), 'std_msgs/msg/String', data=told)
    with Bag(maker.write()) as bag:
        summary = evaluate(bag).summary
    said = 'recording incomplete: 3 playback, 1 chunk missing'
    assert summary['recording_missing'] == {'playback': 3, 'chunks': 1}
    console = Console(width=200)
    console.print(summary_table(summary))
    console.print(fleet_table(join({'arm': summary})))
    main(['account', str(tmp_path / 'run')])
    assert capsys.readouterr().out.count(said) == 3
