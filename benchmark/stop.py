#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""
Ends model and servo node with SIGINT and SIGTERM, in turns, from every state they can be in.

Real processes, the shipped model with one worker, a camera and joints from here. Each round
starts both nodes, brings them to the state, sends the signal to both at once and looks: exit code
0 within 2 s, nothing of their process groups left, and a robot that had been moved was brought to
rest within its limit of acceleration and left with a hold. All 50 rounds a state take more than an
hour; ``--times 2`` sends each signal once.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import math
import os
import signal
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from endurance.room import JOINTS, Room

from physis_ros.msg import Playback, PlaybackStatus, StreamStatus

DOMAINS = range(102, 202)
BAR_S = 2.0
SIGNALS = (signal.SIGINT, signal.SIGTERM)
# Of acceleration [rad/s^2]; beyond it by so much, as two clocks are read for a tick.
LIMIT, SLACK = 5.0, 1.02
SERVO_HZ = 250.0


@dataclass(frozen=True)
class Round:
    """
    How one round ended.

    :param held: the last that was commanded is a hold at rest; True when nothing ever was.
    :param left: processes of both groups that still run.
    :param speed: greatest of any joint when the signal was sent [rad/s].
    :param hardest: greatest acceleration from then on [rad/s^2]; 0 where time stood still, in
        which nobody can brake.
    """

    state: str
    signal: str
    wam_code: int
    servo_code: int
    wam_s: float
    servo_s: float
    held: bool
    left: int
    speed: float
    hardest: float

    @property
    def good(self) -> bool:
        """Whether it ended as it must."""
        quick = max(self.wam_s, self.servo_s) <= BAR_S
        ended = self.wam_code == self.servo_code == 0 and quick and not self.left
        return ended and self.held and self.hardest <= LIMIT * SLACK


def loading(room: Room) -> bool:
    """Wait while the engine loads; nothing was commanded."""
    return room.spin_until(lambda: _is(room, StreamStatus.STATE_LOADING) and room.ticks)


def servo_unconfigured(room: Room) -> bool:
    """Wait until the player waits to be configured; nothing was commanded."""
    state = PlaybackStatus.STATE_UNCONFIGURED
    return room.spin_until(lambda: _servo_is(room, state) and room.states)


def servo_inactive(room: Room) -> bool:
    """Deactivate the player that moved the robot, by its service."""
    state = PlaybackStatus.STATE_INACTIVE
    left = active(room) and room.change_servo('deactivate')
    return left and room.spin_until(lambda: _servo_is(room, state))


def warming_up(room: Room) -> bool:
    """Wait until the first chunks are played, outside the figures."""
    return room.spin_until(lambda: _playing(room, due=False))


def active(room: Room) -> bool:
    """Wait until all is well."""
    return room.spin_until(lambda: _is(room, StreamStatus.STATE_RUNNING) and _playing(room))


def paused(room: Room) -> bool:
    """Pause both by their services."""
    if not active(room):
        return False
    room.pause()
    return room.spin_until(lambda: _is(room, StreamStatus.STATE_PAUSED))


def engine_dead(room: Room) -> bool:
    """Kill the worker and wait until the node knows."""
    if not active(room) or not room.spin_until(lambda: room.states[-1].workers):
        return False
    os.kill(room.states[-1].workers[0].pid, signal.SIGKILL)
    return room.spin_until(lambda: not _is(room, StreamStatus.STATE_RUNNING))


def subscriber_gone(room: Room) -> bool:
    """Take the commands no more."""
    if not active(room):
        return False
    room.leave()
    room.spin_until(lambda: False, 0.2)
    return True


def clock_stopped(room: Room) -> bool:
    """Stop the simulated time."""
    if not active(room):
        return False
    room.stopped = True
    room.spin_until(lambda: False, 0.3)
    return True


def _is(room: Room, state: int) -> bool:
    """Whether the model node is in a state."""
    return bool(room.states) and room.states[-1].state == state


def _servo_is(room: Room, state: int) -> bool:
    """Whether the player is in a state."""
    return bool(room.servo_states) and room.servo_states[-1].state == state


def _playing(room: Room, due: bool = True) -> bool:
    """Whether the servo plays a chunk, after warm-up or in it."""
    tick = room.ticks[-1] if room.ticks else None
    return tick is not None and tick.play == Playback.PLAY_PLAYING and tick.due == due


STATES: dict[str, Callable[[Room], bool]] = {
    'loading': loading,
    'servo unconfigured': servo_unconfigured,
    'servo inactive': servo_inactive,
    'warming up': warming_up,
    'active': active,
    'paused': paused,
    'engine dead': engine_dead,
    'subscriber gone': subscriber_gone,
    'clock stopped': clock_stopped,
}


