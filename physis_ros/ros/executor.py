# SPDX-License-Identifier: Apache-2.0
"""
The loop that runs a node's callbacks, all in the calling thread.

The events executor (Jazzy since 7.1.6, Kilted) costs a third of the classic one; where it does
not exist the single-threaded one does the same work.
"""

from __future__ import annotations

from rclpy.context import Context
from rclpy.executors import Executor, SingleThreadedExecutor


def make_executor(context: Context | None = None) -> Executor:
    """
    Return the best executor there is.

    :param context: the default context when not given.
    """
    try:
        from physis_ros.ros.quiet_executor import QuietExecutor
    except ImportError:
        return SingleThreadedExecutor(context=context)
    made: Executor = QuietExecutor(context)
    return made
