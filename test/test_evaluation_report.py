# SPDX-License-Identifier: Apache-2.0
"""What is made of a recording: summary, report, animation; and its account beside the live one."""

from __future__ import annotations

import json
import math
import re
import shutil
from dataclasses import replace
from html.parser import HTMLParser
from pathlib import Path
from types import SimpleNamespace
from typing import Any, NamedTuple

import numpy as np
import pytest
from bag_cases import (
    CHUNK_MS,
    CONFIGURATION,
    MS,
    PERIOD_MS,
    BagMaker,
    at,
    put_chunk,
    put_tick,
    put_times,
    write_bag,
)
from PIL import Image

from physis_ros.cli import main
from physis_ros.errors import BagError
from physis_ros.evaluation import products, topics
from physis_ros.evaluation.accounting import Mark, Recomputed, lives, recompute
from physis_ros.evaluation.agreement import OF_CHUNKS, agreements
from physis_ros.evaluation.bag import Bag
from physis_ros.evaluation.recording import read
from physis_ros.evaluation.waterfall import DECODING, Slice, read_slices
from physis_ros.output.account import PARTS, Account, AccountConfig
from physis_ros.output.figures import Figures
from physis_ros.output.sketch import Quantiles

# What the first statuses did not have.
LATER = (
    'deadline_miss_causes', 'underrun_time', 'chunks_from_future', 'output_interval',
    'response_latency', 'input_age', 'tick_late', *(f'age_{part}' for part in PARTS),
)  # fmt: skip
SECTIONS = (
    'Figures', 'Tracking error', 'Action age', 'Where the age comes from',
    'Action age over time', 'Buffer depth', 'One chunk', 'Commanded and measured joints',
    'Predicted frames', 'Consistency', 'Live and recomputed', 'Configuration',
)  # fmt: skip


@pytest.fixture(scope='module')
def made(tmp_path_factory: pytest.TempPathFactory) -> products.Products:
    folder = tmp_path_factory.mktemp('out')
    bag = write_bag(folder / 'run', gap_ms=(600, 620))
    shutil.copy(bag / 'run.mcap', folder / 'run.mcap')
    return products.write(folder)


class Balance(HTMLParser):
    """Counts open elements, and notes what would be loaded from elsewhere."""

    VOID = ('meta', 'img', 'br', 'link')

    def __init__(self) -> None:
        super().__init__()
        self.open: list[str] = []
        self.foreign: list[str] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        if tag not in self.VOID:
            self.open.append(tag)
        for name, value in attrs:
            if name in ('src', 'href') and value and not value.startswith(('data:', '#')):
                self.foreign.append(value)

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag


def test_everything_is_written_beside_the_recording(made: products.Products):
    assert [path.name for path in made.files] == [
        'run.mcap', 'summary.json', 'report.html', 'predicted.gif',
    ]  # fmt: skip
    folder = made.files[0].parent
    assert json.loads((folder / 'summary.json').read_text()) == made.summary


def test_the_report_is_one_page_that_loads_nothing(made: products.Products):
    text = made.files[2].read_text()
    page = Balance()
    page.feed(text)
    assert page.open == []
    assert page.foreign == []
    assert re.findall(r'<h2>(.*?)</h2>', text) == list(SECTIONS)
    assert text.count('<svg') == 7
    assert 'Tracking error 40.0 mm' in text
    assert '5 of 475 due' in text


def test_the_animation_has_a_picture_for_every_compared_frame(made: products.Products):
    with Image.open(made.files[3]) as picture:
        # Even grey frames 4 levels apart: equal neighbours are merged by the encoder.
        assert 2 <= picture.n_frames <= made.summary['frames_compared']
        assert picture.info['loop'] == 0


def test_a_folder_that_cannot_be_written_is_named(tmp_path: Path, monkeypatch):
    write_bag(tmp_path / 'run', seconds=0.4)
    (tmp_path / 'run_report' / 'summary.json').mkdir(parents=True)
    with pytest.raises(BagError, match='cannot write into'):
        products.write(tmp_path / 'run', report=False)


def test_nothing_is_written_among_the_files_of_a_recording(tmp_path: Path):
    bag = write_bag(tmp_path / 'run', seconds=0.4)
    before = sorted(bag.iterdir())
    made = products.write(bag, report=False)
    assert sorted(bag.iterdir()) == before
    assert tmp_path / 'run_report' / 'summary.json' in made.files
    assert products.place(bag / 'run.mcap') == bag


def test_a_trace_that_was_cut_short_is_still_read(tmp_path: Path):
    lines = [
        '[',
        '{"ph": "M", "name": "thread_name", "pid": 1, "tid": 0, "args": {}},',
        '{"ph": "X", "name": "c3 d1 b2", "tid": 1, "ts": 10.0, "dur": 4.0, '
        '"args": {"epoch": 0, "chunk": 3, "step": 1, "block": 2}},',
        '{"ph": "X", "name": "c3 decode", "tid": 1, "ts": 20.0, "dur": 1.0, '
        '"args": {"epoch": 0, "chunk": 3, "step": 3, "block": 6}},',
        '{"ph": "X", "name": "c4 d0 b',
    ]
    (tmp_path / 'trace.json').write_text('\n'.join(lines))
    assert read_slices(tmp_path / 'trace.json') == {
        (0, 3): [Slice(1, 1, 2, 10.0, 4.0), Slice(1, DECODING, 6, 20.0, 1.0)]
    }
    assert read_slices(tmp_path / 'none.json') == {}


