# SPDX-License-Identifier: Apache-2.0
"""
One way to live and to leave, for all nodes.

Start: title, context without rclpy's signal handlers, node. Run: the node's own loop. Leave: every
step on its own, so that one that fails cannot keep the rest, above all the final hold, from being
done. Exit code 0 after a signal, 2 when the configuration was refused, 1 when something broke.
"""

from __future__ import annotations

import gc
import inspect
import sys
import traceback
from collections.abc import Callable, Sequence
from typing import Any, Protocol

import rclpy
from rclpy.exceptions import NameValidationException
from rclpy.executors import Executor
from rclpy.logging import get_logger
from rclpy.signals import SignalHandlerOptions
from setproctitle import setproctitle

from physis_ros.errors import EngineError, PhysisError
from physis_ros.ros.executor import make_executor
from physis_ros.ros.signals import Stop

REFUSED = 2
BROKEN = 1


class Runnable(Protocol):
    """What a node must offer beside what every ``rclpy`` node does."""

    def destroy_node(self) -> None:
        """Free everything that ROS holds."""

    def run(self, executor: Executor, stop: Stop) -> None:
        """Work until ``stop.requested``; callbacks run inside, in this thread."""

    def close(self) -> None:
        """Do what must be done while the context is still valid: the final hold."""


def run(
    name: str, make: Callable[[], Runnable], stop: Stop, args: Sequence[str] | None = None
) -> int:
    """
    Run one node until a signal, and return the exit code.

    :param name: of the kind of node ("servo"); shown by ps and top as ``physis: <name>``.
    :param make: makes the node, after rclpy is up.
    :param stop: installed first thing by the caller.
    :param args: the command line without the program; ``sys.argv`` when not given.
    """
    if _asked_for_help(sys.argv[1:] if args is None else args):
        sys.stdout.write(_help(name, make))
        return 0
    # The imports, which may be cut short, are done: from here on everything is ended well.
    stop.arm()
    setproctitle(f'physis: {name}')
    logger = get_logger(f'physis.{name}')
    full = None if args is None else [sys.argv[0], *args]
    try:
        rclpy.init(args=full, signal_handler_options=SignalHandlerOptions.NO)
    except RuntimeError as error:
        # A file that is not there, a rule or a value that is none: the text says which.
        logger.fatal(f'the arguments of ROS cannot be used: {error}')
        return REFUSED
    node: Any = None
    code = 0
    executor = make_executor()
    try:
        node = make()
        executor.add_node(node)
        node.run(executor, stop)
        logger.info(f'stopping: {stop.reason or "done"}')
    except (PhysisError, NameValidationException) as error:
        logger.fatal(f'{type(error).__name__}: {error}')
        code = BROKEN if isinstance(error, EngineError) else REFUSED
    except Exception:
        logger.fatal(traceback.format_exc())
        code = BROKEN
    finally:
        code = max(code, _leave(node, executor, stop, logger.error))
    return code


def _leave(node: Any, executor: Executor, stop: Stop, say: Callable[[str], object]) -> int:
    """Take every step of leaving, whatever becomes of the others."""
    code = 0
    steps: list[Callable[[], object]] = [stop.finish]
    if node is not None:
        steps += [node.close, lambda: executor.remove_node(node), node.destroy_node]
    # Freezing spares the interpreter a last walk through everything, which takes it seconds with
    # torch on a busy machine; whatever matters is closed by now.
    for step in [*steps, executor.shutdown, rclpy.try_shutdown, gc.freeze]:
        try:
            step()
        except Exception:
            say(f'while leaving: {traceback.format_exc()}')
            code = BROKEN
    return code


def _asked_for_help(args: Sequence[str]) -> bool:
    """Whether ``-h`` or ``--help`` stands before the arguments of ROS."""
    words = list(args)
    own = words[: words.index('--ros-args')] if '--ros-args' in words else words
    return bool({'-h', '--help'} & set(own))


def _help(name: str, make: Callable[[], Runnable]) -> str:
    """Return what a node is, and how its parameters are given."""
    return (
        f'usage: {name}_node [--ros-args -p NAME:=VALUE --params-file FILE -r FROM:=TO ...]\n\n'
        f'{inspect.getdoc(make) or ""}\n\n'
        f'All parameters with type, default and range: physis parameters\n'
    )
