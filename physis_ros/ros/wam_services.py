# SPDX-License-Identifier: Apache-2.0
"""The services that open, close, list and plan the streams of a model node while it runs."""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import CancelledError, Future
from typing import TYPE_CHECKING, Any

from physis_ros.errors import ParameterError, PhysisError
from physis_ros.ros import wam_report
from physis_ros.ros.deferred import DeferredService
from physis_ros.ros.parameters import overridden
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


class StreamServices:
    """
    ``~/open_stream``, ``~/close_stream``, ``~/list_streams``, ``~/plan_streams``.

    The engine's answers may take seconds; until then everything else goes on.

    :param node: whose streams.
    """

    def __init__(self, node: WamNode) -> None:
        self._node = node
        handlers: tuple[tuple[Any, str, Callable[[Any], Callable[[], Any]]], ...] = (
            (OpenStream, 'open_stream', self._open),
            (CloseStream, 'close_stream', self._close),
            (ListStreams, 'list_streams', lambda _: self._listed),
            (PlanStreams, 'plan_streams', self._plan),
        )
        self._services = [
            DeferredService(node, kind, f'~/{name}', begin) for kind, name, begin in handlers
        ]

    def look(self) -> None:
        """Send the answers that have come."""
        for service in self._services:
            service.look()

    def _open(self, request: Any) -> Callable[[], Any]:
        """Begin to open a stream."""
        given = {name: value for name in SETTABLE if (value := getattr(request, name))}
        try:
            config = overridden(self._node.stream_config(request.stream), given)
            stream = self._node.open_stream(request.stream, config)
        except PhysisError as error:
            refusal = str(error)
            return lambda: OpenStream.Response(message=refusal)
        return lambda: self._opened(stream)

    def _opened(self, stream: WamStream) -> Any:
        """Return what became of it; None as long as the engine has not answered."""
        if self._node.streams.get(stream.name) is not stream:
            return OpenStream.Response(message='it was closed before it was open')
        if stream.admitted:
            topic = stream.outputs.topic if stream.outputs is not None else ''
            return OpenStream.Response(accepted=True, message=f'chunks come on {topic}')
        failed = self._node.engine().reason if self._node.engine_failed else ''
        if not (stream.refusal or failed):
            return None
        refusal = stream.refusal or failed
        self._node.close_stream(stream.name)
        return OpenStream.Response(message=refusal)

    def _close(self, request: Any) -> Callable[[], Any]:
        """Begin to close a stream."""
        if request.stream not in self._node.streams:
            rule = f'one of {list(self._node.streams)}'
            refusal = str(ParameterError('stream', rule, request.stream))
            return lambda: CloseStream.Response(message=refusal)
        left = self._node.close_stream(request.stream)
        return lambda: _closed(left)

    def _listed(self) -> Any:
        """Return all streams."""
        return ListStreams.Response(
            streams=[wam_report.status(one.snapshot()) for one in self._node.streams.values()],
            max_streams=self._node.config.max_streams,
        )

    def _plan(self, request: Any) -> Callable[[], Any]:
        """Begin to ask what admission would say."""
        count = request.count or 1
        given = {
            name: value
            for name in ('period_ms', 'max_response_ms')
            if (value := getattr(request, name))
        }
        try:
            overridden(self._node.defaults, given)
        except PhysisError as error:
            refusal = str(error)
            return lambda: PlanStreams.Response(answers=[refusal])
        left = self._node.config.max_streams - len(self._node.streams)
        return lambda: PlanStreams.Response(
            admitted=max(0, min(count, left)), answers=[f'{left} places are left']
        )


def _closed(left: Future[None] | None) -> Any:
    """Return the answer when a stream has left; None before. An engine that ends frees it too."""
    if left is not None and not left.done():
        return None
    try:
        error = None if left is None else left.exception()
    except CancelledError:
        error = None
    return CloseStream.Response(closed=error is None, message='' if error is None else str(error))
