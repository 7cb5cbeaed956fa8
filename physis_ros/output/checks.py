# SPDX-License-Identifier: Apache-2.0
"""
The gate of the timeline: which chunks come in.

Everything about a chunk is checked before anything of it is used. A chunk that is sound and of a
higher epoch begins that epoch, even when it then comes too late to be played.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

from physis_ros.errors import ParameterError
from physis_ros.output.limits import Limits
from physis_ros.output.verdict import ChunkReject, Verdict
from physis_ros.types import ActionChunk


@dataclass(frozen=True)
class GateConfig:
    """
    What may come in.

    :param names: joint names in the order of the commands; a chunk may have them in any order.
    :param period_ns: of the servo; a chunk that is over within one would fall between two ticks.
    :param max_action_age_ns: greatest age of a command's oldest input; with steps further apart
        than this, no chunk could ever come to its second one.
    :param far_future_ns: a chunk may begin at most so far ahead.
    :param skew_ns: an input may seem to come from at most so far ahead (clocks of two machines);
        more is a chunk from before the clock went back.
    """

    names: tuple[str, ...]
    period_ns: int
    max_action_age_ns: int
    far_future_ns: int = 2_000_000_000
    skew_ns: int = 500_000_000

    def __post_init__(self) -> None:
        """Refuse a gate that would let nothing in."""
        if not self.names or len(set(self.names)) != len(self.names):
            raise ParameterError('names', 'one or more different names', self.names)
        for name in ('period_ns', 'max_action_age_ns', 'far_future_ns'):
            if getattr(self, name) <= 0:
                raise ParameterError(name, '> 0', getattr(self, name))
        if self.skew_ns < 0:
            raise ParameterError('skew_ns', '>= 0', self.skew_ns)


def passed(chunk: ActionChunk, now_ns: int) -> int:
    """Return how many steps of a chunk have passed."""
    return max(-((chunk.start_ns - now_ns) // chunk.dt_ns), 0)


def out_of_time(chunk: ActionChunk, now_ns: int, config: GateConfig) -> Verdict | None:
    """Refuse what lies wholly in the past or unbelievably far ahead."""
    ahead_ns = chunk.observed_ns - now_ns
    if ahead_ns > config.skew_ns:
        text = f'its inputs are stamped {ahead_ns / 1e6:.1f} ms in the future'
        return Verdict(ChunkReject.FUTURE_INPUT, text)
    if chunk.start_ns - now_ns > config.far_future_ns:
        text = f'it begins {(chunk.start_ns - now_ns) / 1e6:.1f} ms ahead'
        return Verdict(ChunkReject.FAR_FUTURE, text)
    if chunk.end_ns < now_ns:
        text = f'its last step was {(now_ns - chunk.end_ns) / 1e6:.1f} ms ago'
        return Verdict(ChunkReject.ALL_PAST, text)
    first_ns = max(now_ns, chunk.start_ns)
    if first_ns - chunk.observed_ns > config.max_action_age_ns:
        age_ms = (first_ns - chunk.observed_ns) / 1e6
        return Verdict(ChunkReject.EXPIRED, f'its first step would be {age_ms:.1f} ms old')
    return None


class Gate:
    """Checks chunks one after another; remembers epoch and sequence. Single-threaded."""

    def __init__(self, config: GateConfig, limits: Limits) -> None:
        self.config, self._limits = config, limits
        self.begin_anew()

    def reconfigure(self, config: GateConfig, limits: Limits) -> None:
        """Judge by other rules from the next chunk on."""
        self.config, self._limits = config, limits

    def begin_anew(self) -> None:
        """Know no epoch."""
        self.epoch, self._last = -1, -1

    def begin(self, epoch: int) -> bool:
        """Go on to ``epoch``; False when it is not a newer one."""
        if epoch <= self.epoch:
            return False
        self.epoch, self._last = epoch, -1
        return True

    def passed(self, chunk: ActionChunk) -> None:
        """Remember that ``chunk`` was taken."""
        self._last = chunk.chunk

    def screen(self, chunk: ActionChunk, now_ns: int) -> tuple[ActionChunk | None, Verdict]:
        """
        Judge a chunk.

        :returns: the chunk to lay, its columns in our order and its steps within the limits
            (None when refused), and the verdict so far.
        """
        wrong = self._wrong_names(chunk) or self._wrong_dt(chunk)
        if wrong is not None:
            return None, wrong
        order = [chunk.names.index(name) for name in self.config.names]
        actions, clamped, reject = self._limits.screen(chunk.actions[:, order])
        reject = reject or self._limits.too_fast(actions, chunk.dt_ns)
        if reject is not None:
            return None, Verdict(reject, f'chunk {chunk.chunk} breaks {reject.value}')
        begun = self.begin(chunk.epoch)
        refused = self._out_of_turn(chunk) or out_of_time(chunk, now_ns, self.config)
        if refused is not None:
            return None, replace(refused, new_epoch=begun)
        screened = replace(chunk, names=self.config.names, actions=actions)
        verdict = Verdict(skipped=passed(chunk, now_ns), clamped=clamped, new_epoch=begun)
        return screened, verdict

    def _wrong_names(self, chunk: ActionChunk) -> Verdict | None:
        """Refuse a chunk for other joints."""
        expected = self.config.names
        if len(chunk.names) != len(expected):
            text = f'joints must be {list(expected)}, got {list(chunk.names)}'
            return Verdict(ChunkReject.WRONG_WIDTH, text)
        if set(chunk.names) != set(expected):
            text = f'joints must be {list(expected)}, got {list(chunk.names)}'
            return Verdict(ChunkReject.WRONG_NAMES, text)
        return None

    def _wrong_dt(self, chunk: ActionChunk) -> Verdict | None:
        """Refuse steps so close, or so far apart, that they cannot be played."""
        greatest_ns = self.config.max_action_age_ns
        least_ns = -(-self.config.period_ns // chunk.horizon)
        if least_ns <= chunk.dt_ns <= greatest_ns:
            return None
        least, most, got = (f'{ns / 1e6:.12g} ms' for ns in (least_ns, greatest_ns, chunk.dt_ns))
        rule = f'{least} (all of it one servo period) to {most} (max_action_age)'
        text = f'dt must be {rule}, got {got}'
        return Verdict(ChunkReject.WRONG_DT, text)

    def _out_of_turn(self, chunk: ActionChunk) -> Verdict | None:
        """Refuse an older epoch and a chunk that is not newer than the last one taken."""
        if chunk.epoch < self.epoch:
            text = f'epoch must be >= {self.epoch}, got {chunk.epoch}'
            return Verdict(ChunkReject.STALE_EPOCH, text)
        if chunk.chunk == self._last:
            return Verdict(ChunkReject.DUPLICATE, f'chunk {chunk.chunk} was taken already')
        if chunk.chunk < self._last:
            text = f'chunk must be > {self._last}, got {chunk.chunk}'
            return Verdict(ChunkReject.OUT_OF_ORDER, text)
        return None
