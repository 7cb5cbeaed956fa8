# SPDX-License-Identifier: Apache-2.0
"""Files of profiles: whatever stands in them, nothing is taken for what it is not."""

from __future__ import annotations

import json
import math
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from physis_ros.engine.profile import Link, Profile, Sizes, Timing, load
from physis_ros.errors import PlanError


def profile() -> Profile:
    """Return a profile of two blocks."""
    kinds = ('first', 'last', 'encode', 'decode')
    timings = tuple(Timing(kind, 1, 1, 0.001, 0.002, 10, 0.0015) for kind in kinds)
    links = (Link('cpu', 2e-5, 1e9),)
    versions = {'torch': '2'}
    sizes = Sizes((10, 20), 7, 128, 20, 100, 200)
    return Profile('tiny', 'hash', 'cpu', versions, 2, 2, sizes, timings, 1e-5, links)


def _places(content: object, at: tuple[str | int, ...] = ()) -> Iterator[tuple[str | int, ...]]:
    """Go through every value of a file, and those that hold others."""
    yield at
    if isinstance(content, dict):
        for name, value in content.items():
            yield from _places(value, (*at, name))
    elif isinstance(content, list):
        yield from _places(content[0], (*at, 0))


def _put(content: Any, at: tuple[str | int, ...], value: object) -> Any:
    """Return a copy of a file with another value at a place."""
    if not at:
        return value
    copy = content.copy()
    copy[at[0]] = _put(content[at[0]], at[1:], value)
    return copy


@pytest.mark.parametrize('bad', [-1, math.nan, math.inf, 10**99, 1e308, True, [1], {'a': 1}])
def test_no_value_of_a_profile_is_taken_for_another(tmp_path: Path, bad: object) -> None:
    """Whatever stands at any place of the file: the place is named before anything is reckoned."""
    path = tmp_path / 'tiny.json'
    replace(profile(), deliver_s=0.1).save(path)
    content = json.loads(path.read_text())
    places = list(_places(content))
    assert len(places) > 30
    for at in places:
        path.write_text(json.dumps(_put(content, at, bad)))
        name = [part for part in at if isinstance(part, str)][-1:]
        with pytest.raises(PlanError, match='.*'.join(('profile .*', *name))):
            load(path)


def test_what_a_profile_lacks_or_has_too_much_is_named(tmp_path: Path) -> None:
    """By its place in the file."""
    path = tmp_path / 'tiny.json'
    profile().save(path)
    content = json.loads(path.read_text())
    lacks = {**content, 'links': [{'to': 'cpu', 'hop_s': 0.1}]}
    for other, told in (
        (lacks, r"links\[0\]\.bytes_per_s must be given, got 'nothing'"),
        ({**content, 'speed': 1}, r"must be of .*got \['speed'\]"),
        ({**content, 'kv_rule': 'dirty'}, "kv_rule must be one of .*got 'dirty'"),
        ({**content, 'passes': 0}, 'passes must be >= 1, got 0'),
    ):
        path.write_text(json.dumps(other))
        with pytest.raises(PlanError, match=f'is damaged: .*{told}; measure it again'):
            load(path)
