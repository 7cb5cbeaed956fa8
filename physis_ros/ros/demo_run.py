# SPDX-License-Identifier: Apache-2.0
"""
One run of the demo: start the nodes, follow the episodes, stop everything in order.

The stop is the same whatever ends the run: the servo first, whose final hold must reach the robot
and the recorder; the recorder last.
"""

from __future__ import annotations

import os
import time
from collections.abc import Sequence
from typing import Any

from physis_ros import __version__
from physis_ros.errors import EngineError
from physis_ros.evaluation.mend import mend
from physis_ros.msg import StreamStatus
from physis_ros.ros.demo_monitor import NO_EPISODE, Heard, Monitor
from physis_ros.ros.demo_nodes import DemoNodes
from physis_ros.ros.demo_options import DemoOptions
from physis_ros.ros.demo_preflight import Ready
from physis_ros.ros.demo_processes import Children, meaning
from physis_ros.ros.demo_robots import Robot, robots
from physis_ros.ros.demo_view import View
from physis_ros.ros.demo_watch import EngineWatch
from physis_ros.ros.shared_memory import remove_dead
from physis_ros.ros.signals import Stop

LOOK_S = 0.25
STEP_S = 0.02
# Loading torch in several processes at once takes long on a small machine.
START_S = 300.0
# Longest time between two episodes, and for what follows the last.
BETWEEN_S = 15.0
# Longest time from an engine that runs to the first episode: the arm waits for commands that move.
BEGIN_S = 30.0
SERVO_S, NODES_S, RECORDER_S = 0.6, 2.0, 10.0
# After Ctrl-C everything must be gone within 2 s.
HURRIED_S = 1.0


class DemoRun:
    """
    The nodes of one run. Single-threaded.

    :param options: what to run.
    :param ready: what the checks found out.
    :param view: shows it.
    :param stop: set by a signal.
    """

    def __init__(self, options: DemoOptions, ready: Ready, view: View, stop: Stop) -> None:
        self._options, self._view, self._stop = options, view, stop
        os.environ['ROS_DOMAIN_ID'] = str(ready.domain)
        environment = {
            **os.environ,
            'PYTHONUNBUFFERED': '1',
            'RCUTILS_COLORIZED_OUTPUT': '0',
        }
        self._robots = robots(options.streams, options.seed)
        self._configuration = configuration(options, ready, self._robots)
        self._children = Children(options.out / 'log', environment)
        self._nodes = DemoNodes(options, self._robots, self._children)
        self._heard = tuple(Heard() for _ in self._robots)
        self._monitor: Monitor | None = None
        self._watches = [
            EngineWatch(f'stream {robot.stream}' if robot.index else 'engine', view.note)
            for robot in self._robots
        ]

    def follow(self) -> bool:
        """
        Run all episodes; return False when a signal ended them.

        :raises PhysisError: when a node died, the engine gave up or nothing went on.
        """
        # What earlier nodes left behind that were killed: 35 MB each.
        remove_dead()
        self._nodes.start()
        self._monitor = Monitor(self._configuration, self._robots)
        begun_s = time.monotonic()
        episode_s = self._options.seconds / self._options.speed
        deadline_s = begun_s + START_S
        episodes = self._episodes()
        while not self._stop.requested:
            self._look()
            if min(self._episodes()) >= self._options.episodes:
                return True
            if self._episodes() != episodes:
                episodes = self._episodes()
                deadline_s = time.monotonic() + episode_s + BETWEEN_S
            elif any(map(_idle, self._heard)):
                patience_s = BEGIN_S / min(1.0, self._options.speed)
                deadline_s = min(deadline_s, time.monotonic() + patience_s)
            if time.monotonic() > deadline_s:
                raise EngineError(f'nothing went on for too long; {self._why()}')
            self._pause(LOOK_S)
        return False

    def finish(self) -> list[str]:
        """
        Stop everything, in order, and return what did not go well.

        Bounded, whatever the nodes do: well under 2 s after a signal.
        """
        children, hurried = self._children, self._stop.requested
        servos, arms = self._nodes.servos, self._nodes.arms
        children.ask(*servos, 'wam')
        if self._monitor is not None:
            self._monitor.close()
        children.wait(servos, SERVO_S)
        # The final hold is out: nothing that comes now is worth waiting for after a signal.
        children.ask(*arms, *(['recorder'] if hurried else []))
        if not hurried:
            children.wait([*servos, 'wam', *arms], NODES_S)
            children.ask('recorder')
        children.wait([*servos, 'wam', *arms, 'recorder'], HURRIED_S if hurried else RECORDER_S)
        killed = children.kill()
        troubles = list(dict.fromkeys(one for watch in self._watches for one in watch.failures))
        troubles += [f'{name} did not stop by itself' for name in killed]
        troubles += [
            f'{name} ended with {meaning(code)}'
            for name, code in children.failures().items()
            if name not in killed
        ]
        recording = self._options.out / 'run.mcap'
        if 'recorder' in killed and recording.exists() and mend(recording):
            troubles.append('the recording was cut short; what had been written is readable')
        return troubles

    def _look(self) -> None:
        """Take in what has happened, show it, and refuse to go on when it is bad."""
        assert self._monitor is not None
        self._heard = self._monitor.look()
        self._view.show(self._heard, list(self._children))
        self._children.check()
        for watch, heard in zip(self._watches, self._heard, strict=True):
            watch.look(heard.stream, time.monotonic())

    def _episodes(self) -> tuple[int, ...]:
        """Return which episode each robot is in."""
        return tuple(heard.episode for heard in self._heard)

    def _why(self) -> str:
        """Say what is known of a run that stands still."""
        said = {heard.stream.reason: None for heard in self._heard if heard.stream is not None}
        tails = [f'the engine says: {reason}' for reason in said if reason]
        refused = sum(one.playback.chunks_rejected for one in self._heard if one.playback)
        if refused:
            tails.append(
                f'{refused} chunks were refused by the servo, most often because '
                f'they came too late: this machine is too busy'
            )
        tails.append(f'see the logs in {self._options.out / "log"}')
        return '; '.join(tails)

    def _pause(self, seconds: float) -> None:
        """Wait, but not longer than until a signal."""
        until_s = time.monotonic() + seconds
        while not self._stop.requested and time.monotonic() < until_s:
            time.sleep(STEP_S)


def _idle(heard: Heard) -> bool:
    """Tell whether a robot waits for its next episode though the engine delivers."""
    running = heard.stream is not None and heard.stream.state == StreamStatus.STATE_RUNNING
    return heard.episode == NO_EPISODE and running


def configuration(options: DemoOptions, ready: Ready, robots: Sequence[Robot]) -> dict[str, Any]:
    """Return what is recorded with the run, so that the recording alone tells everything."""
    return {
        **options.configuration(),
        'robots': {robot.stream: {'seed': robot.seed} for robot in robots},
        'kv_rule': ready.kv_rule,
        'stages': ready.stages,
        'version': __version__,
    }
