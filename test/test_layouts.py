# SPDX-License-Identifier: Apache-2.0
"""The layouts for Foxglove and PlotJuggler name only topics and fields that there are."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from importlib import import_module
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import pytest

pytest.importorskip('rclpy')
pytest.importorskip('physis_ros.msg')

from diagnostic_msgs.msg import DiagnosticArray
from sensor_msgs.msg import Image, JointState

from physis_ros.msg import Playback, PlaybackStatus, StreamStatus

CONFIG = Path(__file__).parents[1] / 'config'
TOPICS: dict[str, type] = {
    '/camera/image_raw': Image,
    '/joint_states': JointState,
    '/wam_node/overlay': Image,
    '/wam_node/stream_status': StreamStatus,
    '/servo_node/playback': Playback,
    '/servo_node/playback_status': PlaybackStatus,
    '/diagnostics': DiagnosticArray,
}
NUMBERS = {'double', 'boolean', *(f'{kind}{bits}' for kind in ('int', 'uint') for bits in (8, 16))}
NUMBERS |= {f'{kind}{bits}' for kind in ('int', 'uint') for bits in (32, 64)}
# Foxglove plots them in seconds.
TIMES = {'builtin_interfaces/Time', 'builtin_interfaces/Duration'}
JOINTS = ('shoulder', 'elbow')


def leaf(path: str, separator: str) -> str:
    """Return the type of a field, such as ``/topic.field.part[0]``; fails where there is none."""
    topic = max((name for name in TOPICS if path.startswith(name + separator)), key=len)
    kind: Any = TOPICS[topic]
    found = ''
    for part in path[len(topic) + 1 :].split(separator):
        name, index = re.fullmatch(r'(\w+)(\[\d+\])?', part).groups()
        given = kind.get_fields_and_field_types()[name]
        found = re.sub(r'^sequence<(.*)>$', r'\1', given)
        assert (found != given) == (index is not None), path
        package, _, message = found.partition('/')
        kind = getattr(import_module(f'{package}.msg'), message) if message else None
    return found


def layout() -> Any:
    """Return the layout for Foxglove."""
    return json.loads((CONFIG / 'foxglove.json').read_text())


def named(tree: Any) -> Iterator[str]:
    """Yield the panels of a tree of splits."""
    if isinstance(tree, str):
        yield tree
        return
    assert tree['direction'] in ('row', 'column')
    assert 0 < tree['splitPercentage'] < 100
    yield from named(tree['first'])
    yield from named(tree['second'])


def test_foxglove_shows_every_panel_once() -> None:
    assert sorted(named(layout()['layout'])) == sorted(layout()['configById'])


def test_foxglove_names_only_what_is_published() -> None:
    panels = layout()['configById']
    images = [p['imageMode']['imageTopic'] for n, p in panels.items() if n.startswith('Image!')]
    assert images == ['/camera/image_raw', '/wam_node/overlay']
    assert all(TOPICS[name] is Image for name in images)
    assert TOPICS[panels['RawMessages!stream']['topicPath']] is StreamStatus
    assert TOPICS[panels['DiagnosticSummary!diagnostics']['topicToRender']] is DiagnosticArray
    paths = [item['value'] for panel in panels.values() for item in panel.get('paths', [])]
    assert len(paths) > 15
    for path in paths:
        assert leaf(path, '.') in NUMBERS | TIMES, path
    for wanted in ('.age', '.buffer_depth', '.deadline_misses'):
        assert any(path.endswith(wanted) for path in paths), wanted


def curves() -> tuple[ElementTree.Element, list[str]]:
    """Return the layout for PlotJuggler, and the names of its curves."""
    root = ElementTree.parse(CONFIG / 'plotjuggler.xml').getroot()
    return root, [item.attrib['name'] for item in root.iter('curve')]


def test_plotjuggler_names_only_what_is_published() -> None:
    root, names = curves()
    snippets = {item.attrib['name']: item for item in root.iter('snippet')}
    sources = [
        str(source.text)
        for snippet in snippets.values()
        for path in ('linked_source', 'additional_sources/*')
        for source in snippet.findall(path)
    ]
    assert len(sources) == 2 * len(snippets)
    # Joint states come under the name of the joint.
    states = [f'/joint_states/{j}/{what}' for j in JOINTS for what in ('position', 'velocity')]
    assert set(snippets) | set(states) <= set(names)
    for name in {*names, *sources} - set(snippets) - set(states):
        assert leaf(name, '/') in NUMBERS, name


def test_plotjuggler_splits_into_as_many_parts_as_it_says() -> None:
    root, _ = curves()
    for splitter in root.iter('DockSplitter'):
        count = int(splitter.attrib['count'])
        sizes = [float(size) for size in splitter.attrib['sizes'].split(';')]
        assert len(splitter) == len(sizes) == count
        assert sum(sizes) == pytest.approx(1.0, abs=1e-5)


@pytest.mark.parametrize('path', ['/servo_node/playback.nothing', '/servo_node/playback.age[0]'])
def test_a_field_that_there_is_not_would_be_seen(path: str) -> None:
    with pytest.raises((KeyError, AssertionError)):
        leaf(path, '.')
