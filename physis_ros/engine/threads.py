# SPDX-License-Identifier: Apache-2.0
"""
The thread budget (E15).

Two workers at torch's default threads on two cores are 85 times slower than one: OpenMP spins at
barriers. So each worker gets a count, and passive waiting, before it imports torch.
"""

from __future__ import annotations

import logging
import os
from collections.abc import Mapping

_LOG = logging.getLogger(__name__)


def cores() -> int:
    """Return how many cores this process may use."""
    return len(os.sched_getaffinity(0))


def warn_when_over(workers: int, threads_per_worker: int, available: int) -> bool:
    """Warn and return True when the workers' threads exceed the cores there are."""
    wanted = workers * threads_per_worker
    if wanted <= available:
        return False
    _LOG.warning(
        '%d workers x %d threads share %d cores; expect jitter, use fewer workers',
        workers,
        threads_per_worker,
        available,
    )
    return True


def environment(base: Mapping[str, str], threads: int) -> dict[str, str]:
    """Return ``base`` with everything a worker's numerical libraries must see at import."""
    count = str(threads)
    return {
        **base,
        'OMP_NUM_THREADS': count,
        'MKL_NUM_THREADS': count,
        'OPENBLAS_NUM_THREADS': count,
        'OMP_WAIT_POLICY': 'PASSIVE',
    }