def play_round(state: str, number: signal.Signals, model: str, folder: Path) -> Round:
    """Start both nodes, bring them to a state, end them."""
    simulated = state == 'clock stopped'
    room = Room(simulated)
    time_of = ['-p', f'use_sim_time:={"true" if simulated else "false"}']
    wam = _start('wam_node', folder, [*time_of, '-p', f'model:={model}', '-p', 'workers:=1'])
    autostart = 'false' if state == 'servo unconfigured' else 'true'
    servo = _start(
        'servo_node', folder,
        [*time_of, '-p', f'autostart:={autostart}', '-p', f'joints:=[{", ".join(JOINTS)}]',
         '-p', 'command_type:=joint_state', '-p', 'settle_ms:=500.0',
         '-p', f'servo_rate_hz:={SERVO_HZ}', '-p', f'acceleration:=[{LIMIT}, {LIMIT}]',
         '-r', 'action_chunk:=wam_node/action_chunk'],
    )  # fmt: skip
    try:
        if not STATES[state](room):
            sys.exit(f'stop: "{state}" was not reached; see the logs in {folder}')
        told = len(room.moved())
        began_s = time.monotonic()
        ended_s: dict[int, float] = {}
        for process in (wam, servo):
            process.send_signal(number)

        def over() -> bool:
            for process in (wam, servo):
                if process.poll() is not None:
                    ended_s.setdefault(process.pid, time.monotonic() - began_s)
            return len(ended_s) == 2

        room.spin_until(over, 15.0)
        room.spin_until(lambda: False, 0.2)
        took_s = [ended_s.get(process.pid, math.inf) for process in (wam, servo)]
        codes = [-1 if process.poll() is None else process.returncode for process in (wam, servo)]
        left = sum(_members(process.pid) for process in (wam, servo))
        return Round(
            state, number.name, codes[0], codes[1], took_s[0], took_s[1], room.held(), left,
            room.speed(told), 0.0 if simulated else room.hardest(told, SERVO_HZ),
        )  # fmt: skip
    finally:
        for process in (wam, servo):
            with contextlib.suppress(ProcessLookupError):
                os.killpg(process.pid, signal.SIGKILL)
            process.wait()
        room.close()


def _start(name: str, folder: Path, arguments: list[str]) -> subprocess.Popen[bytes]:
    """Start a node in a process group of its own."""
    with (folder / f'{name}.log').open('wb') as log:
        return subprocess.Popen(
            [sys.executable, '-m', f'physis_ros.ros.{name}', '--ros-args', *arguments],
            stdout=log, stderr=subprocess.STDOUT, start_new_session=True,
        )  # fmt: skip


def _members(group: int) -> int:
    """Return how many processes of a group still run."""
    count = 0
    for path in Path('/proc').glob('[0-9]*/stat'):
        with contextlib.suppress(OSError):
            fields = path.read_text().rsplit(')', 1)[1].split()
            count += int(fields[2]) == group and fields[0] != 'Z'
    return count


def main() -> int:
    """Play all rounds, print the table; return 0 when every one ended well."""
    args = _arguments()
    # Another servo in the same domain would be taken for ours.
    os.environ.setdefault('ROS_DOMAIN_ID', str(DOMAINS[os.getpid() % len(DOMAINS)]))
    rounds: list[Round] = []
    with tempfile.TemporaryDirectory(prefix='physis-stop-') as folder:
        for state in args.states:
            for index in range(args.times):
                number = SIGNALS[index % len(SIGNALS)]
                rounds.append(play_round(state, number, args.model, Path(folder)))
                if not rounds[-1].good:
                    _say(f'not well: {rounds[-1]}')
            _say(_line(state, [item for item in rounds if item.state == state]))
    holds = all(item.good for item in rounds)
    _say(f'all rounds ended with code 0 and a hold within {BAR_S:g} s, none braked harder than '
         f'{LIMIT:g} rad/s^2: {"yes" if holds else "NO"}')  # fmt: skip
    if args.json:
        result = {'benchmark': 'stop', 'bar_s': BAR_S, 'times': args.times, 'holds': holds}
        states = {
            state: _figures([item for item in rounds if item.state == state])
            for state in args.states
        }
        bad = [asdict(item) for item in rounds if not item.good]
        print(json.dumps({**result, 'states': states, 'not_well': bad}))
    return 0 if holds else 1


def _figures(rounds: list[Round]) -> dict[str, Any]:
    """Return the figures of a state."""
    return {
        'n': len(rounds),
        'good': sum(item.good for item in rounds),
        'wam_s_p50': round(statistics.median(item.wam_s for item in rounds), 3),
        'wam_s_max': round(max(item.wam_s for item in rounds), 3),
        'servo_s_p50': round(statistics.median(item.servo_s for item in rounds), 3),
        'servo_s_max': round(max(item.servo_s for item in rounds), 3),
        'speed_max': round(max(item.speed for item in rounds), 3),
        'hardest': round(max(item.hardest for item in rounds), 3),
    }


def _line(state: str, rounds: list[Round]) -> str:
    """Return a state's figures for a person."""
    figures = _figures(rounds)
    return (
        f'{state:18} {figures["good"]:3} of {figures["n"]:3} well; seconds p50 / max: '
        f'wam_node {figures["wam_s_p50"]:.2f} / {figures["wam_s_max"]:.2f}, '
        f'servo_node {figures["servo_s_p50"]:.2f} / {figures["servo_s_max"]:.2f}; from '
        f'{figures["speed_max"]:.2f} rad/s at most with {figures["hardest"]:.1f} rad/s^2'
    )


def _arguments() -> argparse.Namespace:
    """Read the command line."""
    parser = argparse.ArgumentParser(description=__doc__.strip().splitlines()[0])
    add = parser.add_argument
    add('--times', type=int, default=50, help='rounds a state, the signals in turns')
    add('--states', nargs='+', choices=STATES, default=list(STATES), metavar='STATE',
        help=f'of {list(STATES)}')  # fmt: skip
    add('--model', default='reach')
    add('--json', action='store_true', help='end with one JSON object')
    return parser.parse_args()


def _say(text: str) -> None:
    """Print for a person, out of the way of JSON."""
    print(text, file=sys.stderr, flush=True)


if __name__ == '__main__':
    sys.exit(main())
