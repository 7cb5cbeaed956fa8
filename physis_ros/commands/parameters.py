# SPDX-License-Identifier: Apache-2.0
"""``physis parameters``: all parameters of the nodes, with type, default and range."""

from __future__ import annotations

import argparse
from typing import Any

from physis_ros.errors import ParameterError


def add_parameters_parser(commands: Any) -> None:
    """Add ``parameters``."""
    command = commands.add_parser(
        'parameters', help='list all parameters of the nodes: type, default, range, what'
    )
    command.set_defaults(run=parameters)


def parameters(args: argparse.Namespace) -> int:
    """Print them."""
    try:
        from physis_ros.ros.reference import reference
    except ImportError as error:
        raise ParameterError(
            'environment of parameters',
            'one with rclpy',
            str(error),
            'source ROS 2, call ./run physis parameters, or read docs/parameters.md',
        ) from error
    print(reference(), end='')
    return 0