def test_counts_must_be_equal_and_quantiles_close(tmp_path: Path):
    found = recomputed(write_bag(tmp_path / 'run'))
    figures = found.figures
    agrees = compared(
        found,
        chunks_accepted=7,
        underrun_rungs=[Count('ramp', 2)],
        underrun_reasons=[Count('expired', 1)],
        chunks_late=-3,
        steps_skipped=figures.chunks.steps_skipped + 99,
        deadline_miss_causes=[Count('old', 2)],
        underrun_time=SimpleNamespace(sec=1, nanosec=0),
        input_age=[],
        tick_late=Spread(figures.tick_late_us, max=1.0),
        action_age=Spread(figures.age_ms.worst, p99=0.98 * 196.0),
        servo_period_error=Spread(figures.period_error_us, p50=1.0),
        seam_position=Spread(figures.seam_position, n=1),
    )
    assert {name for name, same in agrees.items() if not same} == {
        'chunks_accepted',
        'underrun_ramp',
        'underrun_reason expired',
        'chunks_late',
        'steps_skipped',
        'action_age_ms p99',
        'servo_period_error_us p50',
        'seam_position_milli n',
        'deadline_miss old',
        'underrun_time_ms',
        *(f'input_age camera ms {part}' for part in ('n', 'p50', 'p90', 'p99', 'max')),
        'tick_late_us max',
        # Nothing is said of the times of chunks, where others were taken.
        *(name for name in agrees if name.startswith(OF_CHUNKS)),
    }
    assert {same for name, same in agrees.items() if name.startswith(OF_CHUNKS)} == {None}
    # More than that is left open: the servo may have been held up.
    assert agrees['steps_skipped'] is None


def test_the_parts_of_an_age_and_the_times_of_chunks_are_compared_where_the_same_were_taken(
    tmp_path: Path,
):
    found = recomputed(write_bag(tmp_path / 'run'))
    figures = found.figures
    agrees = compared(
        found,
        age_engine=Spread(figures.age_ms.engine, p90=61.0),
        response_latency=Spread(figures.chunks.response_ms, p50=1.0),
    )
    differing = {'age_engine_ms p90', 'response_latency_ms p50'}
    assert {name for name, same in agrees.items() if not same} == differing
    assert set(OF_CHUNKS) <= {name.rpartition(' ')[0] for name in agrees}


def test_what_an_older_servo_does_not_tell_is_not_held_against_it(tmp_path: Path):
    found = recomputed(write_bag(tmp_path / 'run', gap_ms=(500, 600)))
    assert found.figures.misses_by_cause
    older = status(found.figures)
    for name in LATER:
        delattr(older, name)
    nothing = Account(AccountConfig(1, 1, 1)).figures()
    first, last = Mark(status(nothing), nothing, 0, 0), Mark(older, found.figures, 0, 0)
    agrees = {row.name: row.agrees for row in agreements(replace(found, first=first, last=last))}
    assert False not in agrees.values()
    assert agrees['deadline_miss chunk_late'] is agrees['underrun_time_ms'] is None
    assert agrees['ticks'] is agrees['underrun_reason chunk_late'] is True


def test_a_servo_that_was_started_again_has_an_account_for_each_life(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
):
    maker = BagMaker(tmp_path / 'run')
    kind = 'std_msgs/msg/String'
    maker.put('/demo/configuration', at(-5), kind, data=json.dumps(CONFIGURATION))
    for number, ms in enumerate(range(0, 1500, CHUNK_MS)):
        put_chunk(maker, number, ms)
    for ms in range(0, 600, PERIOD_MS):
        put_tick(maker, ms, begun_ms=-1000)
    # Chunks 6 and 7 come while there is no servo; 8 comes at 880 ms.
    for ms in range(900, 1500, PERIOD_MS):
        put_tick(maker, ms, begun_ms=870)
    with Bag(maker.write()) as bag:
        recording = read(bag, topics.find(bag))
    one, two = (recompute(life).figures for life in lives(recording))
    assert [figures.chunks.accepted for figures in (one, two)] == [6, 7]
    assert [figures.ticks for figures in (one, two)] == [125, 150]
    assert one.misses_by_cause == two.misses_by_cause == {}
    # As one life, 75 ticks would have been lost between.
    assert recompute(recording).figures.misses_by_cause == {'lost': 75}
    assert main(['account', str(tmp_path / 'run'), '--json']) == 0
    found = json.loads(capsys.readouterr().out)
    ticks = {name: rows[0]['recomputed'] for name, rows in found.items()}
    assert ticks == {'life 1': 125, 'life 2': 150}


