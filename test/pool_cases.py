# SPDX-License-Identifier: Apache-2.0
"""What tests of pools in virtual time share."""

from __future__ import annotations

from typing import Any

import pytest

from physis_ros.engine import virtual


def count_batches(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """Return a list whose last number goes up by one with each batch that is formed."""
    formed = [0]
    form_batch = virtual.form_batch

    def counted(*arguments: Any) -> list[Any]:
        formed[-1] += 1
        return form_batch(*arguments)

    monkeypatch.setattr(virtual, 'form_batch', counted)
    return formed
