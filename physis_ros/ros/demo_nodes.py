# SPDX-License-Identifier: Apache-2.0
"""Starts the nodes of a run: the recorder, the model, and an arm and a servo for each robot."""

from __future__ import annotations

from collections.abc import Iterable

from physis_ros.evaluation.definitions import shared_file
from physis_ros.ros.demo_options import MERGES, DemoOptions
from physis_ros.ros.demo_processes import Children
from physis_ros.ros.demo_robots import Robot

# A robot does not share its processor: world and servo come first, then the engine.
ROBOT_NICENESS, ENGINE_NICENESS = -10, -5


class DemoNodes:
    """
    Starts them and knows their names.

    :param options: what to run.
    :param robots: for which robots.
    :param children: where they are started.
    """

    def __init__(
        self, options: DemoOptions, robots: tuple[Robot, ...], children: Children
    ) -> None:
        self._options, self._robots, self._children = options, robots, children
        self._common = ('--params-file', str(shared_file('config/arm.yaml')))
        self._simulated = options.speed != 1.0

    @property
    def servos(self) -> list[str]:
        """The servos, whose final hold comes first in the end."""
        return [robot.child('servo') for robot in self._robots]

    @property
    def arms(self) -> list[str]:
        """The arms."""
        return [robot.child('arm') for robot in self._robots]

    def start(self) -> None:
        """Start the recorder, then the nodes."""
        self._recorder()
        self._model()
        for robot in self._robots:
            self._arm(robot)
            self._servo(robot)

    def _recorder(self) -> None:
        topics = ['/demo/configuration', '/diagnostics', *_recorded(self._robots)]
        self._children.start(
            'recorder',
            'physis_ros.ros.recorder',
            {'folder': str(self._options.out), 'topics': topics},
            niceness=ENGINE_NICENESS,
        )

    def _model(self) -> None:
        options, several = self._options, len(self._robots) > 1
        given: dict[str, object] = {
            'use_sim_time': self._simulated,
            'model': options.model,
            'workers': options.workers,
            'grouping': options.grouping,
            'conditioning': options.conditioning,
            'seed': options.seed,
            'trace': str(options.trace),
            'period_ms': options.period_ms,
            **MERGES[options.merge][1],
        }
        if several:
            given['streams'] = [robot.stream for robot in self._robots]
            given['max_streams'] = len(self._robots)
        self._children.start(
            'wam', 'physis_ros.ros.wam_node', given, *self._common, niceness=ENGINE_NICENESS
        )

    def _arm(self, robot: Robot) -> None:
        options = self._options
        given: dict[str, object] = {
            'seed': robot.seed,
            'episodes': options.episodes,
            'seconds': options.seconds,
            'speed': options.speed,
            'time_base': 'zero' if self._simulated else 'system',
            'camera_delay_ms': options.delay_ms,
            'reset_services': [f'{robot.own}/reset', f'{robot.namespace}/servo_node/reset'],
        }
        place = ['-r', f'__ns:={robot.namespace}', '-r', '/clock:=clock'] if robot.index else []
        self._children.start(
            robot.child('arm'), 'physis_ros.ros.arm_node', given, *self._common, *place,
            niceness=ROBOT_NICENESS,
        )  # fmt: skip

    def _servo(self, robot: Robot) -> None:
        given = {
            'use_sim_time': self._simulated,
            'servo_rate_hz': self._options.servo_hz,
            **MERGES[self._options.merge][0],
        }
        place = ['-r', f'__ns:={robot.namespace}'] if robot.index else []
        self._children.start(
            robot.child('servo'), 'physis_ros.ros.servo_node', given, *self._common, *place,
            '-r', f'action_chunk:={robot.own}/action_chunk',
            '-r', '~/command:=command',
            niceness=ROBOT_NICENESS,
        )  # fmt: skip


def _recorded(robots: Iterable[Robot]) -> list[str]:
    return [topic for robot in robots for topic in robot.recorded]
