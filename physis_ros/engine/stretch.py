# SPDX-License-Identifier: Apache-2.0
"""
A stretch: stages that one batch goes through on one device, one after the other, undisturbed.

Nothing else is ready at the device, so each stage's end would only bring the same batch together
again. All their times are reckoned at once, and one event ends them. When anything comes to the
device meanwhile, the stretch is cut after the stage that runs. Everything is as if each stage had
had an event of its own, to the last nanosecond; how far a stretch reaches decides only how much
work it saves.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Sequence
from itertools import accumulate

from physis_ros.engine.token import S, Token, VirtualDevice


def begin(device: VirtualDevice, batch: Sequence[Token], now_ns: int) -> None:
    """Start a batch on as many stages as can be foreseen; say when each will be done."""
    slack_ns = float('inf')
    stages = device.reach if not device.ready else 1
    if stages > 1:
        stages = reach(batch, stages)
        if stages > 1 and len(batch) > 1:
            slack_ns = _slack_ns(batch, now_ns)
            if slack_ns < max(device.expected_ns[: len(batch) + 1]):
                stages = 1
    spent_ns = _spent_ns(device, batch, stages)
    if max(spent_ns) >= slack_ns:
        # A stage that takes longer than its share leaves less for the others: look again then.
        late = next(i for i, spent in enumerate(spent_ns, start=1) if spent >= slack_ns)
        del spent_ns[late:]
    device.batch = batch
    device.ends = list(accumulate(spent_ns, initial=now_ns))
    del device.ends[0]
    _count(device, 1, spent_ns[0])


def reach(batch: Sequence[Token], stages: int) -> int:
    """
    Return how many stages all members of a batch do here and in their turn, up to so many.

    When all are on time by more than the longest batch takes, :func:`form_batch` brings them
    together for every one of these: they leave each other time, as long as they keep it.
    """
    for token in batch:
        here = token.owner.runs[token.at]
        if here < stages:
            stages = here
    for token in batch:
        if stages > 1:
            stages = _in_turn(token, stages)
    return stages


def settle(device: VirtualDevice, until_ns: int) -> None:
    """Do the stages that were done before ``until_ns``, but the last, which has its event."""
    ends = device.ends
    done = bisect_left(ends, until_ns, 0, len(ends) - 1)
    if not done:
        return
    for token in device.batch:
        owner, at = token.owner, token.at
        owner.done[at : at + done] = [token.chunk] * done
        token.at = at = at + done
        token.left -= done
        token.step, token.block = owner.steps[at], owner.blocks[at]
    _count(device, done, ends[done] - ends[0])
    del ends[:done]


def cut(device: VirtualDevice, now_ns: int) -> bool:
    """End a stretch after the stage that runs now; return whether its end has changed."""
    before = len(device.ends)
    settle(device, now_ns)
    # No further than it came this time.
    device.reach = 1 + before - len(device.ends)
    changed = len(device.ends) > 1
    del device.ends[1:]
    return changed


def finish(device: VirtualDevice, now_ns: int) -> None:
    """Bring a batch to the end of its last stage."""
    # Undisturbed: it might have gone on longer.
    device.reach = min(2 * device.reach, device.farthest)
    if len(device.ends) > 1:
        settle(device, now_ns)
    device.ends = []


def _count(device: VirtualDevice, batches: int, spent_ns: int) -> None:
    device.busy_ns += spent_ns
    device.rows += batches * len(device.batch)
    device.batches += batches
    if device.draws is not None:
        device.draws.passed(batches)


def _in_turn(token: Token, stages: int) -> int:
    """Cut to where it meets a chunk of its own stream, before or behind it."""
    owner, chunk, at = token.owner, token.chunk, token.at
    while stages > 1 and owner.done[at + stages - 1] != chunk - 1:
        stages -= 1
    if owner.waiting:
        for ahead in range(stages):
            if (at + ahead, chunk + 1) in owner.waiting:
                return ahead + 1
    return stages


def _slack_ns(batch: Sequence[Token], now_ns: int) -> float:
    """Return the time each stage may take so that every member is on time."""
    return min((token.deadline_ns - now_ns) / token.left for token in batch)


def _spent_ns(device: VirtualDevice, batch: Sequence[Token], stages: int) -> list[int]:
    leader, factor = batch[0], device.slow / device.speed
    spent_s = leader.owner.chain_s(len(batch))[leader.at : leader.at + stages]
    for token in batch:
        extra_s = token.extra_s
        if extra_s:
            for ahead in range(stages):
                spent_s[ahead] += extra_s.get(token.at + ahead, 0.0)
    if device.draws is None:
        return [round(seconds * factor * S) for seconds in spent_s]
    drawn = device.draws.ahead(stages)
    return [round(s * (factor * by) * S) for s, by in zip(spent_s, drawn, strict=True)]
