# SPDX-License-Identifier: Apache-2.0
"""
One run of the demo: start the nodes, follow the episodes, stop everything in order.

The stop is the same whatever ends the run: the servo first, whose final hold must reach the robot
and the recorder; the recorder last.
"""

from __future__ import annotations

import os
import time
from typing import Any

from physis_ros import __version__
from physis_ros.errors import EngineError
from physis_ros.evaluation.definitions import shared_file
from physis_ros.evaluation.mend import mend
from physis_ros.msg import StreamStatus
from physis_ros.ros.demo_monitor import NO_EPISODE, Heard, Monitor
from physis_ros.ros.demo_options import DemoOptions
from physis_ros.ros.demo_preflight import Ready
from physis_ros.ros.demo_processes import Children, meaning
from physis_ros.ros.demo_view import View
from physis_ros.ros.signals import Stop
from physis_ros.ros.wam_report import WORDS as STATES
from physis_ros.session.player_config import PlayerConfig

RECORDED = (
    '/demo/configuration',
    '/camera/image_raw',
    '/joint_states',
    '/command',
    '/arm_node/tip',
    '/arm_node/target',
    '/arm_node/episode',
    '/wam_node/action_chunk',
    '/wam_node/predicted_image',
    '/wam_node/stream_status',
    '/servo_node/playback',
    '/servo_node/playback_status',
    '/diagnostics',
)
LOOK_S = 0.25
STEP_S = 0.02
# Loading torch in several processes at once takes long on a small machine.
START_S = 300.0
# Longest time between two episodes, and for what follows the last.
BETWEEN_S = 15.0
# Longest time from an engine that runs to the first episode: the arm waits for commands that move.
BEGIN_S = 30.0
# A failed engine is begun anew by its node; one that stays failed is not.
FAILED_S = 3.0
# A robot does not share its processor: world and servo come first, then the engine.
ROBOT_NICENESS, ENGINE_NICENESS = -10, -5
ALL = ('servo', 'wam', 'arm', 'recorder')
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
        self._configuration = configuration(options, ready)
        self._children = Children(options.out / 'log', environment)
        self._heard = Heard()
        self._monitor: Monitor | None = None
        self._shown: tuple[int, str] = (-1, '')
        self._failed_s: float | None = None
        self._failures: list[str] = []

    def follow(self) -> bool:
        """
        Run all episodes; return False when a signal ended them.

        :raises PhysisError: when a node died, the engine gave up or nothing went on.
        """
        self._start()
        self._monitor = Monitor(self._configuration)
        begun_s = time.monotonic()
        episode_s = self._options.seconds / self._options.speed
        deadline_s = begun_s + START_S
        episode = self._heard.episode
        while not self._stop.requested:
            self._look()
            if self._heard.episode >= self._options.episodes:
                return True
            if self._heard.episode != episode:
                episode = self._heard.episode
                deadline_s = time.monotonic() + episode_s + BETWEEN_S
            elif episode == NO_EPISODE and self._running():
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
        children.ask('servo', 'wam')
        if self._monitor is not None:
            self._monitor.close()
        children.wait(['servo'], SERVO_S)
        # The final hold is out: nothing that comes now is worth waiting for after a signal.
        children.ask('arm', *(['recorder'] if hurried else []))
        if not hurried:
            children.wait(['servo', 'wam', 'arm'], NODES_S)
            children.ask('recorder')
        children.wait(ALL, HURRIED_S if hurried else RECORDER_S)
        killed = children.kill()
        troubles = list(self._failures)
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

    def _start(self) -> None:
        """Start the recorder, then the nodes."""
        options, start = self._options, self._children.start
        common = ('--params-file', str(shared_file('config/arm.yaml')))
        simulated = options.speed != 1.0
        start(
            'recorder',
            'physis_ros.ros.recorder',
            {'folder': str(options.out), 'topics': RECORDED},
            niceness=ENGINE_NICENESS,
        )
        start(
            'wam',
            'physis_ros.ros.wam_node',
            {
                'use_sim_time': simulated,
                'wam_node:model': options.model,
                'wam_node:workers': options.workers,
                'wam_node:grouping': options.grouping,
                'wam_node:seed': options.seed,
                'wam_node:trace': str(options.trace),
            },
            *common,
            niceness=ENGINE_NICENESS,
        )
        start(
            'arm',
            'physis_ros.ros.arm_node',
            {
                'arm_node:seed': options.seed,
                'arm_node:episodes': options.episodes,
                'arm_node:seconds': options.seconds,
                'arm_node:speed': options.speed,
                'arm_node:time_base': 'zero' if simulated else 'system',
                'arm_node:camera_delay_ms': options.delay_ms,
            },
            *common,
            niceness=ROBOT_NICENESS,
        )
        start(
            'servo',
            'physis_ros.ros.servo_node',
            {'use_sim_time': simulated, 'servo_node:servo_rate_hz': options.servo_hz},
            *common,
            '-r', 'action_chunk:=wam_node/action_chunk',
            '-r', '~/command:=command',
            niceness=ROBOT_NICENESS,
        )  # fmt: skip

    def _look(self) -> None:
        """Take in what has happened, show it, and refuse to go on when it is bad."""
        assert self._monitor is not None
        self._heard = self._monitor.look()
        self._view.show(self._heard, list(self._children))
        self._children.check()
        self._watch_engine()

    def _watch_engine(self) -> None:
        """Say when the engine's state changes; give up when it stays failed."""
        stream = self._heard.stream
        if stream is None:
            return
        shown = (stream.state, stream.reason)
        if shown != self._shown and stream.reason:
            self._view.note(f'engine {STATES.get(stream.state, "unknown")}: {stream.reason}')
        if stream.state == StreamStatus.STATE_LOADING and stream.reason:
            self._keep(f'the engine failed in the run and began to load again: {stream.reason}')
        elif stream.state == StreamStatus.STATE_RUNNING and self._shown[1]:
            self._view.note('engine running again')
        self._shown = shown
        if stream.state != StreamStatus.STATE_FAILED:
            self._failed_s = None
            return
        self._failed_s = self._failed_s or time.monotonic()
        if time.monotonic() - self._failed_s > FAILED_S:
            raise EngineError(f'the engine gave up: {stream.reason}')

    def _keep(self, trouble: str) -> None:
        """Keep for the end what happened: the figures are not those of an undisturbed run."""
        if trouble not in self._failures:
            self._failures.append(trouble)

    def _running(self) -> bool:
        """Return whether the engine delivers."""
        stream = self._heard.stream
        return stream is not None and stream.state == StreamStatus.STATE_RUNNING

    def _why(self) -> str:
        """Say what is known of a run that stands still."""
        stream, playback, tails = self._heard.stream, self._heard.playback, []
        if stream is not None and stream.reason:
            tails.append(f'the engine says: {stream.reason}')
        if playback is not None and playback.chunks_rejected:
            tails.append(
                f'{playback.chunks_rejected} chunks were refused by the servo, most often because '
                f'they came too late: this machine is too busy'
            )
        tails.append(f'see the logs in {self._options.out / "log"}')
        return '; '.join(tails)

    def _pause(self, seconds: float) -> None:
        """Wait, but not longer than until a signal."""
        until_s = time.monotonic() + seconds
        while not self._stop.requested and time.monotonic() < until_s:
            time.sleep(STEP_S)


def configuration(options: DemoOptions, ready: Ready) -> dict[str, Any]:
    """Return what is recorded with the run, so that the recording alone tells everything."""
    return {
        **options.configuration(),
        'kv_rule': ready.kv_rule,
        'stages': ready.stages,
        'version': __version__,
        # Of config/arm.yaml, or the player's own where that says nothing.
        'max_action_age_ms': 1000.0,
        'settle_ms': PlayerConfig.settle_ns * 1e-6,
    }
