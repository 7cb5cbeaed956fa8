# SPDX-License-Identifier: Apache-2.0
"""How the messages of an input come: their way, the gaps between them, what never was."""

from __future__ import annotations

import pytest
from producer_cases import BASE, MS, Bench, image

from physis_ros.session.arrivals import Arrivals
from physis_ros.session.producer_status import ResetReason


def arrived(*pairs_ms: tuple[float, float]) -> Arrivals:
    """Return what was measured of messages by their stamps and receipts."""
    made = Arrivals()
    for stamp_ms, receive_ms in pairs_ms:
        made.add(round(stamp_ms * MS), round(receive_ms * MS))
    return made


def test_T1_T15_the_way_and_the_gaps_of_messages_are_measured_apart() -> None:
    figures = arrived((100, 103), (125, 128), (150, 170), (175, 178)).figures()
    # 3, 3, 20 and 3 ms on the way; 25, 42 and 8 ms between them.
    assert (figures.transfer_ms.n, figures.transfer_ms.max) == (4, 20.0)
    assert figures.transfer_ms.p50 == pytest.approx(3.0, rel=0.01)
    assert (figures.gap_ms.n, figures.gap_ms.max) == (3, 42.0)
    assert figures.missing == 0


@pytest.mark.parametrize(
    ('stamps_ms', 'missing'),
    [
        ((100, 125, 150, 175), 0),
        ((100, 125, 150, 200, 225), 1),  # one picture was dropped before it was stamped
        ((100, 125, 150, 250), 3),
        ((100, 125, 150, 192, 200), 0),  # late, but there
        ((100, 125, 150, 140, 175), 0),  # out of order
    ],
)
def test_T15_what_a_publisher_left_out_shows_in_its_stamps(
    stamps_ms: tuple[float, ...], missing: int
) -> None:
    made = arrived(*((stamp, 1000 + number) for number, stamp in enumerate(stamps_ms)))
    assert made.figures().missing == missing


def test_T15_a_stamp_taken_at_the_request_shows_as_a_long_way() -> None:
    figures = arrived((100, 180), (150, 230)).figures()
    assert figures.transfer_ms.p50 == pytest.approx(80.0, rel=0.01)
    assert figures.gap_ms.max == 50.0


def test_Q9_nothing_received_has_no_way_and_no_gap() -> None:
    figures = arrived().figures()
    assert (figures.transfer_ms.p50, figures.gap_ms.max, figures.gap_ms.n) == (None, None, 0)
    # A message without a stamp was received, but says nothing of its way.
    figures = arrived((0, 100), (0, 130)).figures()
    assert (figures.transfer_ms.n, figures.gap_ms.n) == (0, 1)


def test_T8_no_gap_reaches_across_a_step_back() -> None:
    made = arrived((5000, 5003), (5025, 5028), (5050, 5053))
    made.forget()
    for stamp_ms in (100, 125, 150):
        made.add(stamp_ms * MS, (stamp_ms + 3) * MS)
    figures = made.figures()
    assert (figures.missing, figures.gap_ms.n, figures.gap_ms.max) == (0, 4, 25.0)


def test_T1_the_status_tells_it_of_every_input() -> None:
    bench = Bench()
    bench.see(0, way_ms=40)
    bench.see(25, way_ms=40)
    bench.at(90)
    bench.producer.frame(BASE + 75 * MS, bench.clock.now_ns(), image())
    arrivals = bench.producer.status().arrivals
    assert set(arrivals) == {'camera', 'joints'}
    assert arrivals['camera'].transfer_ms.max == 40.0
    assert (arrivals['camera'].gap_ms.n, arrivals['joints'].gap_ms.n) == (2, 1)
    assert arrivals['camera'].missing == 1
    # Time goes back: what was measured stays, and the jump is no gap.
    bench.producer.reset(ResetReason.CLOCK_JUMP)
    bench.see(10)
    assert bench.producer.status().arrivals['camera'].gap_ms.n == 2
