# SPDX-License-Identifier: Apache-2.0
"""Shares of time between two looks, and where there are none."""

from __future__ import annotations

import math

from physis_ros.ros.busy import BusyShare


def test_shares_are_of_the_time_since_the_last_look() -> None:
    busy = BusyShare()
    assert all(math.isnan(share) for share in busy.since(1000, {0: 10, 1: 20}, 2))
    assert busy.since(1100, {0: 60, 1: 20}, 2) == (0.5, 0.0)
    # A task is counted when it ends: more than the time that has passed is all of it.
    assert busy.since(1200, {0: 260, 1: 45}, 2) == (1.0, 0.25)


def test_new_workers_have_no_share_at_first() -> None:
    busy = BusyShare()
    busy.since(1000, {0: 500}, 1)
    assert math.isnan(busy.since(1100, {}, 1)[0])
    assert busy.since(1200, {0: 25}, 1) == (0.25,)
    assert busy.since(1300, {}, 0) == ()
    assert math.isnan(busy.since(1300, {0: 30}, 1)[0])
