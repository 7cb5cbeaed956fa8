# SPDX-License-Identifier: Apache-2.0
"""
Hostile messages into the callbacks of the real model node, with a real engine behind it.

Whatever comes: no exception, nothing goes out that is not finite, and each message is counted,
taken or refused for the right reason.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

pytest.importorskip('rclpy')
pytest.importorskip('physis_ros.msg')

import rclpy
from fuzz_cases import FUZZ
from hostile.model import TOPICS, HostileModel, events
from hypothesis import given
from rclpy.signals import SignalHandlerOptions

pytestmark = pytest.mark.ros


@pytest.fixture
def model() -> Iterator[HostileModel]:
    """Give a model node in a context of its own."""
    context = rclpy.Context()
    rclpy.init(context=context, signal_handler_options=SignalHandlerOptions.NO)
    made = HostileModel(context)
    yield made
    made.close()
    rclpy.try_shutdown(context=context)


def test_the_model_node_survives_whatever_comes(model: HostileModel) -> None:
    """The engine works before and after, and all that it ever publishes is finite."""
    assert model.works()
    seen: set[str] = set()

    @FUZZ
    @given(series=events())
    def survives(series: list[Any]) -> None:
        counts = model.play(series)
        assert counts.total() == len(series)
        seen.update(topic for topic, _ in counts)

    survives()
    assert seen == set(TOPICS)
    assert model.works()
