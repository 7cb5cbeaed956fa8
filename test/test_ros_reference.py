# SPDX-License-Identifier: Apache-2.0
"""docs/parameters.md says what the nodes declare."""

from __future__ import annotations

from pathlib import Path

import pytest

pytest.importorskip('rclpy')

from physis_ros.cli import main
from physis_ros.ros.reference import reference

DOCUMENT = Path(__file__).resolve().parents[1] / 'docs/parameters.md'


def test_the_document_is_what_the_command_prints(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(['parameters']) == 0
    printed = capsys.readouterr().out
    assert DOCUMENT.read_text() == printed, 'physis parameters > docs/parameters.md'


def test_every_parameter_is_a_row_with_type_default_and_range() -> None:
    rows = reference().splitlines()
    assert '| `servo_rate_hz` | double | 250.0 | 1 .. 2000 |  | Ticks per second [Hz]. |' in rows
    merge = next(row for row in rows if row.startswith('| `merge` |'))
    assert merge.startswith('| `merge` | string | `blend` | replace, blend, ensemble | yes |')
    assert any(row.startswith('| `lower` | double[] | [] |  | yes |') for row in rows)
