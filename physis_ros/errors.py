# SPDX-License-Identifier: Apache-2.0
"""
The one error tree.

Every error names the thing, the rule it broke and the value it had, and where it helps what to do.
Ground floor: imports nothing of ours.
"""

from __future__ import annotations

from collections.abc import Iterable


class PhysisError(Exception):
    """Root of everything this package raises on purpose."""


class ParameterError(PhysisError, ValueError):
    """
    A given value breaks a rule.

    :param name: the parameter, as the user wrote it.
    :param rule: what it must be, completing "<name> must be ...".
    :param value: what it was.
    :param hint: what to do about it; empty when the rule says it all.
    """

    def __init__(self, name: str, rule: str, value: object, hint: str = '') -> None:
        self.name, self.rule, self.value, self.hint = name, rule, value, hint
        super().__init__(f'{name} must be {rule}, got {value!r}{"; " + hint if hint else ""}')


class NamesError(PhysisError, ValueError):
    """
    Two sets of names that must match do not.

    :param what: the kind of name, plural ("joints").
    :param expected: the names needed.
    :param got: the names there are.
    """

    def __init__(self, what: str, expected: Iterable[str], got: Iterable[str]) -> None:
        self.expected, self.got = tuple(expected), tuple(got)
        missing = [name for name in self.expected if name not in set(self.got)]
        super().__init__(
            f'{what} missing: {missing}; expected {list(self.expected)}, got {list(self.got)}; '
            f'rename them or map them with an alias'
        )


class ObservationError(PhysisError):
    """An observation cannot be used; the message says which input and why."""


class CheckpointError(PhysisError):
    """Weights are missing, damaged or of another model."""


class PlanError(PhysisError):
    """Stages cannot be placed as asked (grouping, worker count, KV rule)."""


# What asking for the same again cannot help.
CONFIGURATION = (ParameterError, NamesError, CheckpointError, PlanError)


class EngineError(PhysisError):
    """The engine cannot go on; the message names the worker or the stream."""


class WorkerDied(EngineError):
    """
    A worker process ended while it was needed.

    :param worker: its index in the pool.
    :param exitcode: as the operating system reported it; negative is a signal.
    :param detail: the last thing it said, when it said something.
    """

    def __init__(self, worker: int, exitcode: int | None, detail: str = '') -> None:
        self.worker, self.exitcode, self.detail = worker, exitcode, detail
        tail = f': {detail}' if detail else ''
        super().__init__(f'worker {worker} ended with exit code {exitcode}{tail}')

    @property
    def refused(self) -> bool:
        """Whether it refused its configuration, as the last line that it said tells."""
        last = self.detail.strip().rpartition('\n')[2]
        kind = last.partition(':')[0].rpartition('.')[2]
        return kind in {error.__name__ for error in CONFIGURATION}


class StreamLost(EngineError):
    """
    A worker that carried a stream ended; the other streams go on. It may be opened again.

    :param stream: its name.
    :param died: how the worker ended.
    """

    def __init__(self, stream: str, died: WorkerDied) -> None:
        self.stream, self.died = stream, died
        super().__init__(f"stream '{stream}' was lost: {died}")


def is_configuration(error: BaseException) -> bool:
    """Tell whether an error is one of configuration: trying again cannot help."""
    return isinstance(error, CONFIGURATION) or (isinstance(error, WorkerDied) and error.refused)


class AdmissionRefused(EngineError):
    """
    A stream was not taken on; nothing of it stays.

    :param refusal: what binds and what would fit, one line as text.
    :param for_now: a worker is missing and a new one is being started: ask again.
    """

    def __init__(self, refusal: object, for_now: bool = False) -> None:
        self.refusal, self.for_now = refusal, for_now
        super().__init__(str(refusal))


class DeadlinePassed(EngineError):
    """A bounded wait ran out."""


class ChunkError(PhysisError, ValueError):
    """An action chunk is malformed; nothing of it was taken."""


class BagError(PhysisError):
    """A recording cannot be read or lacks what is needed."""
