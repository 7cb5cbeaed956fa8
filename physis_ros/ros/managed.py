# SPDX-License-Identifier: Apache-2.0
"""
What is the same in all managed nodes: how they come up by themselves, and how their state changes.

rclpy runs a transition inside its service call, in the thread of the executor, and lets a request
that does not fit the state end the whole process. Here such a request is refused, and one that has
to wait until a robot stands still is answered then, while everything else goes on.
"""

from __future__ import annotations

import traceback
from abc import ABC, abstractmethod
from collections.abc import Callable
from typing import Any

from lifecycle_msgs.msg import Transition
from lifecycle_msgs.srv import ChangeState
from rclpy.lifecycle import LifecycleNode, LifecycleState, TransitionCallbackReturn

from physis_ros.errors import EngineError, PhysisError
from physis_ros.ros.deferred import DeferredService

SUCCESS, FAILURE = TransitionCallbackReturn.SUCCESS, TransitionCallbackReturn.FAILURE
# What ends the playing of an active node: it comes to rest first.
ENDING_IDS = Transition.TRANSITION_DEACTIVATE, Transition.TRANSITION_ACTIVE_SHUTDOWN
ENDING_LABELS = 'deactivate', 'shutdown'


class ManagedNode(LifecycleNode, ABC):
    """
    A node that is configured, activated, deactivated and cleaned up, by itself or by a manager.

    A kind of node says what there is to do in :meth:`set_up`, :meth:`tear_down`, the
    ``on_activate`` and ``on_deactivate`` of rclpy, and where it must come to rest first in
    :meth:`come_to_rest`.
    """

    def __init__(self, name: str, **options: Any) -> None:
        super().__init__(name, **options)
        # Why it was not configured the last time.
        self.refusal: PhysisError | None = None
        service: Any = self._service_change_state
        self._change: Callable[[Any, Any], Any] = service.callback
        self._changes = DeferredService(
            self,
            ChangeState,
            service.srv_name,
            self._asked_to_change,
            lambda why: ChangeState.Response(success=False),
            service,
        )

    def bring_up(self) -> None:
        """
        Configure and activate.

        :raises PhysisError: what configuring refused.
        """
        if self.trigger_configure() is not SUCCESS:
            raise self.refusal or EngineError('configuring failed; see the log')
        self.trigger_activate()

    @abstractmethod
    def set_up(self) -> None:
        """
        Configure: make everything that is needed, in well under a second.

        :raises PhysisError: what does not fit; then :meth:`tear_down` follows.
        """

    @abstractmethod
    def tear_down(self) -> None:
        """Come to the unconfigured state from any, also from one that was half made."""

    def come_to_rest(self) -> bool:
        """Begin to come to rest, and say whether it is: what ends the playing waits for that."""
        return True

    def look(self) -> None:
        """Answer what waited; to be called when rest was reached."""
        self._changes.look()

    # Transitions.

    def on_configure(self, state: LifecycleState) -> TransitionCallbackReturn:
        """Make everything, or say why not and leave nothing."""
        try:
            self.refusal = None
            self.set_up()
        except PhysisError as error:
            self.refusal = error
            self.get_logger().error(f'not configured: {error}')
            self.tear_down()
            return FAILURE
        except Exception:
            # rclpy would only go on to on_error, in silence.
            self.get_logger().error(f'not configured: {traceback.format_exc()}')
            raise
        return SUCCESS

    def on_cleanup(self, state: LifecycleState) -> TransitionCallbackReturn:
        """Free everything."""
        self.tear_down()
        return SUCCESS

    def on_shutdown(self, state: LifecycleState) -> TransitionCallbackReturn:
        """Free everything for good."""
        self.tear_down()
        return SUCCESS

    def on_error(self, state: LifecycleState) -> TransitionCallbackReturn:
        """Free everything; the node can be configured again."""
        self.tear_down()
        return SUCCESS

    def _asked_to_change(self, request: Any) -> Callable[[], Any]:
        """Take a request for another state; it is answered once that is reached."""
        wanted = request.transition
        rests = wanted.label in ENDING_LABELS or (not wanted.label and wanted.id in ENDING_IDS)

        def changed() -> Any:
            active = self._state_machine.current_state[1] == 'active'
            if rests and active and not self.come_to_rest():
                return None
            return self._change(request, ChangeState.Response())

        return changed
