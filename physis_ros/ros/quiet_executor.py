# SPDX-License-Identifier: Apache-2.0
"""
rclpy's events executor, in which nothing is called back any more once it is destroyed.

A message, an event or a due time that came before an entity was destroyed still waits in the
queue of that executor (7.1.6, Kilted) and is handed out after it: messages and times to a callback
that has closed, events and requests as an ``InvalidHandle`` out of ``spin_once``, which ends the
node. The classic executors pass over what was destroyed, and so does this one: for every entity of
every node, so that nobody has to think of it where something is closed.

Importing this raises ImportError where rclpy has no events executor.
"""

from __future__ import annotations

import faulthandler
from collections.abc import Iterator
from functools import partial
from itertools import chain
from typing import Any
from weakref import WeakKeyDictionary, WeakSet

import rclpy.experimental.events_executor  # noqa: F401  tells whether there is one
from rclpy.context import Context
from rclpy.impl.implementation_singleton import rclpy_implementation
from rclpy.node import Node
from rclpy.utilities import get_default_context

_EventsExecutor: Any = rclpy_implementation.EventsExecutor


class QuietExecutor(_EventsExecutor):
    """
    Calls back what is there. Entities are destroyed in the thread that spins.

    What destroys itself in its own callback may still be given the rest of what came at once; a
    service must not: its answer is sent after the callback.

    :param context: an initialised one.
    """

    def __init__(self, context: Context | None = None) -> None:
        context = context or get_default_context()
        super().__init__(context)
        self._there: WeakKeyDictionary[Node, WeakSet[Any]] = WeakKeyDictionary()
        # What rclpy's own factory does for its executor.
        faulthandler.enable()
        context.on_shutdown(self.wake)

    def add_node(self, node: Node) -> bool:
        """Serve a node; also those that it was taken from again tell what they destroy."""
        self._there.setdefault(node, WeakSet())
        added: bool = super().add_node(node)
        self._note(node)
        return added

    def wake(self) -> None:
        """Note what is there now: a node calls this when it made or destroyed something."""
        for node in list(self._there):
            self._note(node)
        super().wake()

    def _note(self, node: Node) -> None:
        """Silence what a node does not have any more."""
        there = WeakSet(_entities(node))
        for entity in self._there[node] - there:
            _silence(entity)
        self._there[node] = there


def _entities(node: Node) -> Iterator[Any]:
    """Yield whatever may be called back."""
    return chain(node.subscriptions, node.timers, node.clients, node.services, node.waitables)


def _silence(entity: Any) -> None:
    """
    Let what waits for an entity come to nothing.

    The executor looks these up when it hands out. It may be in the callback right now, to which it
    holds no reference; the silent one keeps it.
    """
    if hasattr(entity, 'take_data'):
        # What was taken already waits for its turn, and looks for the callback then.
        entity.take_data, entity.execute = _nothing, _later_nothing
    if hasattr(entity, 'get_pending_request'):
        entity.get_pending_request = _cancelled
    if hasattr(entity, 'send_response'):
        entity.send_response = _nothing
    if hasattr(entity, 'callback'):
        entity.callback = partial(_nothing, entity.callback)


def _nothing(*_: Any) -> None:
    """Take and return nothing."""


async def _later_nothing(_: Any) -> None:
    """Do nothing with what was not taken."""


def _cancelled(number: int) -> Any:
    """Say that nobody waits for an answer, as the executor understands it."""
    raise KeyError(number)
