# SPDX-License-Identifier: Apache-2.0
"""Services that answer later: one that goes wrong is answered with that, the others go on."""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import Future
from typing import Any

import pytest

pytest.importorskip('rclpy')
pytest.importorskip('physis_ros.msg')

from rclpy.node import Node
from std_srvs.srv import SetBool, Trigger

from physis_ros.ros.deferred import DeferredService
from physis_ros.ros.wam_services import _planned


class Asked:
    """
    Two services of one node: questions wait for :attr:`answer`; a request for True is not taken.

    :param node: the owner.
    """

    def __init__(self, node: Node) -> None:
        self.answer: Callable[[int], Any] = lambda number: None
        self._count = 0
        self.later = DeferredService(
            node, Trigger, 'later', self._begin, lambda why: Trigger.Response(message=why)
        )
        DeferredService(
            node, SetBool, 'never', _not_taken, lambda why: SetBool.Response(message=why)
        )

    @property
    def waiting(self) -> int:
        """How many questions there are."""
        return len(self.later._waiting)

    def _begin(self, request: Any) -> Callable[[], Any]:
        number, self._count = self._count, self._count + 1
        return lambda: self.answer(number)


def _not_taken(request: Any) -> Callable[[], Any]:
    raise KeyError('no such thing')


def test_a_question_that_raises_is_answered_so_and_loses_no_other(bench: Any) -> None:
    asked = Asked(bench.probe)
    client = bench.probe.create_client(Trigger, 'later')
    assert bench.spin_until(client.service_is_ready)
    answers = []
    for number in range(3):
        answers.append(client.call_async(Trigger.Request()))
        assert bench.spin_until(lambda number=number: asked.waiting == number + 1)

    def first_fails(number: int) -> Any:
        if number == 0:
            raise RuntimeError('the first went wrong')
        return Trigger.Response(success=True) if number == 1 else None

    asked.answer = first_fails
    asked.later.look()
    assert bench.spin_until(lambda: answers[0].done() and answers[1].done())
    assert answers[0].result() == Trigger.Response(message='the first went wrong')
    assert answers[1].result() == Trigger.Response(success=True)
    assert asked.waiting == 1
    asked.answer = lambda number: Trigger.Response(success=True, message=f'{number}')
    asked.later.look()
    assert bench.spin_until(answers[2].done)
    assert answers[2].result().message == '2'


def test_a_request_that_raises_is_answered_so(bench: Any) -> None:
    asked = Asked(bench.probe)
    client = bench.probe.create_client(SetBool, 'never')
    assert bench.spin_until(client.service_is_ready)
    answer = client.call_async(SetBool.Request(data=True))
    assert bench.spin_until(answer.done)
    assert answer.result() == SetBool.Response(message="'no such thing'")
    assert asked.waiting == 0


def test_whatever_planning_raised_is_told() -> None:
    answers: Future[list[str]] = Future()
    assert _planned(answers) is None
    answers.set_exception(ZeroDivisionError('float division by zero'))
    assert _planned(answers).answers == ['float division by zero']
