# SPDX-License-Identifier: Apache-2.0
"""The services that open, close, list and plan the streams of a model node while it runs."""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import CancelledError, Future
from typing import TYPE_CHECKING, Any

from physis_ros.errors import ParameterError, PhysisError
from physis_ros.ros import wam_report
from physis_ros.ros.deferred import DeferredService
from physis_ros.ros.host_state import HostState
from physis_ros.ros.parameters import overridden
from physis_ros.ros.room import MS_S
from physis_ros.ros.wam_stream import WamStream
from physis_ros.srv import CloseStream, ListStreams, OpenStream, PlanStreams

if TYPE_CHECKING:
    from physis_ros.ros.wam import WamNode

# Of OpenStream: the parameters that a request may set.
SETTABLE = (
    'period_ms',
    'max_response_ms',
    'max_observation_age_ms',
    'camera',
    'image_transport',
    'joint_names',
    'joint_aliases',
)
PLANNED = ('period_ms', 'max_response_ms')


class StreamServices:
    """
    ``~/open_stream``, ``~/close_stream``, ``~/list_streams``, ``~/plan_streams``.

    The engine's answers may take seconds; until then everything else goes on.

    :param node: whose streams.
    """

    def __init__(self, node: WamNode) -> None:
        self._node = node
        self._services = [
            DeferredService(node, OpenStream, '~/open_stream', self._open, _not_opened),
            DeferredService(node, CloseStream, '~/close_stream', self._close, _not_closed),
            DeferredService(
                node, ListStreams, '~/list_streams', lambda _: self._listed,
                lambda why: ListStreams.Response(),
            ),
            DeferredService(node, PlanStreams, '~/plan_streams', self._plan, _not_planned),
        ]  # fmt: skip

    def look(self) -> None:
        """Send the answers that have come."""
        for service in self._services:
            service.look()

    def _open(self, request: Any) -> Callable[[], Any]:
        """Begin to open a stream."""
        given = {name: value for name in SETTABLE if (value := getattr(request, name))}
        try:
            config = overridden(self._node.streams.config(request.stream), given)
            stream = self._node.streams.open(request.stream, config, self._node.host)
        except PhysisError as error:
            refusal = str(error)
            return lambda: _not_opened(refusal)
        return lambda: self._opened(stream)

    def _opened(self, stream: WamStream) -> Any:
        """Return what became of it; None as long as the engine has not answered."""
        if self._node.streams.named(stream.name) is not stream:
            return _not_opened('it was closed before it was open')
        if stream.admitted:
            topic = stream.outputs.topic if stream.outputs is not None else ''
            return OpenStream.Response(accepted=True, message=f'chunks come on {topic}')
        engine = self._node.engine()
        refusal = stream.refusal or (engine.reason if engine.host is HostState.FAILED else '')
        if not refusal:
            return None
        self._node.streams.close(stream)
        return _not_opened(refusal)

    def _close(self, request: Any) -> Callable[[], Any]:
        """Begin to close a stream."""
        stream = self._node.streams.named(request.stream)
        if stream is None:
            rule = f'one of {list(self._node.streams.names)}'
            refusal = str(ParameterError('stream', rule, request.stream))
            return lambda: _not_closed(refusal)
        left = self._node.streams.close(stream)
        return lambda: _closed(left)

    def _listed(self) -> Any:
        """Return all streams."""
        return ListStreams.Response(
            streams=[wam_report.status(one.snapshot()) for one in self._node.streams],
            max_streams=self._node.config.max_streams,
        )

    def _plan(self, request: Any) -> Callable[[], Any]:
        """Begin to ask what admission would say."""
        host, most = self._node.host, self._node.config.max_streams
        given = {name: value for name in PLANNED if (value := getattr(request, name))}
        try:
            wanted = overridden(self._node.streams.defaults, given)
        except PhysisError as error:
            refusal = str(error)
            return lambda: _not_planned(refusal)
        if host is None:
            return lambda: _not_planned('the node is not configured')
        # One more than there can be says all there is to say.
        count = min(request.count or 1, most + 1)
        asked_s = wanted.period_ms * MS_S, wanted.max_response_ms * MS_S
        answers = host.submit(lambda pool: pool.what_if(count, *asked_s))
        return lambda: _planned(answers)


def _not_opened(why: str) -> Any:
    """Return the answer when nothing was opened."""
    return OpenStream.Response(message=why)


def _not_closed(why: str) -> Any:
    """Return the answer when nothing was closed."""
    return CloseStream.Response(message=why)


def _not_planned(why: str) -> Any:
    """Return the answer when nothing can be told."""
    return PlanStreams.Response(answers=[why])


def _closed(left: Future[None] | None) -> Any:
    """Return the answer when a stream has left; None before. An engine that ends frees it too."""
    if left is not None and not left.done():
        return None
    try:
        error = None if left is None else left.exception()
    except CancelledError:
        error = None
    return CloseStream.Response(closed=error is None, message='' if error is None else str(error))


def _planned(answers: Future[list[str]]) -> Any:
    """Return the answer when the engine has given it; None before."""
    if not answers.done():
        return None
    try:
        refusals = answers.result()
    except Exception as error:  # whatever the job raised, as the engine keeps it
        return _not_planned(str(error) or 'the engine has ended')
    taken = [refusal for refusal in refusals if not refusal]
    first = [refusal for refusal in refusals if refusal][:1]
    return PlanStreams.Response(admitted=len(taken), answers=['admitted'] * len(taken) + first)
