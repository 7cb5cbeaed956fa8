# SPDX-License-Identifier: Apache-2.0
"""Where an engine is in its life; apart from the engine, for those who only show it."""

from __future__ import annotations

from enum import Enum


class HostState(Enum):
    """Where the engine is in its life."""

    LOADING = 'loading'
    READY = 'ready'
    FAILED = 'failed'
    CLOSED = 'closed'
