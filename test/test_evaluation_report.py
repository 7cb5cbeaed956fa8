# SPDX-License-Identifier: Apache-2.0
"""What is made of a recording: summary, report, animation; and its account beside the live one."""

from __future__ import annotations

import json
import re
import shutil
from html.parser import HTMLParser
from pathlib import Path

import pytest
from bag_cases import write_bag
from PIL import Image

from physis_ros.errors import BagError
from physis_ros.evaluation import accounting, products, topics
from physis_ros.evaluation.bag import Bag
from physis_ros.evaluation.recording import read
from physis_ros.evaluation.waterfall import DECODING, Slice, read_slices

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
    with Bag(write_bag(tmp_path / 'run')) as bag:
        recording = read(bag, topics.find(bag))
    figures = accounting.recompute(recording)

    class Part:
        p50, p90, p99, max = figures.age_ms.worst.p50, 190.0, 0.98 * 196.0, 196.0

    class Count:
        name, count = 'ramp', 2

    class Status:
        ticks, deadline_due, deadline_misses, underruns, underrun_ticks = 475, 475, 0, 0, 0
        chunks_accepted, chunks_rejected = 7, 0
        action_age = Part
        servo_period_error = Part
        underrun_rungs = (Count,)

    agrees = {row.name: row.agrees for row in accounting.agreements(figures, Status)}
    assert agrees['ticks'] is True
    assert agrees['deadline_misses'] is True
    assert agrees['chunks_accepted'] is False
    assert agrees['chunks_rejected'] is True
    assert agrees['underrun_hold'] is True
    assert agrees['underrun_ramp'] is False
    assert agrees['action_age_ms p50'] is agrees['action_age_ms max'] is True
    assert agrees['action_age_ms p99'] is False
    assert agrees['servo_period_error_us p50'] is False
