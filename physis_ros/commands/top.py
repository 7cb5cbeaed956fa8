# SPDX-License-Identifier: Apache-2.0
"""``physis top``: a running system on one screen."""

from __future__ import annotations

import argparse
import sys
from typing import Any

from physis_ros.errors import ParameterError


def add_top_parser(commands: Any) -> None:
    """Add ``top``."""
    command = commands.add_parser(
        'top', help='watch the running nodes on one screen: states, rates, ages, misses, trouble'
    )
    command.add_argument(
        '--namespace', default='', metavar='NAME', help='of wam_node and servo_node (none)'
    )
    command.add_argument(
        '--once',
        action='store_true',
        help='show one picture and end; exit code 1 when a node was not heard',
    )
    command.set_defaults(run=top)


def top(args: argparse.Namespace) -> int:
    """Watch until a signal comes."""
    try:
        from physis_ros.ros.top import run
    except ImportError as error:
        raise ParameterError(
            'environment of top',
            'one with rclpy and the physis_ros messages',
            str(error),
            'source ROS 2 and the workspace, or call ./run physis top',
        ) from error
    return run(args.namespace, args.once, sys.stdout)
