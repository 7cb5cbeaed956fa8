# SPDX-License-Identifier: Apache-2.0
"""The engine beside the node: what cannot be started is told, whoever refused it."""

from __future__ import annotations

import time
from typing import Any

from physis_ros.engine.config import PoolConfig
from physis_ros.engine.crew import Crew
from physis_ros.engine.pool import Pool
from physis_ros.errors import EngineError
from physis_ros.ros.engine_host import EngineHost
from physis_ros.ros.host_state import HostState


class NoRoom(Crew):
    """Workers for whom the system has no room."""

    def __init__(self, *given: Any) -> None:
        raise OSError(24, 'Too many open files')


def test_what_the_system_refuses_is_told_and_not_waited_for() -> None:
    host = EngineHost(lambda: Pool(PoolConfig('synthetic:'), crew=NoRoom), 5.0)
    until_s = time.monotonic() + 30
    while host.state is HostState.LOADING and time.monotonic() < until_s:
        time.sleep(0.01)
    assert host.state is HostState.FAILED
    assert isinstance(host.check(), EngineError)
    assert 'the engine cannot be started: [Errno 24] Too many open files' in str(host.failure)
    host.close()
