# SPDX-License-Identifier: Apache-2.0
"""Recordings: read, refused, written from bytes, mended after a kill."""

from __future__ import annotations

from pathlib import Path

import pytest
from bag_cases import MS, BagMaker, at
from rosbags.highlevel import AnyReader
from rosbags.rosbag2 import StoragePlugin

from physis_ros.errors import BagError
from physis_ros.evaluation.bag import Bag
from physis_ros.evaluation.definitions import message_folder, typestore
from physis_ros.evaluation.mend import is_whole, mend
from physis_ros.evaluation.writer import BagWriter, WriterConfig

TEXT = 'std_msgs/msg/String'


def small(path: Path, plugin: StoragePlugin) -> Path:
    maker = BagMaker(path, plugin)
    for index in range(3):
        maker.put('/text', at(index), TEXT, data=f'line {index}')
    maker.put('/number', at(1.5), 'std_msgs/msg/Int32', data=7)
    return maker.write()


@pytest.mark.parametrize('plugin', [StoragePlugin.MCAP, StoragePlugin.SQLITE3])
def test_both_storages_are_read_in_the_order_received(tmp_path: Path, plugin: StoragePlugin):
    with Bag(small(tmp_path / 'bag', plugin)) as bag:
        assert bag.topics == {'/text': TEXT, '/number': 'std_msgs/msg/Int32'}
        assert bag.counts == {'/text': 3, '/number': 1}
        assert [(r.topic, r.log_ns, r.message.data) for r in bag.records()] == [
            ('/text', at(0), 'line 0'),
            ('/text', at(1), 'line 1'),
            ('/number', at(1.5), 7),
            ('/text', at(2), 'line 2'),
        ]
        assert [r.message.data for r in bag.records('/number')] == [7]
        assert list(bag.records('/nothing')) == []


def test_every_own_message_is_registered():
    own = {f'physis_ros/msg/{path.stem}' for path in message_folder().glob('*.msg')}
    assert own
    assert own <= set(typestore().types)


def test_what_is_missing_is_named(tmp_path: Path):
    with pytest.raises(BagError, match='must exist'):
        Bag(tmp_path / 'none')
    with pytest.raises(BagError, match=r'exactly one \.mcap or \.db3 file'):
        Bag(tmp_path)
    missing = pytest.raises(BagError, match=r"must hold \['/tip'\], got \['/number', '/text'\]")
    with Bag(small(tmp_path / 'bag', StoragePlugin.MCAP)) as bag, missing:
        bag.require('/text', '/tip')


def test_a_broken_message_is_named_by_topic_and_instant(tmp_path: Path):
    store = typestore()
    writer = BagWriter(tmp_path, store)
    writer.put('/text', TEXT, 5 * MS, b'\x00\x01\x00\x00\xff\xff\xff\x7f')
    writer.close()
    with Bag(tmp_path) as bag, pytest.raises(BagError, match=r'/text at 5000000 ns must be a std'):
        list(bag.records())


def written(folder: Path, count: int) -> None:
    """Record ``count`` texts of about two kilobytes."""
    store = typestore()
    writer = BagWriter(folder, store)
    for index in range(count):
        message = store.types[TEXT](data=f'{index} ' + 'x' * 2000)
        assert writer.put('/text', TEXT, index, bytes(store.serialize_cdr(message, TEXT)))
    writer.close()
    assert writer.dropped == {}


def test_the_writer_makes_a_folder_and_a_file_that_any_reader_reads(tmp_path: Path):
    written(tmp_path, 10)
    for path in (tmp_path / 'run', tmp_path / 'run.mcap', tmp_path):
        with Bag(path) as bag:
            assert bag.counts == {'/text': 10}
    with AnyReader([tmp_path / 'run.mcap']) as reader:
        assert reader.message_count == 10
    with pytest.raises(BagError, match='cannot be made'):
        BagWriter(tmp_path, typestore())


def test_what_does_not_fit_the_queue_is_dropped_and_counted(tmp_path: Path):
    writer = BagWriter(tmp_path, typestore(), WriterConfig(messages=2, wake_s=60.0))
    data = bytes(typestore().serialize_cdr(typestore().types[TEXT](data='x'), TEXT))
    assert [writer.put('/text', TEXT, index, data) for index in range(4)] == [True, True, False,
                                                                              False]
    assert writer.dropped == {'/text': 2}
    writer.close()
    with Bag(tmp_path) as bag:
        assert bag.counts == {'/text': 2}


def test_a_torn_file_is_mended_up_to_its_last_whole_record(tmp_path: Path):
    written(tmp_path, 3000)
    whole = (tmp_path / 'run.mcap').read_bytes()
    torn = tmp_path / 'torn.mcap'
    torn.write_bytes(whole[: len(whole) * 7 // 10])
    with pytest.raises(BagError, match='physis mend'):
        Bag(torn)
    assert mend(torn) > 0
    assert is_whole(torn)
    with Bag(torn) as bag:
        kept = [int(record.message.data.split()[0]) for record in bag.records()]
    assert kept == list(range(len(kept)))
    assert 500 < len(kept) < 3000
    assert mend(torn) == 0


def test_only_mcap_files_are_mended(tmp_path: Path):
    other = tmp_path / 'other.mcap'
    other.write_bytes(b'something else entirely, long enough')
    with pytest.raises(BagError, match='must be an mcap file'):
        mend(other)
