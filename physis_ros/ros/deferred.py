# SPDX-License-Identifier: Apache-2.0
"""
Services whose answers take time, without a thread of their own and without keeping callbacks.

rclpy's events executor sends what a service callback returns at once and knows no coroutines. Here
the callback gives a question to be asked again, and the answer is sent when there is one.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar

from rclpy.node import Node

Answer = TypeVar('Answer')
# Gives the answer, or None as long as there is none.
Question = Callable[[], Answer | None]


class DeferredService:
    """
    A service that answers when it can. Single-threaded: all is called in the executor's thread.

    :param node: the owner.
    :param kind: of the service.
    :param name: of the service.
    :param begin: takes a request, and returns what is asked for the answer until there is one.
    :param failed: makes the answer to a question that raises; the others are asked all the same.
    :param service: one that is there already, to be answered so; made when not given.
    """

    def __init__(
        self,
        node: Node,
        kind: Any,
        name: str,
        begin: Callable[[Any], Question[Any]],
        failed: Callable[[str], Any],
        service: Any = None,
    ) -> None:
        self._begin, self._failed = begin, failed
        self._log, self._name = node.get_logger(), name
        self._waiting: list[tuple[Question[Any], Any]] = []
        if service is None:
            service = node.create_service(kind, name, self._asked)
        else:
            service.callback = self._asked
        # What the callback returns is given to this by either executor, with whom to answer.
        self._send = service.send_response
        service.send_response = self._keep

    def look(self) -> None:
        """Send the answers that there are; to be called every now and then."""
        waiting, self._waiting = self._waiting, []
        for question, asker in waiting:
            self._keep(question, asker)

    def _asked(self, request: Any, _: Any) -> Question[Any]:
        """Take a request; an error in it is the answer."""
        try:
            return self._begin(request)
        except Exception as error:
            answer = self._answer_to(error)
            return lambda: answer

    def _keep(self, question: Question[Any], asker: Any) -> None:
        """Answer now, or keep the question."""
        try:
            answer = question()
        except Exception as error:
            answer = self._answer_to(error)
        if answer is None:
            self._waiting.append((question, asker))
        else:
            self._send(answer, asker)

    def _answer_to(self, error: Exception) -> Any:
        """Say what went wrong, to the log and to whoever asked."""
        self._log.error(f'{self._name} failed: {error!r}')
        return self._failed(str(error) or type(error).__name__)
