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

from collections.abc import Sequence

from physis_ros.engine.token import S, Token, VirtualDevice

# Further than this a stretch never reaches: it would only be reckoned to be cut.
_FARTHEST = 1024


def reach(device: VirtualDevice, batch: Sequence[Token], now_ns: int) -> int:
    """
    Return how many stages :func:`form_batch` would surely bring this very batch together for.

    Those that all its members do here, in their turn. With several members all must be on time,
    by more than the longest batch: then they leave each other time, as long as they keep it.
    """
    stages = device.reach
    for token in batch:
        here = token.owner.runs[token.at]
        if here < stages:
            stages = here
    for token in batch:
        if stages < 2:
            return 1
        stages = _in_turn(token, stages)
    if len(batch) > 1 and _slack_ns(batch, now_ns) < max(device.expected_ns[: len(batch) + 1]):
        return 1
    return stages


def begin(device: VirtualDevice, batch: Sequence[Token], now_ns: int) -> None:
    """Start a batch on as many stages as can be foreseen; say when each will be done."""
    stages = reach(device, batch, now_ns) if not device.ready else 1
    factor = device.slow / device.speed
    factors = [factor] * stages
    if device.draws is not None:
        factors = [factor * drawn for drawn in device.draws.ahead(stages)]
    spent_s = _spent_s(batch, stages)
    slack_ns = _slack_ns(batch, now_ns) if len(batch) > 1 else float('inf')
    ends: list[int] = []
    end_ns = now_ns
    for seconds, by in zip(spent_s, factors, strict=True):
        spent_ns = round(seconds * by * S)
        end_ns += spent_ns
        ends.append(end_ns)
        # A stage that takes longer than its share leaves less for the others: look again then.
        if spent_ns >= slack_ns:
            break
    device.batch, device.ends = batch, ends
    _count(device, 1, ends[0] - now_ns)


def settle(device: VirtualDevice, until_ns: int) -> None:
    """Do the stages that were done before ``until_ns``, but the last, which has its event."""
    ends = device.ends
    last = len(ends) - 1
    done = 0
    while done < last and ends[done] < until_ns:
        done += 1
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
    device.reach = min(2 * device.reach, _FARTHEST)
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


def _spent_s(batch: Sequence[Token], stages: int) -> list[float]:
    leader, rows = batch[0], len(batch)
    spent_s = leader.owner.chain_s(rows)[leader.at : leader.at + stages]
    for token in batch:
        extra_s = token.extra_s
        if extra_s:
            for ahead in range(stages):
                spent_s[ahead] += extra_s.get(token.at + ahead, 0.0)
    return spent_s
