# SPDX-License-Identifier: Apache-2.0
"""
Taking messages off subscriptions without an executor, in batches, whenever it suits.

For listeners that need no callback at once: at a thousand messages a second it costs a tenth of
what calling back for each of them does. Such a node must never be given to an executor.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from rclpy.node import Node
from rclpy.qos import QoSProfile
from rclpy.subscription import Subscription


def subscribe(
    node: Node, kind: type, topic: str, profile: QoSProfile, *, raw: bool = False
) -> Subscription:
    """
    Subscribe for :func:`drained`.

    :param profile: deep enough for what comes between two drains.
    :param raw: hand over serialized bytes instead of messages.
    """
    return node.create_subscription(kind, topic, _unused, profile, raw=raw)


def drained(subscription: Subscription) -> Iterator[tuple[Any, Any]]:
    """Yield what has come since the last time, each with the middleware's information about it."""
    handle = subscription.handle
    with handle:
        taken = handle.take_message(subscription.msg_type, subscription.raw)
        while taken is not None:
            yield taken
            taken = handle.take_message(subscription.msg_type, subscription.raw)


def _unused(message: Any) -> None:
    """Stand where rclpy wants a callback."""
