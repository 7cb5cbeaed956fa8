# SPDX-License-Identifier: Apache-2.0
"""
How many hostile messages the tests send; what they are is in ``benchmark/hostile``.

The same few series every time; ``./run bench fuzz`` sends 10,000 messages of each topic.
"""

from __future__ import annotations

from hypothesis import HealthCheck, settings

FUZZ = settings(
    max_examples=40,
    derandomize=True,
    database=None,
    deadline=None,
    suppress_health_check=list(HealthCheck),
)
