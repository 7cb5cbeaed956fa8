# SPDX-License-Identifier: Apache-2.0
"""A stream's room in an engine: asked for, given or refused, given back."""

from __future__ import annotations

from concurrent.futures import CancelledError, Future

from physis_ros.engine.pool import Pool
from physis_ros.errors import DeadlinePassed, EngineError, PhysisError
from physis_ros.ros.engine_host import EngineHost

MS_S = 1e-3


class Room:
    """
    Asks for room at once; the engine's answer may take seconds, and does not wait here.

    :param host: of the engine.
    :param stream: its name.
    :param period_ms: longest interval between its chunks that admission must hold [ms].
    :param max_response_ms: longest response latency likewise [ms]; 0: any.
    """

    def __init__(
        self, host: EngineHost, stream: str, period_ms: float, max_response_ms: float
    ) -> None:
        self.host, self._stream = host, stream
        self._asked_s = period_ms * MS_S, max_response_ms * MS_S
        self._refusal = ''
        self._answer: Future[tuple[int, ...]] = host.submit(self._open)

    @property
    def answered(self) -> bool:
        """Whether the engine has said something; one that is gone has."""
        return self._answer.done()

    @property
    def given(self) -> bool:
        """Whether the engine carries the stream."""
        return self.answered and self._error() is None

    @property
    def refusal(self) -> str:
        """Why the engine has no room for it; empty while that is not known."""
        # An engine that is gone is another matter: the node says that, and may load it again.
        return self._refusal if self.answered else ''

    @property
    def workers(self) -> tuple[int, ...]:
        """Those that carry the stream; none when it has no room."""
        return self._answer.result() if self.given else ()

    def leave(self) -> Future[None]:
        """Give it back, after what was asked for before."""
        return self.host.submit(self._close)

    def _open(self, pool: Pool) -> tuple[int, ...]:
        try:
            pool.open_stream(self._stream, *self._asked_s)
            return pool.workers_of(self._stream)
        except Exception as error:
            if _refuses(error, pool, self._stream):
                self._refusal = str(error)
            else:
                self.host.fail(_engine_failure(error, self._stream))
            raise

    def _close(self, pool: Pool) -> None:
        if self.given:
            pool.close_stream(self._stream)

    def _error(self) -> BaseException | None:
        """Return the answer when it is no."""
        try:
            return self._answer.exception()
        except CancelledError as error:
            return error


def _refuses(error: Exception, pool: Pool, stream: str) -> bool:
    """Tell whether an engine that is well said no: for its name, its place, or by admission."""
    if not isinstance(error, PhysisError):
        return False
    try:
        pool.health()
    except PhysisError:
        return False
    # A worker that takes too long over one stream must not end the others. Where there is no
    # other, the engine may as well be loaded again.
    return not isinstance(error, DeadlinePassed) or bool(pool.others(stream))


def _engine_failure(error: Exception, stream: str) -> PhysisError:
    """Return what the engine is said to have failed of."""
    if isinstance(error, PhysisError):
        return error
    return EngineError(f"stream '{stream}' cannot be opened: {error!r}")
