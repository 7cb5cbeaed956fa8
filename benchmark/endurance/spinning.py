# SPDX-License-Identifier: Apache-2.0
"""Serving callbacks while something is waited for."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any


def spin_until(executor: Any, condition: Callable[[], Any], timeout_s: float) -> bool:
    """Serve callbacks until a condition holds; return whether it does."""
    deadline_s = time.monotonic() + timeout_s
    while not condition():
        if time.monotonic() > deadline_s:
            return False
        executor.spin_once(timeout_sec=0.01)
    return True