def test_nothing_is_said_of_what_was_measured_before_the_recording(tmp_path: Path):
    found = recomputed(write_bag(tmp_path / 'run'))
    assert found.last is None
    assert {row.agrees for row in agreements(found)} == {None}
    told = status(found.figures, ticks=10**6, action_age=Spread(n=10**6))
    base, last = (Mark(told, found.figures, 0, 0) for _ in range(2))
    late = replace(found, first=base, settled=base, last=last)
    agrees = {row.name: row.agrees for row in agreements(late)}
    assert agrees['ticks'] is agrees['action_age_ms n'] is True
    assert agrees['action_age_ms p50'] is agrees['action_age_ms max'] is None
    assert {row.agrees for row in agreements(replace(late, settled=None))} == {None}


def test_messages_that_are_no_chunks_are_counted_and_passed_over(tmp_path: Path):
    maker = BagMaker(tmp_path / 'run')
    names = ['shoulder', 'elbow', 'wrist']
    common = {'stream': 'arm', 'joint_names': names, 'dt': maker.duration(25 * MS), 'horizon': 1}
    kind = 'physis_ros/msg/ActionChunk'
    inputs = [maker.make('physis_ros/msg/InputStamp', name='camera', stamp=maker.time(at(0)))]
    times = put_times(maker, 0)
    start = maker.time(at(100))
    sound = {'positions': np.zeros(3), 'inputs': inputs, 'times': times, 'start': start}
    maker.put('/wam_node/action_chunk', at(80), kind, **common, **sound)
    maker.put('/wam_node/action_chunk', at(81), kind, **common, positions=np.zeros(2))
    for number, ms in enumerate((0, 100)):
        put_chunk(maker, number, ms)
    for ms in range(0, 300, PERIOD_MS):
        put_tick(maker, ms)
    figures = recomputed(maker.write()).figures
    assert figures.chunks.rejected == {'wrong_width': 1, 'malformed': 1}
    assert figures.chunks.accepted == 2


def recomputed(path: Path) -> Recomputed:
    with Bag(path) as bag:
        return recompute(read(bag, topics.find(bag)))


class Count(NamedTuple):
    """A named count of a status."""

    name: str
    count: int


class Spread:
    """Quantiles of a status."""

    def __init__(self, figures: Quantiles | None = None, **told: float) -> None:
        for name in ('n', 'p50', 'p90', 'p99', 'p999', 'max'):
            value = getattr(figures, name, None)
            setattr(self, name, told.get(name, math.nan if value is None else value))


def status(figures: Figures, **changes: Any) -> Any:
    """Return a status that tells the figures, but for changes."""
    chunks, underruns = figures.chunks, figures.underruns
    told = {
        'ticks': figures.ticks,
        'deadline_due': figures.due,
        'deadline_misses': figures.misses,
        'underruns': underruns.count,
        'underrun_ticks': underruns.ticks,
        'underrun_rungs': [Count(*item) for item in underruns.by_rung.items()],
        'underrun_reasons': [Count(*item) for item in underruns.by_reason.items()],
        'deadline_miss_causes': [Count(*item) for item in figures.misses_by_cause.items()],
        'underrun_time': SimpleNamespace(sec=0, nanosec=underruns.time_ns),
        'longest_underrun': SimpleNamespace(sec=0, nanosec=underruns.longest_ns),
        'chunks_received': chunks.accepted + sum(chunks.rejected.values()),
        'chunks_accepted': chunks.accepted,
        'chunks_late': chunks.late,
        'chunks_superseded': chunks.superseded,
        'chunks_rejected': sum(chunks.rejected.values()),
        'reject_reasons': [Count(*item) for item in chunks.rejected.items()],
        'steps_skipped': chunks.steps_skipped,
        'chunks_from_future': chunks.future_inputs,
        'output_interval': Spread(chunks.interval_ms),
        'response_latency': Spread(chunks.response_ms),
        'action_age': Spread(figures.age_ms.worst),
        'input_age': [
            SimpleNamespace(name=name, quantiles=Spread(figure))
            for name, figure in figures.age_ms.inputs.items()
        ],
        **{f'age_{part}': Spread(getattr(figures.age_ms, part)) for part in PARTS},
        'tick_late': Spread(figures.tick_late_us),
        'servo_period_error': Spread(figures.period_error_us),
        'seam_position': Spread(figures.seam_position),
        'seam_velocity': Spread(figures.seam_velocity),
    }
    return SimpleNamespace(**{**told, **changes})


def compared(found: Recomputed, **changes: Any) -> dict[str, bool | None]:
    """Compare a recording with a status that tells the same but for changes."""
    nothing = Account(AccountConfig(1, 1, 1)).figures()
    first = Mark(status(nothing), nothing, 0, 0)
    last = Mark(status(found.figures, **changes), found.figures, 0, 0)
    whole = replace(found, first=first, last=last)
    return {row.name: row.agrees for row in agreements(whole)}
