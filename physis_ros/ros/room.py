# SPDX-License-Identifier: Apache-2.0
"""A stream's room in an engine: asked for, given or refused, lost with a worker, given back."""

from __future__ import annotations

import time
from concurrent.futures import CancelledError, Future

from physis_ros.engine.pool import Pool
from physis_ros.errors import (
    AdmissionRefused,
    DeadlinePassed,
    EngineError,
    PhysisError,
    StreamLost,
    WorkerDied,
)
from physis_ros.ros.engine_host import EngineHost

MS_S = 1e-3
# How often who has lost its room asks again.
AGAIN_NS = 1_000_000_000


class Room:
    """
    Asks for room at once; the engine's answer may take seconds, and does not wait here.

    Where a worker is missing it asks again, until there is room or the stream leaves.

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
        # Of the engine's thread: why it said no, and whether it has opened the stream.
        self._refusal, self._known = '', False
        self._lost: WorkerDied | None = None
        self._asked_ns = 0
        self._answer: Future[tuple[int, ...]] = host.submit(self._open)
        # Asked again, and not answered yet.
        self._again: Future[tuple[int, ...]] | None = None

    @property
    def answered(self) -> bool:
        """Whether the engine has said something; one that is gone has."""
        return self._answer.done()

    @property
    def given(self) -> bool:
        """Whether the engine carries the stream."""
        return self._lost is None and self.answered and self._error() is None

    @property
    def refusal(self) -> str:
        """Why the engine has no room for it; empty while that is not known, or only for now."""
        # An engine that is gone is another matter: the node says that, and may load it again.
        return self._refusal if self.answered and not self._for_now else ''

    @property
    def lost(self) -> bool:
        """Whether the room was lost with a worker, and is not given again."""
        return self._lost is not None

    @property
    def waits(self) -> str:
        """What it has no room for yet; empty when only the first answer is awaited."""
        if self._lost is not None:
            return f'lost: {self._lost}; it is opened again'
        return self._refusal if self.answered and self._for_now else ''

    @property
    def workers(self) -> tuple[int, ...]:
        """Those that carry the stream; none when it has no room."""
        return self._answer.result() if self.given else ()

    def lose(self, died: WorkerDied) -> None:
        """Take note that the room was lost with a worker, and ask for another at once."""
        self._lost = died
        self._ask_again(time.monotonic_ns())

    def look(self, now_ns: int) -> None:
        """Ask again where that may help; to be called every now and then."""
        if self._again is not None:
            if self._again.done():
                self._answer, self._again = self._again, None
                self._lost = self._lost if self._error() is not None else None
        elif (self.lost or self._for_now) and now_ns - self._asked_ns > AGAIN_NS:
            self._ask_again(now_ns)

    def hurry(self) -> None:
        """Let the next look ask again, if there is anything to ask for: a worker is back."""
        self._asked_ns = 0

    def leave(self) -> Future[None]:
        """Give it back, after what was asked for before."""
        return self.host.submit(self._close)

    def _ask_again(self, now_ns: int) -> None:
        self._asked_ns, self._again = now_ns, self.host.submit(self._open)

    @property
    def _for_now(self) -> bool:
        error = self._error() if self.answered else None
        missing = isinstance(error, AdmissionRefused) and error.for_now
        return missing or isinstance(error, StreamLost)

    def _open(self, pool: Pool) -> tuple[int, ...]:
        self._known = False
        try:
            pool.open_stream(self._stream, *self._asked_s)
            self._refusal, self._known = '', True
            return pool.workers_of(self._stream)
        except Exception as error:
            if _refuses(error, pool, self._stream):
                self._refusal = str(error)
            else:
                self.host.fail(_engine_failure(error, self._stream))
            raise

    def _close(self, pool: Pool) -> None:
        if self._known or self._stream in pool.lost:
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
